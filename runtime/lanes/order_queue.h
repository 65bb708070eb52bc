// The orders that a rank's thread gives its lane process through the arena; see arena.h.
#ifndef FASTHVD_RUNTIME_LANES_ORDER_QUEUE_H_
#define FASTHVD_RUNTIME_LANES_ORDER_QUEUE_H_

#include <cstdint>

#include "runtime/lanes/arena.h"

namespace fasthvd {

// Either end of the queue: Post() is for the thread, the others are for the process, where Ring()
// may be called by any thread. `arena` outlives it.
class OrderQueue {
 public:
  OrderQueue(Arena* arena, int lane, int rank)
      : orders_(arena->orders(lane, rank)), slots_(arena->shape().slots) {}

  // Never blocks: the protocol leaves a place for it.
  void Post(const ChunkDescriptor& chunk);

  // The oldest order that was not popped, or nullptr. Valid until this rank arrives at the chunk's
  // `reduced`.
  const ChunkDescriptor* Front() const;
  void Pop() { ++next_; }

  // Read the bell before the checks: what happens after them is not slept through then.
  uint32_t bell() const { return orders_->bell.load(); }
  void WaitForBellAfter(uint32_t bell, int spin_microseconds);

  // Makes the process look around.
  void Ring();

 private:
  ArenaOrders* const orders_;
  const uint32_t slots_;
  uint64_t next_ = 0;  // This end's: to be posted, or to be popped.
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_LANES_ORDER_QUEUE_H_

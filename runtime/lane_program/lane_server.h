// The reduce stage of one rank's lane, away from the rank's own thread: in the lane program, or on
// a thread of a test.
#ifndef FASTHVD_RUNTIME_LANE_PROGRAM_LANE_SERVER_H_
#define FASTHVD_RUNTIME_LANE_PROGRAM_LANE_SERVER_H_

#include <atomic>

#include "runtime/lanes/arena.h"
#include "runtime/lanes/arena_port.h"
#include "runtime/lanes/order_queue.h"

namespace fasthvd {

// Run() is for one thread, Stop() for any. `arena` outlives it.
class LaneServer {
 public:
  LaneServer(Arena* arena, int lane, int rank, int spin_microseconds);

  // Carries out the orders of the rank's thread in turn, until Stop(). The chunk in hand is
  // finished first unless it waits for a peer.
  void Run();
  void Stop();

 private:
  // False when stopped meanwhile.
  bool Reduce(const ChunkDescriptor& order);

  Arena* const arena_;
  const int spin_microseconds_;
  ArenaPort port_;
  OrderQueue orders_;
  std::atomic<bool> stopping_{false};
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_LANE_PROGRAM_LANE_SERVER_H_

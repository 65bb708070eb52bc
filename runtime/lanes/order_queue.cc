#include "runtime/lanes/order_queue.h"

#include "runtime/base/futex.h"

namespace fasthvd {

// `bell` and `sleeping` are sequentially consistent: either the ringer sees that the process
// sleeps, or the process sees the new bell. `posted` publishes the descriptor.
void OrderQueue::Post(const ChunkDescriptor& chunk) {
  orders_->ring[next_ % slots_] = chunk;
  ++next_;
  orders_->posted.store(static_cast<uint32_t>(next_), std::memory_order_release);
  Ring();
}

const ChunkDescriptor* OrderQueue::Front() const {
  const uint32_t posted = orders_->posted.load(std::memory_order_acquire);
  if (posted == static_cast<uint32_t>(next_)) return nullptr;
  return &orders_->ring[next_ % slots_];
}

void OrderQueue::WaitForBellAfter(uint32_t bell, int spin_microseconds) {
  if (SpinWhile(orders_->bell, bell, spin_microseconds)) return;
  orders_->sleeping.store(1);
  FutexWait(&orders_->bell, bell);
  orders_->sleeping.store(0);
}

void OrderQueue::Ring() {
  orders_->bell.fetch_add(1);
  if (orders_->sleeping.load() != 0) FutexWakeAll(&orders_->bell);
}

}  // namespace fasthvd

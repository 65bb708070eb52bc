// A queue to one thread that can be closed.
#ifndef FASTHVD_RUNTIME_BASE_CLOSABLE_QUEUE_H_
#define FASTHVD_RUNTIME_BASE_CLOSABLE_QUEUE_H_

#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "runtime/base/doorbell.h"

namespace fasthvd {

// First in first out. Unbounded: what it holds is bounded by the tensors in flight. Any thread may
// push and close; one thread pops.
template <typename T>
class ClosableQueue {
 public:
  // False if the system had no descriptors to give: the queue must not be used then.
  bool valid() const { return bell_.valid(); }

  // False, and `item` is dropped, when the queue is closed.
  bool Push(T item) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (closed_) return false;
    items_.push_back(std::move(item));
    WakeAndUnlock(&lock);
    return true;
  }

  // The next item, or nothing if there is none now.
  std::optional<T> TryPop() {
    std::lock_guard<std::mutex> lock(mutex_);
    return PopLocked();
  }

  // Blocks until there is an item; nothing once the queue is closed and empty.
  std::optional<T> Pop() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!closed_ && items_.empty()) {
      sleeping_ = true;
      lock.unlock();
      bell_.Wait();
      lock.lock();
      sleeping_ = false;
    }
    return PopLocked();
  }

  // No further Push; what is queued can still be popped.
  void Close() {
    std::unique_lock<std::mutex> lock(mutex_);
    closed_ = true;
    WakeAndUnlock(&lock);
  }

 private:
  void WakeAndUnlock(std::unique_lock<std::mutex>* lock) {
    const bool sleeping = std::exchange(sleeping_, false);
    lock->unlock();
    if (sleeping) bell_.Ring();
  }

  std::optional<T> PopLocked() {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }

  Doorbell bell_;
  std::mutex mutex_;
  std::deque<T> items_;    // Guarded by mutex_.
  bool closed_ = false;    // Guarded by mutex_.
  bool sleeping_ = false;  // Guarded by mutex_; the next one to wake it rings.
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_BASE_CLOSABLE_QUEUE_H_

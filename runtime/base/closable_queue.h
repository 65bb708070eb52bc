// A queue between threads that can be closed.
#ifndef FASTHVD_RUNTIME_BASE_CLOSABLE_QUEUE_H_
#define FASTHVD_RUNTIME_BASE_CLOSABLE_QUEUE_H_

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace fasthvd {

// Thread-safe, first in first out. Unbounded: what it holds is bounded by the tensors in flight.
template <typename T>
class ClosableQueue {
 public:
  // False, and `item` is dropped, when the queue is closed.
  bool Push(T item) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (closed_) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.notify_one();
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
    not_empty_.wait(lock, [this] { return closed_ || !items_.empty(); });
    return PopLocked();
  }

  // No further Push; what is queued can still be popped.
  void Close() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      closed_ = true;
    }
    not_empty_.notify_all();
  }

 private:
  std::optional<T> PopLocked() {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }

  std::mutex mutex_;
  std::condition_variable not_empty_;
  std::deque<T> items_;  // Guarded by mutex_.
  bool closed_ = false;  // Guarded by mutex_.
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_BASE_CLOSABLE_QUEUE_H_

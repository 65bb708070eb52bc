// Whether, and why, a lane must stop; set by one thread and polled by another.
#ifndef FASTHVD_RUNTIME_LANES_ABORT_STATE_H_
#define FASTHVD_RUNTIME_LANES_ABORT_STATE_H_

#include <atomic>
#include <mutex>

#include "runtime/base/status.h"

namespace fasthvd {

// Thread-safe.
class AbortState {
 public:
  // The first reason stays.
  void Set(const Status& reason) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (is_set_.load(std::memory_order_relaxed)) return;
    reason_ = reason;
    is_set_.store(true, std::memory_order_release);
  }
  bool is_set() const { return is_set_.load(std::memory_order_acquire); }
  Status reason() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return reason_;
  }

 private:
  std::atomic<bool> is_set_{false};
  mutable std::mutex mutex_;
  Status reason_;  // Guarded by mutex_.
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_LANES_ABORT_STATE_H_

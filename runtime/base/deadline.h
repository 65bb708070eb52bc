// A point in time by which something must be done.
#ifndef FASTHVD_RUNTIME_BASE_DEADLINE_H_
#define FASTHVD_RUNTIME_BASE_DEADLINE_H_

#include <algorithm>
#include <chrono>

namespace fasthvd {

// Copyable value on the monotonic clock.
class Deadline {
 public:
  static Deadline After(std::chrono::milliseconds span) {
    return Deadline(std::chrono::steady_clock::now() + span);
  }

  bool expired() const { return std::chrono::steady_clock::now() >= at_; }
  // Milliseconds left, rounded up, at least 0: the form poll() and epoll_wait() take.
  int millis_left() const {
    auto left =
        std::chrono::ceil<std::chrono::milliseconds>(at_ - std::chrono::steady_clock::now());
    return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 24 * 3600 * 1000));
  }

 private:
  explicit Deadline(std::chrono::steady_clock::time_point at) : at_(at) {}
  std::chrono::steady_clock::time_point at_;
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_BASE_DEADLINE_H_

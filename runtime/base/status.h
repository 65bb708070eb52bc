// Error values of the runtime. Nothing in runtime/ throws or aborts: a function that can fail
// returns a Status or a Result<T>.
#ifndef FASTHVD_RUNTIME_BASE_STATUS_H_
#define FASTHVD_RUNTIME_BASE_STATUS_H_

#include <optional>
#include <string>
#include <utility>

namespace fasthvd {

enum class StatusCode {
  kOk = 0,
  kInvalidArgument,     // The caller's mistake: shapes, dtypes, names that do not fit.
  kFailedPrecondition,  // Called before init() or after shutdown().
  kUnimplemented,       // Asked for something this build cannot do.
  kDeadlineExceeded,    // A peer did not appear or answer in time.
  kPeerLost,            // A rank, a connection or a host is gone; the job cannot go on.
  kInternal,            // The system refused something (memory, descriptors, ...).
};

// A code and, unless ok, a message for the person at the terminal. Copyable, thread-compatible.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return Status(); }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status InvalidArgument(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}
inline Status FailedPrecondition(std::string message) {
  return Status(StatusCode::kFailedPrecondition, std::move(message));
}
inline Status Unimplemented(std::string message) {
  return Status(StatusCode::kUnimplemented, std::move(message));
}
inline Status DeadlineExceeded(std::string message) {
  return Status(StatusCode::kDeadlineExceeded, std::move(message));
}
inline Status PeerLost(std::string message) {
  return Status(StatusCode::kPeerLost, std::move(message));
}
inline Status Internal(std::string message) {
  return Status(StatusCode::kInternal, std::move(message));
}

// Internal status of a failed system call: `what` followed by the text of `error` (an errno).
Status SystemError(const std::string& what, int error);

// A value or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit on purpose

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // Requires ok().
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return *std::move(value_); }
  T& operator*() & { return *value_; }
  T* operator->() { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace fasthvd

// Returns from the enclosing function with the Status of `expression` unless it is ok.
#define FASTHVD_RETURN_IF_ERROR(expression)            \
  do {                                                 \
    ::fasthvd::Status fasthvd_status_ = (expression);  \
    if (!fasthvd_status_.ok()) return fasthvd_status_; \
  } while (false)

#endif  // FASTHVD_RUNTIME_BASE_STATUS_H_

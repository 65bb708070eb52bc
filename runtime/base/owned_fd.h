// A file descriptor that is closed by its owner's destructor.
#ifndef FASTHVD_RUNTIME_BASE_OWNED_FD_H_
#define FASTHVD_RUNTIME_BASE_OWNED_FD_H_

#include <unistd.h>

#include <utility>

namespace fasthvd {

// Move-only. -1 means none.
class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    if (this != &other) Reset(std::exchange(other.fd_, -1));
    return *this;
  }
  OwnedFd(const OwnedFd&) = delete;
  OwnedFd& operator=(const OwnedFd&) = delete;
  ~OwnedFd() { Reset(-1); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset(int fd) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_BASE_OWNED_FD_H_

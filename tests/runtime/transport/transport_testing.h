// What the tests of the transport share.
#ifndef FASTHVD_TESTS_RUNTIME_TRANSPORT_TRANSPORT_TESTING_H_
#define FASTHVD_TESTS_RUNTIME_TRANSPORT_TRANSPORT_TESTING_H_

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/base/owned_fd.h"
#include "runtime/transport/handshake.h"
#include "runtime/transport/socket.h"

namespace fasthvd {

// Long enough for a machine that stops for seconds; only a failing test waits for it.
inline Deadline Soon() { return Deadline::After(std::chrono::seconds(50)); }
inline Deadline In(int millis) { return Deadline::After(std::chrono::milliseconds(millis)); }

inline Key KeyOf(uint8_t seed) {
  Key key{};
  key[0] = seed;
  return key;
}

inline Hello HelloOf(int rank, Purpose purpose = Purpose::kControl, int lane = 0) {
  Hello hello;
  hello.rank = rank;
  hello.purpose = purpose;
  hello.lane = lane;
  return hello;
}

// Two connected non-blocking Unix sockets.
inline std::pair<OwnedFd, OwnedFd> SocketPair() {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
  return {OwnedFd(fds[0]), OwnedFd(fds[1])};
}

inline Status WriteAll(int fd, const std::string& bytes) {
  return WriteExactly(fd, bytes.data(), bytes.size(), Soon());
}
inline Result<std::string> ReadBytes(int fd, size_t size) {
  std::string bytes(size, '\0');
  FASTHVD_RETURN_IF_ERROR(ReadExactly(fd, bytes.data(), size, Soon()));
  return bytes;
}

// Whether a byte sent on each of the two arrives at the other.
inline void ExpectConnected(int a, int b) {
  EXPECT_TRUE(WriteAll(a, "x").ok());
  EXPECT_EQ(ReadBytes(b, 1).value(), "x");
  EXPECT_TRUE(WriteAll(b, "y").ok());
  EXPECT_EQ(ReadBytes(a, 1).value(), "y");
}

// Waits until the other end hangs up.
inline void ExpectHangUp(int fd) {
  Result<std::string> byte = ReadBytes(fd, 1);
  ASSERT_FALSE(byte.ok());
  EXPECT_EQ(byte.status().code(), StatusCode::kPeerLost) << byte.status().message();
}

// The accepted connection; waits for it.
inline OwnedFd AcceptSoon(int listener) {
  pollfd wait{listener, POLLIN, 0};
  EXPECT_EQ(poll(&wait, 1, Soon().millis_left()), 1);
  Result<OwnedFd> fd = Accept(listener);
  EXPECT_TRUE(fd.ok()) << fd.status().message();
  return std::move(fd).value();
}

inline bool Contains(const Status& status, const std::string& text) {
  return status.message().find(text) != std::string::npos;
}

inline bool HasIpv6() { return ListenTcp("::1").ok(); }

// Fails a test that leaves descriptors open.
class TransportTest : public testing::Test {
 protected:
  void SetUp() override { before_ = OpenDescriptors(); }
  void TearDown() override { EXPECT_EQ(OpenDescriptors(), before_) << "descriptors leaked"; }

 private:
  static long OpenDescriptors() {
    std::filesystem::directory_iterator open("/proc/self/fd");
    return std::distance(begin(open), end(open));
  }

  long before_ = 0;
};

}  // namespace fasthvd

#endif  // FASTHVD_TESTS_RUNTIME_TRANSPORT_TRANSPORT_TESTING_H_

#include "runtime/transport/socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/transport/transport_testing.h"

namespace fasthvd {
namespace {

using SocketTest = TransportTest;

void ExpectSetUp(int fd, bool is_tcp) {
  EXPECT_TRUE(fcntl(fd, F_GETFL) & O_NONBLOCK);
  EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  if (!is_tcp) return;
  int no_delay = 0;
  socklen_t size = sizeof(no_delay);
  EXPECT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, &size), 0);
  EXPECT_NE(no_delay, 0);
}

void ExpectTcpWorks(const std::string& ip) {
  Result<TcpListener> listener = ListenTcp(ip);
  ASSERT_TRUE(listener.ok()) << listener.status().message();
  Result<OwnedFd> client = ConnectTcp(ip, listener->port, Soon());
  ASSERT_TRUE(client.ok()) << client.status().message();
  OwnedFd server = AcceptSoon(listener->fd.get());
  ExpectSetUp(listener->fd.get(), true);
  ExpectSetUp(client->get(), true);
  ExpectSetUp(server.get(), true);
  ExpectConnected(client->get(), server.get());
}

std::string TestName() {
  return "fasthvd-test-" + std::to_string(getpid()) +
         testing::UnitTest::GetInstance()->current_test_info()->name();
}

TEST_F(SocketTest, TcpOverIpv4) { ExpectTcpWorks("127.0.0.1"); }

TEST_F(SocketTest, TcpOverIpv6) {
  if (!HasIpv6()) GTEST_SKIP() << "no IPv6 here";
  ExpectTcpWorks("::1");
}

TEST_F(SocketTest, AbstractUnix) {
  Result<OwnedFd> listener = ListenAbstract(TestName());
  ASSERT_TRUE(listener.ok()) << listener.status().message();
  EXPECT_FALSE(ListenAbstract(TestName()).ok()) << "the name is taken";
  Result<OwnedFd> client = ConnectAbstract(TestName(), Soon());
  ASSERT_TRUE(client.ok()) << client.status().message();
  OwnedFd server = AcceptSoon(listener->get());
  ExpectSetUp(client->get(), false);
  ExpectSetUp(server.get(), false);
  ExpectConnected(client->get(), server.get());
  EXPECT_FALSE(Accept(listener->get())->valid());
}

TEST_F(SocketTest, MalformedAddresses) {
  EXPECT_EQ(ListenTcp("localhost").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ListenTcp("").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ConnectTcp("1.2.3.4.5", 1, Soon()).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ListenAbstract("").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ListenAbstract(std::string(101, 'x')).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(ListenAbstract(std::string(100, 'x')).ok());
  // From the range for documentation: no host has it.
  Status foreign = ListenTcp("192.0.2.1").status();
  EXPECT_TRUE(Contains(foreign, "192.0.2.1")) << foreign.message();
}

TEST_F(SocketTest, NobodyListens) {
  int port = ListenTcp("127.0.0.1")->port;
  EXPECT_EQ(ConnectTcp("127.0.0.1", port, Soon()).status().code(), StatusCode::kPeerLost);
  EXPECT_EQ(ConnectAbstract(TestName(), Soon()).status().code(), StatusCode::kPeerLost);
}

TEST_F(SocketTest, WaitsWhileTheQueueIsFull) {
  Result<OwnedFd> listener = ListenAbstract(TestName());
  ASSERT_TRUE(listener.ok());
  ASSERT_EQ(listen(listener->get(), 0), 0);
  std::vector<OwnedFd> clients;
  while (true) {
    Result<OwnedFd> client = ConnectAbstract(TestName(), In(0));
    if (!client.ok()) {
      EXPECT_EQ(client.status().code(), StatusCode::kDeadlineExceeded);
      break;
    }
    clients.push_back(std::move(client).value());
    ASSERT_LT(clients.size(), 10u);
  }
  std::thread waiting([] { EXPECT_TRUE(ConnectAbstract(TestName(), Soon()).ok()); });
  EXPECT_TRUE(AcceptSoon(listener->get()).valid());
  waiting.join();
}

TEST_F(SocketTest, MovesMoreThanTheBuffersHold) {
  auto [a, b] = SocketPair();
  std::string sent(8 << 20, '\0');
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 7 + i / 1000);
  std::thread writer([&, fd = a.get()] { EXPECT_TRUE(WriteAll(fd, sent).ok()); });
  Result<std::string> received = ReadBytes(b.get(), sent.size());
  writer.join();
  ASSERT_TRUE(received.ok());
  EXPECT_TRUE(*received == sent);
}

TEST_F(SocketTest, DeadlinesAreKept) {
  auto [a, b] = SocketPair();
  char byte;
  EXPECT_EQ(ReadExactly(a.get(), &byte, 1, In(10)).code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ReadExactly(a.get(), &byte, 1, In(0)).code(), StatusCode::kDeadlineExceeded);
  const std::string large(8 << 20, 'x');
  EXPECT_EQ(WriteExactly(a.get(), large.data(), large.size(), In(10)).code(),
            StatusCode::kDeadlineExceeded);
  // What is there is read even if it is late.
  EXPECT_TRUE(ReadExactly(b.get(), &byte, 1, In(0)).ok());
}

TEST_F(SocketTest, LostPeer) {
  auto [a, b] = SocketPair();
  EXPECT_TRUE(WriteAll(b.get(), "12").ok());
  b.Reset(-1);
  EXPECT_TRUE(ReadBytes(a.get(), 2).ok());
  ExpectHangUp(a.get());
  EXPECT_EQ(WriteAll(a.get(), "3").code(), StatusCode::kPeerLost);
  EXPECT_EQ(SendFd(a.get(), 0, Soon()).code(), StatusCode::kPeerLost);
  EXPECT_EQ(ReceiveFd(a.get(), Soon()).status().code(), StatusCode::kPeerLost);
}

TEST_F(SocketTest, PassesDescriptors) {
  auto [a, b] = SocketPair();
  OwnedFd memory(memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(write(memory.get(), "shared", 6), 6);
  // In the middle of other bytes, which stay in order.
  EXPECT_TRUE(WriteAll(a.get(), "before").ok());
  EXPECT_TRUE(SendFd(a.get(), memory.get(), Soon()).ok());
  EXPECT_TRUE(WriteAll(a.get(), "after").ok());
  memory.Reset(-1);

  EXPECT_EQ(ReadBytes(b.get(), 6).value(), "before");
  Result<OwnedFd> received = ReceiveFd(b.get(), Soon());
  ASSERT_TRUE(received.ok()) << received.status().message();
  EXPECT_TRUE(fcntl(received->get(), F_GETFD) & FD_CLOEXEC);
  char text[6];
  ASSERT_EQ(pread(received->get(), text, 6, 0), 6);
  EXPECT_EQ(std::string(text, 6), "shared");
  EXPECT_EQ(ReadBytes(b.get(), 5).value(), "after");
}

TEST_F(SocketTest, NoDescriptorCame) {
  auto [a, b] = SocketPair();
  EXPECT_EQ(ReceiveFd(b.get(), In(10)).status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(WriteAll(a.get(), "x").ok());
  EXPECT_EQ(ReceiveFd(b.get(), Soon()).status().code(), StatusCode::kInternal);
}

// A peer that sends more descriptors than agreed must not fill this process's table.
TEST_F(SocketTest, SurplusDescriptorsAreNotKept) {
  auto [a, b] = SocketPair();
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(2 * sizeof(int));
  const int fds[2] = {0, 0};
  memcpy(CMSG_DATA(header), fds, sizeof(fds));
  ASSERT_EQ(sendmsg(a.get(), &message, 0), 1);
  EXPECT_TRUE(ReceiveFd(b.get(), Soon()).ok());  // The fixture counts.
}

}  // namespace
}  // namespace fasthvd

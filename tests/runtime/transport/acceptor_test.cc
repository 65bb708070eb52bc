#include "runtime/transport/acceptor.h"

#include <sys/resource.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/transport/transport_testing.h"

namespace fasthvd {
namespace {

constexpr int kRank = 0;

class AcceptorTest : public TransportTest {
 protected:
  void Listen(std::vector<std::string> addresses = {"127.0.0.1"}, Acceptor::Options options = {}) {
    Result<std::unique_ptr<Acceptor>> acceptor = Acceptor::Listen(addresses, options);
    ASSERT_TRUE(acceptor.ok()) << acceptor.status().message();
    acceptor_ = std::move(acceptor).value();
  }
  void Start() { ASSERT_TRUE(acceptor_->Start(kRank, KeyOf(1)).ok()); }

  OwnedFd Knock(size_t address = 0) {
    const auto& [ip, port] = acceptor_->endpoint().tcp[address];
    Result<OwnedFd> fd = ConnectTcp(ip, port, Soon());
    EXPECT_TRUE(fd.ok()) << fd.status().message();
    return std::move(fd).value();
  }
  OwnedFd KnockLocally() {
    Result<OwnedFd> fd = ConnectAbstract(acceptor_->endpoint().unix_name, Soon());
    EXPECT_TRUE(fd.ok()) << fd.status().message();
    return std::move(fd).value();
  }
  static Status Greet(const OwnedFd& fd, const Hello& hello, const Key& key = KeyOf(1)) {
    return ConnectHandshake(fd.get(), key, hello, kRank, Soon());
  }
  void ExpectGetsIn(OwnedFd client, const Hello& hello) {
    Status greeted = Greet(client, hello);
    ASSERT_TRUE(greeted.ok()) << greeted.message();
    Result<OwnedFd> server = acceptor_->Take(hello, Soon());
    ASSERT_TRUE(server.ok()) << server.status().message();
    ExpectConnected(client.get(), server->get());
  }

  void TearDown() override {
    acceptor_ = nullptr;
    TransportTest::TearDown();
  }

  std::unique_ptr<Acceptor> acceptor_;
};

TEST_F(AcceptorTest, EverySocket) {
  std::vector<std::string> addresses = {"127.0.0.1", "127.0.0.2"};
  if (HasIpv6()) addresses.push_back("::1");
  Listen(addresses);
  Start();
  ASSERT_EQ(acceptor_->endpoint().tcp.size(), addresses.size());
  for (size_t i = 0; i < addresses.size(); ++i) {
    EXPECT_EQ(acceptor_->endpoint().tcp[i].first, addresses[i]);
    ExpectGetsIn(Knock(i), HelloOf(1, Purpose::kRing, static_cast<int>(i)));
  }
  ExpectGetsIn(KnockLocally(), HelloOf(1, Purpose::kArena));
}

TEST_F(AcceptorTest, NeedsNoTcp) {
  Listen({});
  Start();
  ExpectGetsIn(KnockLocally(), HelloOf(1));
}

TEST_F(AcceptorTest, BadAddress) {
  Status status = Acceptor::Listen({"127.0.0.1", "eth0"}).status();
  EXPECT_TRUE(Contains(status, "eth0")) << status.message();
}

TEST_F(AcceptorTest, ManyAtOnceAndEachToItsTaker) {
  Listen();
  constexpr int kClients = 16;
  std::vector<OwnedFd> clients(kClients);
  std::vector<std::thread> threads;
  // Some come before the start, and wait.
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      clients[i] = i % 2 == 0 ? Knock() : KnockLocally();
      Status status = Greet(clients[i], HelloOf(i, Purpose::kRing, i));
      EXPECT_TRUE(status.ok()) << status.message();
    });
  }
  Start();
  std::vector<Result<OwnedFd>> servers;
  for (int i = kClients - 1; i >= 0; --i) {
    servers.push_back(acceptor_->Take(HelloOf(i, Purpose::kRing, i), Soon()));
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kClients; ++i) {
    ASSERT_TRUE(servers[kClients - 1 - i].ok());
    ExpectConnected(clients[i].get(), servers[kClients - 1 - i]->get());
  }
}

TEST_F(AcceptorTest, StrangersAreTurnedAway) {
  Listen();
  Start();
  OwnedFd other_job = Knock();
  EXPECT_FALSE(Greet(other_job, HelloOf(1), KeyOf(2)).ok());
  other_job.Reset(-1);

  OwnedFd half_closed = Knock();
  ASSERT_EQ(shutdown(half_closed.get(), SHUT_WR), 0);
  ExpectHangUp(half_closed.get());

  OwnedFd browser = Knock();
  ASSERT_TRUE(WriteAll(browser.get(), "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").ok());
  ExpectHangUp(browser.get());

  // The hang-up is seen before it is counted.
  Status missing;
  while (!Contains(missing, "3 others were turned away")) {
    missing = acceptor_->Take(HelloOf(1), In(10)).status();
    ASSERT_EQ(missing.code(), StatusCode::kDeadlineExceeded);
  }
  EXPECT_TRUE(Contains(missing, "no connection of rank 1, control, lane 0 came in time"))
      << missing.message();
  ExpectGetsIn(Knock(), HelloOf(1));
}

TEST_F(AcceptorTest, OtherVersion) {
  Listen();
  Start();
  OwnedFd client = Knock();
  ASSERT_TRUE(WriteAll(client.get(), std::string("TFHV\x09\0\0\0", 8)).ok());
  EXPECT_EQ(ReadBytes(client.get(), 8).value(), std::string("TFHV\x01\0\0\0", 8));
  ExpectHangUp(client.get());
}

TEST_F(AcceptorTest, SilentStrangersDelayNobody) {
  Acceptor::Options options;
  options.handshake_timeout = std::chrono::hours(1);
  Listen({"127.0.0.1"}, options);
  Start();
  std::vector<OwnedFd> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(i % 2 == 0 ? Knock() : KnockLocally());
  ASSERT_TRUE(WriteAll(silent[0].get(), "TFHV").ok());
  ExpectGetsIn(Knock(), HelloOf(1));
  acceptor_ = nullptr;
  for (const OwnedFd& fd : silent) ExpectHangUp(fd.get());
}

TEST_F(AcceptorTest, SilentStrangersAreHungUpOn) {
  Acceptor::Options options;
  options.handshake_timeout = std::chrono::milliseconds(20);
  Listen({"127.0.0.1"}, options);
  Start();
  ExpectHangUp(Knock().get());
}

TEST_F(AcceptorTest, MoreSilentStrangersThanFit) {
  Acceptor::Options options;
  options.handshake_timeout = std::chrono::hours(1);
  options.crowded_timeout = std::chrono::milliseconds(50);
  options.max_pending = 4;
  Listen({"127.0.0.1"}, options);
  Start();
  std::vector<OwnedFd> silent;
  for (int i = 0; i < 10; ++i) silent.push_back(Knock());
  ExpectGetsIn(Knock(), HelloOf(1));
}

TEST_F(AcceptorTest, DuplicatesReplaceNothing) {
  Listen();
  Start();
  OwnedFd first = Knock();
  ASSERT_TRUE(Greet(first, HelloOf(1)).ok());
  OwnedFd second = Knock();
  Status refused = Greet(second, HelloOf(1));
  EXPECT_TRUE(Contains(refused, "two processes run as this rank")) << refused.message();
  ExpectHangUp(second.get());

  Result<OwnedFd> taken = acceptor_->Take(HelloOf(1), Soon());
  ASSERT_TRUE(taken.ok());
  ExpectConnected(first.get(), taken->get());
  EXPECT_FALSE(Greet(Knock(), HelloOf(1)).ok()) << "not after it was taken either";
  EXPECT_EQ(acceptor_->Take(HelloOf(1), Soon()).status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(AcceptorTest, CloseEndsTake) {
  Listen();
  Start();
  std::thread taker([this] {
    Status status = acceptor_->Take(HelloOf(1), Soon()).status();
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.message();
  });
  acceptor_->Close();
  taker.join();
  EXPECT_EQ(acceptor_->Take(HelloOf(1), Soon()).status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(AcceptorTest, EndsWithoutStart) {
  Listen();
  OwnedFd client = Knock();
  acceptor_ = nullptr;
  ExpectHangUp(client.get());
}

TEST_F(AcceptorTest, UntakenConnectionsAreClosed) {
  Listen();
  Start();
  OwnedFd client = Knock();
  ASSERT_TRUE(Greet(client, HelloOf(1)).ok());
  acceptor_ = nullptr;
  ExpectHangUp(client.get());
}

// With no descriptor free a connection waits, and comes in once there is one.
TEST_F(AcceptorTest, OutOfDescriptors) {
  Listen();
  OwnedFd client = Knock();
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlim_t normal = limit.rlim_cur;
  OwnedFd first_free(dup(0));
  limit.rlim_cur = static_cast<rlim_t>(first_free.get());
  first_free.Reset(-1);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  Start();
  Status status;
  while (!Contains(status, "Too many open files")) {
    status = acceptor_->Take(HelloOf(1), In(10)).status();
    ASSERT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  }
  limit.rlim_cur = normal;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  ExpectGetsIn(std::move(client), HelloOf(1));
}

TEST_F(AcceptorTest, SeveralInOneProcess) {
  Listen();
  Start();
  Result<std::unique_ptr<Acceptor>> other = Acceptor::Listen({"127.0.0.1"});
  ASSERT_TRUE(other.ok());
  ASSERT_TRUE((*other)->Start(1, KeyOf(1)).ok());
  ExpectGetsIn(Knock(), HelloOf(2));
  Result<OwnedFd> fd = ConnectAbstract((*other)->endpoint().unix_name, Soon());
  ASSERT_TRUE(fd.ok());
  Status status = Greet(*fd, HelloOf(2));
  EXPECT_EQ(status.message(), "the peer is rank 1, not rank 0");
}

}  // namespace
}  // namespace fasthvd

#include "runtime/transport/connector.h"

#include <arpa/inet.h>

#include <memory>
#include <string>

#include "runtime/transport/acceptor.h"
#include "tests/runtime/transport/transport_testing.h"

namespace fasthvd {
namespace {

std::string PeerIp(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  EXPECT_EQ(getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  return inet_ntoa(address.sin_addr);
}

class ConnectorTest : public TransportTest {
 protected:
  void SetUp() override {
    TransportTest::SetUp();
    acceptor_ = Acceptor::Listen({"127.0.0.1", "127.0.0.2"}).value();
    ASSERT_TRUE(acceptor_->Start(4, KeyOf(1)).ok());
    peer_ = acceptor_->endpoint();
  }
  void TearDown() override {
    acceptor_ = nullptr;
    TransportTest::TearDown();
  }

  Result<OwnedFd> Connect(bool same_host, const Hello& hello, Deadline deadline = Soon()) {
    return ConnectTo(peer_, 4, same_host, KeyOf(1), hello, deadline);
  }

  std::unique_ptr<Acceptor> acceptor_;
  Endpoint peer_;
};

TEST_F(ConnectorTest, BothWays) {
  for (bool same_host : {true, false}) {
    const Hello hello = HelloOf(1, Purpose::kRing, same_host);
    Result<OwnedFd> client = Connect(same_host, hello);
    ASSERT_TRUE(client.ok()) << client.status().message();
    Result<OwnedFd> server = acceptor_->Take(hello, Soon());
    ASSERT_TRUE(server.ok());
    ExpectConnected(client->get(), server->get());
  }
}

TEST_F(ConnectorTest, LanesSpreadOverTheAddresses) {
  for (int lane = 0; lane < 4; ++lane) {
    Result<OwnedFd> client = Connect(false, HelloOf(1, Purpose::kRing, lane));
    ASSERT_TRUE(client.ok());
    EXPECT_EQ(PeerIp(client->get()), lane % 2 == 0 ? "127.0.0.1" : "127.0.0.2");
  }
}

TEST_F(ConnectorTest, PassesOverBadAddresses) {
  TcpListener silent = ListenTcp("127.0.0.1").value();
  const int unused_port = ListenTcp("127.0.0.1")->port;
  // Many good ones: the silent one has a small share of a long time.
  const auto good = peer_.tcp[0];
  peer_.tcp = {{"127.0.0.1", unused_port}, {"127.0.0.1", silent.port}};
  peer_.tcp.resize(30, good);
  Result<OwnedFd> client = Connect(false, HelloOf(1), In(30000));
  EXPECT_TRUE(client.ok()) << client.status().message();
}

TEST_F(ConnectorTest, MessagesHelp) {
  const int unused_port = ListenTcp("127.0.0.1")->port;
  peer_.tcp = {{"127.0.0.1", unused_port}};
  Status status = Connect(false, HelloOf(1)).status();
  EXPECT_EQ(status.code(), StatusCode::kPeerLost);
  for (const std::string& part : {std::string("rank 4"), "127.0.0.1:" + std::to_string(unused_port),
                                  std::string("Connection refused"), std::string("firewall"),
                                  std::string("HOROVOD_GLOO_IFACE or FASTHVD_IFACE")}) {
    EXPECT_TRUE(Contains(status, part)) << status.message();
  }

  peer_.unix_name += "-gone";
  status = Connect(true, HelloOf(1)).status();
  EXPECT_EQ(status.code(), StatusCode::kPeerLost);
  EXPECT_TRUE(Contains(status, "rank 4 on this host")) << status.message();

  peer_.tcp.clear();
  status = Connect(false, HelloOf(1)).status();
  EXPECT_TRUE(Contains(status, "rank 4")) << status.message();
}

TEST_F(ConnectorTest, OtherJobsPeerIsTold) {
  Status status = ConnectTo(peer_, 4, false, KeyOf(9), HelloOf(1), Soon()).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Contains(status, "another job")) << status.message();
}

TEST_F(ConnectorTest, NoAnswerInTime) {
  TcpListener silent = ListenTcp("127.0.0.1").value();
  peer_.tcp = {{"127.0.0.1", silent.port}};
  EXPECT_EQ(Connect(false, HelloOf(1), In(20)).status().code(), StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace fasthvd

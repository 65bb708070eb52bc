#include "runtime/transport/handshake.h"

#include <functional>
#include <string>
#include <thread>

#include "tests/runtime/transport/transport_testing.h"

namespace fasthvd {
namespace {

// The protocol's messages, see handshake.h.
constexpr size_t kClientHelloBytes = 56;
constexpr size_t kServerAnswerBytes = 76;
constexpr size_t kClientProofBytes = 32;
constexpr int kServerRank = 3;

// A handshake whose bytes pass through the hands of someone in the middle.
struct Exchange {
  Key client_key = KeyOf(1);
  Key server_key = KeyOf(1);
  Hello hello = HelloOf(5, Purpose::kRing, 2);
  int wanted_rank = kServerRank;
  // Damages message 0, 1 or 2.
  std::function<void(int index, std::string* message)> in_the_middle;

  // Outcomes.
  Status client;
  Status server;
  Hello server_saw;
  std::string messages[3];  // As sent.

  void Run() {
    auto [client_fd, client_side] = SocketPair();
    auto [server_side, server_fd] = SocketPair();
    std::thread thread([this, fd = std::move(client_fd)]() mutable {
      client = ConnectHandshake(fd.get(), client_key, hello, wanted_rank, Soon());
      fd.Reset(-1);
    });
    server = Relay(client_side.get(), server_side.get(), std::move(server_fd));
    client_side.Reset(-1);
    thread.join();
  }

 private:
  Status Pass(int index, int from, int to, size_t size) {
    Result<std::string> message = ReadBytes(from, size);
    if (!message.ok()) return message.status();
    messages[index] = *message;
    if (in_the_middle) in_the_middle(index, &*message);
    return WriteAll(to, *message);
  }

  Status Relay(int client_side, int server_side, OwnedFd server_fd) {
    ServerHandshake handshake(std::move(server_fd), kServerRank, server_key);
    FASTHVD_RETURN_IF_ERROR(Pass(0, client_side, server_side, kClientHelloBytes));
    Result<bool> done = handshake.Advance();
    if (!done.ok()) return done.status();
    EXPECT_FALSE(*done);
    FASTHVD_RETURN_IF_ERROR(Pass(1, server_side, client_side, kServerAnswerBytes));
    FASTHVD_RETURN_IF_ERROR(Pass(2, client_side, server_side, kClientProofBytes));
    done = handshake.Advance();
    if (!done.ok()) return done.status();
    EXPECT_TRUE(*done);
    server_saw = handshake.hello();
    Result<OwnedFd> accepted = handshake.Accept();
    if (!accepted.ok()) return accepted.status();
    return WriteAll(client_side, ReadBytes(server_side, 1).value());
  }
};

class HandshakeTest : public TransportTest {
 protected:
  // A server that has got `bytes`.
  Result<bool> AdvanceWith(const std::string& bytes) {
    auto [client, server] = SocketPair();
    client_ = std::move(client);
    handshake_ = std::make_unique<ServerHandshake>(std::move(server), kServerRank, KeyOf(1));
    EXPECT_TRUE(WriteAll(client_.get(), bytes).ok());
    return handshake_->Advance();
  }

  // What a client makes of a server that says `bytes` and hangs up.
  Status ConnectTo(const std::string& bytes) {
    auto [client, server] = SocketPair();
    EXPECT_TRUE(WriteAll(server.get(), bytes).ok());
    EXPECT_EQ(shutdown(server.get(), SHUT_WR), 0);
    return ConnectHandshake(client.get(), KeyOf(1), HelloOf(1), kServerRank, Soon());
  }

  void TearDown() override {
    client_.Reset(-1);
    handshake_ = nullptr;
    TransportTest::TearDown();
  }

  OwnedFd client_;
  std::unique_ptr<ServerHandshake> handshake_;
};

TEST_F(HandshakeTest, BothSidesAgree) {
  Exchange exchange;
  exchange.Run();
  EXPECT_TRUE(exchange.client.ok()) << exchange.client.message();
  EXPECT_TRUE(exchange.server.ok()) << exchange.server.message();
  EXPECT_EQ(ToString(exchange.server_saw), "rank 5, ring, lane 2");
}

TEST_F(HandshakeTest, OtherJob) {
  Exchange exchange;
  exchange.client_key = KeyOf(2);
  exchange.Run();
  EXPECT_EQ(exchange.client.code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Contains(exchange.client, "another job")) << exchange.client.message();
  EXPECT_FALSE(exchange.server.ok());
}

TEST_F(HandshakeTest, OtherRank) {
  Exchange exchange;
  exchange.wanted_rank = 4;
  exchange.Run();
  EXPECT_EQ(exchange.client.message(), "the peer is rank 3, not rank 4");
  EXPECT_FALSE(exchange.server.ok());
}

TEST_F(HandshakeTest, EveryDamagedByteIsNoticed) {
  const size_t sizes[3] = {kClientHelloBytes, kServerAnswerBytes, kClientProofBytes};
  for (int message = 0; message < 3; ++message) {
    for (size_t byte = 0; byte < sizes[message]; ++byte) {
      Exchange exchange;
      exchange.in_the_middle = [&](int index, std::string* bytes) {
        if (index == message) (*bytes)[byte] ^= 4;
      };
      exchange.Run();
      EXPECT_FALSE(exchange.client.ok()) << "message " << message << ", byte " << byte;
      EXPECT_FALSE(exchange.server.ok()) << "message " << message << ", byte " << byte;
    }
  }
}

TEST_F(HandshakeTest, ReplayToTheServer) {
  Exchange recorded;
  recorded.Run();
  ASSERT_TRUE(recorded.server.ok());
  Result<bool> done = AdvanceWith(recorded.messages[0] + recorded.messages[2]);
  EXPECT_EQ(done.status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(HandshakeTest, ReplayToTheClient) {
  Exchange recorded;
  recorded.Run();
  Status client = ConnectTo(recorded.messages[1] + "\x01");
  EXPECT_EQ(client.code(), StatusCode::kFailedPrecondition) << client.message();
}

TEST_F(HandshakeTest, ReflectionToTheServer) {
  Exchange recorded;
  recorded.Run();
  Result<bool> done = AdvanceWith(recorded.messages[0]);
  ASSERT_TRUE(done.ok());
  // Its own proof comes back as the client's.
  const std::string answer = ReadBytes(client_.get(), kServerAnswerBytes).value();
  ASSERT_TRUE(WriteAll(client_.get(), answer.substr(answer.size() - kClientProofBytes)).ok());
  EXPECT_EQ(handshake_->Advance().status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(HandshakeTest, ReflectionToTheClient) {
  auto [client, other] = SocketPair();
  std::thread thread([fd = other.get()] {
    std::string hello = ReadBytes(fd, kClientHelloBytes).value();
    hello.resize(kServerAnswerBytes + 1, '\x01');
    EXPECT_TRUE(WriteAll(fd, hello).ok());
  });
  Status status = ConnectHandshake(client.get(), KeyOf(1), HelloOf(1), kServerRank, Soon());
  thread.join();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.message();
}

TEST_F(HandshakeTest, OtherVersion) {
  Exchange recorded;
  recorded.Run();
  // The server needs no more than the header, and tells the client its own version.
  std::string header = recorded.messages[0].substr(0, 8);
  header[4] = 77;
  Result<bool> done = AdvanceWith(header);
  EXPECT_TRUE(Contains(done.status(), "version 77")) << done.status().message();
  EXPECT_EQ(ReadBytes(client_.get(), 8).value(), recorded.messages[0].substr(0, 8));

  Status client = ConnectTo(header);
  EXPECT_EQ(client.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(client.message(),
            "the peer speaks version 77 of the protocol and this rank version 1: all ranks must "
            "run the same release of tf_fasthvd");
}

TEST_F(HandshakeTest, Garbage) {
  EXPECT_EQ(AdvanceWith("GET / HTTP/1.1\r\n\r\n").status().code(), StatusCode::kFailedPrecondition);
  Status client = ConnectTo("SSH-2.0-OpenSSH_9.2\r\n");
  EXPECT_TRUE(Contains(client, "not a tf_fasthvd process")) << client.message();
}

TEST_F(HandshakeTest, CutShort) {
  Exchange recorded;
  recorded.Run();
  const std::string all = recorded.messages[0] + recorded.messages[2];
  for (size_t size = 0; size < all.size(); ++size) {
    Result<bool> done = AdvanceWith(all.substr(0, size));
    ASSERT_TRUE(done.ok()) << done.status().message();
    EXPECT_FALSE(*done) << "waits for more";
    // A half-closed connection: the server could still send.
    ASSERT_EQ(shutdown(client_.get(), SHUT_WR), 0);
    EXPECT_EQ(handshake_->Advance().status().code(), StatusCode::kPeerLost);
  }
  for (size_t size = 0; size < 8; ++size) {
    EXPECT_EQ(ConnectTo(recorded.messages[1].substr(0, size)).code(), StatusCode::kPeerLost);
  }
}

TEST_F(HandshakeTest, SilentServer) {
  auto [client, server] = SocketPair();
  EXPECT_EQ(ConnectHandshake(client.get(), KeyOf(1), HelloOf(1), 0, In(10)).code(),
            StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace fasthvd

#include "runtime/transport/frame_connection.h"

#include <string>
#include <vector>

#include "tests/runtime/transport/transport_testing.h"

namespace fasthvd {
namespace {

std::string FrameOf(const std::string& payload) {
  std::string frame;
  for (int shift = 0; shift < 32; shift += 8) frame += static_cast<char>(payload.size() >> shift);
  return frame + payload;
}

std::string Bytes(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + i / 255);
  return bytes;
}

class FrameConnectionTest : public TransportTest {
 protected:
  // What has arrived at `connection` so far.
  Status Collect(FrameConnection* connection) {
    return connection->Receive([this](std::string_view frame) {
      received_.emplace_back(frame);
      return Status::Ok();
    });
  }

  std::vector<std::string> received_;
};

TEST_F(FrameConnectionTest, AllSizesBothWays) {
  auto [left, right] = SocketPair();
  FrameConnection a(std::move(left));
  FrameConnection b(std::move(right));
  std::vector<std::string> sent;
  for (size_t size : {0, 1, 3, 4, 5, 65531, 65532, 65533, 65536, 1 << 20, 0, 2}) {
    sent.push_back(Bytes(size));
  }
  for (auto [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    received_.clear();
    for (const std::string& payload : sent) ASSERT_TRUE(from->Send(payload).ok());
    EXPECT_TRUE(from->wants_write()) << "the socket cannot hold all";
    while (from->wants_write()) {
      ASSERT_TRUE(Collect(to).ok());
      ASSERT_TRUE(from->Flush().ok());
    }
    ASSERT_TRUE(Collect(to).ok());
    EXPECT_TRUE(received_ == sent);
  }
}

TEST_F(FrameConnectionTest, SplitAtEveryByte) {
  const std::vector<std::string> sent = {"", "x", "hello", Bytes(300)};
  std::string stream;
  for (const std::string& payload : sent) stream += FrameOf(payload);
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    auto [left, right] = SocketPair();
    FrameConnection connection(std::move(left));
    received_.clear();
    ASSERT_TRUE(WriteAll(right.get(), stream.substr(0, cut)).ok());
    ASSERT_TRUE(Collect(&connection).ok());
    ASSERT_TRUE(WriteAll(right.get(), stream.substr(cut)).ok());
    ASSERT_TRUE(Collect(&connection).ok());
    EXPECT_TRUE(received_ == sent) << "cut at " << cut;
  }
}

TEST_F(FrameConnectionTest, ByteByByte) {
  auto [left, right] = SocketPair();
  FrameConnection connection(std::move(left));
  for (char byte : FrameOf("ab") + FrameOf("") + FrameOf("c")) {
    ASSERT_TRUE(WriteAll(right.get(), std::string(1, byte)).ok());
    ASSERT_TRUE(Collect(&connection).ok());
  }
  EXPECT_EQ(received_, (std::vector<std::string>{"ab", "", "c"}));
}

TEST_F(FrameConnectionTest, LimitOnBothSides) {
  auto [left, right] = SocketPair();
  FrameConnection small(std::move(left), 10);
  FrameConnection large(std::move(right));
  EXPECT_EQ(small.Send(Bytes(11)).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(small.Send(Bytes(10)).ok()) << "the refused one left nothing behind";
  ASSERT_TRUE(Collect(&large).ok());
  EXPECT_EQ(received_, std::vector<std::string>{Bytes(10)});

  received_.clear();
  ASSERT_TRUE(large.Send(Bytes(10)).ok());
  ASSERT_TRUE(large.Send(Bytes(11)).ok());
  Status status = Collect(&small);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_TRUE(Contains(status, "11 bytes")) << status.message();
  EXPECT_EQ(received_, std::vector<std::string>{Bytes(10)});
}

TEST_F(FrameConnectionTest, HugeSizesAreRefusedByTheHeaderAlone) {
  auto [left, right] = SocketPair();
  FrameConnection connection(std::move(left));
  ASSERT_TRUE(WriteAll(right.get(), std::string(4, '\xff')).ok());
  EXPECT_EQ(Collect(&connection).code(), StatusCode::kInternal);
}

TEST_F(FrameConnectionTest, FramesBeforeTheEndAreHandedOver) {
  auto [left, right] = SocketPair();
  FrameConnection connection(std::move(left));
  ASSERT_TRUE(WriteAll(right.get(), FrameOf("last") + "\x05").ok());
  right.Reset(-1);
  EXPECT_EQ(Collect(&connection).code(), StatusCode::kPeerLost);
  EXPECT_EQ(received_, std::vector<std::string>{"last"});
  EXPECT_EQ(connection.Send("x").code(), StatusCode::kPeerLost) << "and no SIGPIPE";
}

TEST_F(FrameConnectionTest, LostWhileBytesWait) {
  auto [left, right] = SocketPair();
  FrameConnection connection(std::move(left));
  ASSERT_TRUE(connection.Send(Bytes(8 << 20)).ok());
  ASSERT_TRUE(connection.wants_write());
  right.Reset(-1);
  EXPECT_EQ(connection.Flush().code(), StatusCode::kPeerLost);
}

TEST_F(FrameConnectionTest, StopsAtTheCallersError) {
  auto [left, right] = SocketPair();
  FrameConnection connection(std::move(left));
  ASSERT_TRUE(WriteAll(right.get(), FrameOf("a") + FrameOf("b") + FrameOf("c")).ok());
  int calls = 0;
  Status status = connection.Receive([&](std::string_view frame) {
    ++calls;
    return frame == "b" ? InvalidArgument("no b") : Status::Ok();
  });
  EXPECT_EQ(status.message(), "no b");
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(connection.Send("reason").ok());
  EXPECT_EQ(ReadBytes(right.get(), 10).value(), FrameOf("reason"));
}

TEST_F(FrameConnectionTest, AnswersFromWithinReceive) {
  auto [left, right] = SocketPair();
  FrameConnection a(std::move(left));
  FrameConnection b(std::move(right));
  ASSERT_TRUE(a.Send("1").ok());
  ASSERT_TRUE(a.Send("2").ok());
  ASSERT_TRUE(b.Receive([&b](std::string_view frame) { return b.Send(frame); }).ok());
  ASSERT_TRUE(Collect(&a).ok());
  EXPECT_EQ(received_, (std::vector<std::string>{"1", "2"}));
}

}  // namespace
}  // namespace fasthvd

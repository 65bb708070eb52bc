#include "runtime/negotiation/message.h"

#include <gtest/gtest.h>

#include <random>

namespace fasthvd {
namespace {

EntryDescription Description() {
  EntryDescription d;
  d.name = "gradients/dense_1/kernel";
  d.kind = CollectiveKind::kBroadcast;
  d.dtype = DataType::kBfloat16;
  d.op = ReduceOp::kMax;
  d.prescale = 0.1;
  d.postscale = -3.0;
  d.root = 5;
  d.process_set = 2;
  d.shapes = {{}, {0}, {3, 1, 7}};
  return d;
}

std::vector<Message> Samples() {
  ReadyMessage ready;
  ready.entries.push_back({17, {}});
  ready.entries.push_back({kNoId, Description()});
  ready.entries.push_back({kNoId, Description(), true, uint64_t{1} << 63});
  PlanMessage plan;
  plan.steps.push_back({{{3, ""}, {4, "new"}}, Status::Ok(), {}});
  plan.steps.push_back({{{kNoId, "bad"}}, InvalidArgument("shapes differ"), {0, 7}});
  return {ready,
          plan,
          AttachedMessage{true},
          BeginMessage{true, 3},
          LeaveMessage{},
          GoodbyeMessage{},
          AbortMessage{"rank 1 is gone"},
          WithdrawMessage{{7, uint64_t{1} << 63}}};
}

TEST(MessageTest, WhatIsEncodedDecodesToTheSame) {
  for (const Message& message : Samples()) {
    std::string bytes = Encode(message);
    Result<Message> decoded = Decode(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status().message();
    EXPECT_EQ(decoded->index(), message.index());
    EXPECT_EQ(Encode(*decoded), bytes);
  }
}

TEST(MessageTest, KeepsEveryField) {
  Result<Message> decoded = Decode(Encode(Samples()[0]));
  ASSERT_TRUE(decoded.ok());
  const auto& entries = std::get<ReadyMessage>(*decoded).entries;
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].id, 17u);
  EXPECT_EQ(entries[1].description, Description());
  EXPECT_FALSE(entries[1].duplicate);
  EXPECT_TRUE(entries[2].duplicate);
  EXPECT_EQ(entries[2].step, uint64_t{1} << 63);
  decoded = Decode(Encode(Samples()[1]));
  const auto& steps = std::get<PlanMessage>(*decoded).steps;
  EXPECT_EQ(steps[0].entries[1].name, "new");
  EXPECT_EQ(steps[1].error.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(steps[1].error.message(), "shapes differ");
  EXPECT_EQ(steps[1].ranks, (std::vector<uint32_t>{0, 7}));
  decoded = Decode(Encode(Samples()[7]));
  EXPECT_EQ(std::get<WithdrawMessage>(*decoded).steps,
            (std::vector<uint64_t>{7, uint64_t{1} << 63}));
}

TEST(MessageTest, EveryTruncationAndExtensionIsRefused) {
  for (const Message& message : Samples()) {
    std::string bytes = Encode(message);
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(Decode(std::string_view(bytes).substr(0, size)).ok());
    }
    EXPECT_FALSE(Decode(bytes + '\0').ok());
  }
}

TEST(MessageTest, ForeignMagicAndVersionAreNamed) {
  std::string bytes = Encode(LeaveMessage{});
  bytes[2] = 9;
  EXPECT_NE(Decode(bytes).status().message().find("version 9"), std::string::npos);
  bytes[0] = 'X';
  EXPECT_NE(Decode(bytes).status().message().find("magic"), std::string::npos);
}

TEST(MessageTest, LengthsThatExceedTheBytesAllocateNothing) {
  std::string bytes = Encode(ReadyMessage{});
  bytes.replace(4, 4, "\xff\xff\xff\xff");
  EXPECT_FALSE(Decode(bytes).ok());
}

TEST(MessageTest, ShapesThatOverflowAreRefused) {
  ReadyMessage ready;
  ready.entries.push_back({kNoId, Description()});
  ready.entries[0].description.shapes = {{int64_t{1} << 40, int64_t{1} << 40}};
  EXPECT_FALSE(Decode(Encode(ready)).ok());
  ready.entries[0].description.shapes = {{-1}};
  EXPECT_FALSE(Decode(Encode(ready)).ok());
}

// Whatever arrives, the decoder neither crashes nor accepts what it would not write itself.
TEST(MessageTest, RandomDamageIsHandled) {
  std::mt19937 random(1);
  for (const Message& message : Samples()) {
    const std::string good = Encode(message);
    for (int round = 0; round < 20000; ++round) {
      std::string bytes = good;
      for (int changes = 1 + random() % 3; changes > 0; --changes) {
        bytes[random() % bytes.size()] = static_cast<char>(random());
      }
      Result<Message> decoded = Decode(bytes);
      if (decoded.ok()) {
        EXPECT_EQ(Encode(*decoded), bytes);
      }
    }
  }
}

}  // namespace
}  // namespace fasthvd

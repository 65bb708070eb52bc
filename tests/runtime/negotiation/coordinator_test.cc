#include "runtime/negotiation/coordinator.h"

#include <gtest/gtest.h>

namespace fasthvd {
namespace {

constexpr size_t kFusionBytes = 1 << 20;

EntryDescription Tensor(const std::string& name, int64_t elements = 4) {
  EntryDescription d;
  d.name = name;
  d.shapes = {{elements}};
  return d;
}

Announcement Described(const EntryDescription& d) { return {kNoId, d}; }

std::vector<std::string> Names(const PlanStep& step) {
  std::vector<std::string> names;
  for (const PlannedEntry& entry : step.entries) names.push_back(entry.name);
  return names;
}

using NameList = std::vector<std::string>;

TEST(CoordinatorTest, PlansAnEntryOnceAllRanksHaveIt) {
  Coordinator coordinator(3, kFusionBytes);
  ASSERT_TRUE(coordinator.OnReady(2, {Described(Tensor("a"))}).ok());
  ASSERT_TRUE(coordinator.OnReady(0, {Described(Tensor("a"))}).ok());
  EXPECT_FALSE(coordinator.has_batch());
  ASSERT_TRUE(coordinator.OnReady(1, {Described(Tensor("a"))}).ok());
  ASSERT_TRUE(coordinator.has_batch());
  PlanStep step = coordinator.NextStep();
  EXPECT_TRUE(step.error.ok());
  EXPECT_EQ(Names(step), NameList{"a"});
  EXPECT_EQ(step.entries[0].id, 0u);
  EXPECT_FALSE(coordinator.has_batch());
}

TEST(CoordinatorTest, FusesWhatIsReadyInTheOrderOfReadiness) {
  Coordinator coordinator(2, kFusionBytes);
  ASSERT_TRUE(coordinator.OnReady(0, {Described(Tensor("a")), Described(Tensor("b"))}).ok());
  ASSERT_TRUE(coordinator.OnReady(1, {Described(Tensor("b")), Described(Tensor("a"))}).ok());
  EXPECT_EQ(Names(coordinator.NextStep()), (NameList{"b", "a"}));
}

TEST(CoordinatorTest, KnownEntriesGoByTheirIds) {
  Coordinator coordinator(2, kFusionBytes);
  for (int rank : {0, 1}) ASSERT_TRUE(coordinator.OnReady(rank, {Described(Tensor("a"))}).ok());
  uint32_t id = coordinator.NextStep().entries[0].id;
  for (int rank : {0, 1}) ASSERT_TRUE(coordinator.OnReady(rank, {{id, {}}}).ok());
  PlanStep step = coordinator.NextStep();
  EXPECT_EQ(step.entries[0].id, id);
  EXPECT_EQ(step.entries[0].name, "");
}

TEST(CoordinatorTest, ANameMayComeBackWithAnotherShapeOnAllRanks) {
  Coordinator coordinator(2, kFusionBytes);
  for (int rank : {0, 1}) ASSERT_TRUE(coordinator.OnReady(rank, {Described(Tensor("a"))}).ok());
  uint32_t id = coordinator.NextStep().entries[0].id;
  for (int rank : {0, 1}) ASSERT_TRUE(coordinator.OnReady(rank, {Described(Tensor("a", 9))}).ok());
  PlanStep step = coordinator.NextStep();
  EXPECT_TRUE(step.error.ok());
  EXPECT_EQ(step.entries[0].id, id);
  EXPECT_EQ(step.entries[0].name, "a");  // Binds the new description.
}

TEST(CoordinatorTest, DifferingDescriptionsFailAndTheNameStaysUsable) {
  Coordinator coordinator(3, kFusionBytes);
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(coordinator.OnReady(0, {Described(Tensor("a", 4))}).ok());
    ASSERT_TRUE(coordinator.OnReady(1, {Described(Tensor("a", 5))}).ok());
    ASSERT_TRUE(coordinator.OnReady(2, {Described(Tensor("a", 4))}).ok());
    ASSERT_TRUE(coordinator.has_error());
    PlanStep step = coordinator.NextStep();
    EXPECT_EQ(step.error.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(step.error.message().find("'a'"), std::string::npos);
    EXPECT_NE(step.error.message().find("shape is [4] on ranks 0 and 2 but [5] on rank 1"),
              std::string::npos)
        << step.error.message();
    EXPECT_EQ(Names(step), NameList{"a"});
    for (int rank : {0, 1, 2}) {
      ASSERT_TRUE(coordinator.OnReady(rank, {Described(Tensor("a"))}).ok());
    }
    EXPECT_TRUE(coordinator.NextStep().error.ok());
  }
}

TEST(CoordinatorTest, AKnownIdAgainstANewShapeIsADisagreement) {
  Coordinator coordinator(2, kFusionBytes);
  for (int rank : {0, 1}) ASSERT_TRUE(coordinator.OnReady(rank, {Described(Tensor("a"))}).ok());
  uint32_t id = coordinator.NextStep().entries[0].id;
  ASSERT_TRUE(coordinator.OnReady(0, {{id, {}}}).ok());
  ASSERT_TRUE(coordinator.OnReady(1, {Described(Tensor("a", 9))}).ok());
  PlanStep step = coordinator.NextStep();
  EXPECT_NE(step.error.message().find("shape is [4] on rank 0 but [9] on rank 1"),
            std::string::npos)
      << step.error.message();
}

TEST(CoordinatorTest, ADuplicateFailsEveryRanksSecondEntry) {
  Coordinator coordinator(2, kFusionBytes);
  ASSERT_TRUE(coordinator.OnReady(0, {{kNoId, Tensor("a"), true}}).ok());
  ASSERT_TRUE(coordinator.OnReady(1, {Described(Tensor("a"))}).ok());
  PlanStep step = coordinator.NextStep();
  EXPECT_EQ(step.error.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(step.error.message().find("rank 0 handed in"), std::string::npos);
}

Announcement OfStep(const std::string& name, uint64_t step, int64_t elements = 4) {
  Announcement entry = Described(Tensor(name, elements));
  entry.step = step;
  return entry;
}

using Ranks = std::vector<uint32_t>;

void ExpectError(Coordinator* coordinator, const std::string& name, const Ranks& ranks,
                 const std::string& text) {
  ASSERT_TRUE(coordinator->has_error()) << name;
  PlanStep step = coordinator->NextStep();
  EXPECT_EQ(Names(step), NameList{name});
  EXPECT_EQ(step.ranks, ranks) << name;
  EXPECT_NE(step.error.message().find(text), std::string::npos) << step.error.message();
}

TEST(CoordinatorTest, AnErrorTakesAlongWhatItsStepsHaveWaitingOrStillAnnounce) {
  Coordinator coordinator(2, kFusionBytes);
  ASSERT_TRUE(coordinator.OnReady(0, {OfStep("mate", 10), OfStep("bad", 10, 4)}).ok());
  ASSERT_TRUE(coordinator.OnReady(1, {OfStep("other", 21), OfStep("bad", 20, 5)}).ok());
  ExpectError(&coordinator, "bad", {0, 1}, "shape is");
  ExpectError(&coordinator, "mate", {0}, "'mate' did not run, because its step failed: ");
  // Rank 0's next step does not meet what rank 1's failed one still announces.
  ASSERT_TRUE(coordinator.OnReady(0, {OfStep("mate", 11)}).ok());
  ASSERT_TRUE(coordinator.OnReady(1, {OfStep("mate", 20)}).ok());
  ExpectError(&coordinator, "mate", {1}, "tensor 'bad'");
  EXPECT_FALSE(coordinator.has_error() || coordinator.has_batch());
  ASSERT_TRUE(coordinator.OnReady(1, {OfStep("mate", 22)}).ok());
  EXPECT_EQ(Names(coordinator.NextStep()), NameList{"mate"});
  // Another step of rank 1 was not touched.
  ASSERT_TRUE(coordinator.OnReady(0, {OfStep("other", 11)}).ok());
  EXPECT_EQ(Names(coordinator.NextStep()), NameList{"other"});
}

TEST(CoordinatorTest, WhatIsReadyRunsThoughItsStepFails) {
  Coordinator coordinator(2, kFusionBytes);
  for (int rank : {0, 1}) ASSERT_TRUE(coordinator.OnReady(rank, {OfStep("good", 1)}).ok());
  for (int rank : {0, 1}) ASSERT_TRUE(coordinator.OnReady(rank, {OfStep("bad", 1, rank)}).ok());
  ExpectError(&coordinator, "bad", {0, 1}, "shape is");
  EXPECT_EQ(Names(coordinator.NextStep()), NameList{"good"});
  EXPECT_FALSE(coordinator.has_error());
}

TEST(CoordinatorTest, EntriesWithoutAStepFailAlone) {
  Coordinator coordinator(2, kFusionBytes);
  ASSERT_TRUE(coordinator.OnReady(0, {OfStep("mate", 0), OfStep("bad", 0, 4)}).ok());
  ASSERT_TRUE(coordinator.OnReady(1, {OfStep("bad", 0, 5)}).ok());
  ExpectError(&coordinator, "bad", {0, 1}, "shape is");
  ASSERT_TRUE(coordinator.OnReady(1, {OfStep("mate", 0)}).ok());
  EXPECT_EQ(Names(coordinator.NextStep()), NameList{"mate"});
}

TEST(CoordinatorTest, AWithdrawnStepFailsWhatItHasWaitingOrStillAnnounces) {
  Coordinator coordinator(3, kFusionBytes);
  ASSERT_TRUE(coordinator.OnReady(0, {OfStep("a", 5)}).ok());
  ASSERT_TRUE(coordinator.OnReady(2, {OfStep("a", 7), OfStep("b", 7)}).ok());
  coordinator.OnWithdraw(1, {5, 7});  // The other ranks' are not this rank's.
  coordinator.OnWithdraw(2, {0});     // No step.
  EXPECT_FALSE(coordinator.has_error());
  coordinator.OnWithdraw(2, {7});
  Ranks answered;
  for (int i = 0; i < 2; ++i) {  // In any order.
    ASSERT_TRUE(coordinator.has_error());
    PlanStep step = coordinator.NextStep();
    EXPECT_EQ(step.error.code(), StatusCode::kPeerLost);
    EXPECT_NE(step.error.message().find("rank 2 gave it up"), std::string::npos);
    EXPECT_EQ(step.ranks, Names(step) == NameList{"a"} ? (Ranks{0, 2}) : (Ranks{2}));
  }
  ASSERT_TRUE(coordinator.OnReady(2, {OfStep("c", 7)}).ok());
  ExpectError(&coordinator, "c", {2}, "rank 2 gave it up");
  for (int rank : {0, 1, 2}) ASSERT_TRUE(coordinator.OnReady(rank, {OfStep("a", 50 + rank)}).ok());
  coordinator.OnWithdraw(0, {50});  // Too late for "a".
  EXPECT_FALSE(coordinator.has_error());
  EXPECT_EQ(Names(coordinator.NextStep()), NameList{"a"});
  ASSERT_TRUE(coordinator.OnReady(1, {OfStep("b", 51)}).ok());
  ExpectError(&coordinator, "b", {1}, "rank 0 gave it up");
}

TEST(CoordinatorTest, StepsThatHadAnEntryInCommonFailTogether) {
  Coordinator coordinator(2, kFusionBytes);
  // Two functions at a time on each rank, taking turns.
  for (const char* name : {"p", "q", "r"}) {
    ASSERT_TRUE(coordinator.OnReady(0, {OfStep(name, 5)}).ok());
    ASSERT_TRUE(coordinator.OnReady(1, {OfStep(name, 6)}).ok());
    const std::string other = std::string("other-") + name;
    ASSERT_TRUE(coordinator.OnReady(0, {OfStep(other, 15)}).ok());
    ASSERT_TRUE(coordinator.OnReady(1, {OfStep(other, 16)}).ok());
    EXPECT_EQ(Names(coordinator.NextStep()), (NameList{name, other}));
  }
  coordinator.OnWithdraw(1, {6});
  EXPECT_FALSE(coordinator.has_error());  // Nothing is waiting.
  ASSERT_TRUE(coordinator.OnReady(0, {OfStep("third", 5), OfStep("fourth", 15)}).ok());
  ExpectError(&coordinator, "third", {0}, "rank 1 gave it up");
  ASSERT_TRUE(coordinator.OnReady(1, {OfStep("third", 26), OfStep("fourth", 16)}).ok());
  EXPECT_EQ(Names(coordinator.NextStep()), NameList{"fourth"});
  ASSERT_TRUE(coordinator.OnReady(0, {OfStep("third", 25)}).ok());
  EXPECT_EQ(Names(coordinator.NextStep()), NameList{"third"});
}

TEST(CoordinatorTest, AStepEndsWithItsPeersEvenIfTheirCommonEntryIsOnlyReady) {
  Coordinator coordinator(2, kFusionBytes);
  ASSERT_TRUE(coordinator.OnReady(0, {OfStep("first", 5)}).ok());
  ASSERT_TRUE(coordinator.OnReady(1, {OfStep("first", 6)}).ok());
  coordinator.OnWithdraw(1, {6});
  ASSERT_TRUE(coordinator.OnReady(0, {OfStep("second", 5)}).ok());
  ExpectError(&coordinator, "second", {0}, "rank 1 gave it up");
  EXPECT_EQ(Names(coordinator.NextStep()), NameList{"first"});
}

TEST(CoordinatorTest, MoreStepsFailAtOnceThanAreKept) {
  Coordinator coordinator(3, kFusionBytes);
  for (int rank : {0, 1, 2}) ASSERT_TRUE(coordinator.OnReady(rank, {OfStep("link", 1)}).ok());
  coordinator.NextStep();
  const uint64_t count = 2 * FailedSteps::kKept;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string name = "t" + std::to_string(i);
    ASSERT_TRUE(coordinator.OnReady(0, {OfStep(name, 1)}).ok());
    ASSERT_TRUE(coordinator.OnReady(1, {OfStep(name, 1000 + i), OfStep("u" + name, 1)}).ok());
  }
  coordinator.OnWithdraw(0, {1});
  size_t errors = 0;
  for (; coordinator.has_error(); ++errors) EXPECT_FALSE(coordinator.NextStep().error.ok());
  EXPECT_EQ(errors, 2 * count);
}

TEST(FailedStepsTest, LinksAndFailuresAreBounded) {
  FailedSteps failed(2);
  failed.Link({1, 2});
  for (uint64_t i = 0; i < FailedSteps::kLinksKept; ++i) failed.Link({100 + i, 900 + i});
  const Status reason = PeerLost("reason");
  failed.Add(0, 1, reason);  // Its link is forgotten.
  EXPECT_EQ(failed.Reason(1, 2), nullptr);
  failed.Add(1, 900, reason);
  EXPECT_NE(failed.Reason(0, 100), nullptr);
  EXPECT_EQ(failed.Reason(0, 101), nullptr);
  for (uint64_t i = 0; i < FailedSteps::kKept; ++i) failed.Add(0, 5000 + i, reason);
  EXPECT_EQ(failed.Reason(0, 1), nullptr);
}

TEST(CoordinatorTest, ARootThatIsNoRankFails) {
  Coordinator coordinator(2, kFusionBytes);
  EntryDescription d = Tensor("a");
  d.kind = CollectiveKind::kBroadcast;
  d.root = 2;
  for (int rank : {0, 1}) ASSERT_TRUE(coordinator.OnReady(rank, {Described(d)}).ok());
  EXPECT_NE(coordinator.NextStep().error.message().find("root_rank 2"), std::string::npos);
}

TEST(CoordinatorTest, ALeavingRankFailsWhatWaitsForItNowAndLater) {
  Coordinator coordinator(3, kFusionBytes);
  ASSERT_TRUE(coordinator.OnReady(0, {Described(Tensor("a"))}).ok());
  coordinator.OnLeave(1);
  PlanStep step = coordinator.NextStep();
  EXPECT_EQ(step.error.code(), StatusCode::kPeerLost);
  EXPECT_NE(step.error.message().find("rank 1 has shut down"), std::string::npos);
  ASSERT_TRUE(coordinator.OnReady(2, {Described(Tensor("b"))}).ok());
  EXPECT_EQ(Names(coordinator.NextStep()), NameList{"b"});
  EXPECT_FALSE(coordinator.has_error());
}

TEST(CoordinatorTest, ALeavingRankWithdrawsWhatIsReadyButNotPlanned) {
  Coordinator coordinator(2, kFusionBytes);
  for (int rank : {0, 1}) ASSERT_TRUE(coordinator.OnReady(rank, {Described(Tensor("a"))}).ok());
  coordinator.OnLeave(0);
  EXPECT_FALSE(coordinator.has_batch());
  EXPECT_TRUE(coordinator.has_error());
}

TEST(CoordinatorTest, ProtocolFaultsAreReported) {
  Coordinator coordinator(2, kFusionBytes);
  EXPECT_FALSE(coordinator.OnReady(0, {{7, {}}}).ok());
  ASSERT_TRUE(coordinator.OnReady(0, {Described(Tensor("a"))}).ok());
  EXPECT_FALSE(coordinator.OnReady(0, {Described(Tensor("a"))}).ok());
}

TEST(CoordinatorTest, NamesBeyondTheIdLimitStillRun) {
  Coordinator coordinator(1, 0);
  for (size_t i = 0; i < Coordinator::kMaxIds + 2; ++i) {
    ASSERT_TRUE(coordinator.OnReady(0, {Described(Tensor("t" + std::to_string(i)))}).ok());
    PlanStep step = coordinator.NextStep();
    ASSERT_EQ(step.entries[0].name, "t" + std::to_string(i));
    ASSERT_EQ(step.entries[0].id == kNoId, i >= Coordinator::kMaxIds);
  }
}

}  // namespace
}  // namespace fasthvd

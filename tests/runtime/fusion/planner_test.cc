#include "runtime/fusion/planner.h"

#include <gtest/gtest.h>

namespace fasthvd {
namespace {

EntryDescription Tensor(const std::string& name, int64_t bytes, DataType dtype = DataType::kUint8) {
  EntryDescription d;
  d.name = name;
  d.dtype = dtype;
  d.shapes = {{bytes / static_cast<int64_t>(SizeOf(dtype))}};
  return d;
}

// The names of all batches until `entries` are used up.
std::vector<std::vector<std::string>> PlanAll(const std::vector<EntryDescription>& entries,
                                              size_t fusion_bytes) {
  std::deque<const EntryDescription*> ready;
  for (const EntryDescription& entry : entries) ready.push_back(&entry);
  std::vector<std::vector<std::string>> batches;
  while (!ready.empty()) {
    auto& names = batches.emplace_back();
    for (const EntryDescription* entry : TakeBatch(&ready, fusion_bytes)) {
      names.push_back(entry->name);
    }
  }
  return batches;
}

using Batches = std::vector<std::vector<std::string>>;

TEST(PlannerTest, FusesUpToTheThreshold) {
  EXPECT_EQ(PlanAll({Tensor("a", 40), Tensor("b", 60), Tensor("c", 1)}, 100),
            (Batches{{"a", "b"}, {"c"}}));
}

TEST(PlannerTest, AnEntryAboveTheThresholdIsABatchOfItsOwn) {
  EXPECT_EQ(PlanAll({Tensor("a", 500), Tensor("b", 1)}, 100), (Batches{{"a"}, {"b"}}));
}

TEST(PlannerTest, LooksPastEntriesThatDoNotFit) {
  EXPECT_EQ(PlanAll({Tensor("a", 50), Tensor("b", 80), Tensor("c", 50)}, 100),
            (Batches{{"a", "c"}, {"b"}}));
}

TEST(PlannerTest, KeepsUnlikeEntriesApart) {
  EntryDescription other_op = Tensor("op", 8);
  other_op.op = ReduceOp::kMax;
  EntryDescription other_scale = Tensor("scale", 8);
  other_scale.prescale = 2.0;
  EntryDescription broadcast = Tensor("broadcast", 8);
  broadcast.kind = CollectiveKind::kBroadcast;
  EXPECT_EQ(PlanAll({Tensor("a", 8), other_op, other_scale, broadcast,
                     Tensor("dtype", 8, DataType::kInt8), Tensor("b", 8)},
                    100),
            (Batches{{"a", "b"}, {"op"}, {"scale"}, {"broadcast"}, {"dtype"}}));
}

TEST(PlannerTest, AThresholdOfZeroFusesNothing) {
  EXPECT_EQ(PlanAll({Tensor("a", 8), Tensor("b", 8)}, 0), (Batches{{"a"}, {"b"}}));
}

TEST(PlannerTest, GroupsCountWithAllTheirTensors) {
  EntryDescription group = Tensor("group", 30);
  group.shapes.push_back({30});
  EXPECT_EQ(group.bytes(), 60u);
  EXPECT_EQ(PlanAll({group, Tensor("b", 41), Tensor("c", 40)}, 100),
            (Batches{{"group", "c"}, {"b"}}));
}

}  // namespace
}  // namespace fasthvd

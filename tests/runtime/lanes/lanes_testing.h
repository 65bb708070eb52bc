// Running the executors of several ranks as threads of one test.
#ifndef FASTHVD_TESTS_RUNTIME_LANES_LANES_TESTING_H_
#define FASTHVD_TESTS_RUNTIME_LANES_LANES_TESTING_H_

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <vector>

#include "runtime/lanes/arena.h"
#include "runtime/lanes/lane_group.h"
#include "runtime/lanes/lane_process.h"

namespace fasthvd {

// Where Bazel puts it for tests.
constexpr char kLaneProgram[] = "runtime/lane_program/fasthvd_lane";

inline std::unique_ptr<LaneProcess> StartLaneProcess(const Arena& arena, int lane, int rank,
                                                     int spin_microseconds = 0) {
  LaneSetup setup;
  setup.lane = lane;
  setup.rank = rank;
  setup.spin_microseconds = spin_microseconds;
  auto process = LaneProcess::Start(kLaneProgram, setup, arena.fd(),
                                    Deadline::After(std::chrono::seconds(30)));
  EXPECT_TRUE(process.ok()) << process.status().message();
  return process.ok() ? std::move(process).value() : nullptr;
}

// A batch of one rank whose completion can be waited for.
struct PendingBatch {
  std::shared_ptr<Batch> batch;
  std::future<Status> done;
};

inline PendingBatch MakeBatch(CollectiveKind kind, const ReduceSpec& reduce, int root,
                              std::vector<Segment> segments) {
  auto promise = std::make_shared<std::promise<Status>>();
  PendingBatch pending;
  pending.done = promise->get_future();
  pending.batch = std::make_shared<Batch>(
      kind, reduce, root, std::move(segments),
      [promise](Batch*, const Status& status) { promise->set_value(status); });
  return pending;
}

inline ReduceSpec SumOf(DataType dtype) {
  ReduceSpec spec;
  spec.dtype = dtype;
  spec.op = ReduceOp::kSum;
  return spec;
}

inline Segment SegmentOf(const std::vector<float>& input, std::vector<float>* output) {
  return {reinterpret_cast<const char*>(input.data()), reinterpret_cast<char*>(output->data()),
          input.size() * sizeof(float)};
}

// Distinct values that float sums of a few ranks hold exactly.
inline std::vector<float> Values(int rank, size_t count, int salt = 0) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>((i * 7 + salt * 31 + rank * 1000) % 4093);
  }
  return values;
}

inline std::vector<float> SumOfValues(int ranks, size_t count, int salt = 0) {
  std::vector<float> sum(count, 0.0f);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<float> values = Values(rank, count, salt);
    for (size_t i = 0; i < count; ++i) sum[i] += values[i];
  }
  return sum;
}

}  // namespace fasthvd

#endif  // FASTHVD_TESTS_RUNTIME_LANES_LANES_TESTING_H_

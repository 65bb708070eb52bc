// One suite for all data planes: shared arena, TCP ring, and a single rank.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "runtime/lane_program/lane_server.h"
#include "runtime/lanes/arena_executor.h"
#include "runtime/lanes/local_executor.h"
#include "runtime/lanes/ring_executor.h"
#include "tests/runtime/lanes/lanes_testing.h"

namespace fasthvd {
namespace {

constexpr uint32_t kChunkBytes = 4096;
constexpr uint32_t kSmallBytes = 512;

// A lane process's work on a thread, where the sanitizers see all of it.
class ServerThread {
 public:
  ServerThread(Arena* arena, int lane, int rank, int spin_microseconds)
      : server_(arena, lane, rank, spin_microseconds), thread_([this] { server_.Run(); }) {}
  ~ServerThread() {
    server_.Stop();
    thread_.join();
  }

 private:
  LaneServer server_;
  std::thread thread_;
};

// All ranks' lanes over one data plane.
struct Job {
  std::unique_ptr<Arena> arena;
  std::vector<std::unique_ptr<ServerThread>> servers;
  std::vector<std::unique_ptr<LaneGroup>> ranks;
};

using ExecutorLists = std::vector<std::vector<std::unique_ptr<Executor>>>;

Job MakeJob(ExecutorLists executors) {
  Job job;
  for (auto& list : executors)
    job.ranks.push_back(std::move(LaneGroup::Start(std::move(list))).value());
  return job;
}

enum class Hosts { kThreads, kServers, kProcesses, kMixed };

// Rank 0 of a mixed job is hosted by a thread, rank 1 by a process, and so on.
LaneHost HostOf(Hosts hosts, int rank) {
  const bool thread = hosts == Hosts::kThreads || (hosts == Hosts::kMixed && rank % 2 == 0);
  return thread ? LaneHost::kThread : LaneHost::kProcess;
}

Job ArenaJob(int ranks, int lanes, int spin_microseconds, Hosts hosts = Hosts::kThreads) {
  ArenaShape shape;
  shape.ranks = ranks;
  shape.lanes = lanes;
  shape.slots = 3;
  shape.chunk_bytes = kChunkBytes;
  shape.small_bytes = kSmallBytes;
  std::unique_ptr<Arena> arena = std::move(Arena::Create(shape)).value();
  Job job;
  for (int rank = 0; rank < ranks; ++rank) {
    const LaneHost host = HostOf(hosts, rank);
    std::vector<std::unique_ptr<Executor>> executors;
    std::vector<std::unique_ptr<LaneProcess>> processes;
    for (int lane = 0; lane < lanes; ++lane) {
      executors.push_back(
          std::make_unique<ArenaExecutor>(arena.get(), lane, rank, spin_microseconds, host));
      if (host == LaneHost::kThread) continue;
      if (hosts == Hosts::kServers) {
        job.servers.push_back(
            std::make_unique<ServerThread>(arena.get(), lane, rank, spin_microseconds));
      } else {
        processes.push_back(StartLaneProcess(*arena, lane, rank, spin_microseconds));
      }
    }
    job.ranks.push_back(
        std::move(LaneGroup::Start(std::move(executors), std::move(processes))).value());
  }
  job.arena = std::move(arena);
  return job;
}

Job RingJob(int ranks, int lanes) {
  ExecutorLists executors(ranks);
  for (int lane = 0; lane < lanes; ++lane) {
    std::vector<OwnedFd> left(ranks), right(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      int pair[2];
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
      right[rank].Reset(pair[0]);
      left[(rank + 1) % ranks].Reset(pair[1]);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      executors[rank].push_back(std::move(RingExecutor::Create(rank, ranks, std::move(left[rank]),
                                                               std::move(right[rank])))
                                    .value());
    }
  }
  return MakeJob(std::move(executors));
}

Job LocalJob() {
  ExecutorLists executors(1);
  executors[0].push_back(std::make_unique<LocalExecutor>());
  return MakeJob(std::move(executors));
}

struct Plane {
  std::string name;
  int ranks;
  std::function<Job()> make;
};

class ExecutorsTest : public testing::TestWithParam<Plane> {
 protected:
  int ranks() const { return GetParam().ranks; }
};

const size_t kCounts[] = {1, 7, 127, 128, 129, 1023, 1024, 1025, 3072, 3073, 5000, 40009};

TEST_P(ExecutorsTest, AllreduceSumsEverySize) {
  Job job = GetParam().make();
  for (size_t count : kCounts) {
    std::vector<std::vector<float>> inputs, outputs(ranks(), std::vector<float>(count));
    for (int rank = 0; rank < ranks(); ++rank) inputs.push_back(Values(rank, count));
    std::vector<PendingBatch> batches;
    for (int rank = 0; rank < ranks(); ++rank) {
      batches.push_back(MakeBatch(CollectiveKind::kAllreduce, SumOf(DataType::kFloat32), 0,
                                  {SegmentOf(inputs[rank], &outputs[rank])}));
      job.ranks[rank]->Run(batches[rank].batch);
    }
    for (int rank = 0; rank < ranks(); ++rank) {
      EXPECT_TRUE(batches[rank].done.get().ok());
      EXPECT_EQ(outputs[rank], SumOfValues(ranks(), count)) << count << " elements";
      EXPECT_EQ(inputs[rank], Values(rank, count)) << "the input was written";
    }
  }
}

TEST_P(ExecutorsTest, AllreduceWorksInPlace) {
  Job job = GetParam().make();
  const size_t count = 40009;
  std::vector<std::vector<float>> data;
  for (int rank = 0; rank < ranks(); ++rank) data.push_back(Values(rank, count));
  std::vector<PendingBatch> batches;
  for (int rank = 0; rank < ranks(); ++rank) {
    batches.push_back(MakeBatch(CollectiveKind::kAllreduce, SumOf(DataType::kFloat32), 0,
                                {SegmentOf(data[rank], &data[rank])}));
    job.ranks[rank]->Run(batches[rank].batch);
  }
  for (int rank = 0; rank < ranks(); ++rank) {
    EXPECT_TRUE(batches[rank].done.get().ok());
    EXPECT_EQ(data[rank], SumOfValues(ranks(), count));
  }
}

// Many batches in flight, each fused from tensors of odd sizes.
TEST_P(ExecutorsTest, FusedBatchesStreamThrough) {
  Job job = GetParam().make();
  constexpr int kBatches = 12;
  std::vector<std::vector<std::vector<float>>> inputs(ranks()), outputs(ranks());
  std::vector<std::vector<PendingBatch>> pending(ranks());
  for (int rank = 0; rank < ranks(); ++rank) {
    for (int b = 0; b < kBatches; ++b) {
      for (size_t count : kCounts) {
        inputs[rank].push_back(Values(rank, count + b, b));
        outputs[rank].emplace_back(count + b);
      }
    }
    size_t next = 0;
    for (int b = 0; b < kBatches; ++b) {
      std::vector<Segment> segments;
      for (size_t i = 0; i < std::size(kCounts); ++i, ++next) {
        segments.push_back(SegmentOf(inputs[rank][next], &outputs[rank][next]));
      }
      pending[rank].push_back(
          MakeBatch(CollectiveKind::kAllreduce, SumOf(DataType::kFloat32), 0, std::move(segments)));
      job.ranks[rank]->Run(pending[rank].back().batch);
    }
  }
  for (int rank = 0; rank < ranks(); ++rank) {
    size_t next = 0;
    for (int b = 0; b < kBatches; ++b) {
      ASSERT_TRUE(pending[rank][b].done.get().ok());
      for (size_t count : kCounts) {
        ASSERT_EQ(outputs[rank][next++], SumOfValues(ranks(), count + b, b));
      }
    }
  }
}

TEST_P(ExecutorsTest, BroadcastFromEveryRoot) {
  Job job = GetParam().make();
  for (int root = 0; root < ranks(); ++root) {
    for (size_t count : kCounts) {
      std::vector<std::vector<float>> inputs, outputs(ranks(), std::vector<float>(count));
      for (int rank = 0; rank < ranks(); ++rank) inputs.push_back(Values(rank, count));
      std::vector<PendingBatch> batches;
      for (int rank = 0; rank < ranks(); ++rank) {
        batches.push_back(MakeBatch(CollectiveKind::kBroadcast, SumOf(DataType::kFloat32), root,
                                    {SegmentOf(inputs[rank], &outputs[rank])}));
        job.ranks[rank]->Run(batches[rank].batch);
      }
      for (int rank = 0; rank < ranks(); ++rank) {
        EXPECT_TRUE(batches[rank].done.get().ok());
        EXPECT_EQ(outputs[rank], Values(root, count)) << "root " << root;
      }
    }
  }
}

TEST_P(ExecutorsTest, AnEmptyBatchIsDoneAtOnce) {
  Job job = GetParam().make();
  PendingBatch batch = MakeBatch(CollectiveKind::kAllreduce, SumOf(DataType::kFloat32), 0, {});
  job.ranks[0]->Run(batch.batch);
  EXPECT_TRUE(batch.done.get().ok());
}

TEST_P(ExecutorsTest, AbortEndsBatchesThatWaitForAPeer) {
  if (ranks() == 1) GTEST_SKIP() << "a single rank waits for nobody";
  Job job = GetParam().make();
  const size_t count = 400009;
  std::vector<float> input = Values(0, count), output(count);
  std::vector<PendingBatch> batches;
  for (int b = 0; b < 3; ++b) {
    batches.push_back(MakeBatch(CollectiveKind::kAllreduce, SumOf(DataType::kFloat32), 0,
                                {SegmentOf(input, &output)}));
    job.ranks[0]->Run(batches[b].batch);
  }
  for (auto& rank : job.ranks) rank->Abort(PeerLost("rank 1 was killed"));
  for (auto& batch : batches) {
    Status status = batch.done.get();
    EXPECT_EQ(status.code(), StatusCode::kPeerLost);
    EXPECT_NE(status.message().find("rank 1 was killed"), std::string::npos) << status.message();
  }
  // And so do later ones.
  PendingBatch later = MakeBatch(CollectiveKind::kAllreduce, SumOf(DataType::kFloat32), 0,
                                 {SegmentOf(input, &output)});
  job.ranks[0]->Run(later.batch);
  EXPECT_EQ(later.done.get().code(), StatusCode::kPeerLost);
}

// Sums that round, so that the order of the ranks shows in the bits.
std::vector<std::vector<float>> RoundedAverages(Hosts hosts) {
  constexpr int kRanks = 3;
  Job job = ArenaJob(kRanks, 2, 0, hosts);
  ReduceSpec average = SumOf(DataType::kFloat32);
  average.op = ReduceOp::kAverage;
  average.prescale = 1.0 / 3;
  average.postscale = 0.7;
  average.divisor = kRanks;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> data(kRanks, std::vector<float>(500003));
  std::vector<PendingBatch> batches;
  for (int rank = 0; rank < kRanks; ++rank) {
    for (float& value : data[rank]) value = normal(random);
    batches.push_back(
        MakeBatch(CollectiveKind::kAllreduce, average, 0, {SegmentOf(data[rank], &data[rank])}));
    job.ranks[rank]->Run(batches[rank].batch);
  }
  for (auto& batch : batches) EXPECT_TRUE(batch.done.get().ok());
  return data;
}

TEST(LaneHostTest, ThreadsAndProcessesGiveTheSameBits) {
  const auto expected = RoundedAverages(Hosts::kThreads);
  EXPECT_EQ(expected[0], expected[2]);
  EXPECT_EQ(RoundedAverages(Hosts::kProcesses), expected);
  EXPECT_EQ(RoundedAverages(Hosts::kMixed), expected);
}

// Twenty times round the slots with what needs no process; then with what does.
TEST(LaneHostTest, SmallChunksDoNotNeedTheProcess) {
  ArenaShape shape;
  shape.slots = 3;
  shape.chunk_bytes = kChunkBytes;
  shape.small_bytes = kSmallBytes;
  std::unique_ptr<Arena> arena = std::move(Arena::Create(shape)).value();
  std::vector<std::unique_ptr<Executor>> executors;
  executors.push_back(std::make_unique<ArenaExecutor>(arena.get(), 0, 0, 0, LaneHost::kProcess));
  std::unique_ptr<LaneGroup> lane = std::move(LaneGroup::Start(std::move(executors))).value();
  std::vector<float> small = Values(0, kSmallBytes / sizeof(float)), large = Values(0, 50000);
  auto reduce = [&](std::vector<float>* data) {
    PendingBatch batch = MakeBatch(CollectiveKind::kAllreduce, SumOf(DataType::kFloat32), 0,
                                   {SegmentOf(*data, data)});
    lane->Run(batch.batch);
    return std::move(batch.done);
  };
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(reduce(&small).get().ok());
  std::future<Status> waiting = reduce(&large);
  ServerThread late(arena.get(), 0, 0, 0);
  EXPECT_TRUE(waiting.get().ok());
  EXPECT_EQ(large, Values(0, 50000));
}

TEST(LaneHostTest, AProcessMayLagBehind) {
  constexpr int kRanks = 2, kBatches = 20;
  Job job = ArenaJob(kRanks, 1, 0, Hosts::kProcesses);
  const pid_t pid = job.ranks[1]->processes()[0]->pid();
  std::vector<std::vector<float>> data[kRanks];
  std::vector<PendingBatch> batches;
  ASSERT_EQ(kill(pid, SIGSTOP), 0);
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int i = 0; i < kBatches; ++i) data[rank].push_back(Values(rank, i % 2 ? 100 : 3000, i));
    for (auto& tensor : data[rank]) {
      batches.push_back(MakeBatch(CollectiveKind::kAllreduce, SumOf(DataType::kFloat32), 0,
                                  {SegmentOf(tensor, &tensor)}));
      job.ranks[rank]->Run(batches.back().batch);
    }
  }
  ASSERT_EQ(kill(pid, SIGCONT), 0);
  for (auto& batch : batches) EXPECT_TRUE(batch.done.get().ok());
  for (int i = 0; i < kBatches; ++i) {
    EXPECT_EQ(data[1][i], SumOfValues(kRanks, i % 2 ? 100 : 3000, i)) << i;
  }
}

std::vector<Plane> Planes() {
  std::vector<Plane> planes = {{"Local", 1, LocalJob}};
  for (int ranks : {1, 2, 3, 5}) {
    for (int lanes : {1, 2}) {
      std::string suffix = std::to_string(ranks) + "Ranks" + std::to_string(lanes) + "Lanes";
      planes.push_back({"Arena" + suffix, ranks, [=] { return ArenaJob(ranks, lanes, 0); }});
      planes.push_back(
          {"Served" + suffix, ranks, [=] { return ArenaJob(ranks, lanes, 0, Hosts::kServers); }});
      planes.push_back({"Processes" + suffix, ranks,
                        [=] { return ArenaJob(ranks, lanes, 0, Hosts::kProcesses); }});
      if (ranks > 1)
        planes.push_back({"Ring" + suffix, ranks, [=] { return RingJob(ranks, lanes); }});
    }
  }
  planes.push_back({"ArenaSpinning2Ranks", 2, [] { return ArenaJob(2, 1, 20); }});
  planes.push_back({"ServedSpinning2Ranks", 2, [] { return ArenaJob(2, 1, 20, Hosts::kServers); }});
  planes.push_back({"Mixed3Ranks", 3, [] { return ArenaJob(3, 2, 0, Hosts::kMixed); }});
  return planes;
}

INSTANTIATE_TEST_SUITE_P(Planes, ExecutorsTest, testing::ValuesIn(Planes()),
                         [](const auto& info) { return info.param.name; });

TEST(RingExecutorTest, AClosedConnectionNamesThePeer) {
  int pairs[2][2];
  for (auto& pair : pairs) ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  std::vector<std::unique_ptr<Executor>> executors;
  executors.push_back(
      std::move(RingExecutor::Create(0, 2, OwnedFd(pairs[0][0]), OwnedFd(pairs[1][0]))).value());
  std::unique_ptr<LaneGroup> lanes = std::move(LaneGroup::Start(std::move(executors))).value();
  close(pairs[0][1]);
  close(pairs[1][1]);
  std::vector<float> data = Values(0, 1000);
  PendingBatch batch =
      MakeBatch(CollectiveKind::kAllreduce, SumOf(DataType::kFloat32), 0, {SegmentOf(data, &data)});
  lanes->Run(batch.batch);
  Status status = batch.done.get();
  EXPECT_EQ(status.code(), StatusCode::kPeerLost);
  EXPECT_NE(status.message().find("rank 1"), std::string::npos) << status.message();
}

TEST(ArenaTest, FitsALimitByShrinkingChunks) {
  ArenaShape shape;
  shape.ranks = 64;
  shape.lanes = 4;
  shape = Arena::Fit(shape, 32 << 20);
  auto arena = Arena::Create(shape);
  ASSERT_TRUE(arena.ok());
  EXPECT_LE((*arena)->bytes(), size_t{32 << 20});
  EXPECT_EQ(shape.chunk_bytes % 64, 0u);
  EXPECT_LE(shape.small_bytes, shape.chunk_bytes);
}

TEST(ArenaTest, AttachSeesTheSameMemory) {
  ArenaShape shape;
  shape.ranks = 2;
  auto created = Arena::Create(shape);
  ASSERT_TRUE(created.ok());
  auto attached = Arena::Attach(OwnedFd(dup((*created)->fd())));
  ASSERT_TRUE(attached.ok()) << attached.status().message();
  EXPECT_EQ((*attached)->shape().ranks, 2u);
  (*created)->chunk(0, 3, 1)[5] = 'x';
  EXPECT_EQ((*attached)->chunk(0, 3, 1)[5], 'x');
  (*created)->WakeAll();
  EXPECT_EQ((*attached)->lane(0)->epoch.value.load(), 1u);
}

TEST(ArenaTest, ForeignMemoryIsRefused) {
  OwnedFd fd(memfd_create("other", 0));
  ASSERT_EQ(ftruncate(fd.get(), 4096), 0);
  EXPECT_FALSE(Arena::Attach(OwnedFd(dup(fd.get()))).ok());
  ASSERT_EQ(ftruncate(fd.get(), 10), 0);
  EXPECT_FALSE(Arena::Attach(std::move(fd)).ok());
}

}  // namespace
}  // namespace fasthvd

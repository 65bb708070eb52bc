#include "runtime/engine/engine.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tests/runtime/engine/engine_testing.h"

namespace fasthvd {
namespace {

using Floats = std::vector<float>;

struct JobShape {
  std::string name;
  std::vector<std::string> hosts;
  Config config = Config();
};

class EngineTest : public testing::TestWithParam<JobShape> {
 protected:
  int ranks() const { return static_cast<int>(GetParam().hosts.size()); }
  Engines Start() { return StartJob(GetParam().hosts, GetParam().config); }
  // Of 1 from every rank.
  float Sum() const { return static_cast<float>(ranks()); }
};

TEST_P(EngineTest, AllreduceAgain) {
  Engines engines = Start();
  for (int step = 0; step < 50; ++step) {
    std::vector<std::unique_ptr<Reduction>> reductions;
    for (auto& engine : engines) {
      reductions.push_back(std::make_unique<Reduction>(engine.get(), "x", Floats(1000, 1.0f)));
    }
    for (auto& reduction : reductions) {
      ASSERT_TRUE(reduction->status().ok()) << reduction->status().message();
      ASSERT_EQ(reduction->data(), Floats(1000, Sum()));
    }
  }
}

TEST_P(EngineTest, ManyTensorsInOpposedOrders) {
  Engines engines = Start();
  constexpr int kTensors = 200;
  for (int step = 0; step < 3; ++step) {
    std::vector<std::unique_ptr<Reduction>> reductions;
    for (size_t rank = 0; rank < engines.size(); ++rank) {
      for (int i = 0; i < kTensors; ++i) {
        int tensor = rank % 2 == 0 ? i : kTensors - 1 - i;
        reductions.push_back(
            std::make_unique<Reduction>(engines[rank].get(), "t" + std::to_string(tensor),
                                        Floats(tensor * 37, static_cast<float>(tensor))));
      }
    }
    for (auto& reduction : reductions) {
      ASSERT_TRUE(reduction->status().ok()) << reduction->status().message();
      size_t tensor = reduction->data().size() / 37;
      ASSERT_EQ(reduction->data(), Floats(tensor * 37, tensor * Sum()));
    }
  }
}

TEST_P(EngineTest, DisagreementIsAnErrorEverywhereAndTheJobGoesOn) {
  if (ranks() == 1) GTEST_SKIP() << "nobody to disagree with";
  Engines engines = Start();
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<Reduction>> bad, good;
    for (size_t rank = 0; rank < engines.size(); ++rank) {
      bad.push_back(
          std::make_unique<Reduction>(engines[rank].get(), "bad", Floats(rank == 1 ? 3 : 2, 1.0f)));
      good.push_back(std::make_unique<Reduction>(engines[rank].get(), "good", Floats(5, 1.0f)));
    }
    for (auto& reduction : bad) {
      EXPECT_EQ(reduction->status().code(), StatusCode::kInvalidArgument);
      EXPECT_NE(reduction->status().message().find("'bad'"), std::string::npos);
      EXPECT_NE(reduction->status().message().find("[3] on rank 1"), std::string::npos);
    }
    for (auto& reduction : good) {
      EXPECT_TRUE(reduction->status().ok()) << reduction->status().message();
      EXPECT_EQ(reduction->data(), Floats(5, Sum()));
    }
  }
}

TEST_P(EngineTest, TheSameNameTwiceFailsTheSecondOnAllRanks) {
  if (ranks() == 1) GTEST_SKIP() << "the first is done before the second comes";
  Engines engines = Start();
  // Rank 1 waits until rank 0's second one has failed, so that it is a duplicate for sure.
  Reduction first(engines[0].get(), "x", Floats(2, 1.0f));
  Reduction second(engines[0].get(), "x", Floats(2, 1.0f));
  EXPECT_EQ(second.status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(first.pending());
  std::vector<std::unique_ptr<Reduction>> firsts;
  for (size_t rank = 1; rank < engines.size(); ++rank) {
    firsts.push_back(std::make_unique<Reduction>(engines[rank].get(), "x", Floats(2, 1.0f)));
  }
  for (auto& reduction : firsts) EXPECT_TRUE(reduction->status().ok());
  EXPECT_TRUE(first.status().ok());
  std::vector<std::unique_ptr<Reduction>> seconds;
  for (size_t rank = 1; rank < engines.size(); ++rank) {
    seconds.push_back(std::make_unique<Reduction>(engines[rank].get(), "x", Floats(2, 1.0f)));
  }
  for (auto& reduction : seconds) {
    EXPECT_EQ(reduction->status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(reduction->status().message().find("rank 0"), std::string::npos);
  }
  std::vector<std::unique_ptr<Reduction>> thirds;
  for (auto& engine : engines) {
    thirds.push_back(std::make_unique<Reduction>(engine.get(), "x", Floats(2, 1.0f)));
  }
  for (auto& reduction : thirds) EXPECT_TRUE(reduction->status().ok());
}

TEST_P(EngineTest, AnErrorEndsItsStepOnEveryRank) {
  if (ranks() == 1) GTEST_SKIP() << "nobody to disagree with";
  Engines engines = Start();
  auto reduce = [&](int rank, const std::string& name, size_t elements, int step) {
    return std::make_unique<Reduction>(engines[rank].get(), name, Floats(elements, 1.0f),
                                       ReduceOp::kSum, 100 * (rank + 1) + step);
  };
  for (int step = 1; step < 20; ++step) {
    // Only rank 0 begins "mate" before its step fails.
    auto mate = reduce(0, "mate", 8, step);
    std::vector<std::unique_ptr<Reduction>> bad, good;
    for (int rank = 0; rank < ranks(); ++rank) bad.push_back(reduce(rank, "bad", rank + 1, step));
    for (auto& reduction : bad) {
      EXPECT_EQ(reduction->status().code(), StatusCode::kInvalidArgument);
    }
    EXPECT_EQ(mate->status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(mate->status().message().find("'bad'"), std::string::npos);
    // The others are late with theirs, and get the same answer; then all go on.
    for (int rank = 1; rank < ranks(); ++rank) {
      EXPECT_EQ(reduce(rank, "mate", 8, step)->status().code(), StatusCode::kInvalidArgument);
    }
    for (int rank = 0; rank < ranks(); ++rank) good.push_back(reduce(rank, "mate", 8, 50 + step));
    for (auto& reduction : good) {
      ASSERT_TRUE(reduction->status().ok()) << reduction->status().message();
      EXPECT_EQ(reduction->data(), Floats(8, Sum()));
    }
  }
}

TEST_P(EngineTest, AWithdrawnStepFailsItsEntriesAndThePeersStepsWithIt) {
  if (ranks() == 1) GTEST_SKIP() << "it is done before it can be withdrawn";
  Engines engines = Start();
  uint64_t step = 1;
  auto reduce = [&](int rank, const std::string& name) {
    return std::make_unique<Reduction>(engines[rank].get(), name, Floats(2, 1.0f), ReduceOp::kSum,
                                       step);
  };
  auto expect_all_ok = [&](const std::string& name) {
    std::vector<std::unique_ptr<Reduction>> reductions;
    for (int rank = 0; rank < ranks(); ++rank) reductions.push_back(reduce(rank, name));
    for (auto& reduction : reductions) {
      ASSERT_TRUE(reduction->status().ok()) << reduction->status().message();
      EXPECT_EQ(reduction->data(), Floats(2, Sum()));
    }
    reductions.front()->WithdrawStep();  // Has run: too late for it.
    ++step;
  };
  for (int rank : {0, ranks() - 1}) {
    // Before or after the entry is announced: there is one answer.
    auto waiting = reduce(rank, "x");
    waiting->WithdrawStep();
    EXPECT_EQ(waiting->status().code(), StatusCode::kPeerLost);
    EXPECT_NE(waiting->status().message().find("rank " + std::to_string(rank) + " gave it up"),
              std::string::npos)
        << waiting->status().message();
    EXPECT_EQ(reduce(rank, "late")->status().code(), StatusCode::kPeerLost);
    ++step;
    expect_all_ok("x");
    // The peers' steps are linked to it by "x"; what they wait for or come with fails as well.
    std::vector<std::unique_ptr<Reduction>> linked, rest;
    for (int i = 0; i < ranks(); ++i) linked.push_back(reduce(i, "x"));
    for (auto& reduction : linked) EXPECT_TRUE(reduction->status().ok());
    engines[rank]->WithdrawStep(step);
    for (int i = 0; i < ranks(); ++i) {
      if (i != rank) rest.push_back(reduce(i, "y"));
    }
    for (auto& reduction : rest) {
      EXPECT_EQ(reduction->status().code(), StatusCode::kPeerLost);
      EXPECT_NE(reduction->status().message().find("'y'"), std::string::npos);
    }
    ++step;
    expect_all_ok("y");
  }
}

TEST_P(EngineTest, ARankThatShutsDownFailsWhatWaitsForIt) {
  if (ranks() == 1) GTEST_SKIP() << "nobody waits";
  for (int leaver : {0, ranks() - 1}) {
    Engines engines = Start();
    const int other = leaver == 0 ? 1 : 0;
    Reduction waiting(engines[other].get(), "x", Floats(2, 1.0f));
    engines[leaver]->Shutdown();
    EXPECT_EQ(waiting.status().code(), StatusCode::kPeerLost);
    EXPECT_NE(waiting.status().message().find("rank " + std::to_string(leaver)), std::string::npos)
        << waiting.status().message();
    Reduction later(engines[other].get(), "y", Floats(2, 1.0f));
    EXPECT_EQ(later.status().code(), StatusCode::kPeerLost);
    Reduction own(engines[leaver].get(), "y", Floats(2, 1.0f));
    EXPECT_EQ(own.status().code(), StatusCode::kFailedPrecondition);
  }
}

TEST_P(EngineTest, ShutdownInAnyOrderLeavesNothingBehind) {
  auto count = [](const char* folder) {
    int entries = 0;
    DIR* dir = opendir(folder);
    while (readdir(dir) != nullptr) ++entries;
    closedir(dir);
    return entries;
  };
  Start();  // What the first one loads stays.
  const int descriptors = count("/proc/self/fd");
  const int threads = count("/proc/self/task");
  for (int first = 0; first < ranks(); ++first) {
    Engines engines = Start();
    engines[first]->Shutdown();
    engines[first]->Shutdown();
    engines[first] = nullptr;
  }
  EXPECT_EQ(count("/proc/self/fd"), descriptors);
  EXPECT_EQ(count("/proc/self/task"), threads);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
}

std::vector<JobShape> Shapes() {
  return {{"Single", OneHost(1)},
          {"Host2", OneHost(2)},
          {"Host3", OneHost(3)},
          {"Host4", OneHost(4)},
          {"Hosts2", ManyHosts(2)},
          {"Hosts3", ManyHosts(3)},
          {"Mixed", {"a", "a", "b", "b"}},
          {"Processes2", OneHost(2), WithProcesses()},
          {"Processes3", OneHost(3), WithProcesses()},
          {"ProcessesHosts2", ManyHosts(2), WithProcesses()}};
}

INSTANTIATE_TEST_SUITE_P(Shapes, EngineTest, testing::ValuesIn(Shapes()),
                         [](const auto& info) { return info.param.name; });

// The child of this process with that title, or -1.
pid_t ChildTitled(const std::string& title) {
  pid_t found = -1;
  DIR* dir = opendir("/proc");
  while (const dirent* entry = readdir(dir)) {
    const pid_t pid = std::atoi(entry->d_name);
    const std::string folder = "/proc/" + std::string(entry->d_name);
    std::string command, stat;
    std::getline(std::ifstream(folder + "/cmdline"), command, '\0');
    std::getline(std::ifstream(folder + "/stat"), stat);
    const size_t name_end = stat.rfind(") ");
    if (pid <= 0 || command != title || name_end == std::string::npos) continue;
    if (std::atoi(stat.c_str() + name_end + 4) == getpid()) found = pid;
  }
  closedir(dir);
  return found;
}

TEST(LaneProcessesTest, AKilledOneFailsPendingAndLaterEntriesOnAllRanks) {
  Engines engines = StartJob(OneHost(3), WithProcesses());
  for (int step = 0; step < 3; ++step) {
    Reduction a(engines[0].get(), "x", Floats(100000, 1.0f));
    Reduction b(engines[1].get(), "x", Floats(100000, 1.0f));
    Reduction c(engines[2].get(), "x", Floats(100000, 1.0f));
    ASSERT_TRUE(a.status().ok() && b.status().ok() && c.status().ok());
    ASSERT_EQ(c.data(), Floats(100000, 3.0f));
  }
  Reduction waiting0(engines[0].get(), "waits", Floats(2, 1.0f));
  Reduction waiting2(engines[2].get(), "waits", Floats(2, 1.0f));
  ASSERT_EQ(kill(ChildTitled("fasthvd-lane0: rank 1"), SIGKILL), 0);
  auto check = [](const Status& status) {
    EXPECT_EQ(status.code(), StatusCode::kPeerLost);
    EXPECT_NE(status.message().find("the lane process 0 of rank 1 has ended (killed by signal 9)"),
              std::string::npos)
        << status.message();
  };
  check(waiting0.status());
  check(waiting2.status());
  Reduction late1(engines[1].get(), "waits", Floats(2, 1.0f));
  check(late1.status());
  for (auto& engine : engines) {
    Reduction later(engine.get(), "later", Floats(2, 1.0f));
    check(later.status());
    check(engine->failure());
  }
}

TEST(LaneProcessesTest, AMissingProgramIsToldBeforeTheRanksMeet) {
  Config config = WithProcesses();
  config.lane_program = "/nowhere/fasthvd_lane";
  Status status = Engine::Listen(config, "host", {}).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("/nowhere/fasthvd_lane"), std::string::npos);
}

TEST(EngineStartTest, MissingRanksAreNamed) {
  Config config;
  config.start_timeout = std::chrono::milliseconds(300);
  Engines engines;
  std::vector<Endpoint> endpoints;
  for (int rank = 0; rank < 4; ++rank) {
    auto engine = Engine::Listen(config, "host", {"127.0.0.1"});
    ASSERT_TRUE(engine.ok());
    endpoints.push_back((*engine)->endpoint());
    engines.push_back(std::move(engine).value());
  }
  std::thread one([&] { EXPECT_FALSE(engines[1]->Start(1, endpoints, Key{}).ok()); });
  Status status = engines[0]->Start(0, endpoints, Key{});
  one.join();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(status.message().find("rank 2, 3 did not connect"), std::string::npos)
      << status.message();
}

TEST(EngineStartTest, OneRankWithoutSharedMemoryMovesAllToTcp) {
  Engines engines;
  std::vector<Endpoint> endpoints;
  for (int rank = 0; rank < 3; ++rank) {
    Config config;
    config.shared_memory = rank != 2;
    auto engine = Engine::Listen(config, "host", {"127.0.0.1"});
    ASSERT_TRUE(engine.ok());
    endpoints.push_back((*engine)->endpoint());
    engines.push_back(std::move(engine).value());
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back(
        [&, rank] { EXPECT_TRUE(engines[rank]->Start(rank, endpoints, Key{}).ok()); });
  }
  for (auto& thread : threads) thread.join();
  std::vector<std::unique_ptr<Reduction>> reductions;
  for (auto& engine : engines) {
    reductions.push_back(std::make_unique<Reduction>(engine.get(), "x", Floats(100000, 1.0f)));
  }
  for (auto& reduction : reductions) {
    ASSERT_TRUE(reduction->status().ok()) << reduction->status().message();
    EXPECT_EQ(reduction->data(), Floats(100000, 3.0f));
  }
}

}  // namespace
}  // namespace fasthvd

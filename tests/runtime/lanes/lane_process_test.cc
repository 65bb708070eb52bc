#include "runtime/lanes/lane_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/runtime/lanes/lanes_testing.h"

namespace fasthvd {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string ProcFile(const LaneProcess& process, const std::string& name) {
  return ReadFile("/proc/" + std::to_string(process.pid()) + "/" + name);
}

// The value of a line "name:\tvalue" of /proc/<pid>/status.
std::string StatusLine(const LaneProcess& process, const std::string& name) {
  const std::string text = ProcFile(process, "status");
  const size_t begin = text.find("\n" + name + ":\t") + name.size() + 3;
  return text.substr(begin, text.find('\n', begin) - begin);
}

bool HasChildren() { return waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD; }

class LaneProcessTest : public testing::Test {
 protected:
  Result<std::unique_ptr<LaneProcess>> Start(const std::string& program, int cpu = -1) {
    LaneSetup setup;
    setup.lane = 0;
    setup.rank = 1;
    setup.cpu = cpu;
    return LaneProcess::Start(program, setup, arena_->fd(),
                              Deadline::After(std::chrono::seconds(30)));
  }
  std::unique_ptr<Arena> arena_ = std::move(Arena::Create(ArenaShape{2})).value();
};

TEST_F(LaneProcessTest, ShowsItsRoleAndHasOnlyWhatItNeeds) {
  auto process = StartLaneProcess(*arena_, 0, 1);
  EXPECT_EQ(ProcFile(*process, "cmdline"), std::string("fasthvd-lane0: rank 1\0", 22));
  EXPECT_EQ(ProcFile(*process, "comm"), "fasthvd-lane0\n");
  EXPECT_EQ(ProcFile(*process, "environ"), "");
}

// Ctrl-C and the launcher's SIGTERM reach the whole process group; the parent decides.
TEST_F(LaneProcessTest, HearsNoSignals) {
  auto process = StartLaneProcess(*arena_, 0, 1);
  const unsigned long long blocked =
      std::stoull(StatusLine(*process, "SigBlk"), nullptr, /*base=*/16);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP}) {
    EXPECT_TRUE(blocked >> (number - 1) & 1) << number;
  }
}

TEST_F(LaneProcessTest, EndsAndIsReapedWithItsOwner) {
  StartLaneProcess(*arena_, 0, 1);
  EXPECT_FALSE(HasChildren());
}

TEST_F(LaneProcessTest, EndsEvenIfItIsStopped) {
  auto process = StartLaneProcess(*arena_, 0, 1);
  ASSERT_EQ(kill(process->pid(), SIGSTOP), 0);
  process = nullptr;
  EXPECT_FALSE(HasChildren());
}

TEST_F(LaneProcessTest, TellsHowItWasKilled) {
  auto process = StartLaneProcess(*arena_, 0, 1);
  ASSERT_EQ(kill(process->pid(), SIGKILL), 0);
  pollfd wait = {process->ended_fd(), POLLIN, 0};
  ASSERT_EQ(poll(&wait, 1, -1), 1);
  Status status = process->WhyEnded();
  EXPECT_EQ(status.code(), StatusCode::kPeerLost);
  EXPECT_EQ(status.message().find("the lane process 0 of rank 1 has ended (killed by signal 9)"),
            0u)
      << status.message();
  EXPECT_FALSE(HasChildren());
  EXPECT_EQ(process->WhyEnded().message(), status.message());
}

TEST_F(LaneProcessTest, IsPinned) {
  cpu_set_t usable;
  ASSERT_EQ(sched_getaffinity(0, sizeof(usable), &usable), 0);
  int cpu = CPU_SETSIZE - 1;
  while (!CPU_ISSET(cpu, &usable)) --cpu;
  auto process = Start(kLaneProgram, cpu);
  ASSERT_TRUE(process.ok()) << process.status().message();
  EXPECT_EQ(StatusLine(**process, "Cpus_allowed_list"), std::to_string(cpu));
}

TEST_F(LaneProcessTest, AnUnusableCpuIsTold) {
  Status status = Start(kLaneProgram, CPU_SETSIZE - 1).status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("FASTHVD_LANE_CPUS has CPU 1023"), std::string::npos)
      << status.message();
  EXPECT_FALSE(HasChildren());
}

TEST_F(LaneProcessTest, AProgramThatCannotBeStartedIsTold) {
  for (const char* path : {"/nowhere/fasthvd_lane", "/proc/self/status", ""}) {
    EXPECT_NE(Start(path).status().message().find("FASTHVD_LANE_HOST=thread"), std::string::npos);
    Status status = CheckLaneProgram(path);
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_NE(status.message().find(std::string("'") + path + "' cannot be started"),
              std::string::npos)
        << status.message();
  }
  EXPECT_TRUE(CheckLaneProgram(kLaneProgram).ok());
}

TEST_F(LaneProcessTest, AnotherProgramIsTold) {
  Status status = Start("/bin/true").status();
  EXPECT_NE(status.message().find("the lane process 0 of rank 1 has ended (exit code 0)"),
            std::string::npos)
      << status.message();
  EXPECT_FALSE(HasChildren());
}

}  // namespace
}  // namespace fasthvd

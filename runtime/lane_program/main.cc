// The lane program: hosts one lane's reduce stage in a process of its own. Started by
// tf_fasthvd.init() with FASTHVD_LANE_HOST=process, see lane_process.h; not by hand.
//
// Threads: the main one watches for the end, another one serves the lane.
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>
#include <utility>

#include "runtime/base/logging.h"
#include "runtime/base/owned_fd.h"
#include "runtime/base/status.h"
#include "runtime/base/worker_thread.h"
#include "runtime/lane_program/lane_server.h"
#include "runtime/lanes/arena.h"
#include "runtime/lanes/lane_setup.h"

namespace fasthvd {
namespace {

Result<LaneSetup> ReceiveSetup() {
  LaneSetup setup;
  ssize_t bytes = recv(kLaneSocketFd, &setup, sizeof(setup), 0);
  if (bytes != sizeof(setup) || setup.magic != kLaneSetupMagic) {
    return FailedPrecondition(
        "this program is started by tf_fasthvd.init() of the same version, not by hand");
  }
  return setup;
}

Status PinTo(int cpu) {
  if (cpu < 0) return Status::Ok();
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  if (sched_setaffinity(0, sizeof(cpus), &cpus) == 0) return Status::Ok();
  return SystemError("FASTHVD_LANE_CPUS has CPU " + std::to_string(cpu) +
                         ", which this process may not run on or this host lacks",
                     errno);
}

// A descriptor that becomes readable when the training process has ended. Not PR_SET_PDEATHSIG,
// which acts when the thread that started this process ends.
Result<OwnedFd> OpenParent(const LaneSetup& setup) {
  OwnedFd parent(static_cast<int>(syscall(SYS_pidfd_open, setup.parent, 0)));
  if (!parent.valid()) return SystemError("pidfd_open of the training process", errno);
  // Its child still: then the descriptor is not of another process that got the same number.
  if (getppid() != setup.parent) return PeerLost("the training process has ended");
  return parent;
}

void WaitForTheEnd(int parent) {
  pollfd waits[] = {{parent, POLLIN, 0}, {kLaneSocketFd, POLLIN, 0}};
  while (poll(waits, 2, -1) < 0 && errno == EINTR) {
  }
}

Status Serve(const LaneSetup& setup) {
  const std::string name = "fasthvd-lane" + std::to_string(setup.lane);
  prctl(PR_SET_NAME, name.c_str());
  FASTHVD_RETURN_IF_ERROR(PinTo(setup.cpu));
  Result<OwnedFd> parent = OpenParent(setup);
  if (!parent.ok()) return parent.status();
  Result<std::unique_ptr<Arena>> arena = Arena::Attach(OwnedFd(kLaneArenaFd));
  if (!arena.ok()) return arena.status();
  LaneServer server(arena->get(), setup.lane, setup.rank, setup.spin_microseconds);
  Result<std::thread> thread = StartWorker(name, [&server] { server.Run(); });
  if (!thread.ok()) return thread.status();
  send(kLaneSocketFd, kLaneReady, sizeof(kLaneReady) - 1, MSG_NOSIGNAL);
  WaitForTheEnd(parent->get());
  server.Stop();
  thread->join();
  return Status::Ok();
}

int Main() {
  // What the training process had open without close-on-exec is none of our business.
  syscall(SYS_close_range, kLaneSocketFd + 1, ~0U, 0);
  Result<LaneSetup> setup = ReceiveSetup();
  if (!setup.ok()) {
    Log(LogLevel::kError, -1, setup.status().message());
    return 2;
  }
  Status status = Serve(*setup);
  if (status.ok()) return 0;
  send(kLaneSocketFd, status.message().data(), status.message().size(), MSG_NOSIGNAL);
  return 1;
}

}  // namespace
}  // namespace fasthvd

int main() { return fasthvd::Main(); }

#include "runtime/lanes/lane_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "runtime/base/logging.h"

namespace fasthvd {
namespace {

// A process that is told to end needs microseconds, or has been stopped.
constexpr int kEndMillis = 2000;

std::string NameOf(const LaneSetup& setup) {
  return "the lane process " + std::to_string(setup.lane) + " of rank " +
         std::to_string(setup.rank);
}

Status CannotStart(const std::string& program, int error) {
  return FailedPrecondition("FASTHVD_LANE_HOST=process: the lane program '" + program +
                            "' cannot be started (" + std::generic_category().message(error) +
                            "); install tf_fasthvd again, or set FASTHVD_LANE_HOST=thread");
}

// A copy above the numbers that the program's descriptors get, so that none overwrites another.
OwnedFd CopyAbove(int fd) { return OwnedFd(fcntl(fd, F_DUPFD_CLOEXEC, 16)); }

// Returns an errno, or 0 and the process's id.
int Spawn(const std::string& program, const LaneSetup& setup, int arena_fd, int socket_fd,
          pid_t* pid) {
  OwnedFd arena = CopyAbove(arena_fd), socket = CopyAbove(socket_fd);
  if (!arena.valid() || !socket.valid()) return errno;
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&files, arena.get(), kLaneArenaFd);
  posix_spawn_file_actions_adddup2(&files, socket.get(), kLaneSocketFd);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::string title =
      "fasthvd-lane" + std::to_string(setup.lane) + ": rank " + std::to_string(setup.rank);
  char* arguments[] = {title.data(), nullptr};
  char* environment[] = {nullptr};
  int error = posix_spawn(pid, program.c_str(), &files, &attributes, arguments, environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

}  // namespace

Status CheckLaneProgram(const std::string& path) {
  return access(path.c_str(), X_OK) == 0 ? Status::Ok() : CannotStart(path, errno);
}

Result<std::unique_ptr<LaneProcess>> LaneProcess::Start(const std::string& program, LaneSetup setup,
                                                        int arena_fd, Deadline deadline) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return SystemError("making the socket to " + NameOf(setup), errno);
  }
  OwnedFd own(pair[0]), theirs(pair[1]);
  setup.parent = getpid();
  pid_t pid;
  int error = Spawn(program, setup, arena_fd, theirs.get(), &pid);
  if (error != 0) return CannotStart(program, error);
  OwnedFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid()) {
    Status status =
        SystemError("pidfd_open for " + NameOf(setup) + " (Linux has it from 5.3)", errno);
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return status;
  }
  std::unique_ptr<LaneProcess> process(
      new LaneProcess(setup, pid, std::move(pidfd), std::move(own)));
  theirs.Reset(-1);
  FASTHVD_RETURN_IF_ERROR(process->AwaitReady(deadline));
  return process;
}

LaneProcess::LaneProcess(const LaneSetup& setup, pid_t pid, OwnedFd pidfd, OwnedFd socket)
    : setup_(setup), pid_(pid), pidfd_(std::move(pidfd)), socket_(std::move(socket)) {}

LaneProcess::~LaneProcess() {
  if (reaped_) return;
  // Not just close: a process that was forked from this one may have a copy of the socket.
  ::shutdown(socket_.get(), SHUT_RDWR);
  const bool obeyed = Ended(kEndMillis);
  if (!obeyed) syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
  Reap();
  if (!obeyed || failed_) {
    Log(LogLevel::kWarning, setup_.rank, NameOf(setup_) + " did not end in order (" + how_ + ")");
  }
}

Status LaneProcess::AwaitReady(Deadline deadline) {
  // Fails only if the program has ended already, which shows below.
  ssize_t sent = send(socket_.get(), &setup_, sizeof(setup_), MSG_NOSIGNAL);
  (void)sent;
  pollfd wait = {socket_.get(), POLLIN, 0};
  int events;
  do {
    events = poll(&wait, 1, deadline.millis_left());
  } while (events < 0 && errno == EINTR);
  if (events == 0) return DeadlineExceeded(NameOf(setup_) + " did not start in time");
  char answer[1024];
  ssize_t bytes = recv(socket_.get(), answer, sizeof(answer), MSG_DONTWAIT);
  if (bytes <= 0) return WhyEnded();
  std::string text(answer, bytes);
  return text == kLaneReady ? Status::Ok() : Internal(NameOf(setup_) + " did not start: " + text);
}

bool LaneProcess::Ended(int timeout_millis) const {
  const Deadline deadline = Deadline::After(std::chrono::milliseconds(timeout_millis));
  pollfd wait = {pidfd_.get(), POLLIN, 0};
  int events;
  do {
    events = poll(&wait, 1, deadline.millis_left());
  } while (events < 0 && errno == EINTR);
  return events > 0;
}

void LaneProcess::Reap() {
  if (reaped_) return;
  reaped_ = true;
  int status = 0;
  pid_t waited;
  do {
    waited = waitpid(pid_, &status, 0);
  } while (waited < 0 && errno == EINTR);
  if (waited != pid_) return;  // Who ignores SIGCHLD is not told.
  if (WIFSIGNALED(status)) {
    how_ = "killed by signal " + std::to_string(WTERMSIG(status));
  } else {
    how_ = "exit code " + std::to_string(WEXITSTATUS(status));
  }
  failed_ = status != 0;
}

Status LaneProcess::WhyEnded() {
  Reap();
  return PeerLost(
      NameOf(setup_) + " has ended (" + how_ +
      "). If nobody killed it, see that rank's output and the system's log: it may have "
      "run out of memory. Start the job again; FASTHVD_LANE_HOST=thread does without "
      "lane processes.");
}

}  // namespace fasthvd

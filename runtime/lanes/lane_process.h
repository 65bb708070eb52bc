// The auxiliary process of a lane, seen from the training process that started it.
//
// The process runs the lane program (runtime/lane_program): it does the lane's reduce stage on the
// arena and nothing else. It gets three descriptors (standard error, the arena, a socket to here),
// an empty environment, and all signals blocked: what ends a training process (Ctrl-C, the
// launcher's SIGTERM) must not end its lanes first. It ends when it is told to, and with its
// parent.
#ifndef FASTHVD_RUNTIME_LANES_LANE_PROCESS_H_
#define FASTHVD_RUNTIME_LANES_LANE_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "runtime/base/deadline.h"
#include "runtime/base/owned_fd.h"
#include "runtime/base/status.h"
#include "runtime/lanes/lane_setup.h"

namespace fasthvd {

// Ok if there is a program at `path` that may be executed; FailedPrecondition tells the remedy.
Status CheckLaneProgram(const std::string& path);

// Thread-compatible.
class LaneProcess {
 public:
  // Starts the program and waits until it serves. `setup.parent` is filled in.
  static Result<std::unique_ptr<LaneProcess>> Start(const std::string& program, LaneSetup setup,
                                                    int arena_fd, Deadline deadline);
  // Ends the process, with force if it does not listen, and reaps it.
  ~LaneProcess();
  LaneProcess(const LaneProcess&) = delete;
  LaneProcess& operator=(const LaneProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Becomes readable when the process has ended.
  int ended_fd() const { return pidfd_.get(); }
  // Once ended_fd() is readable: PeerLost with how it ended. Reaps it.
  Status WhyEnded();

 private:
  LaneProcess(const LaneSetup& setup, pid_t pid, OwnedFd pidfd, OwnedFd socket);
  Status AwaitReady(Deadline deadline);
  bool Ended(int timeout_millis) const;
  // Blocks until the process has ended.
  void Reap();

  const LaneSetup setup_;
  const pid_t pid_;
  const OwnedFd pidfd_;
  const OwnedFd socket_;
  bool reaped_ = false;
  std::string how_ = "it is not known how";  // Once reaped: how it ended.
  bool failed_ = false;                      // Once reaped: it did not end in order.
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_LANES_LANE_PROCESS_H_

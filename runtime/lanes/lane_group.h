// A rank's lanes: the threads that carry out batches, and the processes that reduce for them.
#ifndef FASTHVD_RUNTIME_LANES_LANE_GROUP_H_
#define FASTHVD_RUNTIME_LANES_LANE_GROUP_H_

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/lanes/executor.h"
#include "runtime/lanes/lane_process.h"

namespace fasthvd {

// Owns one thread and one queue a lane, and its process if it has one. Run() is for whoever has the
// scheduler's turn; Abort() is for any thread. The destructor waits until the lanes have done what
// they were given, so after a failure call Abort() first.
class LaneGroup {
 public:
  // Internal if the system has no threads to give.
  static Result<std::unique_ptr<LaneGroup>> Start(
      std::vector<std::unique_ptr<Executor>> executors,
      std::vector<std::unique_ptr<LaneProcess>> processes = {});
  ~LaneGroup();

  // Hands out the stripes of the plan's next batch. An empty batch is done on return. Never blocks.
  void Run(std::shared_ptr<Batch> batch);

  void Abort(const Status& reason);

  // None, or one a lane. For whoever has the scheduler's turn: a process that ends is the end of
  // the job.
  const std::vector<std::unique_ptr<LaneProcess>>& processes() const { return processes_; }

 private:
  struct Lane {
    std::unique_ptr<Executor> executor;
    StripeQueue queue;
    std::thread thread;
  };
  LaneGroup() = default;

  std::vector<std::unique_ptr<LaneProcess>> processes_;  // They end after the threads.
  std::vector<std::unique_ptr<Lane>> lanes_;
  uint64_t sequence_ = 0;  // Of batches; guarded by the scheduler's turn.
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_LANES_LANE_GROUP_H_

// The scheduler: one thread that takes submitted entries through negotiation to the lanes.
//
// Threads. Submit() and Shutdown() may be called from any thread. Lanes call back into OnBatchDone.
// Everything else belongs to the scheduler's own thread, which sleeps in poll() on a doorbell (an
// eventfd) and the negotiation's connections; it never touches tensor bytes and never waits for a
// lane. Life: running → leaving (Shutdown asked for, the leader not yet told) → draining (planned
// batches are finishing) → stopped; or, from anywhere, failed and stopped.
#ifndef FASTHVD_RUNTIME_ENGINE_SCHEDULER_H_
#define FASTHVD_RUNTIME_ENGINE_SCHEDULER_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/owned_fd.h"
#include "runtime/engine/request.h"
#include "runtime/lanes/lane_group.h"
#include "runtime/negotiation/id_cache.h"
#include "runtime/negotiation/negotiator.h"

namespace fasthvd {

class Scheduler {
 public:
  // `max_batches`: how many batches the leader lets run and queue before it accumulates entries.
  static Result<std::unique_ptr<Scheduler>> Start(int rank, int size, int max_batches,
                                                  std::unique_ptr<Negotiator> negotiator,
                                                  std::unique_ptr<LaneGroup> lanes);
  // Shutdown().
  ~Scheduler();

  // Hands in an entry. It completes through request.done, with an error at once if the scheduler
  // has stopped. Never blocks.
  void Submit(Request request);

  // Leaves the job in order: entries that are not planned yet fail, planned ones finish. Blocks
  // until the thread has ended. May be called again.
  void Shutdown();

  // Why the job failed; ok while it has not.
  Status failure() const;

 private:
  enum class State { kRunning, kLeaving, kDraining, kStopped };

  Scheduler(int rank, int size, int max_batches, OwnedFd doorbell,
            std::unique_ptr<Negotiator> negotiator, std::unique_ptr<LaneGroup> lanes);

  void Loop();
  void WaitForEvents();
  Status Advance();
  Status AdmitSubmissions();
  Status AdvanceShutdown();
  void Admit(Request request, std::vector<Announcement>* announcements);
  Status ApplyStep(const PlanStep& step);
  void ApplyError(const PlanStep& step);
  Result<Request> TakePlanned(const PlannedEntry& entry);
  std::shared_ptr<Batch> MakeBatch(std::vector<Request> requests);
  void OnBatchDone(const std::vector<Request>& requests, const Status& status);
  // Ends every entry that is not in a lane, and refuses further ones, with `reason`.
  void Close(const Status& reason);
  void Fail(const Status& reason);
  void Ring();

  const int rank_;
  const int size_;
  const int max_batches_;
  const OwnedFd doorbell_;

  mutable std::mutex mutex_;
  std::vector<Request> submitted_;   // Guarded by mutex_.
  bool shutdown_requested_ = false;  // Guarded by mutex_.
  Status closed_;                    // Guarded by mutex_; not ok: nothing is accepted any more.
  Status failure_;                   // Guarded by mutex_.
  Status lane_failure_;              // Guarded by mutex_; reported by a lane, to be acted upon.

  // Scheduler's thread.
  std::unique_ptr<Negotiator> negotiator_;
  std::unordered_map<std::string, Request> pending_;  // Announced, not planned; by name.
  std::unordered_map<std::string, int> duplicates_;   // To be announced when the name is planned.
  IdCache ids_;
  State state_ = State::kRunning;
  std::unique_ptr<Deadline> drain_deadline_;

  std::atomic<int> batches_in_flight_{0};
  std::atomic<bool> wants_completions_{false};  // Lanes ring when a batch is done.

  std::mutex shutdown_mutex_;  // Serialises Shutdown().
  std::unique_ptr<LaneGroup> lanes_;
  std::thread thread_;
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_ENGINE_SCHEDULER_H_

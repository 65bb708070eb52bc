// The scheduler: one thread that takes submitted entries through negotiation to the lanes.
//
// Threads. Submit() and Shutdown() may be called from any thread. Lanes call back into OnBatchDone.
// The negotiation's state belongs to whoever has the turn. That is the scheduler's own thread,
// which gives it away only while it sleeps in poll() on a doorbell (an eventfd), the negotiation's
// connections and the ends of lane processes. A submitting thread that finds the turn free and
// nothing waiting takes it to announce its entry right away: this spares a change of threads where
// latency counts, and under load the scheduler's thread announces what has accumulated in one go.
// Neither ever touches tensor bytes or waits for a lane or a peer, and entries are completed only
// after the turn was given back, because completions may submit. Life: running → leaving (Shutdown
// asked for, the leader not yet told) → draining (planned batches are finishing) → stopped; or,
// from anywhere, failed and stopped.
#ifndef FASTHVD_RUNTIME_ENGINE_SCHEDULER_H_
#define FASTHVD_RUNTIME_ENGINE_SCHEDULER_H_

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
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

  // See Engine. Never blocks.
  void WithdrawStep(uint64_t step);

  // Leaves the job in order: entries that are not planned yet fail, planned ones finish. Blocks
  // until the thread has ended. May be called again.
  void Shutdown();

  // Why the job failed; ok while it has not.
  Status failure() const;

 private:
  enum class State { kRunning, kLeaving, kDraining, kStopped };

  Scheduler(int rank, int size, int max_batches, OwnedFd doorbell,
            std::unique_ptr<Negotiator> negotiator, std::unique_ptr<LaneGroup> lanes);

  using Completions = std::vector<std::pair<Request, Status>>;

  void Loop();
  bool TrySubmitAtOnce();
  void WaitForEvents(std::unique_lock<std::mutex>* turn);
  // Does all that can be done now; returns what is to be completed without the turn.
  Completions Advance();
  Status AdvanceOrFail();
  Status AdmitSubmissions();
  Status AdvanceShutdown();
  void Admit(Request request, std::vector<Announcement>* announcements);
  Status ApplyStep(const PlanStep& step);
  void ApplyError(const PlanStep& step, std::vector<Announcement>* announcements);
  void AnnounceDuplicate(const std::string& name, std::vector<Announcement>* announcements);
  Result<Request> TakePlanned(const PlannedEntry& entry);
  void RunBatch(std::vector<Request> requests);
  void OnBatchDone(const std::vector<Request>& requests, const Status& status);
  // Ends every entry that is not in a lane, and refuses further ones, with `reason`.
  void Close(const Status& reason);
  void Fail(const Status& reason);
  void Complete(Request request, const Status& status);
  void Ring();

  const int rank_;
  const int size_;
  const int max_batches_;
  const OwnedFd doorbell_;

  mutable std::mutex mutex_;
  std::vector<Request> submitted_;   // Guarded by mutex_.
  std::vector<uint64_t> withdrawn_;  // Steps, not told yet; guarded by mutex_.
  bool shutdown_requested_ = false;  // Guarded by mutex_.
  Status closed_;                    // Guarded by mutex_; not ok: nothing is accepted any more.
  Status failure_;                   // Guarded by mutex_.
  Status lane_failure_;              // Guarded by mutex_; reported by a lane, to be acted upon.

  // The right to use the members below, up to the next comment.
  std::mutex turn_;
  std::unique_ptr<Negotiator> negotiator_;
  // Announced, not answered; by name. Without `done` where it stands for a refused duplicate.
  std::unordered_map<std::string, Request> pending_;
  // Refused here, to be announced one by one when the name's earlier entry is answered.
  std::unordered_map<std::string, std::deque<Announcement>> duplicates_;
  IdCache ids_;
  State state_ = State::kRunning;
  std::unique_ptr<Deadline> drain_deadline_;
  Completions completions_;  // Due when the turn is given back.

  // Shared with the lanes.
  std::atomic<int> batches_in_flight_{0};
  std::atomic<bool> wants_completions_{false};  // Lanes ring when a batch is done.

  std::mutex shutdown_mutex_;  // Serialises Shutdown().
  std::unique_ptr<LaneGroup> lanes_;
  std::thread thread_;
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_ENGINE_SCHEDULER_H_

#include "runtime/engine/scheduler.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "runtime/base/worker_thread.h"
#include "runtime/negotiation/validator.h"

namespace fasthvd {
namespace {

// How long shutdown waits for batches in flight: a peer may have stopped in the middle of one.
constexpr std::chrono::seconds kDrainTime{10};

Status Describe(const EntryDescription& entry, const Status& reason) {
  return Status(reason.code(), std::string(NameOf(entry.kind)) + " of tensor '" + entry.name +
                                   "' failed: " + reason.message());
}

}  // namespace

Result<std::unique_ptr<Scheduler>> Scheduler::Start(int rank, int size, int max_batches,
                                                    std::unique_ptr<Negotiator> negotiator,
                                                    std::unique_ptr<LaneGroup> lanes) {
  OwnedFd doorbell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!doorbell.valid()) return SystemError("eventfd", errno);
  std::unique_ptr<Scheduler> scheduler(new Scheduler(rank, size, max_batches, std::move(doorbell),
                                                     std::move(negotiator), std::move(lanes)));
  Result<std::thread> thread = StartWorker("fasthvd-sched", [s = scheduler.get()] { s->Loop(); });
  if (!thread.ok()) return thread.status();
  scheduler->thread_ = std::move(thread).value();
  return scheduler;
}

Scheduler::Scheduler(int rank, int size, int max_batches, OwnedFd doorbell,
                     std::unique_ptr<Negotiator> negotiator, std::unique_ptr<LaneGroup> lanes)
    : rank_(rank),
      size_(size),
      max_batches_(max_batches),
      doorbell_(std::move(doorbell)),
      negotiator_(std::move(negotiator)),
      lanes_(std::move(lanes)) {}

Scheduler::~Scheduler() { Shutdown(); }

void Scheduler::Submit(Request request) {
  Status refused;
  bool was_empty = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    refused = closed_;
    if (refused.ok()) {
      was_empty = submitted_.empty();
      submitted_.push_back(std::move(request));
    }
  }
  if (!refused.ok()) {
    request.done(Describe(request.description, refused));
  } else if (was_empty && !TrySubmitAtOnce()) {
    Ring();
  }
}

// False if the scheduler's thread has to do it.
bool Scheduler::TrySubmitAtOnce() {
  std::unique_lock<std::mutex> turn(turn_, std::try_to_lock);
  if (!turn.owns_lock() || !pending_.empty() || batches_in_flight_.load() > 0) return false;
  Completions completions = Advance();
  // What only the thread can do: send the rest of a message, end.
  bool ring = state_ == State::kStopped;
  if (!ring) {
    for (const auto& connection : negotiator_->connections()) {
      ring = ring || (connection != nullptr && connection->wants_write());
    }
  }
  turn.unlock();
  for (auto& [request, status] : completions) request.done(status);
  if (ring) Ring();
  return true;
}

void Scheduler::WithdrawStep(uint64_t step) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    // Every entry that waits reports its step.
    if (!withdrawn_.empty() && withdrawn_.back() == step) return;
    withdrawn_.push_back(step);
  }
  Ring();
}

void Scheduler::Shutdown() {
  std::lock_guard<std::mutex> serialised(shutdown_mutex_);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    shutdown_requested_ = true;
  }
  Ring();
  if (thread_.joinable()) thread_.join();
  lanes_ = nullptr;
}

Status Scheduler::failure() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

void Scheduler::Ring() {
  uint64_t one = 1;
  ssize_t written = write(doorbell_.get(), &one, sizeof(one));
  (void)written;  // Fails only when the count is full, and then the doorbell is ringing.
}

void Scheduler::Loop() {
  std::unique_lock<std::mutex> turn(turn_);
  while (state_ != State::kStopped) {
    WaitForEvents(&turn);
    Completions completions = Advance();
    turn.unlock();
    for (auto& [request, status] : completions) request.done(status);
    turn.lock();
  }
  negotiator_ = nullptr;  // Closes the connections: peers need not wait for this rank.
}

void Scheduler::WaitForEvents(std::unique_lock<std::mutex>* turn) {
  const auto& connections = negotiator_->connections();
  std::vector<pollfd> waits = {{doorbell_.get(), POLLIN, 0}};
  for (const auto& connection : connections) {
    if (connection == nullptr) {
      waits.push_back({-1, 0, 0});
    } else {
      short events = connection->wants_write() ? POLLIN | POLLOUT : POLLIN;
      waits.push_back({connection->fd(), events, 0});
    }
  }
  for (const auto& process : lanes_->processes()) {
    waits.push_back({process->ended_fd(), POLLIN, 0});
  }
  int timeout = drain_deadline_ ? drain_deadline_->millis_left() : -1;
  turn->unlock();
  poll(waits.data(), waits.size(), timeout);  // An interruption is a pass without events.
  turn->lock();
  if (waits[0].revents != 0) {
    uint64_t count;
    ssize_t bytes = read(doorbell_.get(), &count, sizeof(count));
    (void)bytes;  // Only resets the doorbell.
  }
  for (size_t i = 0; i < connections.size(); ++i) {
    short events = waits[i + 1].revents;
    Status status;
    if (events & POLLOUT) status = negotiator_->OnWritable(i);
    if (status.ok() && (events & ~POLLOUT)) status = negotiator_->OnReadable(i);
    if (!status.ok()) return Fail(status);
  }
  for (size_t i = 0; i < lanes_->processes().size(); ++i) {
    if (waits[i + 1 + connections.size()].revents != 0) {
      return Fail(lanes_->processes()[i]->WhyEnded());
    }
  }
}

Scheduler::Completions Scheduler::Advance() {
  Status status = AdvanceOrFail();
  if (!status.ok()) Fail(status);
  return std::exchange(completions_, {});
}

Status Scheduler::AdvanceOrFail() {
  if (state_ == State::kStopped) return Status::Ok();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    FASTHVD_RETURN_IF_ERROR(lane_failure_);
  }
  FASTHVD_RETURN_IF_ERROR(AdmitSubmissions());
  while (true) {
    std::vector<PlanStep> steps;
    // Set before the count is read: a batch that ends in between rings.
    wants_completions_ = negotiator_->has_backlog() || state_ == State::kDraining;
    int free = std::max(0, max_batches_ - batches_in_flight_.load());
    FASTHVD_RETURN_IF_ERROR(negotiator_->TakeSteps(free, &steps));
    if (steps.empty()) break;
    for (const PlanStep& step : steps) FASTHVD_RETURN_IF_ERROR(ApplyStep(step));
  }
  return AdvanceShutdown();
}

Status Scheduler::AdmitSubmissions() {
  std::vector<Request> submitted;
  std::vector<uint64_t> withdrawn;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    submitted.swap(submitted_);
    withdrawn.swap(withdrawn_);
  }
  // First, so that no entry of a later step meets what the peers have of a withdrawn one.
  if (!withdrawn.empty()) FASTHVD_RETURN_IF_ERROR(negotiator_->Withdraw(std::move(withdrawn)));
  std::vector<Announcement> announcements;
  for (Request& request : submitted) Admit(std::move(request), &announcements);
  return announcements.empty() ? Status::Ok() : negotiator_->Announce(std::move(announcements));
}

void Scheduler::Admit(Request request, std::vector<Announcement>* announcements) {
  const std::string name = request.description.name;
  if (pending_.count(name) > 0) {
    duplicates_[name].push_back({kNoId, request.description, /*duplicate=*/true, request.step});
    Status error = DuplicateName(request.description, rank_);
    return Complete(std::move(request), error);
  }
  announcements->push_back(ids_.Announce(request.description));
  announcements->back().step = request.step;
  pending_.emplace(name, std::move(request));
}

Status Scheduler::ApplyStep(const PlanStep& step) {
  std::vector<Announcement> announcements;
  if (!step.error.ok()) {
    ApplyError(step, &announcements);
  } else {
    std::vector<Request> requests;
    for (const PlannedEntry& entry : step.entries) {
      Result<Request> request = TakePlanned(entry);
      if (!request.ok()) return request.status();
      AnnounceDuplicate(request->description.name, &announcements);
      requests.push_back(std::move(request).value());
    }
    RunBatch(std::move(requests));
  }
  return announcements.empty() ? Status::Ok() : negotiator_->Announce(std::move(announcements));
}

void Scheduler::ApplyError(const PlanStep& step, std::vector<Announcement>* announcements) {
  const auto& ranks = step.ranks;
  if (std::find(ranks.begin(), ranks.end(), static_cast<uint32_t>(rank_)) == ranks.end()) return;
  for (const PlannedEntry& entry : step.entries) {
    auto found = pending_.find(entry.name);
    if (found == pending_.end()) continue;  // This rank has closed.
    Request request = std::move(found->second);
    pending_.erase(found);
    Complete(std::move(request), step.error);
    AnnounceDuplicate(entry.name, announcements);
  }
}

// The name's earlier entry is answered: now the other ranks' second ones are to be refused as well.
void Scheduler::AnnounceDuplicate(const std::string& name,
                                  std::vector<Announcement>* announcements) {
  auto found = duplicates_.find(name);
  if (found == duplicates_.end()) return;
  Announcement duplicate = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) duplicates_.erase(found);
  Request placeholder;
  placeholder.description = duplicate.description;
  pending_.emplace(name, std::move(placeholder));
  announcements->push_back(std::move(duplicate));
}

Result<Request> Scheduler::TakePlanned(const PlannedEntry& entry) {
  const std::string* name = entry.name.empty() ? ids_.NameOf(entry.id) : &entry.name;
  auto found = name == nullptr ? pending_.end() : pending_.find(*name);
  if (found == pending_.end()) {
    return Internal("rank 0 planned an entry that rank " + std::to_string(rank_) +
                    " does not have (" + (name == nullptr ? std::to_string(entry.id) : *name) +
                    "); please report this");
  }
  Request request = std::move(found->second);
  pending_.erase(found);
  if (entry.id != kNoId && !entry.name.empty()) ids_.Bind(entry.id, request.description);
  return request;
}

void Scheduler::RunBatch(std::vector<Request> requests) {
  const EntryDescription& first = requests.front().description;
  ReduceSpec reduce;
  reduce.dtype = first.dtype;
  reduce.op = first.op;
  reduce.prescale = first.prescale;
  reduce.postscale = first.postscale;
  reduce.divisor = size_;
  std::vector<Segment> segments;
  for (const Request& request : requests) {
    for (size_t i = 0; i < request.tensors.size(); ++i) {
      const TensorBuffers& tensor = request.tensors[i];
      size_t bytes = ElementCount(request.description.shapes[i]) * SizeOf(first.dtype);
      if (bytes == 0) continue;
      segments.push_back(
          {static_cast<const char*>(tensor.input), static_cast<char*>(tensor.output), bytes});
    }
  }
  if (segments.empty()) {  // That all ranks are here is all there is to a barrier.
    for (Request& request : requests) Complete(std::move(request), Status::Ok());
    return;
  }
  ++batches_in_flight_;
  const CollectiveKind kind = first.kind;
  const int root = first.root;
  auto on_done = [this, requests = std::move(requests)](Batch*, const Status& status) {
    OnBatchDone(requests, status);
  };
  lanes_->Run(std::make_shared<Batch>(kind, reduce, root, std::move(segments), std::move(on_done)));
}

// On the thread of the lane that finished last. The lane is free before TensorFlow hears of the
// end, so that what TensorFlow submits next finds nothing in flight.
void Scheduler::OnBatchDone(const std::vector<Request>& requests, const Status& status) {
  batches_in_flight_.fetch_sub(1);
  bool ring = wants_completions_.load();
  if (!status.ok()) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (lane_failure_.ok()) lane_failure_ = status;
    ring = true;
  }
  if (ring) Ring();
  for (const Request& request : requests) {
    request.done(status.ok() ? status : Describe(request.description, status));
  }
}

Status Scheduler::AdvanceShutdown() {
  bool requested;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    requested = shutdown_requested_;
  }
  if (state_ == State::kRunning && requested) {
    state_ = State::kLeaving;
    drain_deadline_ = std::make_unique<Deadline>(Deadline::After(kDrainTime));
    FASTHVD_RETURN_IF_ERROR(negotiator_->Leave());
  }
  if (negotiator_->left() && state_ != State::kDraining) {
    state_ = State::kDraining;
    if (!drain_deadline_) {
      drain_deadline_ = std::make_unique<Deadline>(Deadline::After(kDrainTime));
    }
    Close(requested ? FailedPrecondition("shutdown() was called on this rank")
                    : PeerLost("rank 0 has shut down or exited. All ranks must run the same "
                               "number of steps."));
    wants_completions_ = true;
  }
  if (state_ == State::kDraining && batches_in_flight_.load() == 0) state_ = State::kStopped;
  if (state_ != State::kStopped && drain_deadline_ && drain_deadline_->expired()) {
    return PeerLost("a peer did not finish within " + std::to_string(kDrainTime.count()) +
                    " s of shutdown");
  }
  return Status::Ok();
}

void Scheduler::Close(const Status& reason) {
  std::vector<Request> refused;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = reason;
    refused.swap(submitted_);
  }
  for (auto& [name, request] : pending_) refused.push_back(std::move(request));
  pending_.clear();
  for (Request& request : refused) {
    Status status = Describe(request.description, reason);
    Complete(std::move(request), status);
  }
}

void Scheduler::Complete(Request request, const Status& status) {
  if (request.done) completions_.emplace_back(std::move(request), status);
}

void Scheduler::Fail(const Status& reason) {
  if (state_ == State::kStopped) return;
  state_ = State::kStopped;
  Status lost = PeerLost(reason.message());
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (failure_.ok()) failure_ = lost;
  }
  negotiator_->SendAbort(lost.message());
  lanes_->Abort(lost);
  Close(lost);
}

}  // namespace fasthvd

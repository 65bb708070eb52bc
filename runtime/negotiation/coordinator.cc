#include "runtime/negotiation/coordinator.h"

#include <algorithm>
#include <utility>

#include "runtime/fusion/planner.h"
#include "runtime/negotiation/validator.h"

namespace fasthvd {
namespace {

Status NotRun(const EntryDescription& entry, const Status& reason) {
  return Status(reason.code(), std::string(NameOf(entry.kind)) + " of tensor '" + entry.name +
                                   "' did not run, because its step failed: " + reason.message());
}

}  // namespace

Coordinator::Coordinator(int size, size_t fusion_bytes)
    : size_(size), fusion_bytes_(fusion_bytes), failed_steps_(size), left_(size, false) {}

Status Coordinator::OnReady(int rank, const std::vector<Announcement>& entries) {
  for (const Announcement& entry : entries) {
    Result<Record*> found = FindRecord(entry);
    if (!found.ok()) return found.status();
    Record* record = *found;
    if (record->arrived[rank]) {
      return Internal("rank " + std::to_string(rank) + " announced tensor '" +
                      record->description.name + "' twice");
    }
    if (const Status* reason = failed_steps_.Reason(rank, entry.step)) {
      Answer(*record, {static_cast<uint32_t>(rank)}, NotRun(record->description, *reason));
      if (record->arrived_count == 0) Reset(record);
      continue;
    }
    record->arrived[rank] = true;
    record->steps[rank] = entry.step;
    ++record->arrived_count;
    if (entry.id == kNoId && entry.description != record->description) {
      record->differing.emplace(rank, entry.description);
    }
    if (entry.duplicate) record->duplicate_ranks.push_back(rank);
    if (left_count_ > 0) {
      AnswerArrived(record, LeftError(*record));
    } else if (record->arrived_count == size_) {
      OnAllArrived(record);
    }
  }
  return Status::Ok();
}

Result<Coordinator::Record*> Coordinator::FindRecord(const Announcement& entry) {
  if (entry.id != kNoId) {
    if (entry.id >= by_id_.size()) {
      return Internal("an announcement has the unknown id " + std::to_string(entry.id));
    }
    return by_id_[entry.id];
  }
  std::unique_ptr<Record>& slot = records_[entry.description.name];
  if (slot == nullptr) {
    slot = std::make_unique<Record>();
    slot->description = entry.description;
    slot->arrived.assign(size_, false);
    slot->steps.assign(size_, 0);
  }
  return slot.get();
}

void Coordinator::OnAllArrived(Record* record) {
  Status agreement = AgreedDescription(record);
  if (agreement.ok()) agreement = CheckValid(record->description, size_);
  if (!agreement.ok()) {
    FailRecord(record, agreement);
    return;
  }
  failed_steps_.Link(record->steps);
  record->in_ready = true;
  ready_.push_back(&record->description);
}

// Leaves in record->description what all ranks have, or says how they differ.
Status Coordinator::AgreedDescription(Record* record) {
  if (!record->duplicate_ranks.empty()) {
    return DuplicateName(record->description, record->duplicate_ranks.front());
  }
  if (record->differing.empty()) return Status::Ok();
  std::vector<const EntryDescription*> by_rank(size_, &record->description);
  for (const auto& [rank, description] : record->differing) by_rank[rank] = &description;
  FASTHVD_RETURN_IF_ERROR(CheckAgreement(by_rank));
  // Everyone came with the same new description of a known name: it replaces the old one, and
  // the next plan says so by giving the name along with the id.
  EntryDescription agreed = std::move(record->differing.begin()->second);
  record->differing.clear();
  record->description = std::move(agreed);
  if (record->id != kNoId) record->announce_id = true;
  return Status::Ok();
}

void Coordinator::FailRecord(Record* record, const Status& error) {
  FailArrivedSteps(*record, error);
  AnswerArrived(record, error);
  FailWaitingEntries();
}

// Of failed steps.
void Coordinator::FailWaitingEntries() {
  // With the reasons, because failing one may push another's reason out of failed_steps_.
  std::vector<std::pair<Record*, Status>> waiting;
  do {  // One may bring in the step of yet another caller.
    waiting.clear();
    for (auto& [name, record] : records_) {
      const Status* reason = record->in_ready ? nullptr : FailedStep(*record);
      if (reason != nullptr) waiting.emplace_back(record.get(), *reason);
    }
    for (auto& [record, reason] : waiting) {
      FailArrivedSteps(*record, reason);
      AnswerArrived(record, NotRun(record->description, reason));
    }
  } while (!waiting.empty());
}

void Coordinator::FailArrivedSteps(const Record& record, const Status& reason) {
  for (int rank = 0; rank < size_; ++rank) {
    if (record.arrived[rank]) failed_steps_.Add(rank, record.steps[rank], reason);
  }
}

const Status* Coordinator::FailedStep(const Record& record) const {
  for (int rank = 0; rank < size_; ++rank) {
    if (!record.arrived[rank]) continue;
    if (const Status* reason = failed_steps_.Reason(rank, record.steps[rank])) return reason;
  }
  return nullptr;
}

void Coordinator::AnswerArrived(Record* record, const Status& error) {
  std::vector<uint32_t> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (record->arrived[rank]) ranks.push_back(rank);
  }
  Answer(*record, std::move(ranks), error);
  Reset(record);
}

void Coordinator::Answer(const Record& record, std::vector<uint32_t> ranks, const Status& error) {
  PlanStep step;
  step.error = error;
  step.entries.push_back({kNoId, record.description.name});
  step.ranks = std::move(ranks);
  errors_.push_back(std::move(step));
}

// Forgets the arrivals, and the record itself if no id keeps it.
void Coordinator::Reset(Record* record) {
  if (record->in_ready) {
    ready_.erase(std::remove(ready_.begin(), ready_.end(), &record->description), ready_.end());
    record->in_ready = false;
  }
  if (record->id == kNoId) {
    records_.erase(std::string(record->description.name));
    return;
  }
  record->arrived.assign(size_, false);
  record->arrived_count = 0;
  record->differing.clear();
  record->duplicate_ranks.clear();
}

void Coordinator::OnWithdraw(int rank, const std::vector<uint64_t>& steps) {
  const Status reason = PeerLost("rank " + std::to_string(rank) +
                                 " gave it up, because another op of its step failed or the step "
                                 "was cancelled. See that rank's output for the cause.");
  for (uint64_t step : steps) failed_steps_.Add(rank, step, reason);
  FailWaitingEntries();
}

void Coordinator::OnLeave(int rank) {
  if (left_[rank]) return;
  left_[rank] = true;
  ++left_count_;
  std::vector<Record*> waiting;
  for (auto& [name, record] : records_) {
    if (record->arrived_count > 0) waiting.push_back(record.get());
  }
  for (Record* record : waiting) AnswerArrived(record, LeftError(*record));
}

Status Coordinator::LeftError(const Record& record) const {
  std::string ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (!left_[rank]) continue;
    if (!ranks.empty()) ranks += ", ";
    ranks += std::to_string(rank);
  }
  return PeerLost(std::string(NameOf(record.description.kind)) + " of tensor '" +
                  record.description.name + "' cannot run: rank " + ranks +
                  " has shut down or exited. All ranks must run the same number of steps.");
}

PlanStep Coordinator::NextStep() {
  if (!errors_.empty()) {
    PlanStep step = std::move(errors_.front());
    errors_.pop_front();
    return step;
  }
  PlanStep step;
  for (const EntryDescription* entry : TakeBatch(&ready_, fusion_bytes_)) {
    Record* record = records_.at(entry->name).get();
    record->in_ready = false;
    step.entries.push_back(Plan(record));
    Reset(record);
  }
  return step;
}

PlannedEntry Coordinator::Plan(Record* record) {
  if (record->id == kNoId && by_id_.size() < kMaxIds) {
    record->id = static_cast<uint32_t>(by_id_.size());
    by_id_.push_back(record);
    record->announce_id = true;
  }
  PlannedEntry entry{record->id, ""};
  if (record->id == kNoId || record->announce_id) entry.name = record->description.name;
  record->announce_id = false;
  return entry;
}

}  // namespace fasthvd

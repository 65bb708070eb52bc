// The coordinator's book-keeping: who has which entry ready, and what runs next.
//
// Pure logic without threads, sockets or clocks; owned by rank 0's scheduler thread. Data flows
// OnReady → readiness of the entry on all ranks → ready queue → NextStep. An entry that fails takes
// along what its callers' steps (see failed_steps.h) have waiting or will still announce.
#ifndef FASTHVD_RUNTIME_NEGOTIATION_COORDINATOR_H_
#define FASTHVD_RUNTIME_NEGOTIATION_COORDINATOR_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/negotiation/failed_steps.h"
#include "runtime/negotiation/message.h"

namespace fasthvd {

class Coordinator {
 public:
  // `size` ranks; batches of at most `fusion_bytes` (an entry above it is a batch of its own).
  Coordinator(int size, size_t fusion_bytes);

  // `rank` has these entries ready. Not ok: the rank broke the protocol, and the job must fail.
  Status OnReady(int rank, const std::vector<Announcement>& entries);

  // These steps of `rank` have failed: what they have waiting or will still announce fails.
  void OnWithdraw(int rank, const std::vector<uint64_t>& steps);

  // `rank` hands in nothing more: entries that wait for it, now or later, become errors.
  void OnLeave(int rank);

  // Whether there is a step to take: an error at any time, or a batch.
  bool has_error() const { return !errors_.empty(); }
  bool has_batch() const { return !ready_.empty(); }
  // Requires has_error() or has_batch(). Errors come first.
  PlanStep NextStep();

  // Names known by an id are bounded by this; further ones are described anew each time.
  static constexpr size_t kMaxIds = 1 << 16;

 private:
  // All that is known about one name.
  struct Record {
    EntryDescription description;
    uint32_t id = kNoId;
    std::vector<bool> arrived;    // By rank, since the entry last ran.
    std::vector<uint64_t> steps;  // Of the arrived ranks' callers, by rank.
    int arrived_count = 0;
    std::map<int, EntryDescription> differing;  // Of arrived ranks that do not match.
    std::vector<int> duplicate_ranks;           // That failed this entry as a duplicate.
    bool in_ready = false;                      // Queued in ready_.
    bool announce_id = false;                   // The next plan binds name, description and id.
  };

  Result<Record*> FindRecord(const Announcement& entry);
  void OnAllArrived(Record* record);
  Status AgreedDescription(Record* record);
  void FailRecord(Record* record, const Status& error);
  void FailArrivedSteps(const Record& record, const Status& reason);
  void FailWaitingEntries();
  // Why a rank that has arrived will not run it, or nullptr.
  const Status* FailedStep(const Record& record) const;
  void AnswerArrived(Record* record, const Status& error);
  void Answer(const Record& record, std::vector<uint32_t> ranks, const Status& error);
  void Reset(Record* record);
  PlannedEntry Plan(Record* record);
  Status LeftError(const Record& record) const;

  const int size_;
  const size_t fusion_bytes_;
  std::unordered_map<std::string, std::unique_ptr<Record>> records_;
  std::vector<Record*> by_id_;
  std::deque<const EntryDescription*> ready_;  // Descriptions inside records.
  std::deque<PlanStep> errors_;
  FailedSteps failed_steps_;
  std::vector<bool> left_;
  int left_count_ = 0;
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_NEGOTIATION_COORDINATOR_H_

// Which steps of the ranks have failed.
//
// A step is one run of a function on one rank. When a collective of it fails, TensorFlow ends the
// function, at a place that differs from rank to rank: some of its other collectives are waiting,
// some are still to come, some will never come. None of them may wait for the other ranks or meet
// an entry of a later step, so all that are not planned yet fail with the step.
#ifndef FASTHVD_RUNTIME_NEGOTIATION_FAILED_STEPS_H_
#define FASTHVD_RUNTIME_NEGOTIATION_FAILED_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "runtime/base/status.h"

namespace fasthvd {

// Owned by the coordinator.
class FailedSteps {
 public:
  // Of each rank; a step that failed so long ago has ended.
  static constexpr size_t kKept = 256;

  explicit FailedSteps(int ranks) : by_rank_(ranks) {}

  // The first reason stays. Step 0 is no step.
  void Add(int rank, uint64_t step, const Status& reason) {
    if (step == 0 || Reason(rank, step) != nullptr) return;
    by_rank_[rank].emplace_back(step, reason);
    if (by_rank_[rank].size() > kKept) by_rank_[rank].pop_front();
  }

  // Why the step has failed, or nullptr if it has not. Valid until the next Add().
  const Status* Reason(int rank, uint64_t step) const {
    for (const auto& [failed, reason] : by_rank_[rank]) {
      if (failed == step) return &reason;
    }
    return nullptr;
  }

 private:
  std::vector<std::deque<std::pair<uint64_t, Status>>> by_rank_;
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_NEGOTIATION_FAILED_STEPS_H_

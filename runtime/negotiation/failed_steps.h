// Which steps of the ranks have failed.
//
// A step is one run of a function on one rank. When an op of it fails, TensorFlow ends the
// function, at a place that differs from rank to rank: some of its collectives are waiting, some
// are still to come, some will never come. None of them may wait for the other ranks or meet an
// entry of a later step, so all that are not planned yet fail with the step, and so do those of the
// peers' steps that it had an entry in common with.
#ifndef FASTHVD_RUNTIME_NEGOTIATION_FAILED_STEPS_H_
#define FASTHVD_RUNTIME_NEGOTIATION_FAILED_STEPS_H_

#include <algorithm>
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

  // Steps with links older than this many others have ended.
  static constexpr size_t kLinksKept = 64;

  // These steps, by rank, have an entry in common: they fail together.
  void Link(const std::vector<uint64_t>& steps) {
    if (std::find(links_.rbegin(), links_.rend(), steps) != links_.rend()) return;
    links_.push_back(steps);
    if (links_.size() > kLinksKept) links_.pop_front();
  }

  // The first reason stays. Step 0 is no step.
  void Add(int rank, uint64_t step, const Status& reason) {
    if (step == 0 || Reason(rank, step) != nullptr) return;
    by_rank_[rank].emplace_back(step, reason);
    if (by_rank_[rank].size() > kKept) by_rank_[rank].pop_front();
    for (const std::vector<uint64_t>& link : links_) {
      if (link[rank] != step) continue;
      for (size_t peer = 0; peer < link.size(); ++peer) Add(peer, link[peer], reason);
    }
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
  std::deque<std::vector<uint64_t>> links_;
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_NEGOTIATION_FAILED_STEPS_H_

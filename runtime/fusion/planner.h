// Decides which ready entries run together. A pure function: no threads, no clock.
#ifndef FASTHVD_RUNTIME_FUSION_PLANNER_H_
#define FASTHVD_RUNTIME_FUSION_PLANNER_H_

#include <cstddef>
#include <deque>
#include <vector>

#include "runtime/base/description.h"

namespace fasthvd {

// True if entries described so can share a batch: same kind, dtype, op, scales, root and set.
bool Fusible(const EntryDescription& a, const EntryDescription& b);

// Takes the next batch out of `ready` (in the order of readiness, not empty): its first entry and
// the later ones that are fusible with it, while their bytes stay within `fusion_bytes` together.
// Entries left behind keep their order. Returns the batch's entries.
std::vector<const EntryDescription*> TakeBatch(std::deque<const EntryDescription*>* ready,
                                               size_t fusion_bytes);

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_FUSION_PLANNER_H_

// Finds out whether the ranks' descriptions of one entry fit together, and says so if not.
#ifndef FASTHVD_RUNTIME_NEGOTIATION_VALIDATOR_H_
#define FASTHVD_RUNTIME_NEGOTIATION_VALIDATOR_H_

#include <vector>

#include "runtime/base/description.h"
#include "runtime/base/status.h"

namespace fasthvd {

// `by_rank[r]` is what rank r handed in under one and the same name. Ok if all are equal;
// otherwise InvalidArgument naming the entry, every field that differs, the ranks and values.
Status CheckAgreement(const std::vector<const EntryDescription*>& by_rank);

// What no single rank can check without leaving the others waiting: that a broadcast's root is one
// of the `size` ranks. InvalidArgument otherwise.
Status CheckValid(const EntryDescription& entry, int size);

// The error of an entry whose name `rank` handed in again while the first one was waiting.
Status DuplicateName(const EntryDescription& entry, int rank);

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_NEGOTIATION_VALIDATOR_H_

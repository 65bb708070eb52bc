#include "runtime/fusion/planner.h"

#include <tuple>

namespace fasthvd {
namespace {

auto FusionKey(const EntryDescription& d) {
  return std::tie(d.kind, d.dtype, d.op, d.prescale, d.postscale, d.root, d.process_set);
}

}  // namespace

bool Fusible(const EntryDescription& a, const EntryDescription& b) {
  return FusionKey(a) == FusionKey(b);
}

std::vector<const EntryDescription*> TakeBatch(std::deque<const EntryDescription*>* ready,
                                               size_t fusion_bytes) {
  std::vector<const EntryDescription*> batch = {ready->front()};
  ready->pop_front();
  const EntryDescription& first = *batch.front();
  uint64_t bytes = first.bytes();
  std::deque<const EntryDescription*> left;
  for (const EntryDescription* entry : *ready) {
    uint64_t entry_bytes = entry->bytes();
    if (bytes + entry_bytes <= fusion_bytes && Fusible(first, *entry)) {
      bytes += entry_bytes;
      batch.push_back(entry);
    } else {
      left.push_back(entry);
    }
  }
  ready->swap(left);
  return batch;
}

}  // namespace fasthvd

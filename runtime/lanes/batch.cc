#include "runtime/lanes/batch.h"

#include <algorithm>
#include <utility>

namespace fasthvd {
namespace {

// Stripes below this cost more in wake-ups than they gain.
constexpr size_t kMinStripeBytes = 512 << 10;
// Stripe bounds are multiples of a cache line, hence of every element size.
constexpr size_t kStripeAlignment = 64;

}  // namespace

Batch::Batch(CollectiveKind kind, const ReduceSpec& reduce, int root, std::vector<Segment> segments,
             OnDone on_done)
    : kind_(kind),
      reduce_(reduce),
      root_(root),
      segments_(std::move(segments)),
      on_done_(std::move(on_done)) {
  offsets_.reserve(segments_.size());
  for (const Segment& segment : segments_) {
    offsets_.push_back(bytes_);
    bytes_ += segment.bytes;
  }
}

size_t Batch::FindSegment(size_t offset) const {
  auto after = std::upper_bound(offsets_.begin(), offsets_.end(), offset);
  return after == offsets_.begin() ? 0 : after - offsets_.begin() - 1;
}

void Batch::StripeDone(const Status& status) {
  if (!status.ok()) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (status_.ok()) status_ = status;
  }
  if (stripes_left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  Status result;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    result = status_;
  }
  on_done_(this, result);
}

std::vector<std::pair<int, Stripe>> CutStripes(std::shared_ptr<Batch> batch, uint64_t sequence,
                                               int lanes) {
  const size_t bytes = batch->bytes();
  size_t count = std::clamp<size_t>(bytes / kMinStripeBytes, 1, lanes);
  size_t stripe_bytes = (bytes + count - 1) / count;
  stripe_bytes = (stripe_bytes + kStripeAlignment - 1) / kStripeAlignment * kStripeAlignment;
  std::vector<std::pair<int, Stripe>> stripes;
  for (size_t i = 0; i < count; ++i) {
    size_t begin = std::min(bytes, i * stripe_bytes);
    size_t end = std::min(bytes, begin + stripe_bytes);
    stripes.emplace_back(static_cast<int>((sequence + i) % lanes), Stripe{batch, begin, end});
  }
  batch->SetStripes(static_cast<int>(count));
  return stripes;
}

}  // namespace fasthvd

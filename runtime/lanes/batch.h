// A batch: fused entries seen as one contiguous buffer, and how it is cut into stripes.
#ifndef FASTHVD_RUNTIME_LANES_BATCH_H_
#define FASTHVD_RUNTIME_LANES_BATCH_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/types.h"
#include "runtime/collectives/reduce.h"

namespace fasthvd {

// One tensor of a batch. `input` and `output` may be the same memory.
struct Segment {
  const char* input;
  char* output;
  size_t bytes;
};

// Shared by the lanes that run its stripes. All members but the completion state are constant
// after construction; the segments' memory stays valid until `on_done` was called.
class Batch {
 public:
  // Calls `on_done` once, on the thread of the lane that finishes last (the caller's thread for an
  // empty batch), with the first error of any stripe.
  using OnDone = std::function<void(Batch*, const Status&)>;

  // `root` is the rank that a broadcast starts from.
  Batch(CollectiveKind kind, const ReduceSpec& reduce, int root, std::vector<Segment> segments,
        OnDone on_done);

  CollectiveKind kind() const { return kind_; }
  const ReduceSpec& reduce() const { return reduce_; }
  int root() const { return root_; }
  size_t bytes() const { return bytes_; }

  // Calls visit(input, output, bytes, offset) for each piece of a tensor in [begin, end) of the
  // virtual buffer, in order; `offset` is the piece's place relative to `begin`.
  template <typename Visitor>
  void ForEachPiece(size_t begin, size_t end, Visitor visit) const {
    for (size_t i = FindSegment(begin); i < segments_.size() && offsets_[i] < end; ++i) {
      size_t from = begin > offsets_[i] ? begin - offsets_[i] : 0;
      size_t to = std::min(end - offsets_[i], segments_[i].bytes);
      if (from < to) {
        visit(segments_[i].input + from, segments_[i].output + from, to - from,
              offsets_[i] + from - begin);
      }
    }
  }

  // The lanes: before the first stripe is handed out, how many there are; then each stripe's end.
  void SetStripes(int count) { stripes_left_ = count; }
  void StripeDone(const Status& status);

 private:
  size_t FindSegment(size_t offset) const;

  const CollectiveKind kind_;
  const ReduceSpec reduce_;
  const int root_;
  const std::vector<Segment> segments_;
  std::vector<size_t> offsets_;  // Of each segment in the virtual buffer.
  size_t bytes_ = 0;
  const OnDone on_done_;
  std::atomic<int> stripes_left_{1};
  std::mutex mutex_;
  Status status_;  // Guarded by mutex_.
};

// A lane's part of a batch: bytes [begin, end) of its virtual buffer.
struct Stripe {
  std::shared_ptr<Batch> batch;
  size_t begin = 0;
  size_t end = 0;
};

// Cuts a batch for `lanes` lanes: small batches go whole to the lane that `sequence`, the batch's
// number in the plan, selects; large ones in equal stripes to all. Returns (lane, stripe) pairs.
// Every rank must get the same answer for the same plan, so it depends on nothing else.
std::vector<std::pair<int, Stripe>> CutStripes(std::shared_ptr<Batch> batch, uint64_t sequence,
                                               int lanes);

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_LANES_BATCH_H_

#include "runtime/lanes/arena_executor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/lanes/stream_copy.h"

namespace fasthvd {
namespace {

// Outputs of batches from this size on are out of the caches anyway before they are used.
constexpr size_t kStreamBytes = 4 << 20;

}  // namespace

ArenaExecutor::ArenaExecutor(Arena* arena, int lane, int rank, int spin_microseconds, LaneHost host)
    : arena_(arena),
      host_(host),
      port_(arena, lane, rank, spin_microseconds),
      orders_(arena, lane, rank),
      window_(port_.slots()) {}

void ArenaExecutor::WakeForAbort() { arena_->WakeAll(); }

void ArenaExecutor::Run(StripeQueue* queue) {
  while (true) {
    if (idle()) {
      std::optional<Stripe> next = queue->Pop();
      if (!next) return;
      stripe_ = std::move(*next);
    }
    RunOneStageOrWait(queue);
  }
}

// Later stages first: they free slots and finish tensors.
void ArenaExecutor::RunOneStageOrWait(StripeQueue* queue) {
  // Read before the checks, so that what happens after them is not slept through.
  const uint32_t epoch = port_.epoch();
  if (abort_.is_set()) {
    FailAll(queue);
    return;
  }
  if (TryCopyOut() || TryReduce() || TryCopyIn(queue)) return;
  port_.WaitForEpochAfter(epoch);
}

bool ArenaExecutor::TryCopyIn(StripeQueue* queue) {
  if (next_in_ - next_out_ == port_.slots()) return false;
  if (stripe_.batch == nullptr) {
    std::optional<Stripe> next = queue->TryPop();
    if (!next) return false;
    stripe_ = std::move(*next);
  }
  const uint64_t number = next_in_;
  if (!port_.IsFree(number)) return false;

  Chunk& chunk = window(number);
  chunk.batch = stripe_.batch;
  chunk.begin = stripe_.begin;
  chunk.bytes = std::min<size_t>(stripe_.end - stripe_.begin, arena_->shape().chunk_bytes);
  chunk.whole = chunk.batch->kind() == CollectiveKind::kBroadcast ||
                chunk.bytes <= arena_->shape().small_bytes;
  stripe_.begin += chunk.bytes;
  chunk.ends_stripe = stripe_.begin == stripe_.end;
  if (chunk.ends_stripe) stripe_ = Stripe();
  ++next_in_;

  CopyIn(chunk, number);
  if (host_ == LaneHost::kProcess && !chunk.whole) {
    orders_.Post({number, chunk.bytes, chunk.batch->reduce()});
  }
  port_.ArriveCopiedIn(number);
  return true;
}

bool ArenaExecutor::TryReduce() {
  if (next_reduce_ == next_in_) return false;
  const uint64_t number = next_reduce_;
  const Chunk& chunk = window(number);
  if (chunk.whole) {
    port_.SkipReduced(number);
  } else if (host_ == LaneHost::kThread) {
    auto own_pieces = [&chunk](size_t begin, size_t end, auto visit) {
      chunk.batch->ForEachPiece(chunk.begin + begin, chunk.begin + end,
                                [&](const char* input, char*, size_t bytes, size_t offset) {
                                  visit(input, bytes, offset);
                                });
    };
    if (!port_.TryReduceSlice(chunk.batch->reduce(), number, chunk.bytes, own_pieces)) return false;
  } else if (!port_.AllCopiedIn(number)) {
    // The process waits for it too, and copy out for the process. Seen here as well, it orders the
    // ranks' bytes also for ThreadSanitizer, which does not see through another process.
    return false;
  }
  ++next_reduce_;
  return true;
}

bool ArenaExecutor::TryCopyOut() {
  if (next_out_ == next_reduce_) return false;
  const uint64_t number = next_out_;
  Chunk& chunk = window(number);
  if (chunk.whole) {
    if (!port_.AllCopiedIn(number)) return false;
    ReduceWhole(chunk, number);
  } else {
    if (!port_.AllReduced(number)) return false;
    CopyOutSlices(chunk, number);
  }
  ++next_out_;
  port_.ArriveCopiedOut(number);
  std::shared_ptr<Batch> batch = std::move(chunk.batch);
  if (chunk.ends_stripe) batch->StripeDone(Status::Ok());
  return true;
}

// This copy is also the fusion: tensors come together only here. A rank's own slice stays where it
// is if this thread reduces it: it is read from the tensors then.
void ArenaExecutor::CopyIn(const Chunk& chunk, uint64_t number) {
  const int rank = port_.rank();
  char* target = port_.chunk(number, rank);
  auto copy = [&](size_t begin, size_t end) {
    chunk.batch->ForEachPiece(chunk.begin + begin, chunk.begin + end,
                              [&](const char* input, char*, size_t bytes, size_t offset) {
                                std::memcpy(target + begin + offset, input, bytes);
                              });
  };
  if (chunk.batch->kind() == CollectiveKind::kBroadcast) {
    if (chunk.batch->root() == rank) copy(0, chunk.bytes);
  } else if (chunk.whole || host_ == LaneHost::kProcess) {
    copy(0, chunk.bytes);
  } else {
    const ByteRange own = port_.SliceOf(chunk.bytes, rank);
    copy(0, own.begin);
    copy(own.end, chunk.bytes);
  }
}

void ArenaExecutor::ReduceWhole(const Chunk& chunk, uint64_t number) {
  if (chunk.batch->kind() == CollectiveKind::kAllreduce) {
    chunk.batch->ForEachPiece(chunk.begin, chunk.begin + chunk.bytes,
                              [&](const char* input, char* output, size_t bytes, size_t offset) {
                                port_.ReduceRange(chunk.batch->reduce(), number, offset, bytes,
                                                  input, output);
                              });
    return;
  }
  const char* source = port_.chunk(number, chunk.batch->root());
  const bool is_root = chunk.batch->root() == port_.rank();
  chunk.batch->ForEachPiece(chunk.begin, chunk.begin + chunk.bytes,
                            [&](const char* input, char* output, size_t bytes, size_t offset) {
                              if (is_root && input == output) return;
                              std::memcpy(output, source + offset, bytes);
                            });
}

void ArenaExecutor::CopyOutSlices(const Chunk& chunk, uint64_t number) {
  const bool past_caches = chunk.batch->bytes() >= kStreamBytes;
  for (int owner = 0; owner < port_.ranks(); ++owner) {
    const auto [begin, end] = port_.SliceOf(chunk.bytes, owner);
    const char* source = port_.chunk(number, owner) + begin;
    chunk.batch->ForEachPiece(chunk.begin + begin, chunk.begin + end,
                              [&](const char*, char* output, size_t bytes, size_t offset) {
                                if (past_caches) {
                                  StreamCopy(output, source + offset, bytes);
                                } else {
                                  std::memcpy(output, source + offset, bytes);
                                }
                              });
  }
}

// Ends everything in flight with the reason; the batches' memory is not touched any more.
void ArenaExecutor::FailAll(StripeQueue* queue) {
  const Status reason = abort_.reason();
  for (; next_out_ != next_in_; ++next_out_) {
    Chunk& chunk = window(next_out_);
    std::shared_ptr<Batch> batch = std::move(chunk.batch);
    if (chunk.ends_stripe) batch->StripeDone(reason);
  }
  next_reduce_ = next_in_;
  if (stripe_.batch != nullptr) std::exchange(stripe_, Stripe()).batch->StripeDone(reason);
  while (std::optional<Stripe> next = queue->TryPop()) next->batch->StripeDone(reason);
}

}  // namespace fasthvd

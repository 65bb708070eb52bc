#include "runtime/lanes/arena_executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "runtime/base/futex.h"
#include "runtime/lanes/stream_copy.h"

namespace fasthvd {
namespace {

// Outputs of batches from this size on are out of the caches anyway before they are used.
constexpr size_t kStreamBytes = 4 << 20;

}  // namespace

ArenaExecutor::ArenaExecutor(Arena* arena, int lane, int rank, int spin_microseconds)
    : arena_(arena),
      lane_(lane),
      rank_(rank),
      ranks_(arena->shape().ranks),
      slots_(arena->shape().slots),
      spin_microseconds_(spin_microseconds),
      words_(arena->lane(lane)),
      window_(slots_),
      sources_(ranks_) {}

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
  uint32_t epoch = words_->epoch.value.load();
  if (abort_.is_set()) {
    FailAll(queue);
    return;
  }
  if (TryCopyOut() || TryReduce() || TryCopyIn(queue)) return;
  WaitForEpochAfter(epoch);
}

bool ArenaExecutor::TryCopyIn(StripeQueue* queue) {
  if (next_in_ - next_out_ == slots_) return false;
  if (stripe_.batch == nullptr) {
    std::optional<Stripe> next = queue->TryPop();
    if (!next) return false;
    stripe_ = std::move(*next);
  }
  const uint64_t number = next_in_;
  if (!Reached(slot(number)->copied_out, AllBefore(number))) return false;

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
  Arrive(&slot(number)->copied_in, AllOf(number));
  return true;
}

bool ArenaExecutor::TryReduce() {
  if (next_reduce_ == next_in_) return false;
  const uint64_t number = next_reduce_;
  const Chunk& chunk = window(number);
  if (chunk.whole) {
    // Nobody waits for this count; it grows so that it fits the slot's next use.
    slot(number)->reduced.value.fetch_add(1, std::memory_order_relaxed);
    ++next_reduce_;
    return true;
  }
  if (!Reached(slot(number)->copied_in, AllOf(number))) return false;
  ReduceSlice(chunk, number);
  ++next_reduce_;
  Arrive(&slot(number)->reduced, AllOf(number));
  return true;
}

bool ArenaExecutor::TryCopyOut() {
  if (next_out_ == next_reduce_) return false;
  const uint64_t number = next_out_;
  Chunk& chunk = window(number);
  if (chunk.whole) {
    if (!Reached(slot(number)->copied_in, AllOf(number))) return false;
    ReduceWhole(chunk, number);
  } else {
    if (!Reached(slot(number)->reduced, AllOf(number))) return false;
    CopyOutSlices(chunk, number);
  }
  ++next_out_;
  Arrive(&slot(number)->copied_out, AllOf(number));
  std::shared_ptr<Batch> batch = std::move(chunk.batch);
  if (chunk.ends_stripe) batch->StripeDone(Status::Ok());
  return true;
}

size_t ArenaExecutor::SliceBytes(size_t bytes) const {
  size_t slice = (bytes + ranks_ - 1) / ranks_;
  return (slice + 63) / 64 * 64;
}

// This copy is also the fusion: tensors come together only here. A rank's own slice stays where it
// is: ReduceSlice reads it from the tensors.
void ArenaExecutor::CopyIn(const Chunk& chunk, uint64_t number) {
  char* target = this->chunk(number, rank_);
  auto copy = [&](size_t begin, size_t end) {
    chunk.batch->ForEachPiece(chunk.begin + begin, chunk.begin + end,
                              [&](const char* input, char*, size_t bytes, size_t offset) {
                                std::memcpy(target + begin + offset, input, bytes);
                              });
  };
  if (chunk.batch->kind() == CollectiveKind::kBroadcast) {
    if (chunk.batch->root() == static_cast<int>(rank_)) copy(0, chunk.bytes);
  } else if (chunk.whole) {
    copy(0, chunk.bytes);
  } else {
    const size_t slice = SliceBytes(chunk.bytes);
    const size_t own_begin = std::min(chunk.bytes, rank_ * slice);
    const size_t own_end = std::min(chunk.bytes, own_begin + slice);
    copy(0, own_begin);
    copy(own_end, chunk.bytes);
  }
}

// Reduces bytes [begin, end) of the chunk over all ranks, in rank order, piece by piece: into the
// outputs, or into this rank's arena chunk. Own input is read from the tensors.
void ArenaExecutor::ReducePieces(const Chunk& chunk, uint64_t number, size_t begin, size_t end,
                                 bool to_output) {
  const size_t element = SizeOf(chunk.batch->reduce().dtype);
  chunk.batch->ForEachPiece(chunk.begin + begin, chunk.begin + end,
                            [&](const char* input, char* output, size_t bytes, size_t offset) {
                              const size_t place = begin + offset;
                              for (uint32_t r = 0; r < ranks_; ++r)
                                sources_[r] = this->chunk(number, r) + place;
                              sources_[rank_] = input;
                              void* destination =
                                  to_output ? output : this->chunk(number, rank_) + place;
                              Reduce(chunk.batch->reduce(), sources_.data(),
                                     static_cast<int>(ranks_), destination, bytes / element);
                            });
}

void ArenaExecutor::ReduceSlice(const Chunk& chunk, uint64_t number) {
  const size_t slice = SliceBytes(chunk.bytes);
  const size_t begin = std::min(chunk.bytes, rank_ * slice);
  ReducePieces(chunk, number, begin, std::min(chunk.bytes, begin + slice), /*to_output=*/false);
}

void ArenaExecutor::ReduceWhole(const Chunk& chunk, uint64_t number) {
  if (chunk.batch->kind() == CollectiveKind::kAllreduce) {
    ReducePieces(chunk, number, 0, chunk.bytes, /*to_output=*/true);
    return;
  }
  const char* source = this->chunk(number, chunk.batch->root());
  const bool is_root = chunk.batch->root() == static_cast<int>(rank_);
  chunk.batch->ForEachPiece(chunk.begin, chunk.begin + chunk.bytes,
                            [&](const char* input, char* output, size_t bytes, size_t offset) {
                              if (is_root && input == output) return;
                              std::memcpy(output, source + offset, bytes);
                            });
}

void ArenaExecutor::CopyOutSlices(const Chunk& chunk, uint64_t number) {
  const size_t slice = SliceBytes(chunk.bytes);
  const bool past_caches = chunk.batch->bytes() >= kStreamBytes;
  for (uint32_t owner = 0; owner < ranks_; ++owner) {
    const size_t begin = std::min(chunk.bytes, owner * slice);
    const size_t end = std::min(chunk.bytes, begin + slice);
    const char* source = this->chunk(number, owner) + begin;
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

// Wrapping difference: counters may pass 2^32.
bool ArenaExecutor::Reached(const ArenaCounter& counter, uint32_t target) const {
  return static_cast<int32_t>(counter.value.load(std::memory_order_acquire) - target) >= 0;
}

void ArenaExecutor::Arrive(ArenaCounter* counter, uint32_t target) {
  if (counter->value.fetch_add(1, std::memory_order_acq_rel) + 1 != target) return;
  words_->epoch.value.fetch_add(1);
  if (words_->sleepers.value.load() > 0) FutexWakeAll(&words_->epoch.value);
}

void ArenaExecutor::WaitForEpochAfter(uint32_t epoch) {
  if (spin_microseconds_ > 0) {
    auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(spin_microseconds_);
    do {
      for (int i = 0; i < 32; ++i) {
        if (words_->epoch.value.load(std::memory_order_acquire) != epoch) return;
        CpuRelax();
      }
    } while (std::chrono::steady_clock::now() < end);
  }
  words_->sleepers.value.fetch_add(1);
  FutexWait(&words_->epoch.value, epoch);
  words_->sleepers.value.fetch_sub(1);
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

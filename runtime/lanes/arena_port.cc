#include "runtime/lanes/arena_port.h"

#include <algorithm>

#include "runtime/base/futex.h"
#include "runtime/collectives/reduce.h"

namespace fasthvd {

ArenaPort::ArenaPort(Arena* arena, int lane, int rank, int spin_microseconds)
    : arena_(arena),
      lane_(lane),
      rank_(rank),
      ranks_(arena->shape().ranks),
      slots_(arena->shape().slots),
      spin_microseconds_(spin_microseconds),
      words_(arena->lane(lane)),
      sources_(ranks_) {}

ByteRange ArenaPort::SliceOf(size_t bytes, int rank) const {
  size_t slice = (bytes + ranks_ - 1) / ranks_;
  slice = (slice + 63) / 64 * 64;
  const size_t begin = std::min(bytes, rank * slice);
  return {begin, std::min(bytes, begin + slice)};
}

void ArenaPort::ReduceRange(const ReduceSpec& reduce, uint64_t number, size_t begin, size_t bytes,
                            const char* own_input, char* destination) {
  for (int r = 0; r < ranks(); ++r) sources_[r] = chunk(number, r) + begin;
  sources_[rank_] = own_input;
  Reduce(reduce, sources_.data(), ranks(), destination, bytes / SizeOf(reduce.dtype));
}

// Wrapping difference: counters may pass 2^32.
bool ArenaPort::Reached(const ArenaCounter& counter, uint32_t target) const {
  return static_cast<int32_t>(counter.value.load(std::memory_order_acquire) - target) >= 0;
}

void ArenaPort::Arrive(ArenaCounter* counter, uint32_t target) {
  if (counter->value.fetch_add(1, std::memory_order_acq_rel) + 1 != target) return;
  words_->epoch.value.fetch_add(1);
  if (words_->sleepers.value.load() > 0) FutexWakeAll(&words_->epoch.value);
}

void ArenaPort::WaitForEpochAfter(uint32_t epoch) {
  if (SpinWhile(words_->epoch.value, epoch, spin_microseconds_)) return;
  words_->sleepers.value.fetch_add(1);
  FutexWait(&words_->epoch.value, epoch);
  words_->sleepers.value.fetch_sub(1);
}

}  // namespace fasthvd

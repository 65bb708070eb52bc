// One rank's end of one lane of the arena: the steps of the protocol in arena.h, and the
// arithmetic.
//
// The training process's lane thread and the lane process both use it, on the same words, so that
// the reduce stage is the same code whoever does it. Each of them has a port of its own, which one
// thread uses.
#ifndef FASTHVD_RUNTIME_LANES_ARENA_PORT_H_
#define FASTHVD_RUNTIME_LANES_ARENA_PORT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/collectives/reduce_spec.h"
#include "runtime/lanes/arena.h"

namespace fasthvd {

struct ByteRange {
  size_t begin;
  size_t end;
};

class ArenaPort {
 public:
  // `rank`: among the arena's. `spin_microseconds`: how long to poll before sleeping. `arena`
  // outlives the port.
  ArenaPort(Arena* arena, int lane, int rank, int spin_microseconds);

  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(ranks_); }
  uint32_t slots() const { return slots_; }
  char* chunk(uint64_t number, int rank) const {
    return arena_->chunk(lane_, number % slots_, rank);
  }
  // The part of a chunk of `bytes` bytes that `rank` reduces.
  ByteRange SliceOf(size_t bytes, int rank) const;

  // Whether the slot of chunk `number` is free for it, all inputs are in, all slices are reduced.
  bool IsFree(uint64_t number) const {
    return Reached(slot(number)->copied_out, AllBefore(number));
  }
  bool AllCopiedIn(uint64_t number) const {
    return Reached(slot(number)->copied_in, AllOf(number));
  }
  bool AllReduced(uint64_t number) const { return Reached(slot(number)->reduced, AllOf(number)); }

  void ArriveCopiedIn(uint64_t number) { Arrive(&slot(number)->copied_in, AllOf(number)); }
  void ArriveCopiedOut(uint64_t number) { Arrive(&slot(number)->copied_out, AllOf(number)); }
  // For a chunk without the reduce stage: nobody waits for its count, which must only grow so that
  // it fits the slot's next use.
  void SkipReduced(uint64_t number) {
    slot(number)->reduced.value.fetch_add(1, std::memory_order_relaxed);
  }

  // The reduce stage: reduces this rank's slice of the chunk into this rank's chunk and arrives at
  // `reduced`. False, with nothing done, if not all inputs are in yet. own_pieces(begin, end,
  // visit) calls visit(input, bytes, offset) for each piece of this rank's input in that range of
  // the chunk.
  template <typename OwnPieces>
  bool TryReduceSlice(const ReduceSpec& reduce, uint64_t number, size_t bytes,
                      OwnPieces own_pieces) {
    if (!AllCopiedIn(number)) return false;
    const ByteRange slice = SliceOf(bytes, rank_);
    char* target = chunk(number, rank_) + slice.begin;
    own_pieces(slice.begin, slice.end, [&](const char* input, size_t piece_bytes, size_t offset) {
      ReduceRange(reduce, number, slice.begin + offset, piece_bytes, input, target + offset);
    });
    Arrive(&slot(number)->reduced, AllOf(number));
    return true;
  }

  // Reduces the `bytes` bytes at `begin` of the chunk over all ranks, in rank order; this rank's
  // input is at `own_input`.
  void ReduceRange(const ReduceSpec& reduce, uint64_t number, size_t begin, size_t bytes,
                   const char* own_input, char* destination);

  // Read the epoch before the checks: what happens after them is not slept through then.
  uint32_t epoch() const { return words_->epoch.value.load(); }
  void WaitForEpochAfter(uint32_t epoch);

 private:
  ArenaSlot* slot(uint64_t number) const { return arena_->slot(lane_, number % slots_); }
  // Counter values: all ranks' arrivals of `number`'s use of its slot, or of the uses before it.
  // Cut to the counters' 32 bits, which wrap around.
  uint32_t AllOf(uint64_t number) const {
    return static_cast<uint32_t>(ranks_ * (number / slots_ + 1));
  }
  uint32_t AllBefore(uint64_t number) const {
    return static_cast<uint32_t>(ranks_ * (number / slots_));
  }
  bool Reached(const ArenaCounter& counter, uint32_t target) const;
  void Arrive(ArenaCounter* counter, uint32_t target);

  Arena* const arena_;
  const int lane_;
  const int rank_;
  const uint32_t ranks_;
  const uint32_t slots_;
  const int spin_microseconds_;
  ArenaLane* const words_;
  std::vector<const void*> sources_;  // Scratch of ReduceRange.
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_LANES_ARENA_PORT_H_

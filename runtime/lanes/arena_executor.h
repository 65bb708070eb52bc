// Collectives among the ranks of one host, chunk by chunk through the shared arena.
//
// The lane's stripes form one stream of chunks, across batches. Each chunk passes three stages on
// every rank, in chunk order within a stage: copy in, reduce this rank's slice, copy out. The lane
// does whatever stage is ready, so a rank that runs ahead is held back only by the slots. A small
// chunk skips the middle stage: every rank reduces all of it from all ranks' inputs.
//
// The scheme (chunked copy-in, slice-wise reduction, copy-out, pipelined) is that of the shared
// memory collectives of MPI libraries; see R. Graham, G. Shipman: MPI Support for Multi-core
// Architectures: Optimized Shared Memory Collectives (EuroPVM/MPI 2008).
//
// Threads: everything runs on the lane's thread but WakeForAbort(). The arena's words are shared
// with the other ranks by the protocol of arena.h.
#ifndef FASTHVD_RUNTIME_LANES_ARENA_EXECUTOR_H_
#define FASTHVD_RUNTIME_LANES_ARENA_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/lanes/arena.h"
#include "runtime/lanes/executor.h"

namespace fasthvd {

class ArenaExecutor : public Executor {
 public:
  // `rank` is this rank's index among the arena's ranks. `spin_microseconds`: how long to poll
  // before sleeping; 0 where ranks share cores. `arena` outlives the executor.
  ArenaExecutor(Arena* arena, int lane, int rank, int spin_microseconds);

  void Run(StripeQueue* queue) override;
  void WakeForAbort() override;

 private:
  // A chunk between its copy-in and its copy-out.
  struct Chunk {
    std::shared_ptr<Batch> batch;
    size_t begin = 0;  // In the batch's virtual buffer.
    size_t bytes = 0;
    bool whole = false;  // Skips the reduce stage.
    bool ends_stripe = false;
  };

  bool idle() const { return next_in_ == next_out_ && stripe_.batch == nullptr; }
  void RunOneStageOrWait(StripeQueue* queue);
  bool TryCopyIn(StripeQueue* queue);
  bool TryReduce();
  bool TryCopyOut();

  void CopyIn(const Chunk& chunk, uint64_t number);
  void ReduceSlice(const Chunk& chunk, uint64_t number);
  void ReduceWhole(const Chunk& chunk, uint64_t number);
  void CopyOutSlices(const Chunk& chunk, uint64_t number);
  void ReducePieces(const Chunk& chunk, uint64_t number, size_t begin, size_t end, bool to_output);

  Chunk& window(uint64_t number) { return window_[number % slots_]; }
  ArenaSlot* slot(uint64_t number) const { return arena_->slot(lane_, number % slots_); }
  char* chunk(uint64_t number, int rank) const {
    return arena_->chunk(lane_, number % slots_, rank);
  }
  size_t SliceBytes(size_t bytes) const;
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
  void WaitForEpochAfter(uint32_t epoch);
  void FailAll(StripeQueue* queue);

  Arena* const arena_;
  const int lane_;
  const uint32_t rank_;
  const uint32_t ranks_;
  const uint32_t slots_;
  const int spin_microseconds_;
  ArenaLane* const words_;

  Stripe stripe_;  // Being copied in; stripe_.begin moves on.
  std::vector<Chunk> window_;
  // The next chunk of each stage: next_out_ <= next_reduce_ <= next_in_ <= next_out_ + slots_.
  uint64_t next_in_ = 0;
  uint64_t next_reduce_ = 0;
  uint64_t next_out_ = 0;
  std::vector<const void*> sources_;  // Scratch of ReducePieces.
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_LANES_ARENA_EXECUTOR_H_

// Collectives among the ranks of one host, chunk by chunk through the shared arena.
//
// The lane's stripes form one stream of chunks, across batches. Each chunk passes three stages on
// every rank, in chunk order within a stage: copy in, reduce this rank's slice, copy out. The lane
// does whatever stage is ready, so a rank that runs ahead is held back only by the slots. A small
// chunk skips the middle stage: every rank reduces all of it from all ranks' inputs. Where the lane
// is hosted by a process, that one does the middle stage (see lane_server.h); this thread then
// copies in the whole chunk, since the process cannot read tensors, and orders the reduction.
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

#include "runtime/base/config.h"
#include "runtime/lanes/arena.h"
#include "runtime/lanes/arena_port.h"
#include "runtime/lanes/executor.h"
#include "runtime/lanes/order_queue.h"

namespace fasthvd {

class ArenaExecutor : public Executor {
 public:
  // `rank` is this rank's index among the arena's ranks. `spin_microseconds`: how long to poll
  // before sleeping; 0 where ranks share cores. `host` says who does the reduce stage; each rank
  // may choose on its own. `arena` outlives the executor.
  ArenaExecutor(Arena* arena, int lane, int rank, int spin_microseconds,
                LaneHost host = LaneHost::kThread);

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
  void ReduceWhole(const Chunk& chunk, uint64_t number);
  void CopyOutSlices(const Chunk& chunk, uint64_t number);
  void FailAll(StripeQueue* queue);

  Chunk& window(uint64_t number) { return window_[number % port_.slots()]; }

  Arena* const arena_;
  const LaneHost host_;
  ArenaPort port_;
  OrderQueue orders_;

  Stripe stripe_;  // Being copied in; stripe_.begin moves on.
  std::vector<Chunk> window_;
  // The next chunk of each stage: next_out_ <= next_reduce_ <= next_in_ <= next_out_ + slots.
  uint64_t next_in_ = 0;
  uint64_t next_reduce_ = 0;
  uint64_t next_out_ = 0;
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_LANES_ARENA_EXECUTOR_H_

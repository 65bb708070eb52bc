// Collectives over TCP in a ring of all ranks: for several hosts, and for ranks of one host that
// cannot share memory.
//
// Allreduce is the bandwidth-optimal ring of P. Patarasuk, X. Yuan: Bandwidth Optimal All-reduce
// Algorithms for Clusters of Workstations (JPDC 2009): reduce-scatter, then allgather, over pieces
// of the batch. Partial sums travel in the accumulator's type, so that sums do not overflow on the
// way, and are narrowed once, by every rank from the same bits: all ranks get the same result.
// Broadcast is a chain along the ring from the root.
//
// Threads: everything runs on the lane's thread but WakeForAbort().
#ifndef FASTHVD_RUNTIME_LANES_RING_EXECUTOR_H_
#define FASTHVD_RUNTIME_LANES_RING_EXECUTOR_H_

#include <vector>

#include "runtime/base/owned_fd.h"
#include "runtime/lanes/executor.h"

namespace fasthvd {

class RingExecutor : public Executor {
 public:
  // `left` and `right`: non-blocking connections to ranks rank - 1 and rank + 1 (modulo `size`).
  static Result<std::unique_ptr<RingExecutor>> Create(int rank, int size, OwnedFd left,
                                                      OwnedFd right);

  void Run(StripeQueue* queue) override;
  void WakeForAbort() override;

  // Memory that one executor holds for partial sums, bytes.
  static constexpr size_t kBufferBytes = (1 << 20) * 3 / 2;

 private:
  RingExecutor(int rank, int size, OwnedFd left, OwnedFd right, OwnedFd wake);

  Status RunStripe(const Stripe& stripe);
  Status Allreduce(const Batch& batch, size_t begin, size_t end);
  Status Broadcast(const Batch& batch, size_t begin, size_t end);
  // Sends to the right and receives from the left at the same time; both complete on return.
  Status Exchange(const char* send, size_t send_bytes, char* receive, size_t receive_bytes);
  Status SendSome(const char** data, size_t* bytes);
  Status ReceiveSome(char** data, size_t* bytes);

  int left_rank() const { return (rank_ + size_ - 1) % size_; }
  int right_rank() const { return (rank_ + 1) % size_; }

  const int rank_;
  const int size_;
  const OwnedFd left_;
  const OwnedFd right_;
  const OwnedFd wake_;          // An eventfd that WakeForAbort() makes readable.
  std::vector<char> sums_;      // The piece in hand, as accumulators.
  std::vector<char> incoming_;  // A block from the left.
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_LANES_RING_EXECUTOR_H_

// The common base of the collectives' kernels.
#ifndef FASTHVD_KERNELS_COLLECTIVE_KERNEL_H_
#define FASTHVD_KERNELS_COLLECTIVE_KERNEL_H_

#include <memory>

#include "runtime/engine/engine.h"
#include "runtime/engine/request.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace fasthvd {

// Hands one entry to the engine and returns; completion comes from a lane and is passed to
// TensorFlow's own runner, so no TensorFlow work runs on the runtime's threads. Stateless after
// construction: one kernel may have several entries in flight.
class CollectiveKernel : public tensorflow::AsyncOpKernel {
 public:
  explicit CollectiveKernel(tensorflow::OpKernelConstruction* construction);

  // ComputeAsync only hands over: not worth a thread of TensorFlow's pool for each tensor.
  bool IsExpensive() override { return false; }

  void ComputeAsync(tensorflow::OpKernelContext* context, DoneCallback done) override;

 protected:
  // What is the same for every call; derived constructors complete it.
  EntryDescription description_;

 private:
  // Has the engine told when TensorFlow cancels the step, which it does when another op of it has
  // failed. Returns what to deregister, or kInvalidToken.
  static tensorflow::CancellationToken WatchStep(tensorflow::OpKernelContext* context,
                                                 std::shared_ptr<Engine> engine);

  // Allocates output i for each of the N inputs, in the input's memory where TensorFlow is done
  // with it, and adds the pair to the request.
  absl::Status AddTensors(tensorflow::OpKernelContext* context, Request* request);

  int tensor_count_ = 0;
};

}  // namespace fasthvd

#endif  // FASTHVD_KERNELS_COLLECTIVE_KERNEL_H_

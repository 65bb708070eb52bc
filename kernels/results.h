// Memory for the results of collectives.
#ifndef FASTHVD_KERNELS_RESULTS_H_
#define FASTHVD_KERNELS_RESULTS_H_

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace fasthvd {

// Makes output `i` of the shape and type of input `i`: in the input's memory where nobody else
// needs that; a large one elsewhere in recycled memory, which spares the faults of fresh pages.
// ResourceExhausted if there is no memory.
absl::Status ForwardOrAllocate(tensorflow::OpKernelContext* context, int i,
                               tensorflow::Tensor** output);

}  // namespace fasthvd

#endif  // FASTHVD_KERNELS_RESULTS_H_

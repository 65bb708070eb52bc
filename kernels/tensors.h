// Between TensorFlow's tensors, types and statuses and the runtime's.
#ifndef FASTHVD_KERNELS_TENSORS_H_
#define FASTHVD_KERNELS_TENSORS_H_

#include "absl/status/status.h"
#include "runtime/base/status.h"
#include "runtime/base/types.h"
#include "runtime/engine/request.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace fasthvd {

// InvalidArgument, naming the types that work, if the runtime does not know `dtype`.
Result<DataType> FromTensorFlow(tensorflow::DataType dtype);

// Adds `input` and `output`, of equal shape, to the request.
void AddTensor(const tensorflow::Tensor& input, tensorflow::Tensor* output, Request* request);

// A lost peer becomes INTERNAL with a message starting "HorovodInternalError:".
absl::Status ToTensorFlow(const Status& status);

}  // namespace fasthvd

#endif  // FASTHVD_KERNELS_TENSORS_H_

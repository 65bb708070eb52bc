#include "kernels/results.h"

#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/block_pool.h"
#include "runtime/engine/context.h"
#include "tensorflow/core/framework/allocator.h"

namespace fasthvd {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// The C library recycles smaller ones itself.
constexpr size_t kLargeBytes = 1 << 20;

// ResultMemory() as TensorFlow wants it; tensors keep a pointer to it, however long they live.
class ResultAllocator : public tensorflow::Allocator {
 public:
  static ResultAllocator* Get() {
    static auto* const allocator = new ResultAllocator;
    return allocator;
  }

  std::string Name() override { return "tf_fasthvd_results"; }
  // Blocks begin at a page: that is more than any tensor's alignment.
  void* AllocateRaw(size_t /*alignment*/, size_t bytes) override {
    return ResultMemory().Take(bytes);
  }
  void DeallocateRaw(void* block) override { ResultMemory().Give(block); }
};

// Memory that a device is to reach must come from TensorFlow.
bool OnlyForTheHost(tensorflow::AllocatorAttributes attributes) {
  return !attributes.gpu_compatible() && !attributes.nic_compatible();
}

}  // namespace

absl::Status ForwardOrAllocate(OpKernelContext* context, int i, Tensor** output) {
  const Tensor& input = context->input(i);
  if (input.TotalBytes() < kLargeBytes || !OnlyForTheHost(context->output_alloc_attr(i))) {
    return context->forward_input_or_allocate_output({i}, i, input.shape(), output);
  }
  if (context->forward_input_to_output_with_shape(i, i, input.shape(), output)) {
    return absl::OkStatus();
  }
  Tensor result(ResultAllocator::Get(), input.dtype(), input.shape());
  if (!result.IsInitialized()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a result of ", input.TotalBytes(), " bytes"));
  }
  context->set_output(i, std::move(result));
  *output = context->mutable_output(i);
  return absl::OkStatus();
}

}  // namespace fasthvd

// Kernel of FasthvdAllreduce.
#include <string>

#include "kernels/collective_kernel.h"
#include "kernels/tensors.h"
#include "runtime/collectives/reduce.h"

namespace fasthvd {
namespace {

Result<ReduceOp> ParseReduceOp(const std::string& name) {
  for (int i = 0; i < kReduceOpCount; ++i) {
    if (name == NameOf(static_cast<ReduceOp>(i))) return static_cast<ReduceOp>(i);
  }
  return InvalidArgument("unknown reduce_op '" + name + "'");
}

class AllreduceKernel : public CollectiveKernel {
 public:
  explicit AllreduceKernel(tensorflow::OpKernelConstruction* construction)
      : CollectiveKernel(construction) {
    description_.kind = CollectiveKind::kAllreduce;
    std::string op_name;
    OP_REQUIRES_OK(construction, construction->GetAttr("reduce_op", &op_name));
    Result<ReduceOp> op = ParseReduceOp(op_name);
    OP_REQUIRES_OK(construction, ToTensorFlow(op.status()));
    description_.op = *op;
    OP_REQUIRES_OK(construction, ToTensorFlow(CheckReducible(description_.dtype, *op)));
    float factor = 1.0f;
    OP_REQUIRES_OK(construction, construction->GetAttr("prescale_factor", &factor));
    description_.prescale = factor;
    OP_REQUIRES_OK(construction, construction->GetAttr("postscale_factor", &factor));
    description_.postscale = factor;
  }
};

REGISTER_KERNEL_BUILDER(Name("FasthvdAllreduce").Device(tensorflow::DEVICE_CPU), AllreduceKernel);

}  // namespace
}  // namespace fasthvd

// Kernel of FasthvdBroadcast.
#include "kernels/collective_kernel.h"

namespace fasthvd {
namespace {

class BroadcastKernel : public CollectiveKernel {
 public:
  explicit BroadcastKernel(tensorflow::OpKernelConstruction* construction)
      : CollectiveKernel(construction) {
    description_.kind = CollectiveKind::kBroadcast;
    OP_REQUIRES_OK(construction, construction->GetAttr("root_rank", &description_.root));
  }
};

REGISTER_KERNEL_BUILDER(Name("FasthvdBroadcast").Device(tensorflow::DEVICE_CPU), BroadcastKernel);

}  // namespace
}  // namespace fasthvd

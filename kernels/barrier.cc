// Kernel of FasthvdBarrier.
#include "kernels/collective_kernel.h"

namespace fasthvd {
namespace {

class BarrierKernel : public CollectiveKernel {
 public:
  explicit BarrierKernel(tensorflow::OpKernelConstruction* construction)
      : CollectiveKernel(construction) {
    description_.kind = CollectiveKind::kBarrier;
  }
};

REGISTER_KERNEL_BUILDER(Name("FasthvdBarrier").Device(tensorflow::DEVICE_CPU), BarrierKernel);

}  // namespace
}  // namespace fasthvd

// Registration of FasthvdBarrier.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace fasthvd {

REGISTER_OP("FasthvdBarrier")
    .Attr("tensor_name: string")
    .Attr("process_set_id: int = 0")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Completes when every rank has reached it.
)doc");

}  // namespace fasthvd

// Registration of FasthvdAllreduce.
#include "ops/shapes.h"
#include "tensorflow/core/framework/op.h"

namespace fasthvd {

REGISTER_OP("FasthvdAllreduce")
    .Input("tensors: N * T")
    .Input("handles: M * resource")
    .Output("outputs: N * T")
    .Attr("N: int >= 1")
    .Attr("M: int >= 0 = 0")
    .Attr(
        "T: {uint8, int8, uint16, int16, uint32, int32, uint64, int64, half, bfloat16, float, "
        "double, bool}")
    .Attr("tensor_name: string")
    .Attr("reduce_op: {'Sum', 'Average', 'Min', 'Max', 'Product'} = 'Sum'")
    .Attr("prescale_factor: float = 1.0")
    .Attr("postscale_factor: float = 1.0")
    .Attr("process_set_id: int = 0")
    .SetIsStateful()
    .SetShapeFn(OutputsLikeTensors)
    .Doc(R"doc(
Reduces each tensor elementwise over the ranks; all N are negotiated and run as one.

handles: Resources this op is ordered with, in place of TensorFlow's chain of all stateful ops:
  given a variable's handle, reductions of different variables run at the same time.
tensor_name: The same on all ranks, and unique among the tensors reduced at the same time.
)doc");

}  // namespace fasthvd

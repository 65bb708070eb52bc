// Registration of FasthvdBroadcast.
#include "ops/shapes.h"
#include "tensorflow/core/framework/op.h"

namespace fasthvd {

REGISTER_OP("FasthvdBroadcast")
    .Input("tensors: N * T")
    .Input("handles: M * resource")
    .Output("outputs: N * T")
    .Attr("N: int >= 1")
    .Attr("M: int >= 0 = 0")
    .Attr(
        "T: {uint8, int8, uint16, int16, uint32, int32, uint64, int64, half, bfloat16, float, "
        "double, bool}")
    .Attr("tensor_name: string")
    .Attr("root_rank: int")
    .Attr("process_set_id: int = 0")
    .SetIsStateful()
    .SetShapeFn(OutputsLikeTensors)
    .Doc(R"doc(
Yields, on every rank, the tensors of rank root_rank; all N are negotiated and run as one.

handles: As for FasthvdAllreduce.
tensor_name: The same on all ranks, and unique among the tensors in flight at the same time.
)doc");

}  // namespace fasthvd

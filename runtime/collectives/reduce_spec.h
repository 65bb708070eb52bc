// What a reduction computes. Apart from reduce.h so that the kernels, compiled once for each
// instruction set, see no inline function of the standard library.
#ifndef FASTHVD_RUNTIME_COLLECTIVES_REDUCE_SPEC_H_
#define FASTHVD_RUNTIME_COLLECTIVES_REDUCE_SPEC_H_

#include "runtime/base/types.h"

namespace fasthvd {

struct ReduceSpec {
  DataType dtype = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1.0;   // Multiplies every input. Ignored for bool.
  double postscale = 1.0;  // Multiplies the result. Ignored for bool.
  int divisor = 1;         // Ranks that contribute, at least 1: what kAverage divides by.
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_COLLECTIVES_REDUCE_SPEC_H_

// Elementwise reduction of arrays, vectorised for the CPU at hand.
//
// Results do not depend on the instruction set, on alignment or on how an array is cut into calls:
// the same inputs in the same order give the same bits (of NaNs only that they are NaN).
//
//   float16, bfloat16   accumulate in float32 and round once, to nearest even.
//   float32, float64    accumulate in their own type. Min and Max propagate NaN, as NumPy does.
//   integers            Sum and Product wrap as in NumPy. Average divides the 64-bit sum and
//                       truncates toward zero. Scale factors other than 1 multiply in double,
//                       truncate toward zero and saturate.
//   bool                Sum and Max are "or", Min and Product "and". Any nonzero byte is true.
//
// All functions are thread-safe and allocate nothing. Pointers need the alignment of an element.
#ifndef FASTHVD_RUNTIME_COLLECTIVES_REDUCE_H_
#define FASTHVD_RUNTIME_COLLECTIVES_REDUCE_H_

#include <cstddef>

#include "runtime/base/status.h"
#include "runtime/base/types.h"
#include "runtime/collectives/reduce_spec.h"

namespace fasthvd {

// Ok if `op` is defined for `dtype`; the functions below require it.
Status CheckReducible(DataType dtype, ReduceOp op);

// Reduces `source_count` (at least 1) arrays of `count` elements, in the order given, in one pass
// over memory. `destination` is exactly one of the sources or overlaps none.
void Reduce(const ReduceSpec& spec, const void* const* sources, int source_count, void* destination,
            size_t count);

// The same in three steps, for algorithms that send partial results: ToAccumulator for every
// source, Accumulate in order, FromAccumulator. Bit for bit what Reduce computes.

// The type of partial results: float32 for the 16-bit floats, 64 bits for integers of the same
// signedness, otherwise the type itself.
DataType AccumulatorOf(DataType dtype);

// Widens and applies prescale. The arrays are disjoint, or the same where the types are.
void ToAccumulator(const ReduceSpec& spec, const void* source, void* accumulator, size_t count);

// accumulator[i] = op(accumulator[i], other[i]), both of type `accumulator_type`.
void Accumulate(DataType accumulator_type, ReduceOp op, void* accumulator, const void* other,
                size_t count);

// Divides, applies postscale and narrows. The arrays are disjoint, or the same where the types are.
void FromAccumulator(const ReduceSpec& spec, const void* accumulator, void* destination,
                     size_t count);

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_COLLECTIVES_REDUCE_H_

// The kernels behind reduce.h, one table for each instruction set. Internal, but for tests.
#ifndef FASTHVD_RUNTIME_COLLECTIVES_REDUCE_KERNELS_H_
#define FASTHVD_RUNTIME_COLLECTIVES_REDUCE_KERNELS_H_

#include <cstddef>

#include "runtime/base/types.h"
#include "runtime/collectives/reduce_spec.h"

namespace fasthvd {

// See the functions of the same names in reduce.h.
struct ReduceKernels {
  void (*reduce)(const ReduceSpec& spec, const void* const* sources, int source_count,
                 void* destination, size_t count);
  void (*to_accumulator)(const ReduceSpec& spec, const void* source, void* accumulator,
                         size_t count);
  void (*accumulate)(DataType accumulator_type, ReduceOp op, void* accumulator, const void* other,
                     size_t count);
  void (*from_accumulator)(const ReduceSpec& spec, const void* accumulator, void* destination,
                           size_t count);
};

enum class InstructionSet { kBaseline = 0, kAvx2 = 1, kAvx512 = 2 };
constexpr int kInstructionSetCount = 3;

// Null if this CPU lacks the instruction set. The baseline always exists.
const ReduceKernels* KernelsFor(InstructionSet instruction_set);

extern const ReduceKernels kReduceBaseline;
#ifdef __x86_64__
extern const ReduceKernels kReduceAvx2;
extern const ReduceKernels kReduceAvx512;
#endif

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_COLLECTIVES_REDUCE_KERNELS_H_

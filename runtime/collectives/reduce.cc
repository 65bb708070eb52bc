#include "runtime/collectives/reduce.h"

#include "runtime/collectives/reduce_kernels.h"

namespace fasthvd {
namespace {

const ReduceKernels& BestKernels() {
  static const ReduceKernels& best = []() -> const ReduceKernels& {
    for (int i = kInstructionSetCount - 1; i > 0; --i) {
      const ReduceKernels* kernels = KernelsFor(static_cast<InstructionSet>(i));
      if (kernels != nullptr) return *kernels;
    }
    return kReduceBaseline;
  }();
  return best;
}

}  // namespace

const ReduceKernels* KernelsFor(InstructionSet instruction_set) {
  switch (instruction_set) {
    case InstructionSet::kBaseline:
      return &kReduceBaseline;
#ifdef __x86_64__
    case InstructionSet::kAvx2: {
      const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
      return has ? &kReduceAvx2 : nullptr;
    }
    case InstructionSet::kAvx512: {
      const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                       __builtin_cpu_supports("f16c");
      return has ? &kReduceAvx512 : nullptr;
    }
#endif
    default:
      return nullptr;
  }
}

Status CheckReducible(DataType dtype, ReduceOp op) {
  if (dtype == DataType::kBool && op == ReduceOp::kAverage) {
    return InvalidArgument(
        "Average is not defined for bool tensors. Use Sum or Max (true if any rank has "
        "true) or Min (true if all have), or cast to float32 to get the share.");
  }
  return Status::Ok();
}

DataType AccumulatorOf(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return DataType::kFloat32;
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
      return DataType::kInt64;
    case DataType::kUint8:
    case DataType::kUint16:
    case DataType::kUint32:
      return DataType::kUint64;
    default:
      return dtype;
  }
}

void Reduce(const ReduceSpec& spec, const void* const* sources, int source_count, void* destination,
            size_t count) {
  BestKernels().reduce(spec, sources, source_count, destination, count);
}

void ToAccumulator(const ReduceSpec& spec, const void* source, void* accumulator, size_t count) {
  BestKernels().to_accumulator(spec, source, accumulator, count);
}

void Accumulate(DataType accumulator_type, ReduceOp op, void* accumulator, const void* other,
                size_t count) {
  BestKernels().accumulate(accumulator_type, op, accumulator, other, count);
}

void FromAccumulator(const ReduceSpec& spec, const void* accumulator, void* destination,
                     size_t count) {
  BestKernels().from_accumulator(spec, accumulator, destination, count);
}

}  // namespace fasthvd

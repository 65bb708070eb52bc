// The element types, collective kinds and reduction operations that entries are made of.
// The numbers are part of the wire format: append, never renumber.
#ifndef FASTHVD_RUNTIME_BASE_TYPES_H_
#define FASTHVD_RUNTIME_BASE_TYPES_H_

#include <cstddef>
#include <cstdint>

namespace fasthvd {

enum class DataType : uint8_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kUint64 = 6,
  kInt64 = 7,
  kFloat16 = 8,
  kBfloat16 = 9,
  kFloat32 = 10,
  kFloat64 = 11,
  kBool = 12,
};
constexpr int kDataTypeCount = 13;

enum class CollectiveKind : uint8_t { kAllreduce = 0, kBroadcast = 1, kBarrier = 2 };
constexpr int kCollectiveKindCount = 3;

enum class ReduceOp : uint8_t { kSum = 0, kAverage = 1, kMin = 2, kMax = 3, kProduct = 4 };
constexpr int kReduceOpCount = 5;

// Bytes of one element.
size_t SizeOf(DataType dtype);
// Names as users know them: "float32", "allreduce", "Sum".
const char* NameOf(DataType dtype);
const char* NameOf(CollectiveKind kind);
const char* NameOf(ReduceOp op);

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_BASE_TYPES_H_

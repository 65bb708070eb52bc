#include "runtime/base/types.h"

namespace fasthvd {
namespace {

struct DataTypeInfo {
  const char* name;
  size_t size;
};

constexpr DataTypeInfo kDataTypes[kDataTypeCount] = {
    {"uint8", 1},   {"int8", 1},    {"uint16", 2}, {"int16", 2},   {"uint32", 4},
    {"int32", 4},   {"uint64", 8},  {"int64", 8},  {"float16", 2}, {"bfloat16", 2},
    {"float32", 4}, {"float64", 8}, {"bool", 1},
};
constexpr const char* kKinds[kCollectiveKindCount] = {"allreduce", "broadcast", "barrier"};
constexpr const char* kOps[kReduceOpCount] = {"Sum", "Average", "Min", "Max", "Product"};

}  // namespace

size_t SizeOf(DataType dtype) { return kDataTypes[static_cast<int>(dtype)].size; }
const char* NameOf(DataType dtype) { return kDataTypes[static_cast<int>(dtype)].name; }
const char* NameOf(CollectiveKind kind) { return kKinds[static_cast<int>(kind)]; }
const char* NameOf(ReduceOp op) { return kOps[static_cast<int>(op)]; }

}  // namespace fasthvd

// What ranks must agree on about an entry before it may run.
#ifndef FASTHVD_RUNTIME_BASE_DESCRIPTION_H_
#define FASTHVD_RUNTIME_BASE_DESCRIPTION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/types.h"

namespace fasthvd {

using Shape = std::vector<int64_t>;

// Names are longer than this only by mistake; the wire format relies on it.
constexpr size_t kMaxNameBytes = 64 << 10;

// An entry without its buffers. Several shapes make a group: tensors run as one.
struct EntryDescription {
  std::string name;
  CollectiveKind kind = CollectiveKind::kAllreduce;
  DataType dtype = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  // kAllreduce only.
  double prescale = 1.0;         // kAllreduce only.
  double postscale = 1.0;        // kAllreduce only.
  int32_t root = 0;              // kBroadcast only.
  int32_t process_set = 0;
  std::vector<Shape> shapes;

  // Bytes of all tensors together.
  uint64_t bytes() const;
};

bool operator==(const EntryDescription& a, const EntryDescription& b);
inline bool operator!=(const EntryDescription& a, const EntryDescription& b) { return !(a == b); }

uint64_t ElementCount(const Shape& shape);
// "[2, 3]"; a group reads "[2, 3], [4]".
std::string ToString(const std::vector<Shape>& shapes);

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_BASE_DESCRIPTION_H_

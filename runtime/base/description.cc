#include "runtime/base/description.h"

#include <tuple>

namespace fasthvd {
namespace {

auto Fields(const EntryDescription& d) {
  return std::tie(d.kind, d.dtype, d.op, d.prescale, d.postscale, d.root, d.process_set, d.name,
                  d.shapes);
}

}  // namespace

uint64_t ElementCount(const Shape& shape) {
  uint64_t count = 1;
  for (int64_t dimension : shape) count *= static_cast<uint64_t>(dimension);
  return count;
}

uint64_t EntryDescription::bytes() const {
  uint64_t elements = 0;
  for (const Shape& shape : shapes) elements += ElementCount(shape);
  return elements * SizeOf(dtype);
}

bool operator==(const EntryDescription& a, const EntryDescription& b) {
  return Fields(a) == Fields(b);
}

std::string ToString(const std::vector<Shape>& shapes) {
  std::string text;
  for (const Shape& shape : shapes) {
    if (!text.empty()) text += ", ";
    text += "[";
    for (size_t i = 0; i < shape.size(); ++i) {
      if (i > 0) text += ", ";
      text += std::to_string(shape[i]);
    }
    text += "]";
  }
  return text;
}

}  // namespace fasthvd

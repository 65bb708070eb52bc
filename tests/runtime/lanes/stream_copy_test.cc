#include "runtime/lanes/stream_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace fasthvd {
namespace {

// Every alignment of both sides, and sizes around a cache line: exactly the bytes asked for.
TEST(StreamCopyTest, CopiesEverySizeAndAlignment) {
  constexpr size_t kRoom = 1024;
  std::vector<char> source(kRoom);
  for (size_t i = 0; i < kRoom; ++i) source[i] = static_cast<char>(i * 37 + 1);
  for (size_t from = 0; from < 4; ++from) {
    for (size_t to = 0; to < 70; ++to) {
      for (size_t bytes : {0, 1, 63, 64, 65, 127, 128, 200, 777}) {
        std::vector<char> destination(kRoom, 0);
        std::vector<char> expected(kRoom, 0);
        std::memcpy(expected.data() + to, source.data() + from, bytes);
        StreamCopy(destination.data() + to, source.data() + from, bytes);
        ASSERT_EQ(destination, expected) << from << " " << to << " " << bytes;
      }
    }
  }
}

}  // namespace
}  // namespace fasthvd

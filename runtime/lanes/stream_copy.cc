#include "runtime/lanes/stream_copy.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace fasthvd {

#if defined(__x86_64__)

void StreamCopy(void* destination, const void* source, size_t bytes) {
  constexpr size_t kLine = 64;
  char* to = static_cast<char*>(destination);
  const char* from = static_cast<const char*>(source);
  const size_t head = -reinterpret_cast<uintptr_t>(to) % kLine;
  if (bytes < head + kLine) {
    std::memcpy(to, from, bytes);
    return;
  }
  std::memcpy(to, from, head);
  size_t done = head;
  for (; done + kLine <= bytes; done += kLine) {
    for (size_t i = 0; i < kLine; i += sizeof(__m128i)) {
      __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + done + i));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + done + i), part);
    }
  }
  // Streaming stores are weakly ordered: without the fence a release would not cover them.
  _mm_sfence();
  std::memcpy(to + done, from + done, bytes - done);
}

#else

void StreamCopy(void* destination, const void* source, size_t bytes) {
  std::memcpy(destination, source, bytes);
}

#endif

}  // namespace fasthvd

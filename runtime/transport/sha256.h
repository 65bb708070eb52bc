// SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104), for the handshake. Small rather than fast.
#ifndef FASTHVD_RUNTIME_TRANSPORT_SHA256_H_
#define FASTHVD_RUNTIME_TRANSPORT_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/base/status.h"

namespace fasthvd {

using Digest = std::array<uint8_t, 32>;

// One hash in the making. Thread-compatible.
class Sha256 {
 public:
  Sha256();

  void Update(std::string_view data);
  // Call once, last.
  Digest Finish();

 private:
  void Compress(const uint8_t* block);

  std::array<uint32_t, 8> state_;
  std::array<uint8_t, 64> block_;  // Bytes that wait for a full block.
  size_t block_size_ = 0;
  uint64_t total_size_ = 0;
};

Digest HmacSha256(std::string_view key, std::string_view data);

// Takes the same time whatever the contents, so that it tells a guesser nothing.
bool ConstantTimeEqual(const Digest& a, const Digest& b);

// Unpredictable bytes from the kernel.
Status RandomBytes(void* data, size_t size);

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_TRANSPORT_SHA256_H_

#include "runtime/transport/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace fasthvd {
namespace {

std::string Hex(const Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (uint8_t byte : digest) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

std::string HashOf(std::string_view data) {
  Sha256 hash;
  hash.Update(data);
  return Hex(hash.Finish());
}

constexpr char kTwoBlocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";

// FIPS 180-4 examples.
TEST(Sha256Test, PublishedVectors) {
  EXPECT_EQ(HashOf(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HashOf("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(HashOf(kTwoBlocks), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(HashOf(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, PiecesDoNotMatter) {
  const std::string data(200, 'q');
  for (size_t cut = 0; cut <= data.size(); ++cut) {
    Sha256 hash;
    hash.Update(data.substr(0, cut));
    hash.Update(data.substr(cut));
    EXPECT_EQ(Hex(hash.Finish()), HashOf(data));
  }
}

// RFC 4231, cases 1, 2, 3, 6 and 7.
TEST(HmacSha256Test, PublishedVectors) {
  EXPECT_EQ(Hex(HmacSha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(Hex(HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(Hex(HmacSha256(std::string(20, '\xaa'), std::string(50, '\xdd'))),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  EXPECT_EQ(Hex(HmacSha256(std::string(131, '\xaa'),
                           "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(Hex(HmacSha256(std::string(131, '\xaa'),
                           "This is a test using a larger than block-size key and a larger than "
                           "block-size data. The key needs to be hashed before being used by the "
                           "HMAC algorithm.")),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(ConstantTimeEqualTest, SeesEveryByte) {
  const Digest zero{};
  EXPECT_TRUE(ConstantTimeEqual(zero, zero));
  for (size_t i = 0; i < zero.size(); ++i) {
    Digest other{};
    other[i] = 0x80;
    EXPECT_FALSE(ConstantTimeEqual(zero, other));
  }
}

TEST(RandomBytesTest, Differ) {
  Digest a{};
  Digest b{};
  ASSERT_TRUE(RandomBytes(a.data(), a.size()).ok());
  ASSERT_TRUE(RandomBytes(b.data(), b.size()).ok());
  EXPECT_NE(a, b);
}

}  // namespace
}  // namespace fasthvd

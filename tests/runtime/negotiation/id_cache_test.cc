#include "runtime/negotiation/id_cache.h"

#include <gtest/gtest.h>

namespace fasthvd {
namespace {

EntryDescription Tensor(const std::string& name, int64_t elements) {
  EntryDescription d;
  d.name = name;
  d.shapes = {{elements}};
  return d;
}

TEST(IdCacheTest, DescribesWhatIsNotBound) {
  IdCache cache;
  Announcement announcement = cache.Announce(Tensor("a", 2));
  EXPECT_EQ(announcement.id, kNoId);
  EXPECT_EQ(announcement.description, Tensor("a", 2));
  EXPECT_EQ(cache.NameOf(0), nullptr);
}

TEST(IdCacheTest, SendsTheIdOfExactlyWhatIsBound) {
  IdCache cache;
  cache.Bind(3, Tensor("a", 2));
  EXPECT_EQ(cache.Announce(Tensor("a", 2)).id, 3u);
  EXPECT_EQ(cache.Announce(Tensor("a", 5)).id, kNoId);
  EXPECT_EQ(cache.Announce(Tensor("b", 2)).id, kNoId);
  ASSERT_NE(cache.NameOf(3), nullptr);
  EXPECT_EQ(*cache.NameOf(3), "a");
  EXPECT_EQ(cache.NameOf(2), nullptr);
  EXPECT_EQ(cache.NameOf(4), nullptr);
}

TEST(IdCacheTest, ANewBindingReplacesTheOld) {
  IdCache cache;
  cache.Bind(3, Tensor("a", 2));
  cache.Bind(3, Tensor("a", 5));
  EXPECT_EQ(cache.Announce(Tensor("a", 5)).id, 3u);
  EXPECT_EQ(cache.Announce(Tensor("a", 2)).id, kNoId);
}

}  // namespace
}  // namespace fasthvd

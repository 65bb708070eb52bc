#include "runtime/base/block_pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace fasthvd {
namespace {

constexpr size_t kMiB = 1 << 20;

bool IsMapped(void* block) { return msync(block, 1, MS_ASYNC) == 0; }

// Bytes of the mapping with `block` that the kernel may take back; -1 if the kernel does not tell.
int64_t LazilyFreeBytes(void* block) {
  std::ifstream lines("/proc/self/smaps");
  const auto address = reinterpret_cast<uintptr_t>(block);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    uintptr_t begin, end;
    int64_t kib;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      inside = begin <= address && address < end;
    } else if (inside && std::sscanf(line.c_str(), "LazyFree: %ld kB", &kib) == 1) {
      return kib << 10;
    }
  }
  return -1;
}

TEST(BlockPoolTest, ABlockIsTakenAgain) {
  BlockPool pool;
  pool.set_keep_bytes(16 * kMiB);
  for (size_t bytes : {size_t{1}, kMiB, 2 * kMiB, 3 * kMiB + 1}) {
    void* block = pool.Take(bytes);
    ASSERT_NE(block, nullptr);
    std::memset(block, 1, bytes);
    pool.Give(block);
    EXPECT_GE(pool.kept_bytes(), bytes);
    EXPECT_EQ(pool.Take(bytes), block);
    EXPECT_EQ(pool.kept_bytes(), 0u);
    pool.Give(block);
    pool.set_keep_bytes(0);
    EXPECT_FALSE(IsMapped(block));
    pool.set_keep_bytes(16 * kMiB);
  }
}

TEST(BlockPoolTest, ABlockServesWhatFillsMostOfIt) {
  BlockPool pool;
  pool.set_keep_bytes(32 * kMiB);
  void* large = pool.Take(16 * kMiB);
  void* fitting = pool.Take(8 * kMiB + 100);
  pool.Give(fitting);
  pool.Give(large);
  EXPECT_NE(pool.Take(4 * kMiB), fitting);  // Half of it would be lost.
  EXPECT_EQ(pool.Take(8 * kMiB), fitting);
  EXPECT_EQ(pool.Take(15 * kMiB), large);
}

TEST(BlockPoolTest, TheOldestGoesFirstAboveTheLimit) {
  BlockPool pool;
  pool.set_keep_bytes(5 * kMiB);
  std::vector<void*> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(pool.Take(2 * kMiB));
  void* above = pool.Take(6 * kMiB);
  for (void* block : blocks) pool.Give(block);
  EXPECT_EQ(pool.kept_bytes(), 4 * kMiB);
  EXPECT_FALSE(IsMapped(blocks[0]));
  EXPECT_TRUE(IsMapped(blocks[1]));
  pool.Give(above);  // Does not push the others out.
  EXPECT_FALSE(IsMapped(above));
  EXPECT_EQ(pool.Take(2 * kMiB), blocks[2]);
}

TEST(BlockPoolTest, NothingIsKeptByDefault) {
  BlockPool pool;
  void* block = pool.Take(2 * kMiB);
  pool.Give(block);
  EXPECT_FALSE(IsMapped(block));
}

TEST(BlockPoolTest, TheKernelMayTakeKeptBlocksBack) {
  BlockPool pool;
  pool.set_keep_bytes(16 * kMiB);
  void* block = pool.Take(8 * kMiB);
  std::memset(block, 1, 8 * kMiB);
  const int64_t before = LazilyFreeBytes(block);
  if (before < 0) GTEST_SKIP() << "this kernel does not tell what it may take back";
  EXPECT_EQ(before, 0);
  pool.Give(block);
  EXPECT_GE(LazilyFreeBytes(block), static_cast<int64_t>(8 * kMiB));
}

TEST(BlockPoolTest, NoMemoryIsNull) {
  BlockPool pool;
  pool.set_keep_bytes(4 * kMiB);
  void* block = pool.Take(2 * kMiB);
  pool.Give(block);
  EXPECT_EQ(pool.Take(size_t{1} << 60), nullptr);
  EXPECT_EQ(pool.kept_bytes(), 0u);  // Given back to make room.
  pool.Give(pool.Take(2 * kMiB));
}

TEST(BlockPoolTest, ThreadsHaveBlocksOfTheirOwn) {
  BlockPool pool;
  pool.set_keep_bytes(3 * kMiB);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int id = 1; id <= 4; ++id) {
    threads.emplace_back([&pool, &wrong, id] {
      for (int round = 0; round < 50; ++round) {
        const size_t bytes = kMiB + 4096 * (round % 3);
        char* block = static_cast<char*>(pool.Take(bytes));
        std::memset(block, id, bytes);
        wrong += std::any_of(block, block + bytes, [id](char byte) { return byte != id; });
        pool.Give(block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(pool.kept_bytes(), 3 * kMiB);
}

}  // namespace
}  // namespace fasthvd

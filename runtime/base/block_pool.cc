#include "runtime/base/block_pool.h"

#include <sys/mman.h>

#include <cstdint>

namespace fasthvd {
namespace {

constexpr size_t kPage = 4 << 10;
constexpr size_t kHugePage = 2 << 20;

template <typename T>
T RoundUp(T value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

// From a huge page's boundary on, where the block has room for one.
void* Map(size_t bytes) {
  const size_t spare = bytes < kHugePage ? 0 : kHugePage;
  void* mapped = mmap(nullptr, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                      /*fd=*/-1, /*offset=*/0);
  if (mapped == MAP_FAILED) return nullptr;
  if (spare == 0) return mapped;
  const uintptr_t address = reinterpret_cast<uintptr_t>(mapped);
  const size_t before = RoundUp(address, kHugePage) - address;
  char* const block = static_cast<char*>(mapped) + before;
  if (before > 0) munmap(mapped, before);
  if (before < spare) munmap(block + bytes, spare - before);
  madvise(block, bytes, MADV_HUGEPAGE);
  return block;
}

}  // namespace

BlockPool::~BlockPool() { ShrinkTo(0); }

void BlockPool::set_keep_bytes(size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  keep_bytes_ = bytes;
  ShrinkTo(bytes);
}

void* BlockPool::Take(size_t bytes) {
  bytes = RoundUp(bytes, kPage);
  std::lock_guard<std::mutex> lock(mutex_);
  void* block = TakeKept(bytes);
  if (block != nullptr) return block;
  block = Map(bytes);
  if (block == nullptr && kept_bytes_ > 0) {  // A limit on address space: give back what is kept.
    ShrinkTo(0);
    block = Map(bytes);
  }
  if (block != nullptr) used_[block] = bytes;
  return block;
}

void BlockPool::Give(void* block) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto used = used_.find(block);
  const Block given{block, used->second};
  used_.erase(used);
  if (given.bytes > keep_bytes_) {
    munmap(given.begin, given.bytes);
    return;
  }
  madvise(given.begin, given.bytes, MADV_FREE);
  kept_.push_front(given);
  kept_bytes_ += given.bytes;
  ShrinkTo(keep_bytes_);
}

size_t BlockPool::kept_bytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return kept_bytes_;
}

void* BlockPool::TakeKept(size_t bytes) {
  auto best = kept_.end();
  for (auto block = kept_.begin(); block != kept_.end(); ++block) {
    // Not far too large a one: another entry of the step may want it.
    if (block->bytes < bytes || block->bytes > bytes + bytes / 8) continue;
    if (best == kept_.end() || block->bytes < best->bytes) best = block;
  }
  if (best == kept_.end()) return nullptr;
  void* const begin = best->begin;
  used_[begin] = best->bytes;
  kept_bytes_ -= best->bytes;
  kept_.erase(best);
  return begin;
}

void BlockPool::ShrinkTo(size_t bytes) {
  while (kept_bytes_ > bytes) {
    munmap(kept_.back().begin, kept_.back().bytes);
    kept_bytes_ -= kept_.back().bytes;
    kept_.pop_back();
  }
}

}  // namespace fasthvd

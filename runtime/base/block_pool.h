// Large blocks of memory, recycled.
//
// A large block that goes back to the system and is asked for again is cleared page by page as it
// is written to, which takes longer than the reduction that writes it. The pool keeps blocks, and
// marks them for the kernel to take back whenever it is short of memory (MADV_FREE): until then
// they cost nothing, and no other process goes without.
//
// Threads: any. A mutex guards the lists.
#ifndef FASTHVD_RUNTIME_BASE_BLOCK_POOL_H_
#define FASTHVD_RUNTIME_BASE_BLOCK_POOL_H_

#include <cstddef>
#include <list>
#include <mutex>
#include <unordered_map>

namespace fasthvd {

class BlockPool {
 public:
  BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();

  // Most bytes of blocks kept for later; what is above goes back to the system at once.
  void set_keep_bytes(size_t bytes);

  // A block of at least so many bytes, on a page's boundary, its content undefined; null where the
  // system has no memory. From 2 MiB on it has huge pages where the system gives them.
  void* Take(size_t bytes);
  // `block` comes from Take().
  void Give(void* block);

  size_t kept_bytes() const;

  // Keeps the lists whole, for a forked child, while the process forks.
  void LockForFork() { mutex_.lock(); }
  void UnlockAfterFork() { mutex_.unlock(); }

 private:
  struct Block {
    void* begin;
    size_t bytes;
  };

  // Null if no kept block fits.
  void* TakeKept(size_t bytes);
  void ShrinkTo(size_t bytes);

  mutable std::mutex mutex_;
  size_t keep_bytes_ = 0;
  size_t kept_bytes_ = 0;
  std::list<Block> kept_;                   // The one given last comes first.
  std::unordered_map<void*, size_t> used_;  // Block → its bytes.
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_BASE_BLOCK_POOL_H_

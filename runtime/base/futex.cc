#include "runtime/base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>

namespace fasthvd {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "futex words are plain integers");

// No FUTEX_PRIVATE_FLAG: the waiters may be other processes.
void FutexWait(std::atomic<uint32_t>* word, uint32_t expected) {
  syscall(SYS_futex, word, FUTEX_WAIT, expected, nullptr, nullptr, 0);
}

void FutexWakeAll(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool SpinWhile(const std::atomic<uint32_t>& word, uint32_t value, int microseconds) {
  if (microseconds <= 0) return false;
  auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  do {
    for (int i = 0; i < 32; ++i) {
      if (word.load(std::memory_order_acquire) != value) return true;
      CpuRelax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace fasthvd

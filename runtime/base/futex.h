// Sleeping on a 32-bit word, also one in memory shared between processes.
#ifndef FASTHVD_RUNTIME_BASE_FUTEX_H_
#define FASTHVD_RUNTIME_BASE_FUTEX_H_

#include <atomic>
#include <cstdint>

namespace fasthvd {

// Blocks while *word == expected, until woken. May return early: callers re-check in a loop.
void FutexWait(std::atomic<uint32_t>* word, uint32_t expected);

// Wakes every waiter of `word`, in all processes.
void FutexWakeAll(std::atomic<uint32_t>* word);

// Polls *word for at most that long, as long as it is `value`. Whether it has another value then.
bool SpinWhile(const std::atomic<uint32_t>& word, uint32_t value, int microseconds);

// Tells the core that this is a spin loop.
inline void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_BASE_FUTEX_H_

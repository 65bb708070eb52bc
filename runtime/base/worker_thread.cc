#include "runtime/base/worker_thread.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <system_error>
#include <utility>

namespace fasthvd {
namespace {

// The kernel's struct sched_attr in its first form; glibc has it only from 2.41.
struct SchedulingAttributes {
  uint32_t size;
  uint32_t policy;  // 0: the normal one.
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime;  // Nanoseconds. Of a normal thread since 6.12: the slice it asks for.
  uint64_t deadline;
  uint64_t period;
};

constexpr uint64_t kSliceNanoseconds = 100 * 1000;  // The shortest that the kernel grants.

// For the calling thread; its niceness stays. Kernels that do not know it change nothing.
void PreferShortSlices() {
  SchedulingAttributes attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
  if (attributes.policy != 0) return;  // The user chose another policy.
  attributes.runtime = kSliceNanoseconds;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

Result<std::thread> StartWorker(const std::string& name, std::function<void()> work) {
  try {
    return std::thread([name, work = std::move(work)] {
      pthread_setname_np(pthread_self(), name.c_str());
      PreferShortSlices();
      work();
    });
  } catch (const std::system_error& error) {
    return Internal("starting the thread " + name + ": " + error.what());
  }
}

}  // namespace fasthvd

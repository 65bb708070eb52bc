// The runtime's threads.
#ifndef FASTHVD_RUNTIME_BASE_WORKER_THREAD_H_
#define FASTHVD_RUNTIME_BASE_WORKER_THREAD_H_

#include <functional>
#include <string>
#include <thread>

#include "runtime/base/status.h"

namespace fasthvd {

// Starts a thread that runs `work`, for short bursts with sleep between them: it is named `name`
// (at most 15 bytes, as debuggers show it), and where the kernel has it (Linux 6.12), asks to run
// soon after it was woken at the price of running briefly. TensorFlow's threads, which poll for
// work before they sleep, otherwise hold the core that a woken thread needs. Internal if the system
// has no thread to give.
Result<std::thread> StartWorker(const std::string& name, std::function<void()> work);

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_BASE_WORKER_THREAD_H_

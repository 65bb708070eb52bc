// What an op hands to the engine: an entry with its buffers and completion.
#ifndef FASTHVD_RUNTIME_ENGINE_REQUEST_H_
#define FASTHVD_RUNTIME_ENGINE_REQUEST_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/base/description.h"
#include "runtime/base/status.h"

namespace fasthvd {

struct TensorBuffers {
  const void* input = nullptr;
  void* output = nullptr;  // May be the input's memory.
};

struct Request {
  EntryDescription description;
  // One per shape of the description, of that size and its dtype; valid until `done` is called.
  std::vector<TensorBuffers> tensors;
  // The caller's run of a function, or 0: when one of its entries fails, the others fail too
  // instead of waiting for ranks that have ended the function elsewhere.
  uint64_t step = 0;
  // May be null. A caller that gives up sets it, then calls Engine::LookForCancelled(); the entry
  // still completes through `done`.
  std::shared_ptr<std::atomic<bool>> cancelled;
  // Called exactly once, on any thread; must not block.
  std::function<void(const Status&)> done;
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_ENGINE_REQUEST_H_

// What an op hands to the engine: an entry with its buffers and completion.
#ifndef FASTHVD_RUNTIME_ENGINE_REQUEST_H_
#define FASTHVD_RUNTIME_ENGINE_REQUEST_H_

#include <functional>
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
  // Called exactly once, on any thread; must not block.
  std::function<void(const Status&)> done;
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_ENGINE_REQUEST_H_

// What an op hands to the engine: an entry with its buffers and completion.
#ifndef FASTHVD_RUNTIME_ENGINE_REQUEST_H_
#define FASTHVD_RUNTIME_ENGINE_REQUEST_H_

#include <cstdint>
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
  // The caller's run of a function, or 0: when one of its entries fails, or the step itself (see
  // Engine::WithdrawStep), the others fail too instead of waiting for ranks that have ended the
  // function elsewhere.
  uint64_t step = 0;
  // Called exactly once, on any thread; must not block.
  std::function<void(const Status&)> done;
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_ENGINE_REQUEST_H_

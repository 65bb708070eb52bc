// Collectives of a job of one rank: scale, or copy.
#ifndef FASTHVD_RUNTIME_LANES_LOCAL_EXECUTOR_H_
#define FASTHVD_RUNTIME_LANES_LOCAL_EXECUTOR_H_

#include "runtime/lanes/executor.h"

namespace fasthvd {

// Stateless; nobody to wait for, so nothing to abort.
class LocalExecutor : public Executor {
 public:
  void Run(StripeQueue* queue) override;
  void WakeForAbort() override {}
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_LANES_LOCAL_EXECUTOR_H_

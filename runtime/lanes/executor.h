// What runs on a lane: takes stripes and carries them out together with the peers' same lanes.
#ifndef FASTHVD_RUNTIME_LANES_EXECUTOR_H_
#define FASTHVD_RUNTIME_LANES_EXECUTOR_H_

#include "runtime/base/closable_queue.h"
#include "runtime/lanes/abort_state.h"
#include "runtime/lanes/batch.h"

namespace fasthvd {

using StripeQueue = ClosableQueue<Stripe>;

// One object a lane, used by the lane's thread alone except for the abort.
class Executor {
 public:
  virtual ~Executor() = default;

  // Runs the queue's stripes in order until it is closed and empty; calls StripeDone on each.
  // All ranks' executors of one lane see the same stripes in the same order.
  virtual void Run(StripeQueue* queue) = 0;

  // Makes stripes in progress and to come end with `reason` soon, in two steps so that all lanes
  // know the reason before any of them acts on it. Any thread, more than once.
  void SetAbortReason(const Status& reason) { abort_.Set(reason); }
  virtual void WakeForAbort() = 0;

 protected:
  AbortState abort_;
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_LANES_EXECUTOR_H_

// A bell by which threads wake one that sleeps, onto their own core if no other is free.
#ifndef FASTHVD_RUNTIME_BASE_DOORBELL_H_
#define FASTHVD_RUNTIME_BASE_DOORBELL_H_

#include "runtime/base/owned_fd.h"

namespace fasthvd {

// A pipe: the kernel supposes that who writes to one is about to sleep, as a thread is that passes
// on work, and lets the reader have its core. After a futex's wake-up the sleeper would queue where
// it ran last, also behind a thread that spins there (TensorFlow's do for some 100 µs).
class Doorbell {
 public:
  Doorbell();

  // False if the system had no descriptors to give: the bell must not be used then.
  bool valid() const { return sleeper_.valid(); }

  // Ends one Wait(), be it under way or to come. Any thread.
  void Ring();
  // For one thread. May also end without a ring.
  void Wait();

 private:
  OwnedFd sleeper_;
  OwnedFd ringer_;
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_BASE_DOORBELL_H_

#include "runtime/base/doorbell.h"

#include <fcntl.h>
#include <unistd.h>

namespace fasthvd {

Doorbell::Doorbell() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  sleeper_.Reset(ends[0]);
  ringer_.Reset(ends[1]);
}

void Doorbell::Ring() {
  ssize_t written = write(ringer_.get(), "", 1);
  (void)written;  // Fails only on an interruption before a pipe that is full of rings.
}

void Doorbell::Wait() {
  char ring;
  ssize_t bytes = read(sleeper_.get(), &ring, 1);
  (void)bytes;  // An interruption ends the wait.
}

}  // namespace fasthvd

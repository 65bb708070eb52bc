// Start-up: the ranks connect to each other and agree on the data plane.
//
// Every rank connects to rank 0 for the control plane. Rank 0 offers the shared arena where all
// ranks are on its host, learns whether everyone could map it, and tells everyone the outcome; if
// not, the lanes are connected in a ring over TCP.
#ifndef FASTHVD_RUNTIME_ENGINE_BOOTSTRAP_H_
#define FASTHVD_RUNTIME_ENGINE_BOOTSTRAP_H_

#include <memory>
#include <vector>

#include "runtime/base/config.h"
#include "runtime/base/deadline.h"
#include "runtime/lanes/arena.h"
#include "runtime/lanes/executor.h"
#include "runtime/lanes/lane_process.h"
#include "runtime/transport/acceptor.h"
#include "runtime/transport/endpoint.h"
#include "runtime/transport/frame_connection.h"

namespace fasthvd {

// Where a rank is in the job. Constant.
struct Place {
  int rank = 0;
  std::vector<Endpoint> endpoints;  // Of all ranks, in rank order.
  Key key;                          // The job's secret.

  int size() const { return static_cast<int>(endpoints.size()); }
  // Ranks on this rank's host, this one included.
  int ranks_on_host() const;
  bool SharesHostWith(int peer) const;
};

// What a rank holds after start-up.
struct Links {
  // Rank 0: to rank i + 1. Others: one, to rank 0.
  std::vector<std::unique_ptr<FrameConnection>> control;
  std::unique_ptr<Arena> arena;  // Null if the lanes use TCP or there is one rank.
  std::vector<std::unique_ptr<Executor>> executors;     // One a lane.
  std::vector<std::unique_ptr<LaneProcess>> processes;  // One a lane, or none.
};

// Connects this rank with all others until `deadline`. DeadlineExceeded names the ranks missing.
Result<Links> Bootstrap(const Config& config, const Place& place, Acceptor* acceptor,
                        Deadline deadline);

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_ENGINE_BOOTSTRAP_H_

// The runtime's settings. This is the only code of runtime/ that reads the environment.
#ifndef FASTHVD_RUNTIME_BASE_CONFIG_H_
#define FASTHVD_RUNTIME_BASE_CONFIG_H_

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace fasthvd {

// What does the reduce stage of a lane.
enum class LaneHost { kThread, kProcess };

struct Config {
  // FASTHVD_LANES: lanes per rank; 0 picks by cores and ranks of the host.
  int lanes = 0;
  // FASTHVD_CHUNK_BYTES: piece of a batch that passes through one arena slot, bytes.
  size_t chunk_bytes = 256 << 10;
  // FASTHVD_SLOTS: chunks of a lane in flight.
  int slots = 4;
  // FASTHVD_FUSION_THRESHOLD (HOROVOD_FUSION_THRESHOLD): most bytes fused into one batch.
  size_t fusion_bytes = 64 << 20;
  // FASTHVD_SMALL_BYTES: batches up to this size are reduced by every rank on its own (one wait
  // less) instead of in slices, bytes.
  size_t small_bytes = 32 << 10;
  // FASTHVD_RESULT_KEEP_BYTES: most bytes of dead large results kept for the next ones.
  size_t result_keep_bytes = 256 << 20;
  // FASTHVD_SPIN_MICROSECONDS: how long a lane polls before it sleeps; -1 picks by free cores.
  int spin_microseconds = -1;
  // FASTHVD_SHARED_MEMORY=0 makes ranks of one host use TCP.
  bool shared_memory = true;
  // FASTHVD_LANE_HOST: "process" has the lanes reduce in processes of their own, where the ranks
  // share memory.
  LaneHost lane_host = LaneHost::kThread;
  // FASTHVD_LANE_CPUS: lane process i is pinned to lane_cpus[i % n]; empty pins none.
  std::vector<int> lane_cpus;
  // The lane program's path; not from the environment.
  std::string lane_program;
  // FASTHVD_START_TIMEOUT (HOROVOD_GLOO_TIMEOUT_SECONDS): for all ranks to meet, seconds.
  std::chrono::milliseconds start_timeout{30000};
  // FASTHVD_LOG_LEVEL (HOROVOD_LOG_LEVEL): debug, info, warning or error.
  LogLevel log_level = LogLevel::kWarning;
};

// The defaults, overridden by the environment. InvalidArgument names a variable that is malformed
// or out of range and what it takes.
Result<Config> ConfigFromEnvironment();

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_BASE_CONFIG_H_

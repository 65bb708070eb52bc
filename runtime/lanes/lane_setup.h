// What a training process tells its lane program at the start, over the socket between the two.
#ifndef FASTHVD_RUNTIME_LANES_LANE_SETUP_H_
#define FASTHVD_RUNTIME_LANES_LANE_SETUP_H_

#include <cstdint>

namespace fasthvd {

// The program's descriptors, apart from standard error. The socket keeps packets apart: one
// LaneSetup goes to the program, kLaneReady or the text of an error comes back. After that its end,
// or that of the parent, tells the program to end.
constexpr int kLaneArenaFd = 3;
constexpr int kLaneSocketFd = 4;

constexpr char kLaneReady[] = "ready";
constexpr uint64_t kLaneSetupMagic = 0x31656e616c4846;  // "FHlane1"

struct LaneSetup {
  uint64_t magic = kLaneSetupMagic;
  int32_t parent = 0;  // The training process's id.
  int32_t rank = 0;
  int32_t lane = 0;
  int32_t spin_microseconds = 0;
  int32_t cpu = -1;  // To run on; -1: any.
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_LANES_LANE_SETUP_H_

// The messages of the control plane and their bytes.
//
// Fixed little-endian layout: magic, version, type, then the fields in the order of the structs
// below. Decoders check every length against the bytes at hand and against the limits here before
// they allocate, and refuse trailing bytes.
#ifndef FASTHVD_RUNTIME_NEGOTIATION_MESSAGE_H_
#define FASTHVD_RUNTIME_NEGOTIATION_MESSAGE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/description.h"
#include "runtime/base/status.h"

namespace fasthvd {

constexpr uint32_t kNoId = 0xffffffffu;
constexpr size_t kMaxTensorsPerEntry = 1 << 20;
constexpr size_t kMaxDimensions = 254;

// An entry that one rank has ready: the id it got earlier, or (id == kNoId) its description.
struct Announcement {
  uint32_t id = kNoId;
  EntryDescription description;
  // The rank handed the name in again while its first entry was still waiting. It has failed the
  // second one; this makes the other ranks' second ones fail too. Goes with a description.
  bool duplicate = false;
  // The caller's step (a run of a function) on this rank, or 0 if it has none; see FailedSteps.
  uint64_t step = 0;
};

// Rank → coordinator: these entries are ready here, in this order.
struct ReadyMessage {
  std::vector<Announcement> entries;
};

// An entry of a plan: a known id, or a name that gets `id` from now on (kNoId: it stays without).
struct PlannedEntry {
  uint32_t id = kNoId;
  std::string name;  // Empty for a known id.
};

// A step of the plan: entries to run fused as one batch, or, with `error` set, to fail on `ranks`:
// those that have announced them. Every announcement is answered by exactly one step.
struct PlanStep {
  std::vector<PlannedEntry> entries;
  Status error;
  std::vector<uint32_t> ranks;  // Of an error.
};

// Coordinator → ranks: the next steps of the totally ordered plan.
struct PlanMessage {
  std::vector<PlanStep> steps;
};

// Rank → coordinator: these steps of the rank (see Announcement) have failed or were cancelled.
// Their entries that are ready on all ranks run all the same; others fail, as do later ones.
struct WithdrawMessage {
  std::vector<uint64_t> steps;
};

// Follower → coordinator: its start-up is through; whether it could map the host's arena.
struct AttachedMessage {
  bool arena = false;
};

// Coordinator → followers: all are there; the data plane everyone uses.
struct BeginMessage {
  bool arena = false;
  uint32_t lanes = 1;
};

// Follower → coordinator: hands in nothing more. The coordinator answers with GoodbyeMessage.
struct LeaveMessage {};

// Coordinator → one follower: nothing more will be planned with it.
struct GoodbyeMessage {};

// Either way: the job has failed.
struct AbortMessage {
  std::string reason;
};

using Message = std::variant<ReadyMessage, PlanMessage, AttachedMessage, BeginMessage, LeaveMessage,
                             GoodbyeMessage, AbortMessage, WithdrawMessage>;

std::string Encode(const Message& message);
// InvalidArgument if `bytes` are not exactly one well-formed message.
Result<Message> Decode(std::string_view bytes);

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_NEGOTIATION_MESSAGE_H_

// The shared memory through which the ranks of one host move and reduce chunks.
//
// Layout: a header; for each lane its synchronisation words; for each lane and rank its orders; for
// each lane, slot and rank a chunk.
//
// Protocol of a lane. All ranks push the same numbered chunks 0, 1, 2, … through; chunk c uses slot
// c % slots. Three counters per slot only ever grow, by one per rank and use, so use u of a slot
// (u = c / slots) has all ranks' arrivals when the counter has reached ranks * (u + 1):
//   copied_in   all ranks' input is in the slot             → anyone may reduce
//   reduced     all ranks' slices of the result are there   → anyone may copy out
//   copied_out  all ranks have taken what they need         → the slot is free for its next use
// The rank whose arrival completes a counter bumps the lane's `epoch` and wakes the sleepers, so a
// rank sleeps on one word, whatever it waits for, and is woken only when all can go on.
// Orders: an arrival is a release-increment and a check is an acquire-load of the counter, so bytes
// written before the arrival are seen after the check. `epoch` and `sleepers` are sequentially
// consistent: either the waker sees the sleeper, or the sleeper sees the new epoch.
//
// Orders. Where a rank's lane process does the reduce stage, the rank's thread writes a descriptor
// of each chunk that has this stage into the rank's orders before it arrives at copied_in. `ring`
// needs no more places than there are slots: the thread writes the order after next `slots` only
// when it has seen `reduced` complete for this one, hence after the process has arrived there and
// read it. Chunks without the stage are never told, so the process may be any number of those
// behind.
#ifndef FASTHVD_RUNTIME_LANES_ARENA_H_
#define FASTHVD_RUNTIME_LANES_ARENA_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/base/owned_fd.h"
#include "runtime/base/status.h"
#include "runtime/collectives/reduce_spec.h"

namespace fasthvd {

struct ArenaShape {
  uint32_t ranks = 1;
  uint32_t lanes = 1;
  uint32_t slots = 4;
  uint32_t chunk_bytes = 256 << 10;  // A multiple of 64.
  uint32_t small_bytes = 32 << 10;   // Chunks up to this size are reduced whole by every rank.
};

// A counter alone on its cache line.
struct alignas(64) ArenaCounter {
  std::atomic<uint32_t> value;
};

struct ArenaSlot {
  ArenaCounter copied_in;
  ArenaCounter reduced;
  ArenaCounter copied_out;
};

// One lane's words, shared by all ranks. Zero-initialised memory is a valid start.
struct ArenaLane {
  ArenaCounter epoch;
  ArenaCounter sleepers;
  ArenaSlot slots[1];  // ArenaShape::slots of them.
};

// What a lane process must know of a chunk to reduce its rank's slice.
struct alignas(64) ChunkDescriptor {
  uint64_t number;  // In the lane's stream of chunks.
  uint64_t bytes;
  ReduceSpec reduce;
};

// From one rank's thread to its lane process. Zero-initialised memory is a valid start.
struct ArenaOrders {
  alignas(64) std::atomic<uint32_t> posted;  // How many so far; order i is in ring[i % slots].
  std::atomic<uint32_t> bell;                // Bumped when there is something to look at.
  std::atomic<uint32_t> sleeping;            // 1 while the process may sleep on the bell.
  ChunkDescriptor ring[1];                   // ArenaShape::slots of them.
};

// A mapping of the arena. Thread-safe after creation; the executors share out the memory by the
// protocol above. The memory goes when the last mapping and descriptor of it are gone.
class Arena {
 public:
  // Makes a zeroed arena; Internal if the system refuses the memory.
  static Result<std::unique_ptr<Arena>> Create(ArenaShape shape);
  // Maps an arena that another process created.
  static Result<std::unique_ptr<Arena>> Attach(OwnedFd fd);
  // Shrinks `shape` until the whole arena fits `limit` bytes.
  static ArenaShape Fit(ArenaShape shape, size_t limit);

  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  const ArenaShape& shape() const { return shape_; }
  int fd() const { return fd_.get(); }
  size_t bytes() const { return bytes_; }

  ArenaLane* lane(uint32_t lane) const;
  ArenaSlot* slot(uint32_t lane, uint32_t slot) const { return &this->lane(lane)->slots[slot]; }
  ArenaOrders* orders(uint32_t lane, uint32_t rank) const;
  char* chunk(uint32_t lane, uint32_t slot, uint32_t rank) const;

  // Wakes whoever sleeps on a lane's epoch, on every rank, to look around.
  void WakeAll();

 private:
  struct Header;
  Arena(OwnedFd fd, char* base, const ArenaShape& shape);

  OwnedFd fd_;
  char* base_;
  ArenaShape shape_;
  size_t bytes_;
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_LANES_ARENA_H_

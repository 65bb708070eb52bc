#include "runtime/lane_program/lane_server.h"

namespace fasthvd {

LaneServer::LaneServer(Arena* arena, int lane, int rank, int spin_microseconds)
    : arena_(arena),
      spin_microseconds_(spin_microseconds),
      port_(arena, lane, rank, spin_microseconds),
      orders_(arena, lane, rank) {}

void LaneServer::Run() {
  while (true) {
    const uint32_t bell = orders_.bell();
    if (stopping_.load()) return;
    const ChunkDescriptor* order = orders_.Front();
    if (order == nullptr) {
      orders_.WaitForBellAfter(bell, spin_microseconds_);
    } else if (Reduce(*order)) {
      orders_.Pop();
    }
  }
}

bool LaneServer::Reduce(const ChunkDescriptor& order) {
  // Here this rank's input is in the arena, like everyone's.
  auto own_pieces = [&](size_t begin, size_t end, auto visit) {
    if (begin < end) visit(port_.chunk(order.number, port_.rank()) + begin, end - begin, 0);
  };
  while (true) {
    const uint32_t epoch = port_.epoch();
    if (stopping_.load()) return false;
    if (port_.TryReduceSlice(order.reduce, order.number, order.bytes, own_pieces)) return true;
    port_.WaitForEpochAfter(epoch);
  }
}

void LaneServer::Stop() {
  stopping_.store(true);
  orders_.Ring();
  arena_->WakeAll();
}

}  // namespace fasthvd

#include "runtime/lanes/arena.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "runtime/base/futex.h"

namespace fasthvd {

struct Arena::Header {
  uint64_t magic;
  ArenaShape shape;
};

namespace {

constexpr uint64_t kMagic = 0x32616e6572614846;  // "FHarena2"
constexpr size_t kPage = 4096;
constexpr size_t kHeaderBytes = 128;

size_t RoundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

size_t LaneBytes(const ArenaShape& shape) {
  return sizeof(ArenaLane) + (shape.slots - 1) * sizeof(ArenaSlot);
}

size_t OrdersBytes(const ArenaShape& shape) {
  return sizeof(ArenaOrders) + (shape.slots - 1) * sizeof(ChunkDescriptor);
}

// Where the orders start, and where the chunks do.
size_t OrdersOffset(const ArenaShape& shape) {
  return kHeaderBytes + shape.lanes * LaneBytes(shape);
}
size_t ControlBytes(const ArenaShape& shape) {
  size_t orders = size_t{shape.lanes} * shape.ranks * OrdersBytes(shape);
  return RoundUp(OrdersOffset(shape) + orders, kPage);
}

size_t TotalBytes(const ArenaShape& shape) {
  return ControlBytes(shape) + size_t{shape.lanes} * shape.slots * shape.ranks * shape.chunk_bytes;
}

Result<char*> Map(int fd, size_t bytes) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    return SystemError("mapping the shared arena of " + std::to_string(bytes) + " bytes", errno);
  }
  return static_cast<char*>(base);
}

}  // namespace

ArenaShape Arena::Fit(ArenaShape shape, size_t limit) {
  shape.chunk_bytes = std::max<uint32_t>(shape.chunk_bytes / 64 * 64, 64);
  while (TotalBytes(shape) > limit && shape.chunk_bytes > kPage) {
    shape.chunk_bytes = shape.chunk_bytes / 2 / 64 * 64;
  }
  shape.small_bytes = std::min(shape.small_bytes, shape.chunk_bytes);
  return shape;
}

Result<std::unique_ptr<Arena>> Arena::Create(ArenaShape shape) {
  static_assert(sizeof(Header) <= kHeaderBytes);
  // memfd, not /dev/shm: containers cap the latter at 64 MB.
  OwnedFd fd(memfd_create("tf_fasthvd_arena", MFD_CLOEXEC));
  if (!fd.valid()) return SystemError("memfd_create for the shared arena", errno);
  size_t bytes = TotalBytes(shape);
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return SystemError("sizing the shared arena to " + std::to_string(bytes) + " bytes", errno);
  }
  Result<char*> base = Map(fd.get(), bytes);
  if (!base.ok()) return base.status();
  Header* header = reinterpret_cast<Header*>(*base);
  header->shape = shape;
  header->magic = kMagic;
  return std::unique_ptr<Arena>(new Arena(std::move(fd), *base, shape));
}

Result<std::unique_ptr<Arena>> Arena::Attach(OwnedFd fd) {
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return SystemError("looking at the shared arena", errno);
  size_t bytes = static_cast<size_t>(info.st_size);
  if (bytes < kHeaderBytes) return Internal("the shared arena is too small");
  Result<char*> base = Map(fd.get(), bytes);
  if (!base.ok()) return base.status();
  const Header* header = reinterpret_cast<const Header*>(*base);
  if (header->magic != kMagic || TotalBytes(header->shape) != bytes) {
    munmap(*base, bytes);
    return Internal("the shared arena was made by another version of tf_fasthvd");
  }
  return std::unique_ptr<Arena>(new Arena(std::move(fd), *base, header->shape));
}

Arena::Arena(OwnedFd fd, char* base, const ArenaShape& shape)
    : fd_(std::move(fd)), base_(base), shape_(shape), bytes_(TotalBytes(shape)) {}

Arena::~Arena() { munmap(base_, bytes_); }

ArenaLane* Arena::lane(uint32_t lane) const {
  return reinterpret_cast<ArenaLane*>(base_ + kHeaderBytes + lane * LaneBytes(shape_));
}

ArenaOrders* Arena::orders(uint32_t lane, uint32_t rank) const {
  size_t index = size_t{lane} * shape_.ranks + rank;
  return reinterpret_cast<ArenaOrders*>(base_ + OrdersOffset(shape_) + index * OrdersBytes(shape_));
}

char* Arena::chunk(uint32_t lane, uint32_t slot, uint32_t rank) const {
  size_t index = (size_t{lane} * shape_.slots + slot) * shape_.ranks + rank;
  return base_ + ControlBytes(shape_) + index * shape_.chunk_bytes;
}

void Arena::WakeAll() {
  for (uint32_t i = 0; i < shape_.lanes; ++i) {
    lane(i)->epoch.value.fetch_add(1);
    FutexWakeAll(&lane(i)->epoch.value);
  }
}

}  // namespace fasthvd

#include "runtime/lanes/ring_executor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace fasthvd {
namespace {

// A piece's accumulators; the incoming block needs at most half as much (two ranks).
constexpr size_t kSumBytes = 1 << 20;
constexpr size_t kIncomingBytes = kSumBytes / 2 + 64;
constexpr size_t kBroadcastPieceBytes = 256 << 10;

Status Broken(const char* direction, int rank, const std::string& detail) {
  return PeerLost(std::string("the connection ") + direction + " rank " + std::to_string(rank) +
                  " broke (" + detail + "): that rank has exited, crashed or is unreachable");
}

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

Result<std::unique_ptr<RingExecutor>> RingExecutor::Create(int rank, int size, OwnedFd left,
                                                           OwnedFd right) {
  OwnedFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return SystemError("eventfd", errno);
  return std::unique_ptr<RingExecutor>(
      new RingExecutor(rank, size, std::move(left), std::move(right), std::move(wake)));
}

RingExecutor::RingExecutor(int rank, int size, OwnedFd left, OwnedFd right, OwnedFd wake)
    : rank_(rank),
      size_(size),
      left_(std::move(left)),
      right_(std::move(right)),
      wake_(std::move(wake)),
      sums_(kSumBytes),
      incoming_(kIncomingBytes) {}

void RingExecutor::WakeForAbort() {
  uint64_t one = 1;
  ssize_t written = write(wake_.get(), &one, sizeof(one));
  (void)written;  // Fails only when the count is full, and then the eventfd is readable already.
}

void RingExecutor::Run(StripeQueue* queue) {
  while (std::optional<Stripe> stripe = queue->Pop()) {
    Status status = abort_.is_set() ? abort_.reason() : RunStripe(*stripe);
    // After a broken exchange the streams are out of step: nothing may follow on them.
    if (!status.ok()) abort_.Set(status);
    stripe->batch->StripeDone(status);
  }
}

Status RingExecutor::RunStripe(const Stripe& stripe) {
  const Batch& batch = *stripe.batch;
  const bool is_reduce = batch.kind() == CollectiveKind::kAllreduce;
  size_t piece = kBroadcastPieceBytes;
  if (is_reduce) {
    const DataType dtype = batch.reduce().dtype;
    piece = kSumBytes / SizeOf(AccumulatorOf(dtype)) * SizeOf(dtype);
  }
  for (size_t begin = stripe.begin; begin < stripe.end; begin += piece) {
    const size_t end = std::min(stripe.end, begin + piece);
    FASTHVD_RETURN_IF_ERROR(is_reduce ? Allreduce(batch, begin, end)
                                      : Broadcast(batch, begin, end));
  }
  return Status::Ok();
}

Status RingExecutor::Allreduce(const Batch& batch, size_t begin, size_t end) {
  const ReduceSpec& spec = batch.reduce();
  const DataType accumulator = AccumulatorOf(spec.dtype);
  const size_t element = SizeOf(spec.dtype);
  const size_t wide = SizeOf(accumulator);
  const size_t count = (end - begin) / element;
  batch.ForEachPiece(begin, end, [&](const char* input, char*, size_t bytes, size_t offset) {
    ToAccumulator(spec, input, sums_.data() + offset / element * wide, bytes / element);
  });

  // Block b of the piece: elements [b * block, (b + 1) * block).
  const size_t block = (count + size_ - 1) / size_;
  auto start = [&](int b) { return std::min(count, block * ((b % size_ + size_) % size_)); };
  auto length = [&](int b) { return std::min(count, start(b) + block) - start(b); };
  auto data = [&](int b) { return sums_.data() + start(b) * wide; };

  for (int step = 0; step < size_ - 1; ++step) {
    const int out = rank_ - step;
    const int in = out - 1;
    FASTHVD_RETURN_IF_ERROR(
        Exchange(data(out), length(out) * wide, incoming_.data(), length(in) * wide));
    Accumulate(accumulator, spec.op, data(in), incoming_.data(), length(in));
  }
  for (int step = 0; step < size_ - 1; ++step) {
    const int out = rank_ + 1 - step;
    const int in = out - 1;
    FASTHVD_RETURN_IF_ERROR(Exchange(data(out), length(out) * wide, data(in), length(in) * wide));
  }

  batch.ForEachPiece(begin, end, [&](const char*, char* output, size_t bytes, size_t offset) {
    FromAccumulator(spec, sums_.data() + offset / element * wide, output, bytes / element);
  });
  return Status::Ok();
}

Status RingExecutor::Broadcast(const Batch& batch, size_t begin, size_t end) {
  const bool is_root = rank_ == batch.root();
  const bool forwards = right_rank() != batch.root();
  if (is_root) {
    batch.ForEachPiece(begin, end, [&](const char* input, char*, size_t bytes, size_t offset) {
      std::memcpy(sums_.data() + offset, input, bytes);
    });
  } else {
    FASTHVD_RETURN_IF_ERROR(Exchange(nullptr, 0, sums_.data(), end - begin));
  }
  if (forwards) FASTHVD_RETURN_IF_ERROR(Exchange(sums_.data(), end - begin, nullptr, 0));
  batch.ForEachPiece(begin, end, [&](const char*, char* output, size_t bytes, size_t offset) {
    std::memcpy(output, sums_.data() + offset, bytes);
  });
  return Status::Ok();
}

Status RingExecutor::Exchange(const char* send, size_t send_bytes, char* receive,
                              size_t receive_bytes) {
  while (true) {
    if (abort_.is_set()) return abort_.reason();
    if (send_bytes > 0) FASTHVD_RETURN_IF_ERROR(SendSome(&send, &send_bytes));
    if (receive_bytes > 0) FASTHVD_RETURN_IF_ERROR(ReceiveSome(&receive, &receive_bytes));
    if (send_bytes == 0 && receive_bytes == 0) return Status::Ok();
    pollfd waits[3] = {{wake_.get(), POLLIN, 0},
                       {send_bytes > 0 ? right_.get() : -1, POLLOUT, 0},
                       {receive_bytes > 0 ? left_.get() : -1, POLLIN, 0}};
    if (poll(waits, 3, -1) < 0 && errno != EINTR) return SystemError("poll", errno);
  }
}

Status RingExecutor::SendSome(const char** data, size_t* bytes) {
  ssize_t sent = send(right_.get(), *data, *bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) {
    if (WouldBlock(errno)) return Status::Ok();
    return Broken("to", right_rank(), std::strerror(errno));
  }
  *data += sent;
  *bytes -= sent;
  return Status::Ok();
}

Status RingExecutor::ReceiveSome(char** data, size_t* bytes) {
  ssize_t received = recv(left_.get(), *data, *bytes, MSG_DONTWAIT);
  if (received < 0) {
    if (WouldBlock(errno)) return Status::Ok();
    return Broken("from", left_rank(), std::strerror(errno));
  }
  if (received == 0) return Broken("from", left_rank(), "closed by the peer");
  *data += received;
  *bytes -= received;
  return Status::Ok();
}

}  // namespace fasthvd

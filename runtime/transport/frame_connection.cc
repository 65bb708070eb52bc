#include "runtime/transport/frame_connection.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace fasthvd {
namespace {

constexpr size_t kHeaderBytes = 4;
constexpr size_t kReadBytes = 64 << 10;
// A buffer that once grew above this gives its memory back when it is empty.
constexpr size_t kKeptBytes = 1 << 20;

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

Status Broken(int error) {
  return PeerLost("the connection broke: " + std::generic_category().message(error));
}

void Clear(std::string* buffer) {
  buffer->clear();
  if (buffer->capacity() > kKeptBytes) buffer->shrink_to_fit();
}

}  // namespace

FrameConnection::FrameConnection(OwnedFd fd, size_t max_frame_bytes)
    : fd_(std::move(fd)), max_frame_bytes_(max_frame_bytes) {}

Status FrameConnection::Send(std::string_view payload) {
  if (payload.size() > max_frame_bytes_) {
    return InvalidArgument("a message of " + std::to_string(payload.size()) +
                           " bytes is above the limit of " + std::to_string(max_frame_bytes_));
  }
  char header[kHeaderBytes];
  for (size_t i = 0; i < kHeaderBytes; ++i) header[i] = static_cast<char>(payload.size() >> 8 * i);
  size_t sent = 0;
  if (!wants_write()) {
    iovec parts[2] = {{header, kHeaderBytes}, {const_cast<char*>(payload.data()), payload.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t result = sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (result >= 0) {
      sent = static_cast<size_t>(result);
    } else if (!WouldBlock(errno) && errno != EINTR) {
      return Broken(errno);
    }
  }
  if (sent < kHeaderBytes) outgoing_.append(header + sent, kHeaderBytes - sent);
  const size_t sent_payload = sent - std::min(sent, kHeaderBytes);
  outgoing_.append(payload.substr(sent_payload));
  return Flush();
}

Status FrameConnection::Flush() {
  while (wants_write()) {
    const ssize_t result = send(fd_.get(), outgoing_.data() + sent_, outgoing_.size() - sent_,
                                MSG_DONTWAIT | MSG_NOSIGNAL);
    if (result >= 0) {
      sent_ += static_cast<size_t>(result);
    } else if (WouldBlock(errno)) {
      break;
    } else if (errno != EINTR) {
      return Broken(errno);
    }
  }
  if (!wants_write()) {
    Clear(&outgoing_);
    sent_ = 0;
  } else if (sent_ > outgoing_.size() / 2) {
    // What has gone is dropped only when it is the larger part, so that moving the rest is cheap.
    outgoing_.erase(0, sent_);
    sent_ = 0;
  }
  return Status::Ok();
}

Status FrameConnection::Receive(const std::function<Status(std::string_view frame)>& on_frame) {
  char buffer[kReadBytes];
  while (true) {
    const ssize_t got = recv(fd_.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (got == 0) return PeerLost("the peer closed the connection");
    if (got < 0) {
      if (errno == EINTR) continue;
      return WouldBlock(errno) ? Status::Ok() : Broken(errno);
    }
    std::string_view data(buffer, static_cast<size_t>(got));
    size_t consumed = 0;
    if (incoming_.empty()) {
      // Most frames come whole: no copy.
      FASTHVD_RETURN_IF_ERROR(Dispatch(data, on_frame, &consumed));
      incoming_.append(data.substr(consumed));
    } else {
      incoming_.append(data);
      FASTHVD_RETURN_IF_ERROR(Dispatch(incoming_, on_frame, &consumed));
      incoming_.erase(0, consumed);
      if (incoming_.empty()) Clear(&incoming_);
    }
  }
}

Status FrameConnection::Dispatch(std::string_view data,
                                 const std::function<Status(std::string_view)>& on_frame,
                                 size_t* consumed) const {
  while (data.size() >= kHeaderBytes) {
    size_t size = 0;
    for (size_t i = 0; i < kHeaderBytes; ++i) {
      size |= size_t{static_cast<uint8_t>(data[i])} << 8 * i;
    }
    if (size > max_frame_bytes_) {
      return Internal("the peer announced a message of " + std::to_string(size) +
                      " bytes, above the limit of " + std::to_string(max_frame_bytes_));
    }
    if (data.size() - kHeaderBytes < size) break;
    FASTHVD_RETURN_IF_ERROR(on_frame(data.substr(kHeaderBytes, size)));
    data.remove_prefix(kHeaderBytes + size);
    *consumed += kHeaderBytes + size;
  }
  return Status::Ok();
}

}  // namespace fasthvd

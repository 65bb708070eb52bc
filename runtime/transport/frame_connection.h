// Messages over a stream socket, driven by the caller's epoll loop.
#ifndef FASTHVD_RUNTIME_TRANSPORT_FRAME_CONNECTION_H_
#define FASTHVD_RUNTIME_TRANSPORT_FRAME_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "runtime/base/owned_fd.h"
#include "runtime/base/status.h"

namespace fasthvd {

// A frame on the wire is its size (32 bits, little-endian) and its bytes. No call blocks.
//
// Not thread-safe: owned by one thread. Each call returns PeerLost if the peer has closed or reset
// the connection. A failed Receive() leaves Send() usable, so that a last word can be said.
class FrameConnection {
 public:
  static constexpr size_t kMaxFrameBytes = 64 << 20;

  // `fd`: a non-blocking connected stream socket.
  explicit FrameConnection(OwnedFd fd, size_t max_frame_bytes = kMaxFrameBytes);

  int fd() const { return fd_.get(); }

  // Sends at once what the socket takes and keeps the rest. InvalidArgument, and nothing is sent,
  // if the payload is above the limit.
  Status Send(std::string_view payload);
  // Whether bytes wait for the socket to become writable: then call Flush().
  bool wants_write() const { return sent_ < outgoing_.size(); }
  Status Flush();

  // Reads all that is there and calls `on_frame` for each complete frame, in order. The view lives
  // until `on_frame` returns. `on_frame` may Send() but not Receive() on this connection, nor
  // destroy it. Stops at its first error and returns that; no Receive() may follow then.
  // Frames that came before the peer closed are handed over before PeerLost is returned.
  Status Receive(const std::function<Status(std::string_view frame)>& on_frame);

 private:
  // Hands over the complete frames at the start of `data`; *consumed is their size.
  Status Dispatch(std::string_view data, const std::function<Status(std::string_view)>& on_frame,
                  size_t* consumed) const;

  const OwnedFd fd_;
  const size_t max_frame_bytes_;
  std::string outgoing_;
  size_t sent_ = 0;       // Bytes of outgoing_ that have gone.
  std::string incoming_;  // The start of a frame whose end has not come yet.
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_TRANSPORT_FRAME_CONNECTION_H_

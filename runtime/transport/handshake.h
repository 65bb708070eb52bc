// What every connection starts with: both sides prove that they hold the job's key, and the client
// says what the connection is for.
//
//   client → server  magic, version, client nonce, hello, rank the client wants to reach
//   server → client  magic, version, server rank, server nonce, server MAC
//   client → server  client MAC
//   server → client  verdict, one byte
//
// The MACs are HMAC-SHA256 under the key over the sender's role and all that went before, both
// nonces included: a recorded handshake cannot be played again, and neither side's messages can be
// reflected to it. All messages have a fixed size and their integers are little-endian. Magic and
// version keep their place in every version of the protocol.
//
// The handshake tells who a peer is; the bytes that follow it are neither encrypted nor signed.
#ifndef FASTHVD_RUNTIME_TRANSPORT_HANDSHAKE_H_
#define FASTHVD_RUNTIME_TRANSPORT_HANDSHAKE_H_

#include <array>
#include <cstdint>
#include <string>

#include "runtime/base/deadline.h"
#include "runtime/base/owned_fd.h"
#include "runtime/base/status.h"
#include "runtime/transport/sha256.h"

namespace fasthvd {

// The job's secret: 32 random bytes.
using Key = std::array<uint8_t, 32>;

constexpr uint32_t kProtocolVersion = 1;

enum class Purpose : uint32_t { kControl = 0, kArena = 1, kRing = 2 };
constexpr uint32_t kPurposeCount = 3;
// "control", "arena" or "ring".
const char* NameOf(Purpose purpose);

// What a client says of its connection.
struct Hello {
  int32_t rank = 0;  // The client's.
  Purpose purpose = Purpose::kControl;
  int32_t lane = 0;
};
bool operator<(const Hello& a, const Hello& b);
// "rank 1, ring, lane 0".
std::string ToString(const Hello& hello);

// The client's side; blocks until the server has accepted or `deadline`. `fd` is a non-blocking
// connected socket. FailedPrecondition tells of a peer that is not rank `expected_peer_rank` of
// this job or runs another version; the other codes are those of socket.h.
Status ConnectHandshake(int fd, const Key& key, const Hello& mine, int expected_peer_rank,
                        Deadline deadline);

// The server's side: moves with what has arrived and never blocks. Used by one thread.
class ServerHandshake {
 public:
  // `fd`: a non-blocking connected socket. `rank`: the server's.
  ServerHandshake(OwnedFd fd, int rank, const Key& key);

  int fd() const { return fd_.get(); }

  // Call when fd() is readable. True once the client has proved itself, hello() is known and
  // Accept() or Refuse() is due; false if more must arrive. An error says why to hang up.
  Result<bool> Advance();
  // Requires that Advance() has returned true.
  const Hello& hello() const { return hello_; }
  // Tells the client that it is in, and hands over the connection.
  Result<OwnedFd> Accept();
  // Tells the client that a connection with this hello exists, and hangs up.
  void RefuseDuplicate();

 private:
  // True once `size` bytes are in received_.
  Result<bool> ReceiveUpTo(size_t size);
  Status Answer();
  Status Verify();

  OwnedFd fd_;
  const int rank_;
  const Key key_;
  std::string received_;    // Of the message that is arriving.
  std::string transcript_;  // The messages before; empty until the client's first is complete.
  Hello hello_;
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_TRANSPORT_HANDSHAKE_H_

#include "runtime/transport/handshake.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <tuple>
#include <utility>

#include "runtime/transport/socket.h"

namespace fasthvd {
namespace {

constexpr uint32_t kMagic = 0x56484654;  // "TFHV" on the wire.
constexpr size_t kHeaderBytes = 8;
constexpr size_t kNonceBytes = 32;
constexpr size_t kMacBytes = std::tuple_size<Digest>::value;
// Header, client nonce, rank, purpose, lane, rank to reach.
constexpr size_t kClientHelloBytes = kHeaderBytes + kNonceBytes + 16;
// Header, rank, server nonce; its MAC follows.
constexpr size_t kServerAnswerBytes = kHeaderBytes + 4 + kNonceBytes;

constexpr char kAccepted = 1;
constexpr char kDuplicate = 2;

void PutU32(uint32_t value, std::string* out) {
  for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>(value >> shift));
}

uint32_t GetU32(std::string_view bytes, size_t offset) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[offset + i]);
  return value;
}

std::string Header() {
  std::string header;
  PutU32(kMagic, &header);
  PutU32(kProtocolVersion, &header);
  return header;
}

// Of the first kHeaderBytes of a peer.
Status CheckHeader(std::string_view bytes) {
  if (GetU32(bytes, 0) != kMagic) return FailedPrecondition("the peer is not a tf_fasthvd process");
  const uint32_t version = GetU32(bytes, 4);
  if (version != kProtocolVersion) {
    return FailedPrecondition("the peer speaks version " + std::to_string(version) +
                              " of the protocol and this rank version " +
                              std::to_string(kProtocolVersion) +
                              ": all ranks must run the same release of tf_fasthvd");
  }
  return Status::Ok();
}

Status AppendNonce(std::string* out) {
  char nonce[kNonceBytes];
  FASTHVD_RETURN_IF_ERROR(RandomBytes(nonce, sizeof(nonce)));
  out->append(nonce, sizeof(nonce));
  return Status::Ok();
}

Digest MacOf(const Key& key, std::string_view role, std::string_view transcript) {
  std::string data(role);
  data.append(transcript);
  return HmacSha256({reinterpret_cast<const char*>(key.data()), key.size()}, data);
}
Digest ServerMac(const Key& key, std::string_view transcript) {
  return MacOf(key, "tf_fasthvd server", transcript);
}
Digest ClientMac(const Key& key, std::string_view transcript) {
  return MacOf(key, "tf_fasthvd client", transcript);
}

void Append(const Digest& mac, std::string* out) { out->append(mac.begin(), mac.end()); }

bool Matches(const Digest& mac, std::string_view bytes) {
  Digest other;
  std::copy_n(bytes.begin(), other.size(), other.begin());
  return ConstantTimeEqual(mac, other);
}

// A few bytes on a fresh connection: its buffer takes them whole, or something is wrong with it.
Status SendAtOnce(int fd, std::string_view bytes) {
  ssize_t sent;
  do {
    sent = send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(bytes.size())) return Status::Ok();
  return PeerLost("the connection broke in the handshake");
}

// Appends `size` bytes from the peer to *out.
Status Read(int fd, size_t size, Deadline deadline, std::string* out) {
  const size_t before = out->size();
  out->resize(before + size);
  return ReadExactly(fd, out->data() + before, size, deadline);
}

}  // namespace

const char* NameOf(Purpose purpose) {
  switch (purpose) {
    case Purpose::kControl:
      return "control";
    case Purpose::kArena:
      return "arena";
    case Purpose::kRing:
      return "ring";
  }
  return "unknown";
}

bool operator<(const Hello& a, const Hello& b) {
  return std::tie(a.rank, a.purpose, a.lane) < std::tie(b.rank, b.purpose, b.lane);
}

std::string ToString(const Hello& hello) {
  return "rank " + std::to_string(hello.rank) + ", " + NameOf(hello.purpose) + ", lane " +
         std::to_string(hello.lane);
}

Status ConnectHandshake(int fd, const Key& key, const Hello& mine, int expected_peer_rank,
                        Deadline deadline) {
  std::string transcript = Header();
  FASTHVD_RETURN_IF_ERROR(AppendNonce(&transcript));
  PutU32(static_cast<uint32_t>(mine.rank), &transcript);
  PutU32(static_cast<uint32_t>(mine.purpose), &transcript);
  PutU32(static_cast<uint32_t>(mine.lane), &transcript);
  PutU32(static_cast<uint32_t>(expected_peer_rank), &transcript);
  FASTHVD_RETURN_IF_ERROR(WriteExactly(fd, transcript.data(), transcript.size(), deadline));

  std::string answer;
  FASTHVD_RETURN_IF_ERROR(Read(fd, kHeaderBytes, deadline, &answer));
  FASTHVD_RETURN_IF_ERROR(CheckHeader(answer));
  FASTHVD_RETURN_IF_ERROR(Read(fd, kServerAnswerBytes - kHeaderBytes, deadline, &answer));
  transcript += answer;
  std::string mac;
  FASTHVD_RETURN_IF_ERROR(Read(fd, kMacBytes, deadline, &mac));
  if (!Matches(ServerMac(key, transcript), mac)) {
    return FailedPrecondition("the peer does not have this job's key: it belongs to another job");
  }
  const int peer_rank = static_cast<int>(GetU32(answer, kHeaderBytes));
  if (peer_rank != expected_peer_rank) {
    return FailedPrecondition("the peer is rank " + std::to_string(peer_rank) + ", not rank " +
                              std::to_string(expected_peer_rank));
  }

  transcript += mac;
  std::string proof;
  Append(ClientMac(key, transcript), &proof);
  FASTHVD_RETURN_IF_ERROR(WriteExactly(fd, proof.data(), proof.size(), deadline));
  char verdict = 0;
  FASTHVD_RETURN_IF_ERROR(ReadExactly(fd, &verdict, 1, deadline));
  if (verdict == kAccepted) return Status::Ok();
  return FailedPrecondition("the peer has a connection of " + ToString(mine) +
                            " already: two processes run as this rank");
}

ServerHandshake::ServerHandshake(OwnedFd fd, int rank, const Key& key)
    : fd_(std::move(fd)), rank_(rank), key_(key) {}

Result<bool> ServerHandshake::Advance() {
  if (transcript_.empty()) {
    Result<bool> complete = ReceiveUpTo(kClientHelloBytes);
    if (!complete.ok()) return complete;
    // Not before all is read that has come: closing on unread bytes can destroy the answer.
    if (received_.size() >= kHeaderBytes) {
      Status header = CheckHeader(received_);
      if (!header.ok()) {
        // A process of another version learns from it what is wrong.
        if (GetU32(received_, 0) == kMagic) (void)SendAtOnce(fd_.get(), Header());
        return header;
      }
    }
    if (!*complete) return false;
    FASTHVD_RETURN_IF_ERROR(Answer());
  }
  Result<bool> complete = ReceiveUpTo(kMacBytes);
  if (!complete.ok() || !*complete) return complete;
  FASTHVD_RETURN_IF_ERROR(Verify());
  return true;
}

Result<OwnedFd> ServerHandshake::Accept() {
  FASTHVD_RETURN_IF_ERROR(SendAtOnce(fd_.get(), {&kAccepted, 1}));
  return std::move(fd_);
}

void ServerHandshake::RefuseDuplicate() {
  (void)SendAtOnce(fd_.get(), {&kDuplicate, 1});
  fd_.Reset(-1);
}

Result<bool> ServerHandshake::ReceiveUpTo(size_t size) {
  while (received_.size() < size) {
    char buffer[kClientHelloBytes];
    const size_t wanted = std::min(sizeof(buffer), size - received_.size());
    const ssize_t got = recv(fd_.get(), buffer, wanted, MSG_DONTWAIT);
    if (got > 0) {
      received_.append(buffer, static_cast<size_t>(got));
    } else if (got == 0) {
      return PeerLost("the peer closed the connection in the handshake");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return false;
    } else if (errno != EINTR) {
      return PeerLost("the connection broke in the handshake");
    }
  }
  return true;
}

// Takes the client's first message and sends the server's proof.
Status ServerHandshake::Answer() {
  transcript_ = std::exchange(received_, std::string());
  std::string answer = Header();
  PutU32(static_cast<uint32_t>(rank_), &answer);
  FASTHVD_RETURN_IF_ERROR(AppendNonce(&answer));
  const Digest mac = ServerMac(key_, transcript_ + answer);
  Append(mac, &answer);
  transcript_ += answer;
  return SendAtOnce(fd_.get(), answer);
}

// Judges the client by its proof.
Status ServerHandshake::Verify() {
  if (!Matches(ClientMac(key_, transcript_), received_)) {
    return FailedPrecondition("the peer does not have this job's key");
  }
  constexpr size_t kHello = kHeaderBytes + kNonceBytes;
  const uint32_t purpose = GetU32(transcript_, kHello + 4);
  const int wanted_rank = static_cast<int>(GetU32(transcript_, kHello + 12));
  if (purpose >= kPurposeCount || wanted_rank != rank_) {
    return FailedPrecondition("the peer wants another rank or an unknown purpose");
  }
  hello_.rank = static_cast<int32_t>(GetU32(transcript_, kHello));
  hello_.purpose = static_cast<Purpose>(purpose);
  hello_.lane = static_cast<int32_t>(GetU32(transcript_, kHello + 8));
  return Status::Ok();
}

}  // namespace fasthvd

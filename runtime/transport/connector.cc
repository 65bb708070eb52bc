#include "runtime/transport/connector.h"

#include <chrono>
#include <string>
#include <utility>

#include "runtime/transport/socket.h"

namespace fasthvd {
namespace {

Result<OwnedFd> WithHandshake(Result<OwnedFd> fd, int peer_rank, const Key& key, const Hello& mine,
                              Deadline deadline) {
  if (!fd.ok()) return fd;
  FASTHVD_RETURN_IF_ERROR(ConnectHandshake(fd->get(), key, mine, peer_rank, deadline));
  return fd;
}

std::string Shown(const std::string& ip, int port) {
  const bool is_v6 = ip.find(':') != ip.npos;
  return (is_v6 ? "[" + ip + "]" : ip) + ":" + std::to_string(port);
}

}  // namespace

Result<OwnedFd> ConnectTo(const Endpoint& peer, int peer_rank, bool same_host, const Key& key,
                          const Hello& mine, Deadline deadline) {
  const std::string failed = "cannot connect to rank " + std::to_string(peer_rank) + " ";
  if (same_host) {
    Result<OwnedFd> fd =
        WithHandshake(ConnectAbstract(peer.unix_name, deadline), peer_rank, key, mine, deadline);
    if (fd.ok()) return fd;
    return Status(fd.status().code(), failed + "on this host: " + fd.status().message() +
                                          ". See the output of that rank: it may have exited");
  }

  if (peer.tcp.empty()) {
    return FailedPrecondition(failed +
                              "on another host: it listens on no TCP address. Set "
                              "HOROVOD_GLOO_IFACE or FASTHVD_IFACE to its network interface");
  }
  const size_t count = peer.tcp.size();
  std::string tried;
  Status last;
  for (size_t i = 0; i < count; ++i) {
    const auto& [ip, port] = peer.tcp[(static_cast<size_t>(mine.lane) + i) % count];
    // Each address has its share of the time: a firewall that swallows packets behind one of them
    // must not keep the others from being tried.
    const int share = deadline.millis_left() / static_cast<int>(count - i);
    const Deadline until = Deadline::After(std::chrono::milliseconds(share));
    Result<OwnedFd> fd = WithHandshake(ConnectTcp(ip, port, until), peer_rank, key, mine, until);
    if (fd.ok()) return fd;
    last = fd.status();
    tried += (i == 0 ? "at " : "; at ") + Shown(ip, port) + ": " + last.message();
  }
  return Status(last.code(),
                failed + tried +
                    ". See the output of that rank: it may have exited. If it runs, a firewall may "
                    "be in the way, or the address belongs to the wrong network: set "
                    "HOROVOD_GLOO_IFACE or FASTHVD_IFACE to an interface that all hosts share");
}

}  // namespace fasthvd

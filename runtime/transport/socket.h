// Stream sockets: TCP, and abstract Unix sockets between the ranks of a host.
//
// Every descriptor made here is non-blocking and closed on exec; TCP ones have TCP_NODELAY set.
// Nothing here raises SIGPIPE. The functions keep no state and are thread-safe; two threads may
// read and write one socket at the same time, but not both read or both write.
//
// Codes: PeerLost if the other end refused, closed or reset the connection or cannot be reached,
// DeadlineExceeded if it did not answer in time, Internal if this system refused.
#ifndef FASTHVD_RUNTIME_TRANSPORT_SOCKET_H_
#define FASTHVD_RUNTIME_TRANSPORT_SOCKET_H_

#include <cstddef>
#include <string>

#include "runtime/base/deadline.h"
#include "runtime/base/owned_fd.h"
#include "runtime/base/status.h"

namespace fasthvd {

struct TcpListener {
  OwnedFd fd;
  int port = 0;
};

// Listens on a port picked by the system. `ip`: a numeric IPv4 or IPv6 address of this host.
Result<TcpListener> ListenTcp(const std::string& ip);
// Listens on the abstract Unix socket `name`: 1 to kMaxAbstractName bytes, of this network
// namespace only.
Result<OwnedFd> ListenAbstract(const std::string& name);
constexpr size_t kMaxAbstractName = 100;

// The next connection of a listening socket; an invalid OwnedFd if none waits.
Result<OwnedFd> Accept(int listener);

// Block until connected. A listener must exist already: if none does, they fail at once. They wait
// while its queue is full.
Result<OwnedFd> ConnectTcp(const std::string& ip, int port, Deadline deadline);
Result<OwnedFd> ConnectAbstract(const std::string& name, Deadline deadline);

// Block until all `size` bytes have moved. After an error the stream is of no further use.
Status ReadExactly(int fd, void* data, size_t size, Deadline deadline);
Status WriteExactly(int fd, const void* data, size_t size, Deadline deadline);

// Passes a copy of descriptor `fd` through a Unix socket, in one byte of the stream. The receiver
// owns its copy.
Status SendFd(int socket, int fd, Deadline deadline);
Result<OwnedFd> ReceiveFd(int socket, Deadline deadline);

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_TRANSPORT_SOCKET_H_

#include "runtime/transport/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <system_error>

namespace fasthvd {
namespace {

constexpr int kRetryMillis = 5;

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

// Of an `error` that may be the peer's doing.
Status ConnectionError(const std::string& what, int error) {
  switch (error) {
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case ENOENT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case ETIMEDOUT:
      return PeerLost(what + ": " + std::generic_category().message(error));
    default:
      return SystemError(what, error);
  }
}

// Blocks until `fd` is ready for `events` (or broken, which the next call on it will tell).
Status WaitFor(int fd, short events, Deadline deadline) {
  pollfd wait{fd, events, 0};
  while (true) {
    const int ready = poll(&wait, 1, deadline.millis_left());
    if (ready > 0) return Status::Ok();
    if (ready < 0 && errno != EINTR) return SystemError("poll", errno);
    if (ready == 0 && deadline.expired()) return DeadlineExceeded("timed out");
  }
}

Result<Address> ParseIp(const std::string& ip, int port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;  // Never asks a name server.
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(ip.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    return InvalidArgument("\"" + ip + "\" is not a numeric IP address: " + gai_strerror(error));
  }
  Address address;
  address.size = found->ai_addrlen;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return address;
}

Result<Address> AbstractAddress(const std::string& name) {
  static_assert(kMaxAbstractName < sizeof(sockaddr_un{}.sun_path));
  if (name.empty() || name.size() > kMaxAbstractName) {
    return InvalidArgument("the name of an abstract Unix socket has 1 to " +
                           std::to_string(kMaxAbstractName) + " bytes, not " +
                           std::to_string(name.size()));
  }
  Address address;
  auto* unix_address = reinterpret_cast<sockaddr_un*>(&address.storage);
  unix_address->sun_family = AF_UNIX;
  // A leading zero byte makes it abstract; the size ends the name.
  std::memcpy(unix_address->sun_path + 1, name.data(), name.size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

Result<OwnedFd> NewSocket(int family) {
  OwnedFd fd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return SystemError("socket", errno);
  const int on = 1;
  if (family != AF_UNIX && setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) {
    return SystemError("setsockopt(TCP_NODELAY)", errno);
  }
  return fd;
}

Status Listen(int fd, Address address) {
  const int on = 1;
  // Leaves the IPv4 address with the same port to others.
  if (address.family() == AF_INET6 &&
      setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) != 0) {
    return SystemError("setsockopt(IPV6_V6ONLY)", errno);
  }
  if (bind(fd, address.get(), address.size) != 0) return SystemError("bind", errno);
  if (listen(fd, SOMAXCONN) != 0) return SystemError("listen", errno);
  return Status::Ok();
}

Status Connect(int fd, Address address, Deadline deadline) {
  while (connect(fd, address.get(), address.size) != 0) {
    if (errno == EINPROGRESS || (errno == EINTR && address.family() != AF_UNIX)) {
      FASTHVD_RETURN_IF_ERROR(WaitFor(fd, POLLOUT, deadline));
      int error = 0;
      socklen_t size = sizeof(error);
      if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
        return SystemError("getsockopt(SO_ERROR)", errno);
      }
      return error == 0 ? Status::Ok() : ConnectionError("connect", error);
    }
    if (errno == EINTR) continue;
    // So says a Unix socket when the listener's queue is full. Nothing tells when it no longer is.
    if (!WouldBlock(errno) || address.family() != AF_UNIX) return ConnectionError("connect", errno);
    if (deadline.expired()) return DeadlineExceeded("timed out: the listener's queue is full");
    poll(nullptr, 0, std::min(kRetryMillis, deadline.millis_left()));
  }
  return Status::Ok();
}

}  // namespace

Result<TcpListener> ListenTcp(const std::string& ip) {
  Result<Address> address = ParseIp(ip, 0);
  if (!address.ok()) return address.status();
  Result<OwnedFd> fd = NewSocket(address->family());
  if (!fd.ok()) return fd.status();
  Status listening = Listen(fd->get(), *address);
  if (!listening.ok()) {
    return Status(listening.code(), "cannot listen on " + ip + " (" + listening.message() +
                                        "): it must be an address of this host");
  }
  Address bound;
  bound.size = sizeof(bound.storage);
  if (getsockname(fd->get(), bound.get(), &bound.size) != 0) {
    return SystemError("getsockname", errno);
  }
  TcpListener listener;
  listener.fd = std::move(fd).value();
  listener.port =
      ntohs(bound.family() == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound.storage)->sin6_port
                                       : reinterpret_cast<sockaddr_in*>(&bound.storage)->sin_port);
  return listener;
}

Result<OwnedFd> ListenAbstract(const std::string& name) {
  Result<Address> address = AbstractAddress(name);
  if (!address.ok()) return address.status();
  Result<OwnedFd> fd = NewSocket(AF_UNIX);
  if (!fd.ok()) return fd.status();
  FASTHVD_RETURN_IF_ERROR(Listen(fd->get(), *address));
  return fd;
}

Result<OwnedFd> Accept(int listener) {
  while (true) {
    OwnedFd fd(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid()) {
      // A TCP socket has it from its listener on Linux, but that is nowhere promised. Unix sockets
      // refuse it, and need it not.
      const int on = 1;
      (void)setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      return fd;
    }
    switch (errno) {
      case EAGAIN:
        return OwnedFd();
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM:
      case EBADF:
      case EINVAL:
      case ENOTSOCK:
      case EOPNOTSUPP:
        return SystemError("accept", errno);
      default:
        break;  // A connection that broke before it was accepted (see accept(2)): the next one.
    }
  }
}

Result<OwnedFd> ConnectTcp(const std::string& ip, int port, Deadline deadline) {
  Result<Address> address = ParseIp(ip, port);
  if (!address.ok()) return address.status();
  Result<OwnedFd> fd = NewSocket(address->family());
  if (!fd.ok()) return fd.status();
  FASTHVD_RETURN_IF_ERROR(Connect(fd->get(), *address, deadline));
  return fd;
}

Result<OwnedFd> ConnectAbstract(const std::string& name, Deadline deadline) {
  Result<Address> address = AbstractAddress(name);
  if (!address.ok()) return address.status();
  Result<OwnedFd> fd = NewSocket(AF_UNIX);
  if (!fd.ok()) return fd.status();
  FASTHVD_RETURN_IF_ERROR(Connect(fd->get(), *address, deadline));
  return fd;
}

Status ReadExactly(int fd, void* data, size_t size, Deadline deadline) {
  char* bytes = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = recv(fd, bytes, size, MSG_DONTWAIT);
    if (got > 0) {
      bytes += got;
      size -= static_cast<size_t>(got);
    } else if (got == 0) {
      return PeerLost("the peer closed the connection");
    } else if (WouldBlock(errno)) {
      FASTHVD_RETURN_IF_ERROR(WaitFor(fd, POLLIN, deadline));
    } else if (errno != EINTR) {
      return ConnectionError("receive", errno);
    }
  }
  return Status::Ok();
}

Status WriteExactly(int fd, const void* data, size_t size, Deadline deadline) {
  const char* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t sent = send(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes += sent;
      size -= static_cast<size_t>(sent);
    } else if (WouldBlock(errno)) {
      FASTHVD_RETURN_IF_ERROR(WaitFor(fd, POLLOUT, deadline));
    } else if (errno != EINTR) {
      return ConnectionError("send", errno);
    }
  }
  return Status::Ok();
}

Status SendFd(int socket, int fd, Deadline deadline) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  while (sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    if (WouldBlock(errno)) {
      FASTHVD_RETURN_IF_ERROR(WaitFor(socket, POLLOUT, deadline));
    } else if (errno != EINTR) {
      return ConnectionError("send a descriptor", errno);
    }
  }
  return Status::Ok();
}

Result<OwnedFd> ReceiveFd(int socket, Deadline deadline) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  ssize_t got;
  while (true) {
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    // CMSG_SPACE is padded and could take in a second descriptor.
    message.msg_controllen = CMSG_LEN(sizeof(int));
    got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got >= 0) break;
    if (WouldBlock(errno)) {
      FASTHVD_RETURN_IF_ERROR(WaitFor(socket, POLLIN, deadline));
    } else if (errno != EINTR) {
      return ConnectionError("receive a descriptor", errno);
    }
  }
  if (got == 0) return PeerLost("the peer closed the connection");
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int))) {
    return Internal("expected a descriptor from the peer, but none came");
  }
  int fd;
  std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  return OwnedFd(fd);
}

}  // namespace fasthvd

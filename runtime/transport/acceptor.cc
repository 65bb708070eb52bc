#include "runtime/transport/acceptor.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "runtime/base/logging.h"
#include "runtime/transport/socket.h"

namespace fasthvd {
namespace {

// How long to wait for descriptors to become free when there are none for a new connection.
constexpr int kDescriptorRetryMillis = 100;

Result<std::string> RandomName() {
  uint64_t words[2];
  FASTHVD_RETURN_IF_ERROR(RandomBytes(words, sizeof(words)));
  return "fasthvd-" + std::to_string(words[0]) + "-" + std::to_string(words[1]);
}

Status Watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) return SystemError("epoll_ctl", errno);
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<Acceptor>> Acceptor::Listen(const std::vector<std::string>& addresses,
                                                   const Options& options) {
  std::vector<OwnedFd> listeners;
  Endpoint endpoint;
  for (const std::string& ip : addresses) {
    Result<TcpListener> listener = ListenTcp(ip);
    if (!listener.ok()) return listener.status();
    endpoint.tcp.emplace_back(ip, listener->port);
    listeners.push_back(std::move(listener->fd));
  }
  Result<std::string> name = RandomName();
  if (!name.ok()) return name.status();
  Result<OwnedFd> listener = ListenAbstract(*name);
  if (!listener.ok()) return listener.status();
  endpoint.unix_name = std::move(name).value();
  listeners.push_back(std::move(listener).value());

  OwnedFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return SystemError("epoll_create1", errno);
  OwnedFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return SystemError("eventfd", errno);
  FASTHVD_RETURN_IF_ERROR(Watch(epoll.get(), wake.get()));
  return std::unique_ptr<Acceptor>(new Acceptor(options, std::move(listeners), std::move(endpoint),
                                                std::move(epoll), std::move(wake)));
}

Acceptor::Acceptor(const Options& options, std::vector<OwnedFd> listeners, Endpoint endpoint,
                   OwnedFd epoll, OwnedFd wake)
    : options_(options),
      endpoint_(std::move(endpoint)),
      listeners_(std::move(listeners)),
      epoll_(std::move(epoll)),
      wake_(std::move(wake)) {}

Acceptor::~Acceptor() {
  Close();
  if (thread_.joinable()) thread_.join();
}

Status Acceptor::Start(int rank, const Key& key) {
  rank_ = rank;
  key_ = key;
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    return Internal(std::string("starting the thread that accepts connections: ") + error.what());
  }
  return Status::Ok();
}

Result<OwnedFd> Acceptor::Take(const Hello& hello, Deadline deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    auto found = arrived_.find(hello);
    if (!end_.ok()) return end_;
    if (found != arrived_.end()) {
      if (found->second.valid()) return std::move(found->second);
      return FailedPrecondition("the connection of " + ToString(hello) + " has been taken already");
    }
    if (deadline.expired()) break;
    changed_.wait_for(lock, std::chrono::milliseconds(deadline.millis_left()));
  }
  std::string message = "no connection of " + ToString(hello) + " came in time";
  if (turned_away_ > 0) {
    message += " (" + std::to_string(turned_away_) + " others were turned away, the last because " +
               last_turned_away_ + ")";
  }
  return DeadlineExceeded(std::move(message));
}

void Acceptor::Close() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (end_.ok())
      end_ = FailedPrecondition("this rank accepts no more connections: it shuts down");
  }
  changed_.notify_all();
  eventfd_write(wake_.get(), 1);  // Fails only if the count is full, and then it is readable.
}

void Acceptor::Run() {
  Status status = RunUntilClosed();
  pending_.clear();
  if (status.ok()) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (end_.ok()) end_ = status;
  }
  changed_.notify_all();
}

Status Acceptor::RunUntilClosed() {
  while (true) {
    FASTHVD_RETURN_IF_ERROR(WatchListeners(!out_of_descriptors_ && !is_full()));
    epoll_event events[64];
    const int count = epoll_wait(epoll_.get(), events, std::size(events), NextTimeoutMillis());
    if (count < 0 && errno != EINTR) return SystemError("epoll_wait", errno);
    out_of_descriptors_ = false;
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == wake_.get()) return Status::Ok();
      const bool is_listener =
          std::any_of(listeners_.begin(), listeners_.end(),
                      [fd](const OwnedFd& listener) { return listener.get() == fd; });
      if (is_listener) {
        AcceptFrom(fd);
      } else {
        Advance(fd);
      }
    }
    DropExpired();
  }
}

void Acceptor::AcceptFrom(int listener) {
  while (!is_full()) {
    Result<OwnedFd> accepted = Accept(listener);
    if (!accepted.ok()) {
      out_of_descriptors_ = true;
      TurnAway(accepted.status());
      return;
    }
    if (!accepted->valid()) return;
    const int fd = accepted->get();
    Status watched = Watch(epoll_.get(), fd);
    if (!watched.ok()) {
      TurnAway(watched);
      continue;
    }
    pending_.push_back({ServerHandshake(std::move(accepted).value(), rank_, key_),
                        Deadline::After(options_.handshake_timeout),
                        Deadline::After(options_.crowded_timeout)});
  }
}

void Acceptor::Advance(int fd) {
  auto found = std::find_if(pending_.begin(), pending_.end(),
                            [fd](const Pending& pending) { return pending.handshake.fd() == fd; });
  if (found == pending_.end()) return;
  ServerHandshake& handshake = found->handshake;
  Result<bool> done = handshake.Advance();
  if (done.ok() && !*done) return;
  // Said outright, not left to close(): a forked child may hold a copy that would keep it watched.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  Status outcome = done.status();
  if (outcome.ok()) {
    // Nobody takes the connection before the client has its verdict.
    std::lock_guard<std::mutex> lock(mutex_);
    const Hello hello = handshake.hello();
    if (arrived_.count(hello) > 0) {
      handshake.RefuseDuplicate();
      outcome = FailedPrecondition("there is a connection of " + ToString(hello) + " already");
    } else {
      Result<OwnedFd> accepted = handshake.Accept();
      outcome = accepted.status();
      if (accepted.ok()) arrived_.emplace(hello, std::move(accepted).value());
    }
  }
  pending_.erase(found);
  if (outcome.ok()) {
    changed_.notify_all();
  } else {
    TurnAway(outcome);
  }
}

void Acceptor::DropExpired() {
  while (!pending_.empty() && NextDeadline().expired()) {
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, pending_.front().handshake.fd(), nullptr);
    pending_.pop_front();
    TurnAway(DeadlineExceeded("the peer did not finish the handshake in time"));
  }
}

Status Acceptor::WatchListeners(bool watch) {
  if (watch == listening_) return Status::Ok();
  for (const OwnedFd& listener : listeners_) {
    if (watch) {
      FASTHVD_RETURN_IF_ERROR(Watch(epoll_.get(), listener.get()));
    } else {
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener.get(), nullptr);
    }
  }
  listening_ = watch;
  return Status::Ok();
}

// Until something must be done though nothing arrives; -1: never.
int Acceptor::NextTimeoutMillis() const {
  const int retry = out_of_descriptors_ ? kDescriptorRetryMillis : -1;
  if (pending_.empty()) return retry;
  const int left = NextDeadline().millis_left();
  return retry < 0 ? left : std::min(retry, left);
}

void Acceptor::TurnAway(const Status& reason) {
  Log(LogLevel::kDebug, rank_, "turned a connection away: " + reason.message());
  std::lock_guard<std::mutex> lock(mutex_);
  ++turned_away_;
  last_turned_away_ = reason.message();
}

}  // namespace fasthvd

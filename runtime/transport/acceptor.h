// Takes in the connections that other ranks make to this one.
#ifndef FASTHVD_RUNTIME_TRANSPORT_ACCEPTOR_H_
#define FASTHVD_RUNTIME_TRANSPORT_ACCEPTOR_H_

#include <chrono>
#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/owned_fd.h"
#include "runtime/base/status.h"
#include "runtime/transport/endpoint.h"
#include "runtime/transport/handshake.h"

namespace fasthvd {

// Owns the listening sockets and one thread, which accepts and runs the handshakes side by side:
// a stranger who is slow, silent or sends garbage delays nobody, and is hung up on. Connections
// that passed wait until someone takes them.
//
// Thread-safe after Start().
class Acceptor {
 public:
  struct Options {
    // A connection that has not passed by then is closed. Generous: an overloaded machine can stop
    // for seconds.
    std::chrono::milliseconds handshake_timeout{30000};
    // Handshakes at one time. Further connections wait in the kernel's queue; for them the oldest
    // handshake is given up if it has taken longer than crowded_timeout.
    size_t max_pending = 256;
    std::chrono::milliseconds crowded_timeout{2000};
  };

  // Listens on the numeric `addresses` and on an abstract Unix socket. Peers can connect from here
  // on, but nothing answers them until Start().
  static Result<std::unique_ptr<Acceptor>> Listen(const std::vector<std::string>& addresses) {
    return Listen(addresses, Options());
  }
  static Result<std::unique_ptr<Acceptor>> Listen(const std::vector<std::string>& addresses,
                                                  const Options& options);
  // Closes, and waits for the thread's end. No Take() may be under way.
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // What others need to connect; host_key is left empty.
  const Endpoint& endpoint() const { return endpoint_; }

  // Starts the thread. `rank`: this one's. Call once.
  Status Start(int rank, const Key& key);

  // The connection with this hello; blocks until it has come. DeadlineExceeded if it does not in
  // time, FailedPrecondition after Close() or if it has been taken already. The first connection
  // with a hello is the one: later ones are closed.
  Result<OwnedFd> Take(const Hello& hello, Deadline deadline);

  // Ends every Take(), present and future, and takes in nothing more. Does not block.
  void Close();

 private:
  struct Pending {
    ServerHandshake handshake;
    Deadline deadline;
    Deadline crowded_deadline;  // Counts while no more fit.
  };

  Acceptor(const Options& options, std::vector<OwnedFd> listeners, Endpoint endpoint, OwnedFd epoll,
           OwnedFd wake);

  // Of the thread:
  void Run();
  Status RunUntilClosed();
  void AcceptFrom(int listener);
  void Advance(int fd);
  void DropExpired();
  bool is_full() const { return pending_.size() >= options_.max_pending; }
  // Of the oldest handshake, which is the first to be given up.
  const Deadline& NextDeadline() const {
    return is_full() ? pending_.front().crowded_deadline : pending_.front().deadline;
  }
  Status WatchListeners(bool watch);
  int NextTimeoutMillis() const;
  void TurnAway(const Status& reason);

  const Options options_;
  const Endpoint endpoint_;
  const std::vector<OwnedFd> listeners_;
  const OwnedFd epoll_;
  const OwnedFd wake_;  // An eventfd that Close() makes readable.
  std::thread thread_;

  // Set by Start(), constant afterwards.
  int rank_ = 0;
  Key key_{};

  // Used by the thread alone.
  std::list<Pending> pending_;  // Oldest first.
  bool listening_ = false;      // Whether epoll_ watches the listeners.
  bool out_of_descriptors_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  // An invalid OwnedFd stands for a connection that has been taken. Guarded by mutex_.
  std::map<Hello, OwnedFd> arrived_;
  int turned_away_ = 0;           // Guarded by mutex_.
  std::string last_turned_away_;  // Why. Guarded by mutex_.
  Status end_;                    // Why nothing more is taken in. Guarded by mutex_.
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_TRANSPORT_ACCEPTOR_H_

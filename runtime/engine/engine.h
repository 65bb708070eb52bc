// The engine: everything one rank runs. Ops submit entries to it.
//
// Owns the listening sockets during start-up, then the scheduler, the lanes and the arena. Several
// engines can live in one process, which is how tests run ranks as threads.
#ifndef FASTHVD_RUNTIME_ENGINE_ENGINE_H_
#define FASTHVD_RUNTIME_ENGINE_ENGINE_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/config.h"
#include "runtime/engine/bootstrap.h"
#include "runtime/engine/request.h"
#include "runtime/engine/scheduler.h"
#include "runtime/transport/acceptor.h"
#include "runtime/transport/endpoint.h"
#include "runtime/transport/inherited_sockets.h"

namespace fasthvd {

// Listen and Start are called once each, in this order, by one thread; everything after Start is
// thread-safe.
class Engine {
 public:
  // Opens the sockets on which peers will connect: on the numeric `addresses`, and for ranks of
  // the same host on an abstract Unix socket. `hostname` tells hosts apart.
  static Result<std::unique_ptr<Engine>> Listen(const Config& config, const std::string& hostname,
                                                const std::vector<std::string>& addresses);
  ~Engine();

  // What the other ranks need to reach this one.
  const Endpoint& endpoint() const { return endpoint_; }

  // Connects with all ranks and starts the threads. The others must call it within the start
  // timeout of the configuration; DeadlineExceeded names the ranks that did not.
  Status Start(int rank, std::vector<Endpoint> endpoints, const Key& key);

  // Hands in an entry; see Request. Never blocks.
  void Submit(Request request);

  // This step (see Request) has failed or was cancelled: its entries, handed in before or after,
  // and those of the peers' steps it had entries in common with, end with an error unless they run
  // already. Never blocks.
  void WithdrawStep(uint64_t step);

  // Leaves the job in order; later entries fail. Blocks until all threads have ended.
  void Shutdown();

  // In a child that this process has forked: closes the child's copies of the connections by which
  // peers see whether this rank lives. Of the engine nothing else works there, not even its
  // destructor, because its threads are missing. Async-signal-safe.
  void OnForkedChild() const { control_.Close(); }

  // Why the job failed; ok while it has not.
  Status failure() const;

  // Memory of the arena and of the lanes' buffers, bytes.
  size_t buffer_bytes() const { return buffer_bytes_; }

 private:
  Engine(const Config& config, std::unique_ptr<Acceptor> acceptor, Endpoint endpoint);

  const Config config_;
  std::unique_ptr<Acceptor> acceptor_;  // During start-up.
  const Endpoint endpoint_;
  std::unique_ptr<Arena> arena_;
  size_t buffer_bytes_ = 0;
  InheritedSockets control_;
  std::unique_ptr<Scheduler> scheduler_;  // Set by Start.
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_ENGINE_ENGINE_H_

#include "runtime/engine/c_api.h"

#include <pthread.h>

#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/block_pool.h"
#include "runtime/base/config.h"
#include "runtime/engine/context.h"
#include "runtime/engine/engine.h"

namespace fasthvd {
namespace {

// The process's engine. `listening` until it has started; then `running`.
struct Context {
  std::mutex calls;  // Serialises listen, start and shutdown.
  std::mutex mutex;  // Guards `running`.
  std::unique_ptr<Engine> listening;
  size_t result_keep_bytes = 0;  // Of `listening`.
  std::shared_ptr<Engine> running;
  BlockPool results;
};

Context& GlobalContext();

// A forked child has a copy of the engine, but not its threads: it must have none.
void WatchForks() {
  pthread_atfork(
      [] {
        GlobalContext().mutex.lock();
        GlobalContext().results.LockForFork();
      },
      [] {
        GlobalContext().results.UnlockAfterFork();
        GlobalContext().mutex.unlock();
      },
      [] {
        Context& context = GlobalContext();
        context.results.UnlockAfterFork();
        // Never destroyed: that would wait for the threads.
        auto* abandoned = new std::shared_ptr<Engine>(std::move(context.running));
        context.running = nullptr;
        context.mutex.unlock();
        if (*abandoned != nullptr) (*abandoned)->OnForkedChild();
      });
}

// Never destroyed: ops may still ask for the engine while the process ends.
Context& GlobalContext() {
  static Context* context = [] {
    auto* made = new Context;
    WatchForks();
    return made;
  }();
  return *context;
}

std::string& LastError() {
  thread_local std::string text;
  return text;
}

int Report(const Status& status) {
  LastError() = status.message();
  return static_cast<int>(status.code());
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

Result<Key> ParseKey(std::string_view hex) {
  Key key;
  if (hex.size() != 2 * key.size()) return InvalidArgument("the job key must have 64 hex digits");
  for (size_t i = 0; i < key.size(); ++i) {
    unsigned value;
    if (std::sscanf(std::string(hex.substr(2 * i, 2)).c_str(), "%2x", &value) != 1) {
      return InvalidArgument("the job key must have 64 hex digits");
    }
    key[i] = static_cast<uint8_t>(value);
  }
  return key;
}

Status Listen(const char* hostname, const char* addresses, const char* lane_program, char* endpoint,
              int64_t capacity) {
  Context& context = GlobalContext();
  if (context.listening != nullptr || CurrentEngine() != nullptr) {
    return FailedPrecondition("tf_fasthvd is initialised already; call shutdown() first");
  }
  Result<Config> config = ConfigFromEnvironment();
  if (!config.ok()) return config.status();
  SetLogLevel(config->log_level);
  config->lane_program = lane_program;
  context.result_keep_bytes = config->result_keep_bytes;
  Result<std::unique_ptr<Engine>> engine = Engine::Listen(*config, hostname, Split(addresses, ','));
  if (!engine.ok()) return engine.status();
  std::string line = (*engine)->endpoint().ToString();
  if (static_cast<int64_t>(line.size()) >= capacity) {
    return Internal("the endpoint takes " + std::to_string(line.size() + 1) + " bytes");
  }
  std::memcpy(endpoint, line.c_str(), line.size() + 1);
  context.listening = std::move(engine).value();
  return Status::Ok();
}

Status Start(int rank, int size, const char* endpoints, const char* key_hex) {
  Context& context = GlobalContext();
  if (context.listening == nullptr) {
    return FailedPrecondition("fasthvd_listen must come before fasthvd_start");
  }
  std::vector<Endpoint> parsed;
  for (const std::string& line : Split(endpoints, '\n')) {
    Result<Endpoint> endpoint = Endpoint::Parse(line);
    if (!endpoint.ok()) return endpoint.status();
    parsed.push_back(std::move(endpoint).value());
  }
  if (static_cast<int>(parsed.size()) != size || rank < 0 || rank >= size) {
    return InvalidArgument("rank " + std::to_string(rank) + " of " + std::to_string(size) +
                           " got " + std::to_string(parsed.size()) + " endpoints");
  }
  Result<Key> key = ParseKey(key_hex);
  if (!key.ok()) return key.status();
  std::shared_ptr<Engine> engine = std::move(context.listening);
  FASTHVD_RETURN_IF_ERROR(engine->Start(rank, std::move(parsed), *key));
  context.results.set_keep_bytes(context.result_keep_bytes);
  std::lock_guard<std::mutex> lock(context.mutex);
  context.running = std::move(engine);
  return Status::Ok();
}

}  // namespace

std::shared_ptr<Engine> CurrentEngine() {
  Context& context = GlobalContext();
  std::lock_guard<std::mutex> lock(context.mutex);
  return context.running;
}

BlockPool& ResultMemory() { return GlobalContext().results; }

}  // namespace fasthvd

using fasthvd::CurrentEngine;
using fasthvd::GlobalContext;
using fasthvd::Report;

int fasthvd_listen(const char* hostname, const char* addresses, const char* lane_program,
                   char* endpoint, int64_t capacity) {
  std::lock_guard<std::mutex> lock(GlobalContext().calls);
  return Report(fasthvd::Listen(hostname, addresses, lane_program, endpoint, capacity));
}

int fasthvd_start(int rank, int size, const char* endpoints, const char* key_hex) {
  std::lock_guard<std::mutex> lock(GlobalContext().calls);
  return Report(fasthvd::Start(rank, size, endpoints, key_hex));
}

int fasthvd_shutdown(void) {
  auto& context = GlobalContext();
  std::lock_guard<std::mutex> lock(context.calls);
  context.listening = nullptr;
  std::shared_ptr<fasthvd::Engine> engine;
  {
    std::lock_guard<std::mutex> running_lock(context.mutex);
    engine.swap(context.running);
  }
  if (engine != nullptr) engine->Shutdown();
  context.results.set_keep_bytes(0);
  return Report(fasthvd::Status::Ok());
}

int fasthvd_is_running(void) { return CurrentEngine() != nullptr; }

int fasthvd_has_failed(void) {
  auto engine = CurrentEngine();
  return engine != nullptr && !engine->failure().ok();
}

const char* fasthvd_failure_reason(void) {
  auto engine = CurrentEngine();
  thread_local std::string reason;
  reason = engine == nullptr ? "" : engine->failure().message();
  return reason.c_str();
}

int64_t fasthvd_buffer_bytes(void) {
  auto engine = CurrentEngine();
  return engine == nullptr ? 0 : static_cast<int64_t>(engine->buffer_bytes());
}

const char* fasthvd_last_error(void) { return fasthvd::LastError().c_str(); }

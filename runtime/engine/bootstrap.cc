#include "runtime/engine/bootstrap.h"

#include <sched.h>

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/lanes/arena_executor.h"
#include "runtime/lanes/local_executor.h"
#include "runtime/lanes/ring_executor.h"
#include "runtime/negotiation/message.h"
#include "runtime/transport/connector.h"
#include "runtime/transport/socket.h"

namespace fasthvd {
namespace {

// Stays below the 64 MiB that a rank's buffers may take, whatever the number of ranks and lanes.
constexpr size_t kArenaLimit = 32 << 20;
constexpr int kMaxAutoLanes = 4;
constexpr int kAutoSpinMicroseconds = 20;
constexpr size_t kMaxStartMessageBytes = 1 << 16;

int UsableCores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return 1;
  return std::max(1, CPU_COUNT(&cores));
}

// A lane is worth its thread only where a core is free for it beside the rank's own work.
int ChooseLanes(const Config& config, int ranks_on_host) {
  if (config.lanes > 0) return config.lanes;
  return std::clamp(UsableCores() / (2 * ranks_on_host), 1, kMaxAutoLanes);
}

int ChooseSpin(const Config& config, int workers_on_host) {
  if (config.spin_microseconds >= 0) return config.spin_microseconds;
  return UsableCores() >= workers_on_host ? kAutoSpinMicroseconds : 0;
}

// Start-up messages are framed as FrameConnection does it, but waited for.
Status SendMessage(int fd, const Message& message, Deadline deadline) {
  std::string bytes = Encode(message);
  uint32_t size = static_cast<uint32_t>(bytes.size());
  bytes.insert(0, reinterpret_cast<const char*>(&size), sizeof(size));
  return WriteExactly(fd, bytes.data(), bytes.size(), deadline);
}

template <typename T>
Result<T> ReceiveMessage(int fd, Deadline deadline) {
  uint32_t size = 0;
  FASTHVD_RETURN_IF_ERROR(ReadExactly(fd, &size, sizeof(size), deadline));
  if (size > kMaxStartMessageBytes) return Internal("a start-up message is too long");
  std::string bytes(size, '\0');
  FASTHVD_RETURN_IF_ERROR(ReadExactly(fd, bytes.data(), size, deadline));
  Result<Message> message = Decode(bytes);
  if (!message.ok()) return message.status();
  if (!std::holds_alternative<T>(*message)) return Internal("an unexpected start-up message");
  return std::get<T>(std::move(message).value());
}

Hello HelloOf(int rank, Purpose purpose, int lane) {
  Hello hello;
  hello.rank = rank;
  hello.purpose = purpose;
  hello.lane = lane;
  return hello;
}

// Rank 0: one connection from every other rank, in rank order.
Result<std::vector<OwnedFd>> TakeFollowers(const Place& place, Acceptor* acceptor,
                                           Deadline deadline) {
  std::vector<OwnedFd> followers;
  std::string missing;
  for (int rank = 1; rank < place.size(); ++rank) {
    Result<OwnedFd> fd = acceptor->Take(HelloOf(rank, Purpose::kControl, 0), deadline);
    if (fd.ok()) {
      followers.push_back(std::move(fd).value());
    } else {
      missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
    }
  }
  if (missing.empty()) return followers;
  return DeadlineExceeded("rank " + missing +
                          " did not connect to rank 0 in time. See the output of that rank; raise "
                          "FASTHVD_START_TIMEOUT if it only needs longer");
}

// Rank 0's side of the agreement on the data plane; returns the arena if all will use it.
Result<std::unique_ptr<Arena>> OfferArena(const Config& config, const Place& place, int lanes,
                                          const std::vector<OwnedFd>& followers,
                                          Deadline deadline) {
  const bool one_host = place.ranks_on_host() == place.size();
  std::unique_ptr<Arena> arena;
  if (one_host && config.shared_memory) {
    ArenaShape shape;
    shape.ranks = place.size();
    shape.lanes = lanes;
    shape.slots = config.slots;
    shape.chunk_bytes = static_cast<uint32_t>(config.chunk_bytes);
    shape.small_bytes = static_cast<uint32_t>(config.small_bytes);
    Result<std::unique_ptr<Arena>> created = Arena::Create(Arena::Fit(shape, kArenaLimit));
    if (created.ok()) {
      arena = std::move(created).value();
    } else {
      Log(LogLevel::kWarning, place.rank, created.status().message());
    }
  }
  BeginMessage begin{arena != nullptr, static_cast<uint32_t>(lanes)};
  for (const OwnedFd& fd : followers) {
    FASTHVD_RETURN_IF_ERROR(SendMessage(fd.get(), begin, deadline));
    if (arena != nullptr) FASTHVD_RETURN_IF_ERROR(SendFd(fd.get(), arena->fd(), deadline));
  }
  if (arena != nullptr) {
    for (const OwnedFd& fd : followers) {
      Result<AttachedMessage> answer = ReceiveMessage<AttachedMessage>(fd.get(), deadline);
      if (!answer.ok()) return answer.status();
      begin.arena = begin.arena && answer->arena;
    }
  }
  for (const OwnedFd& fd : followers) {
    FASTHVD_RETURN_IF_ERROR(SendMessage(fd.get(), begin, deadline));
  }
  if (!begin.arena) arena = nullptr;
  if (one_host && !begin.arena) {
    Log(LogLevel::kWarning, place.rank,
        "the ranks of this host do not share memory and use TCP, which is slower");
  }
  return arena;
}

struct Agreement {
  std::unique_ptr<Arena> arena;
  int lanes = 1;
};

// The others' side.
Result<Agreement> AnswerOffer(const Config& config, const Place& place, int leader,
                              Deadline deadline) {
  Result<BeginMessage> offer = ReceiveMessage<BeginMessage>(leader, deadline);
  if (!offer.ok()) return offer.status();
  Agreement agreement;
  if (offer->arena) {
    Result<OwnedFd> fd = ReceiveFd(leader, deadline);
    if (!fd.ok()) return fd.status();
    if (config.shared_memory) {
      Result<std::unique_ptr<Arena>> arena = Arena::Attach(std::move(fd).value());
      if (arena.ok()) {
        agreement.arena = std::move(arena).value();
      } else {
        Log(LogLevel::kWarning, place.rank, arena.status().message());
      }
    }
    AttachedMessage answer{agreement.arena != nullptr};
    FASTHVD_RETURN_IF_ERROR(SendMessage(leader, answer, deadline));
  }
  Result<BeginMessage> outcome = ReceiveMessage<BeginMessage>(leader, deadline);
  if (!outcome.ok()) return outcome.status();
  if (!outcome->arena) agreement.arena = nullptr;
  agreement.lanes = static_cast<int>(outcome->lanes);
  return agreement;
}

Result<std::unique_ptr<Executor>> ConnectRingLane(const Place& place, int lane, Acceptor* acceptor,
                                                  Deadline deadline) {
  const int right = (place.rank + 1) % place.size();
  const int left = (place.rank + place.size() - 1) % place.size();
  Result<OwnedFd> to_right =
      ConnectTo(place.endpoints[right], right, place.SharesHostWith(right), place.key,
                HelloOf(place.rank, Purpose::kRing, lane), deadline);
  if (!to_right.ok()) return to_right.status();
  Result<OwnedFd> from_left = acceptor->Take(HelloOf(left, Purpose::kRing, lane), deadline);
  if (!from_left.ok()) return from_left.status();
  Result<std::unique_ptr<RingExecutor>> executor = RingExecutor::Create(
      place.rank, place.size(), std::move(from_left).value(), std::move(to_right).value());
  if (!executor.ok()) return executor.status();
  return std::unique_ptr<Executor>(std::move(executor).value());
}

Result<std::vector<std::unique_ptr<Executor>>> MakeExecutors(const Config& config,
                                                             const Place& place, Arena* arena,
                                                             int lanes, int spin,
                                                             Acceptor* acceptor,
                                                             Deadline deadline) {
  std::vector<std::unique_ptr<Executor>> executors;
  for (int lane = 0; lane < lanes; ++lane) {
    if (arena != nullptr) {
      executors.push_back(
          std::make_unique<ArenaExecutor>(arena, lane, place.rank, spin, config.lane_host));
      continue;
    }
    Result<std::unique_ptr<Executor>> executor = ConnectRingLane(place, lane, acceptor, deadline);
    if (!executor.ok()) return executor.status();
    executors.push_back(std::move(executor).value());
  }
  return executors;
}

Result<std::vector<std::unique_ptr<LaneProcess>>> StartProcesses(const Config& config,
                                                                 const Place& place,
                                                                 const Arena& arena, int lanes,
                                                                 int spin, Deadline deadline) {
  std::vector<std::unique_ptr<LaneProcess>> processes;
  for (int lane = 0; lane < lanes; ++lane) {
    LaneSetup setup;
    setup.rank = place.rank;
    setup.lane = lane;
    setup.spin_microseconds = spin;
    const std::vector<int>& cpus = config.lane_cpus;
    if (!cpus.empty()) setup.cpu = cpus[lane % cpus.size()];
    auto process = LaneProcess::Start(config.lane_program, setup, arena.fd(), deadline);
    if (!process.ok()) return process.status();
    processes.push_back(std::move(process).value());
  }
  return processes;
}

// Without an arena a process could do nothing for its lane.
bool UsesProcesses(const Config& config, const Place& place, const Arena* arena) {
  if (config.lane_host == LaneHost::kThread) return false;
  if (arena != nullptr) return true;
  if (place.rank == 0) {
    Log(LogLevel::kWarning, place.rank,
        std::string("FASTHVD_LANE_HOST=process has no effect in a job ") +
            (place.size() == 1 ? "of one rank" : "whose ranks do not all share memory") +
            ": its lanes run as threads");
  }
  return false;
}

}  // namespace

int Place::ranks_on_host() const {
  int count = 0;
  for (int peer = 0; peer < size(); ++peer) count += SharesHostWith(peer);
  return count;
}

bool Place::SharesHostWith(int peer) const {
  return endpoints[peer].host_key == endpoints[rank].host_key;
}

Result<Links> Bootstrap(const Config& config, const Place& place, Acceptor* acceptor,
                        Deadline deadline) {
  Links links;
  if (place.size() == 1) {
    UsesProcesses(config, place, nullptr);
    links.executors.push_back(std::make_unique<LocalExecutor>());
    return links;
  }
  Agreement agreement;
  if (place.rank == 0) {
    Result<std::vector<OwnedFd>> followers = TakeFollowers(place, acceptor, deadline);
    if (!followers.ok()) return followers.status();
    agreement.lanes = ChooseLanes(config, place.ranks_on_host());
    Result<std::unique_ptr<Arena>> arena =
        OfferArena(config, place, agreement.lanes, *followers, deadline);
    if (!arena.ok()) return arena.status();
    agreement.arena = std::move(arena).value();
    for (OwnedFd& fd : *followers) {
      links.control.push_back(std::make_unique<FrameConnection>(std::move(fd)));
    }
  } else {
    Result<OwnedFd> leader = ConnectTo(place.endpoints[0], 0, place.SharesHostWith(0), place.key,
                                       HelloOf(place.rank, Purpose::kControl, 0), deadline);
    if (!leader.ok()) return leader.status();
    Result<Agreement> answered = AnswerOffer(config, place, leader->get(), deadline);
    if (!answered.ok()) return answered.status();
    agreement = std::move(answered).value();
    links.control.push_back(std::make_unique<FrameConnection>(std::move(leader).value()));
  }
  const bool processes = UsesProcesses(config, place, agreement.arena.get());
  const int workers = agreement.lanes * place.ranks_on_host() * (processes ? 2 : 1);
  const int spin = ChooseSpin(config, workers);
  Result<std::vector<std::unique_ptr<Executor>>> executors = MakeExecutors(
      config, place, agreement.arena.get(), agreement.lanes, spin, acceptor, deadline);
  if (!executors.ok()) return executors.status();
  if (processes) {
    auto started = StartProcesses(config, place, *agreement.arena, agreement.lanes, spin, deadline);
    if (!started.ok()) return started.status();
    links.processes = std::move(started).value();
  }
  links.arena = std::move(agreement.arena);
  links.executors = std::move(executors).value();
  return links;
}

}  // namespace fasthvd

#include "runtime/engine/engine.h"

#include <utility>

#include "runtime/lanes/ring_executor.h"
#include "runtime/negotiation/follower.h"
#include "runtime/negotiation/leader.h"

namespace fasthvd {

Result<std::unique_ptr<Engine>> Engine::Listen(const Config& config, const std::string& hostname,
                                               const std::vector<std::string>& addresses) {
  if (config.lane_host == LaneHost::kProcess) {
    FASTHVD_RETURN_IF_ERROR(CheckLaneProgram(config.lane_program));
  }
  Result<std::unique_ptr<Acceptor>> acceptor = Acceptor::Listen(addresses);
  if (!acceptor.ok()) return acceptor.status();
  Endpoint endpoint = (*acceptor)->endpoint();
  endpoint.host_key = LocalHostKey(hostname);
  return std::unique_ptr<Engine>(
      new Engine(config, std::move(acceptor).value(), std::move(endpoint)));
}

Engine::Engine(const Config& config, std::unique_ptr<Acceptor> acceptor, Endpoint endpoint)
    : config_(config), acceptor_(std::move(acceptor)), endpoint_(std::move(endpoint)) {}

Engine::~Engine() { Shutdown(); }

Status Engine::Start(int rank, std::vector<Endpoint> endpoints, const Key& key) {
  Place place{rank, std::move(endpoints), key};
  FASTHVD_RETURN_IF_ERROR(acceptor_->Start(rank, key));
  Result<Links> links =
      Bootstrap(config_, place, acceptor_.get(), Deadline::After(config_.start_timeout));
  acceptor_ = nullptr;
  if (!links.ok()) return links.status();
  arena_ = std::move(links->arena);
  const int lanes = static_cast<int>(links->executors.size());
  buffer_bytes_ = arena_ != nullptr ? arena_->bytes() : lanes * RingExecutor::kBufferBytes;

  for (const auto& connection : links->control) control_.Add(connection->fd());
  std::unique_ptr<Negotiator> negotiator;
  if (rank == 0) {
    negotiator = std::make_unique<Leader>(std::move(links->control), config_.fusion_bytes);
  } else {
    negotiator = std::make_unique<Follower>(std::move(links->control.front()));
  }
  Result<std::unique_ptr<LaneGroup>> group =
      LaneGroup::Start(std::move(links->executors), std::move(links->processes));
  if (!group.ok()) return group.status();
  // One batch a lane in progress and one more, so that no lane waits for the negotiation.
  Result<std::unique_ptr<Scheduler>> scheduler = Scheduler::Start(
      rank, place.size(), lanes + 1, std::move(negotiator), std::move(group).value());
  if (!scheduler.ok()) return scheduler.status();
  scheduler_ = std::move(scheduler).value();
  return Status::Ok();
}

void Engine::Submit(Request request) { scheduler_->Submit(std::move(request)); }

void Engine::WithdrawStep(uint64_t step) { scheduler_->WithdrawStep(step); }

void Engine::Shutdown() {
  if (scheduler_ != nullptr) scheduler_->Shutdown();
}

Status Engine::failure() const {
  return scheduler_ == nullptr ? Status::Ok() : scheduler_->failure();
}

}  // namespace fasthvd

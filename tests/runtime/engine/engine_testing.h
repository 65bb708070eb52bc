// Jobs whose ranks are engines in one process.
#ifndef FASTHVD_TESTS_RUNTIME_ENGINE_ENGINE_TESTING_H_
#define FASTHVD_TESTS_RUNTIME_ENGINE_ENGINE_TESTING_H_

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/engine/engine.h"

namespace fasthvd {

using Engines = std::vector<std::unique_ptr<Engine>>;

// The host's name of each rank decides who shares memory.
inline Engines StartJob(const std::vector<std::string>& hosts, const Config& config = Config()) {
  Engines engines;
  std::vector<Endpoint> endpoints;
  for (const std::string& host : hosts) {
    auto engine = Engine::Listen(config, host, {"127.0.0.1"});
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    endpoints.push_back((*engine)->endpoint());
    engines.push_back(std::move(engine).value());
  }
  Key key{};
  key[0] = 42;
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < engines.size(); ++rank) {
    threads.emplace_back([&, rank] {
      Status status = engines[rank]->Start(static_cast<int>(rank), endpoints, key);
      EXPECT_TRUE(status.ok()) << status.message();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return engines;
}

// Lanes hosted by processes; the program is where Bazel puts it for tests.
inline Config WithProcesses() {
  Config config;
  config.lane_host = LaneHost::kProcess;
  config.lane_program = "runtime/lane_program/fasthvd_lane";
  return config;
}

inline std::vector<std::string> OneHost(int ranks) {
  return std::vector<std::string>(ranks, "host");
}
inline std::vector<std::string> ManyHosts(int ranks) {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back("host" + std::to_string(rank));
  return hosts;
}

// An allreduce of floats in place, waiting to be looked at.
class Reduction {
 public:
  Reduction(Engine* engine, const std::string& name, std::vector<float> data,
            ReduceOp op = ReduceOp::kSum, uint64_t step = 0)
      : engine_(engine), step_(step), data_(std::move(data)), done_(promise_.get_future()) {
    Request request;
    request.description.name = name;
    request.description.op = op;
    request.description.shapes = {{static_cast<int64_t>(data_.size())}};
    request.tensors = {{data_.data(), data_.data()}};
    request.step = step;
    request.done = [this](const Status& status) { promise_.set_value(status); };
    engine->Submit(std::move(request));
  }
  Reduction(const Reduction&) = delete;
  Reduction& operator=(const Reduction&) = delete;

  void WithdrawStep() { engine_->WithdrawStep(step_); }
  bool pending() const {
    return done_.wait_for(std::chrono::seconds(0)) == std::future_status::timeout;
  }
  // Waits for the end.
  Status status() const { return done_.get(); }
  const std::vector<float>& data() const { return data_; }

 private:
  Engine* const engine_;
  const uint64_t step_;
  std::vector<float> data_;
  std::promise<Status> promise_;
  std::shared_future<Status> done_;
};

}  // namespace fasthvd

#endif  // FASTHVD_TESTS_RUNTIME_ENGINE_ENGINE_TESTING_H_

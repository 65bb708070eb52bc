// Rank 0's side of the negotiation.
#ifndef FASTHVD_RUNTIME_NEGOTIATION_LEADER_H_
#define FASTHVD_RUNTIME_NEGOTIATION_LEADER_H_

#include <memory>
#include <vector>

#include "runtime/negotiation/coordinator.h"
#include "runtime/negotiation/negotiator.h"

namespace fasthvd {

// See negotiator.h for threads. connections[i] leads to rank i + 1.
class Leader : public Negotiator {
 public:
  Leader(std::vector<std::unique_ptr<FrameConnection>> connections, size_t fusion_bytes);

  Status Announce(std::vector<Announcement> entries) override;
  Status Withdraw(std::vector<uint64_t> steps) override;
  Status TakeSteps(int batches, std::vector<PlanStep>* steps) override;
  bool has_backlog() const override { return coordinator_.has_batch(); }
  Status Leave() override;

 private:
  Status OnMessage(size_t index, Message message) override;
  Status OnClosed(size_t index, const Status& reason) override;
  // To every follower that has not left.
  Status SendToAll(const Message& message);

  Coordinator coordinator_;
  std::vector<bool> follower_left_;  // By connection.
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_NEGOTIATION_LEADER_H_

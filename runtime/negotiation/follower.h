// The side of the negotiation of every rank but 0.
#ifndef FASTHVD_RUNTIME_NEGOTIATION_FOLLOWER_H_
#define FASTHVD_RUNTIME_NEGOTIATION_FOLLOWER_H_

#include <memory>
#include <vector>

#include "runtime/negotiation/negotiator.h"

namespace fasthvd {

// See negotiator.h for threads.
class Follower : public Negotiator {
 public:
  explicit Follower(std::unique_ptr<FrameConnection> leader);

  Status Announce(std::vector<Announcement> entries) override;
  Status Withdraw(std::vector<uint64_t> steps) override;
  Status TakeSteps(int batches, std::vector<PlanStep>* steps) override;
  Status Leave() override;

 private:
  Status Send(const Message& message);
  Status OnMessage(size_t index, Message message) override;
  Status OnClosed(size_t index, const Status& reason) override;

  std::vector<PlanStep> steps_;  // Received, not yet taken.
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_NEGOTIATION_FOLLOWER_H_

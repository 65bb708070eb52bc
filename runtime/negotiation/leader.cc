#include "runtime/negotiation/leader.h"

#include <string>
#include <utility>

namespace fasthvd {
namespace {

int RankOf(size_t index) { return static_cast<int>(index) + 1; }

}  // namespace

Leader::Leader(std::vector<std::unique_ptr<FrameConnection>> connections, size_t fusion_bytes)
    : Negotiator(std::move(connections)),
      coordinator_(static_cast<int>(connections_.size()) + 1, fusion_bytes),
      follower_left_(connections_.size(), false) {}

Status Leader::Announce(std::vector<Announcement> entries) {
  return coordinator_.OnReady(0, entries);
}

Status Leader::Withdraw(std::vector<uint64_t> steps) {
  coordinator_.OnWithdraw(0, steps);
  return Status::Ok();
}

Status Leader::TakeSteps(int batches, std::vector<PlanStep>* steps) {
  PlanMessage plan;
  while (coordinator_.has_error()) plan.steps.push_back(coordinator_.NextStep());
  for (; batches > 0 && coordinator_.has_batch(); --batches) {
    plan.steps.push_back(coordinator_.NextStep());
  }
  if (plan.steps.empty()) return Status::Ok();
  Message message(std::move(plan));
  FASTHVD_RETURN_IF_ERROR(SendToAll(message));
  for (PlanStep& step : std::get<PlanMessage>(message).steps) steps->push_back(std::move(step));
  return Status::Ok();
}

Status Leader::Leave() {
  coordinator_.OnLeave(0);
  std::vector<PlanStep> own;  // The scheduler ends this rank's entries itself.
  FASTHVD_RETURN_IF_ERROR(TakeSteps(0, &own));
  FASTHVD_RETURN_IF_ERROR(SendToAll(GoodbyeMessage{}));
  left_ = true;
  return Status::Ok();
}

Status Leader::OnMessage(size_t index, Message message) {
  const int rank = RankOf(index);
  if (auto* ready = std::get_if<ReadyMessage>(&message)) {
    return coordinator_.OnReady(rank, ready->entries);
  }
  if (auto* withdraw = std::get_if<WithdrawMessage>(&message)) {
    coordinator_.OnWithdraw(rank, withdraw->steps);
    return Status::Ok();
  }
  if (std::holds_alternative<LeaveMessage>(message)) {
    coordinator_.OnLeave(rank);
    FASTHVD_RETURN_IF_ERROR(connections_[index]->Send(Encode(GoodbyeMessage{})));
    follower_left_[index] = true;
    return Status::Ok();
  }
  if (auto* abort = std::get_if<AbortMessage>(&message)) return PeerLost(abort->reason);
  return Internal("rank " + std::to_string(rank) + " sent a message that only rank 0 may send");
}

Status Leader::OnClosed(size_t index, const Status& reason) {
  connections_[index] = nullptr;
  // After its own leave the leader has nothing left to lose by a follower.
  if (follower_left_[index] || left_) return Status::Ok();
  return PeerLost("rank " + std::to_string(RankOf(index)) +
                  " is gone without shutdown (killed, crashed or unreachable; " + reason.message() +
                  "). See that rank's output for the cause.");
}

Status Leader::SendToAll(const Message& message) {
  const std::string bytes = Encode(message);
  for (size_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i] == nullptr || follower_left_[i]) continue;
    Status sent = connections_[i]->Send(bytes);
    if (!sent.ok()) FASTHVD_RETURN_IF_ERROR(OnClosed(i, sent));
  }
  return Status::Ok();
}

}  // namespace fasthvd

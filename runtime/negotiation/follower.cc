#include "runtime/negotiation/follower.h"

#include <utility>

namespace fasthvd {
namespace {

std::vector<std::unique_ptr<FrameConnection>> OnlyOne(std::unique_ptr<FrameConnection> connection) {
  std::vector<std::unique_ptr<FrameConnection>> connections;
  connections.push_back(std::move(connection));
  return connections;
}

}  // namespace

Follower::Follower(std::unique_ptr<FrameConnection> leader)
    : Negotiator(OnlyOne(std::move(leader))) {}

Status Follower::Announce(std::vector<Announcement> entries) {
  return Send(ReadyMessage{std::move(entries)});
}

Status Follower::Withdraw(std::vector<uint64_t> steps) {
  return Send(WithdrawMessage{std::move(steps)});
}

Status Follower::TakeSteps(int, std::vector<PlanStep>* steps) {
  for (PlanStep& step : steps_) steps->push_back(std::move(step));
  steps_.clear();
  return Status::Ok();
}

Status Follower::Leave() { return left_ ? Status::Ok() : Send(LeaveMessage{}); }

Status Follower::Send(const Message& message) {
  if (connections_[0] == nullptr) return OnClosed(0, PeerLost("the connection is closed"));
  Status sent = connections_[0]->Send(Encode(message));
  return sent.ok() ? sent : OnClosed(0, sent);
}

Status Follower::OnMessage(size_t, Message message) {
  if (auto* plan = std::get_if<PlanMessage>(&message)) {
    for (PlanStep& step : plan->steps) steps_.push_back(std::move(step));
    return Status::Ok();
  }
  if (std::holds_alternative<GoodbyeMessage>(message)) {
    left_ = true;
    return Status::Ok();
  }
  if (auto* abort = std::get_if<AbortMessage>(&message)) return PeerLost(abort->reason);
  return Internal("rank 0 sent a message that only other ranks may send");
}

Status Follower::OnClosed(size_t, const Status& reason) {
  connections_[0] = nullptr;
  if (left_) return Status::Ok();
  return PeerLost("rank 0 is gone without shutdown (killed, crashed or unreachable; " +
                  reason.message() + "). See that rank's output for the cause.");
}

}  // namespace fasthvd

#include "runtime/negotiation/negotiator.h"

#include <utility>

namespace fasthvd {

Status Negotiator::OnReadable(size_t index) {
  if (connections_[index] == nullptr) return Status::Ok();
  Status handled;
  Status received = connections_[index]->Receive([&](std::string_view frame) {
    Result<Message> message = Decode(frame);
    handled = message.ok() ? OnMessage(index, std::move(message).value()) : message.status();
    return handled;
  });
  if (!handled.ok() || received.ok()) return handled;
  return OnClosed(index, received);
}

Status Negotiator::OnWritable(size_t index) {
  if (connections_[index] == nullptr) return Status::Ok();
  return connections_[index]->Flush();
}

void Negotiator::SendAbort(const std::string& reason) {
  const std::string bytes = Encode(AbortMessage{reason});
  for (auto& connection : connections_) {
    // Best effort: who cannot be reached sees the connection close.
    if (connection != nullptr) (void)connection->Send(bytes);
  }
}

}  // namespace fasthvd

// A rank's side of the negotiation: it announces what is ready here and yields the agreed plan.
//
// Two forms: the Leader (rank 0) holds the coordinator and a connection to every other rank; a
// Follower holds a connection to the leader. Owned and used by the scheduler's thread alone.
#ifndef FASTHVD_RUNTIME_NEGOTIATION_NEGOTIATOR_H_
#define FASTHVD_RUNTIME_NEGOTIATION_NEGOTIATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/negotiation/message.h"
#include "runtime/transport/frame_connection.h"

namespace fasthvd {

class Negotiator {
 public:
  virtual ~Negotiator() = default;

  // The connections to watch; an entry is null once its peer has left. Indices are stable.
  const std::vector<std::unique_ptr<FrameConnection>>& connections() const { return connections_; }

  // These entries are ready on this rank. Not ok: the job has failed.
  virtual Status Announce(std::vector<Announcement> entries) = 0;

  // These steps of this rank have failed; see WithdrawMessage. Their entries are still answered.
  virtual Status Withdraw(std::vector<uint64_t> steps) = 0;

  // Connection `index` is readable or was closed: takes in what has come.
  Status OnReadable(size_t index);
  // Connection `index` can take more bytes.
  Status OnWritable(size_t index);

  // Appends the plan's next steps to *steps; at most `batches` of them are batches (a leader plans
  // no more than that; a follower takes what it was sent). Errors always come.
  virtual Status TakeSteps(int batches, std::vector<PlanStep>* steps) = 0;
  // Whether TakeSteps was kept from planning more by its `batches`.
  virtual bool has_backlog() const { return false; }

  // This rank hands in nothing more. left() tells when no further step will come: the leader knows
  // that this rank leaves, or the leader itself has left.
  virtual Status Leave() = 0;
  bool left() const { return left_; }

  // Tells the others, as far as they can be reached, that the job has failed.
  void SendAbort(const std::string& reason);

 protected:
  explicit Negotiator(std::vector<std::unique_ptr<FrameConnection>> connections)
      : connections_(std::move(connections)) {}

  virtual Status OnMessage(size_t index, Message message) = 0;
  // The peer closed its connection.
  virtual Status OnClosed(size_t index, const Status& reason) = 0;

  std::vector<std::unique_ptr<FrameConnection>> connections_;
  bool left_ = false;
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_NEGOTIATION_NEGOTIATOR_H_

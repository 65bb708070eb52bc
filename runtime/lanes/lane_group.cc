#include "runtime/lanes/lane_group.h"

#include <string>
#include <utility>

#include "runtime/base/worker_thread.h"

namespace fasthvd {

Result<std::unique_ptr<LaneGroup>> LaneGroup::Start(
    std::vector<std::unique_ptr<Executor>> executors,
    std::vector<std::unique_ptr<LaneProcess>> processes) {
  std::unique_ptr<LaneGroup> group(new LaneGroup);
  group->processes_ = std::move(processes);
  for (std::unique_ptr<Executor>& executor : executors) {
    auto lane = std::make_unique<Lane>();
    if (!lane->queue.valid()) {
      return Internal("a lane has no descriptors left for its queue; raise `ulimit -n`");
    }
    lane->executor = std::move(executor);
    Result<std::thread> thread =
        StartWorker("fasthvd-lane" + std::to_string(group->lanes_.size()),
                    [lane = lane.get()] { lane->executor->Run(&lane->queue); });
    if (!thread.ok()) return thread.status();
    lane->thread = std::move(thread).value();
    group->lanes_.push_back(std::move(lane));
  }
  return group;
}

LaneGroup::~LaneGroup() {
  for (auto& lane : lanes_) lane->queue.Close();
  for (auto& lane : lanes_) lane->thread.join();
}

void LaneGroup::Run(std::shared_ptr<Batch> batch) {
  if (batch->bytes() == 0) {
    batch->StripeDone(Status::Ok());
    return;
  }
  auto stripes = CutStripes(std::move(batch), sequence_++, static_cast<int>(lanes_.size()));
  for (auto& [lane, stripe] : stripes) lanes_[lane]->queue.Push(std::move(stripe));
}

void LaneGroup::Abort(const Status& reason) {
  for (auto& lane : lanes_) lane->executor->SetAbortReason(reason);
  for (auto& lane : lanes_) lane->executor->WakeForAbort();
}

}  // namespace fasthvd

#include "runtime/lanes/lane_group.h"

#include <pthread.h>

#include <string>
#include <utility>

namespace fasthvd {

LaneGroup::LaneGroup(std::vector<std::unique_ptr<Executor>> executors) {
  for (std::unique_ptr<Executor>& executor : executors) {
    auto lane = std::make_unique<Lane>();
    lane->executor = std::move(executor);
    lane->thread = std::thread([lane = lane.get()] { lane->executor->Run(&lane->queue); });
    std::string name = "fasthvd-lane" + std::to_string(lanes_.size());
    pthread_setname_np(lane->thread.native_handle(), name.c_str());
    lanes_.push_back(std::move(lane));
  }
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

// A rank's memory of the ids that the coordinator gave to entries.
#ifndef FASTHVD_RUNTIME_NEGOTIATION_ID_CACHE_H_
#define FASTHVD_RUNTIME_NEGOTIATION_ID_CACHE_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/description.h"
#include "runtime/negotiation/message.h"

namespace fasthvd {

// Owned by the scheduler thread.
class IdCache {
 public:
  // What to send for an entry that is ready here: its id if the coordinator knows it exactly so.
  Announcement Announce(const EntryDescription& description) const {
    auto known = by_name_.find(description.name);
    if (known != by_name_.end() && known->second.description == description) {
      return {known->second.id, {}};
    }
    return {kNoId, description};
  }

  // The coordinator bound `description`, under its name, to `id`.
  void Bind(uint32_t id, const EntryDescription& description) {
    by_name_[description.name] = {id, description};
    if (names_.size() <= id) names_.resize(id + 1);
    names_[id] = description.name;
  }

  // The name bound to `id`, or nullptr.
  const std::string* NameOf(uint32_t id) const {
    return id < names_.size() && !names_[id].empty() ? &names_[id] : nullptr;
  }

 private:
  struct Known {
    uint32_t id;
    EntryDescription description;
  };
  std::unordered_map<std::string, Known> by_name_;
  std::vector<std::string> names_;  // By id.
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_NEGOTIATION_ID_CACHE_H_

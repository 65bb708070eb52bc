#include "runtime/negotiation/validator.h"

#include <cstdio>
#include <functional>
#include <map>
#include <string>

namespace fasthvd {
namespace {

std::string ScaleText(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

// "0, 2 and 3"
std::string RankList(const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

struct Field {
  const char* name;
  std::function<std::string(const EntryDescription&)> text;
};

const std::vector<Field>& Fields() {
  static const std::vector<Field> fields = {
      {"operation", [](const EntryDescription& d) { return std::string(NameOf(d.kind)); }},
      {"dtype", [](const EntryDescription& d) { return std::string(NameOf(d.dtype)); }},
      {"shape", [](const EntryDescription& d) { return ToString(d.shapes); }},
      {"reduce op", [](const EntryDescription& d) { return std::string(NameOf(d.op)); }},
      {"prescale_factor", [](const EntryDescription& d) { return ScaleText(d.prescale); }},
      {"postscale_factor", [](const EntryDescription& d) { return ScaleText(d.postscale); }},
      {"root_rank", [](const EntryDescription& d) { return std::to_string(d.root); }},
      {"process set", [](const EntryDescription& d) { return std::to_string(d.process_set); }},
  };
  return fields;
}

// "" if all ranks have the same value of `field`, else "shape is [2] on rank 0 but [3] on rank 1".
std::string Difference(const Field& field, const std::vector<const EntryDescription*>& by_rank) {
  std::map<std::string, std::vector<int>> ranks_by_value;
  std::vector<std::string> order;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    std::string value = field.text(*by_rank[rank]);
    auto [it, is_new] = ranks_by_value.try_emplace(value);
    if (is_new) order.push_back(value);
    it->second.push_back(static_cast<int>(rank));
  }
  if (order.size() < 2) return "";
  std::string text = std::string(field.name) + " is ";
  for (size_t i = 0; i < order.size(); ++i) {
    const std::vector<int>& ranks = ranks_by_value[order[i]];
    if (i > 0) text += " but ";
    text += order[i] + (ranks.size() == 1 ? " on rank " : " on ranks ") + RankList(ranks);
  }
  return text;
}

}  // namespace

Status CheckAgreement(const std::vector<const EntryDescription*>& by_rank) {
  std::string differences;
  for (const Field& field : Fields()) {
    std::string difference = Difference(field, by_rank);
    if (difference.empty()) continue;
    if (!differences.empty()) differences += "; ";
    differences += difference;
  }
  if (differences.empty()) return Status::Ok();
  const EntryDescription& first = *by_rank.front();
  return InvalidArgument("ranks disagree on the " + std::string(NameOf(first.kind)) +
                         " of tensor '" + first.name + "': " + differences +
                         ". All ranks must hand in the same operation under one name.");
}

Status CheckValid(const EntryDescription& entry, int size) {
  if (entry.kind == CollectiveKind::kBroadcast && (entry.root < 0 || entry.root >= size)) {
    return InvalidArgument("the broadcast of tensor '" + entry.name + "' has root_rank " +
                           std::to_string(entry.root) + ", but ranks are 0 to " +
                           std::to_string(size - 1));
  }
  return Status::Ok();
}

Status DuplicateName(const EntryDescription& entry, int rank) {
  return InvalidArgument("rank " + std::to_string(rank) + " handed in the " + NameOf(entry.kind) +
                         " of tensor '" + entry.name +
                         "' again while an earlier one of that name was still waiting for other "
                         "ranks. Give every tensor that is reduced at the same time its own name.");
}

}  // namespace fasthvd

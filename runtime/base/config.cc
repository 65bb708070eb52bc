#include "runtime/base/config.h"

#include <sched.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>

namespace fasthvd {
namespace {

// The first of `names` that is set and not empty, or nullptr; `*found` is its name.
const char* FirstSet(std::initializer_list<const char*> names, const char** found) {
  for (const char* name : names) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') {
      *found = name;
      return value;
    }
  }
  return nullptr;
}

// Reads a whole number of [low, high] into *target, if one of `names` is set.
template <typename T>
Status ReadInteger(std::initializer_list<const char*> names, long long low, long long high,
                   T* target) {
  const char* name = nullptr;
  const char* text = FirstSet(names, &name);
  if (text == nullptr) return Status::Ok();
  char* end = nullptr;
  errno = 0;
  long long value = std::strtoll(text, &end, 10);
  if (errno != 0 || *end != '\0' || value < low || value > high) {
    return InvalidArgument(std::string(name) + "=" + text + " is not a whole number from " +
                           std::to_string(low) + " to " + std::to_string(high) +
                           "; correct or unset it");
  }
  *target = static_cast<T>(value);
  return Status::Ok();
}

Status ReadLogLevel(LogLevel* level) {
  const char* name = nullptr;
  const char* text = FirstSet({"FASTHVD_LOG_LEVEL", "HOROVOD_LOG_LEVEL"}, &name);
  if (text == nullptr) return Status::Ok();
  struct {
    const char* name;
    LogLevel level;
  } const kLevels[] = {
      {"trace", LogLevel::kDebug},     {"debug", LogLevel::kDebug}, {"info", LogLevel::kInfo},
      {"warning", LogLevel::kWarning}, {"error", LogLevel::kError}, {"fatal", LogLevel::kError},
  };
  for (const auto& known : kLevels) {
    if (strcasecmp(text, known.name) == 0) {
      *level = known.level;
      return Status::Ok();
    }
  }
  return InvalidArgument(std::string(name) + "=" + text +
                         " is not one of debug, info, warning, error; correct or unset it");
}

Status ReadLaneHost(LaneHost* host) {
  const char* name = nullptr;
  const char* text = FirstSet({"FASTHVD_LANE_HOST"}, &name);
  if (text == nullptr) return Status::Ok();
  const bool process = std::strcmp(text, "process") == 0;
  if (!process && std::strcmp(text, "thread") != 0) {
    return InvalidArgument(std::string(name) + "=" + text +
                           " is neither thread nor process; correct or unset it");
  }
  *host = process ? LaneHost::kProcess : LaneHost::kThread;
  return Status::Ok();
}

// Reads one CPU's number at *text, and moves *text past it; -1 if there is none.
int TakeCpu(const char** text) {
  if (**text < '0' || **text > '9') return -1;
  char* end = nullptr;
  long cpu = std::strtol(*text, &end, 10);
  *text = end;
  return cpu < CPU_SETSIZE ? static_cast<int>(cpu) : -1;
}

// Numbers and ranges, as taskset takes them: "0,2-3".
Status ReadLaneCpus(std::vector<int>* cpus) {
  const char* name = nullptr;
  const char* text = FirstSet({"FASTHVD_LANE_CPUS"}, &name);
  if (text == nullptr) return Status::Ok();
  const char* rest = text;
  while (true) {
    int first = TakeCpu(&rest);
    int last = first;
    if (*rest == '-') last = TakeCpu(&++rest);
    const bool ends = *rest == '\0';
    if (first < 0 || last < first || (!ends && *rest != ',')) {
      return InvalidArgument(std::string(name) + "=" + text +
                             " is not a list of CPU numbers below " + std::to_string(CPU_SETSIZE) +
                             " such as 0,2-3; correct or unset it");
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus->push_back(cpu);
    if (ends) return Status::Ok();
    ++rest;
  }
}

}  // namespace

Result<Config> ConfigFromEnvironment() {
  Config config;
  FASTHVD_RETURN_IF_ERROR(ReadInteger({"FASTHVD_LANES"}, 0, 64, &config.lanes));
  FASTHVD_RETURN_IF_ERROR(ReadInteger({"FASTHVD_CHUNK_BYTES"}, 4096, 4 << 20, &config.chunk_bytes));
  FASTHVD_RETURN_IF_ERROR(ReadInteger({"FASTHVD_SLOTS"}, 2, 64, &config.slots));
  // Horovod's 0 means "no fusion"; so does 1 here: every entry is a batch of its own.
  FASTHVD_RETURN_IF_ERROR(ReadInteger({"FASTHVD_FUSION_THRESHOLD", "HOROVOD_FUSION_THRESHOLD"}, 0,
                                      1ll << 40, &config.fusion_bytes));
  FASTHVD_RETURN_IF_ERROR(ReadInteger({"FASTHVD_SMALL_BYTES"}, 0, 4 << 20, &config.small_bytes));
  FASTHVD_RETURN_IF_ERROR(
      ReadInteger({"FASTHVD_RESULT_KEEP_BYTES"}, 0, 1ll << 40, &config.result_keep_bytes));
  FASTHVD_RETURN_IF_ERROR(
      ReadInteger({"FASTHVD_SPIN_MICROSECONDS"}, -1, 1000, &config.spin_microseconds));
  FASTHVD_RETURN_IF_ERROR(ReadInteger({"FASTHVD_SHARED_MEMORY"}, 0, 1, &config.shared_memory));
  FASTHVD_RETURN_IF_ERROR(ReadLaneHost(&config.lane_host));
  FASTHVD_RETURN_IF_ERROR(ReadLaneCpus(&config.lane_cpus));
  long long seconds = config.start_timeout.count() / 1000;
  FASTHVD_RETURN_IF_ERROR(
      ReadInteger({"FASTHVD_START_TIMEOUT", "HOROVOD_GLOO_TIMEOUT_SECONDS"}, 1, 86400, &seconds));
  config.start_timeout = std::chrono::seconds(seconds);
  FASTHVD_RETURN_IF_ERROR(ReadLogLevel(&config.log_level));
  return config;
}

}  // namespace fasthvd

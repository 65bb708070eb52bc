#include "runtime/base/logging.h"

#include <atomic>
#include <cstdio>

namespace fasthvd {
namespace {

std::atomic<LogLevel> minimum_level{LogLevel::kWarning};

constexpr const char* kLevelNames[] = {"debug", "info", "warning", "error"};

}  // namespace

void SetLogLevel(LogLevel level) { minimum_level = level; }

void Log(LogLevel level, int rank, const std::string& message) {
  if (level < minimum_level.load()) return;
  std::string line = "tf_fasthvd ";
  if (rank >= 0) line += "[rank " + std::to_string(rank) + "] ";
  line += std::string(kLevelNames[static_cast<int>(level)]) + ": " + message + "\n";
  // One call, so that lines of several ranks do not mix.
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace fasthvd

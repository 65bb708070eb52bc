// Messages for the person at the terminal, on standard error.
#ifndef FASTHVD_RUNTIME_BASE_LOGGING_H_
#define FASTHVD_RUNTIME_BASE_LOGGING_H_

#include <string>

namespace fasthvd {

enum class LogLevel { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3 };

// Messages below `level` are dropped (default: kWarning). Thread-safe.
void SetLogLevel(LogLevel level);

// Writes one line "tf_fasthvd [rank R] warning: message"; rank < 0 is left out. Thread-safe.
void Log(LogLevel level, int rank, const std::string& message);

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_BASE_LOGGING_H_

#include "runtime/base/status.h"

#include <system_error>

namespace fasthvd {

Status SystemError(const std::string& what, int error) {
  return Internal(what + ": " + std::generic_category().message(error));
}

}  // namespace fasthvd

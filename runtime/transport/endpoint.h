// Where a rank can be reached.
#ifndef FASTHVD_RUNTIME_TRANSPORT_ENDPOINT_H_
#define FASTHVD_RUNTIME_TRANSPORT_ENDPOINT_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/status.h"

namespace fasthvd {

struct Endpoint {
  // Ranks with equal keys reach each other over abstract Unix sockets.
  std::string host_key;
  // Numeric IP addresses and ports.
  std::vector<std::pair<std::string, int>> tcp;
  // Name of the abstract Unix socket; empty if there is none.
  std::string unix_name;

  // One line of printable ASCII without spaces; what Parse takes.
  std::string ToString() const;
  // InvalidArgument unless `line` is such a line. Does not trust it: lengths and numbers are
  // bounded.
  static Result<Endpoint> Parse(std::string_view line);
};

// The host_key of this process: the hostname, the host's boot id and the network namespace. If
// this system does not tell, a key that no other process has.
std::string LocalHostKey(const std::string& hostname);

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_TRANSPORT_ENDPOINT_H_

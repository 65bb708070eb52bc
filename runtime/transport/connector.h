// Connects to another rank.
#ifndef FASTHVD_RUNTIME_TRANSPORT_CONNECTOR_H_
#define FASTHVD_RUNTIME_TRANSPORT_CONNECTOR_H_

#include "runtime/base/deadline.h"
#include "runtime/base/owned_fd.h"
#include "runtime/base/status.h"
#include "runtime/transport/endpoint.h"
#include "runtime/transport/handshake.h"

namespace fasthvd {

// A connection to rank `peer_rank` that has passed the handshake; blocks. Over the abstract Unix
// socket if `same_host`, else over TCP, trying each of the peer's addresses in turn, beginning with
// a different one for each lane so that lanes spread over the networks. Thread-safe.
//
// The message of an error names the rank, what was tried and what to do.
Result<OwnedFd> ConnectTo(const Endpoint& peer, int peer_rank, bool same_host, const Key& key,
                          const Hello& mine, Deadline deadline);

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_TRANSPORT_CONNECTOR_H_

// Copying past the caches.
#ifndef FASTHVD_RUNTIME_LANES_STREAM_COPY_H_
#define FASTHVD_RUNTIME_LANES_STREAM_COPY_H_

#include <cstddef>

namespace fasthvd {

// memcpy for results that are too large to stay in cache until they are used: writes them straight
// to memory, which spares reading the lines first and keeps the arena in cache. What was written is
// visible to other threads after any release operation of the caller.
void StreamCopy(void* destination, const void* source, size_t bytes);

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_LANES_STREAM_COPY_H_

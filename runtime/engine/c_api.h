/* The C interface that Python's init() and shutdown() use, through ctypes.
 *
 * Functions return 0, or a StatusCode (runtime/base/status.h) with the text in
 * fasthvd_last_error(). Thread-safe; calls that change the state are serialised. */
#ifndef FASTHVD_RUNTIME_ENGINE_C_API_H_
#define FASTHVD_RUNTIME_ENGINE_C_API_H_

#include <stdint.h>

#define FASTHVD_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* Opens this rank's sockets on `addresses` (numeric, separated by commas; may be empty when all
 * ranks are on one host) and writes the line to publish to `endpoint`, at most `capacity` bytes.
 * `lane_program` is the path of fasthvd_lane, for FASTHVD_LANE_HOST=process. */
FASTHVD_EXPORT int fasthvd_listen(const char* hostname, const char* addresses,
                                  const char* lane_program, char* endpoint, int64_t capacity);

/* Connects with all ranks: `endpoints` has their lines in rank order, separated by newlines;
 * `key_hex` is the job's secret, 64 hexadecimal digits. Blocks until all are there. */
FASTHVD_EXPORT int fasthvd_start(int rank, int size, const char* endpoints, const char* key_hex);

/* Leaves the job in order and frees everything; also undoes fasthvd_listen alone. */
FASTHVD_EXPORT int fasthvd_shutdown(void);

FASTHVD_EXPORT int fasthvd_is_running(void);

/* 1 after the job has failed, with the text in fasthvd_failure_reason(). */
FASTHVD_EXPORT int fasthvd_has_failed(void);
FASTHVD_EXPORT const char* fasthvd_failure_reason(void);

/* Memory of the arena and of the lanes' buffers, bytes. */
FASTHVD_EXPORT int64_t fasthvd_buffer_bytes(void);

/* The text of this thread's last failed call. */
FASTHVD_EXPORT const char* fasthvd_last_error(void);

#ifdef __cplusplus
}
#endif

#endif /* FASTHVD_RUNTIME_ENGINE_C_API_H_ */

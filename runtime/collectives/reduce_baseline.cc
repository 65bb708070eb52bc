// The kernels for what every CPU of the architecture has; see BUILD for the flags.
#define FASTHVD_REDUCE_TABLE kReduceBaseline
#include "runtime/collectives/reduce_kernels.inc"

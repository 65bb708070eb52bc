// The kernels for AVX2 and F16C; see BUILD for the flags.
#define FASTHVD_REDUCE_TABLE kReduceAvx2
#include "runtime/collectives/reduce_kernels.inc"

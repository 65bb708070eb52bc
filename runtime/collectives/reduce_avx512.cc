// The kernels for AVX-512 (F, BW, DQ, VL); see BUILD for the flags.
#define FASTHVD_REDUCE_TABLE kReduceAvx512
#include "runtime/collectives/reduce_kernels.inc"

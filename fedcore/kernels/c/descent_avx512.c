/* Gradient descent with registers of 512 bits. */
#include "kernels.h"

#ifdef LATECOMER_X86

#define LANES 16
#include "descent.h"

__attribute__((target("avx512f,avx512vl,avx512bw,avx512dq"))) int
descend_avx512(const Network *network, const Descent *by, const Samples *samples,
               size_t clients, const float *start, size_t apart, float *velocity,
               float *out, double *losses) {
    return descend_all(network, by, samples, clients, start, apart, velocity, out,
                       losses);
}

#endif

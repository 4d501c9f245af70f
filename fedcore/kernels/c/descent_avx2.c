/* Gradient descent with registers of 256 bits. */
#include "kernels.h"

#ifdef LATECOMER_X86

#define LANES 8
#include "descent.h"

__attribute__((target("avx2"))) int
descend_avx2(const Network *network, const Descent *by, const Samples *samples,
             size_t clients, const float *start, size_t apart, float *velocity,
             float *out, double *losses) {
    return descend_all(network, by, samples, clients, start, apart, velocity, out,
                       losses);
}

#endif

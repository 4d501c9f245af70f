/* Gradient descent with registers of 256 bits. */
#include <math.h>
#include <stdlib.h>

#include "kernels.h"

#ifdef LATECOMER_X86

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

#define LANES 8
#include "descent.h"

int descend_avx2(const Network *network, const Descent *by, const Samples *samples,
                 size_t clients, const float *start, size_t apart, float *velocity,
                 float *out, double *losses) {
    return descend_all(network, by, samples, clients, start, apart, velocity, out,
                       losses);
}

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif

/* Gradient descent of small networks, with the widest registers that there are. */
#include "kernels.h"

#ifdef LATECOMER_DESCENT

#define LANES 4
#include "descent.h"

int descend(const Network *network, const Descent *by, const Samples *samples,
            size_t clients, const float *start, size_t apart, float *velocity,
            float *out, double *losses) {
#ifdef LATECOMER_X86
    Descend *wider = NULL;
    if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq"))
        wider = descend_avx512;
    else if (__builtin_cpu_supports("avx2"))
        wider = descend_avx2;
    if (wider)
        return wider(network, by, samples, clients, start, apart, velocity, out,
                     losses);
#endif
    return descend_all(network, by, samples, clients, start, apart, velocity, out,
                       losses);
}

#endif

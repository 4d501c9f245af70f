/* The gradient of a pull to another model; the twin is in pull.py. */
#include "kernels.h"

WIDE void add_pull(float *restrict g, const float *restrict w,
                   const float *restrict anchor, size_t values, float pull,
                   float decay) {
    for (size_t j = 0; j < values; j++) {
        float more = (w[j] - anchor[j]) * pull;
        if (decay != 0) more += w[j] * decay;
        g[j] += more;
    }
}

/* A step of Adam; the twin is in adam.py. */
#include <math.h>

#include "kernels.h"

WIDE void adam(float *restrict w, float *restrict v, float *restrict s,
               const float *restrict g, size_t rows, size_t dim,
               const float *restrict eps, const float *restrict scale,
               const Betas *restrict by) {
    float beta_1 = by->beta_1, rest_1 = by->rest_1, lr = by->lr;
    float beta_2 = by->beta_2, rest_2 = by->rest_2, decay = by->decay;
    for (size_t row = 0; row < rows; row++, w += dim, v += dim, s += dim, g += dim) {
        float floor = eps[row], scaled = scale[row];
        for (size_t j = 0; j < dim; j++) {
            float mean = v[j] * beta_1, square = s[j] * beta_2;
            mean += g[j] * rest_1;
            square += g[j] * g[j] * rest_2;
            v[j] = mean;
            s[j] = square;
            float step = mean / (sqrtf(square) + floor) * scaled;
            if (decay != 0) step += w[j] * decay;
            w[j] -= step * lr;
        }
    }
}

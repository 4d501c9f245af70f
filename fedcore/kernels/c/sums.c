/* Sums along rows; the twins are in sums.py. */
#include <math.h>

#include "kernels.h"

#define SUMS(name, term)                                                          \
    WIDE void name(const float *x, size_t rows, size_t size, double *out) {       \
        for (size_t row = 0; row < rows; row++, x += size) {                      \
            double lanes[SUM_LANES] = {0};                                        \
            size_t at = 0;                                                        \
            for (; at + SUM_LANES <= size; at += SUM_LANES)                       \
                for (size_t j = 0; j < SUM_LANES; j++) {                          \
                    double v = x[at + j];                                         \
                    lanes[j] += term;                                             \
                }                                                                 \
            for (size_t j = 0; at + j < size; j++) {                              \
                double v = x[at + j];                                             \
                lanes[j] += term;                                                 \
            }                                                                     \
            out[row] = folded(lanes);                                             \
        }                                                                         \
    }

SUMS(absolute_sums, fabs(v))
SUMS(square_sums, v * v)
SUMS(plain_sums, v)

/* Sums along rows; the twins are in sums.py. */
#include <math.h>

#include "kernels.h"

#define SUMS(name, term)                                                          \
    WIDE void name(const float *x, size_t rows, size_t size, double *out) {       \
        for (size_t row = 0; row < rows; row++, x += size) {                      \
            double lanes[SUMS] = {0};                                            \
            size_t at = 0;                                                        \
            for (; at + SUMS <= size; at += SUMS)                               \
                for (size_t j = 0; j < SUMS; j++) {                              \
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

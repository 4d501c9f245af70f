/* Sums of vectors; the twin is in rows.py. */
#include "kernels.h"

enum { BLOCK = 1 << 12 }; /* sums that stay in the fastest cache */

/* The order of additions is that of the rows, whatever is done at a time. */
INLINE void add_one(const float *x, float a, size_t size, float *sums) {
    for (size_t j = 0; j < size; j++) sums[j] += a * x[j];
}

INLINE void add_four(const float *const *x, const float *a, size_t at, size_t size,
                     float *sums) {
    const float *x0 = x[0] + at, *x1 = x[1] + at, *x2 = x[2] + at, *x3 = x[3] + at;
    for (size_t j = 0; j < size; j++)
        sums[j] = (((sums[j] + a[0] * x0[j]) + a[1] * x1[j]) + a[2] * x2[j]) +
                  a[3] * x3[j];
}

WIDE void add_rows(const float *const *rows, const float *shares, size_t count,
                   size_t dim, float *out) {
    float sums[BLOCK]; /* of our own, so that it overlaps with nothing */
    for (size_t at = 0; at < dim; at += BLOCK) {
        size_t size = least(BLOCK, dim - at), k = 0;
        memcpy(sums, out + at, size * sizeof *sums);
        for (; k + 4 <= count; k += 4) add_four(rows + k, shares + k, at, size, sums);
        for (; k < count; k++) add_one(rows[k] + at, shares[k], size, sums);
        memcpy(out + at, sums, size * sizeof *sums);
    }
}

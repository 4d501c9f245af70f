/* Whole multiples of a step for each bucket; the twins are in buckets.py. */
#include <math.h>

#include "kernels.h"

static const uint32_t GOLDEN = 0x9E3779B9;
static const float EVEN = 12582912.0f; /* 3 * 2^22: what is added to it is rounded */

/* The largest magnitude. NaN counts as larger than infinity, as its bits are. */
INLINE double largest_of(const float *x, size_t count) {
    uint32_t most = 0;
    for (size_t j = 0; j < count; j++) {
        uint32_t magnitude = bits_of(x[j]) & UINT32_C(0x7FFFFFFF);
        most = most < magnitude ? magnitude : most;
    }
    return float_of(most);
}

INLINE double norm_of(const float *x, size_t count) {
    double lanes[SUM_LANES] = {0};
    size_t at = 0;
    for (; at + SUM_LANES <= count; at += SUM_LANES)
        for (size_t j = 0; j < SUM_LANES; j++) {
            double v = x[at + j];
            lanes[j] += v * v;
        }
    for (size_t j = 0; at + j < count; j++) {
        double v = x[at + j];
        lanes[j] += v * v;
    }
    return sqrt(folded(lanes));
}

/* In units of a share of the step, between -top and top; NaN becomes top. */
INLINE float scaled(float x, float boost, float inverse, float top) {
    float v = x * boost * inverse;
    v = v < top ? v : top;
    return v > -top ? v : -top;
}

INLINE void to_nearest(const float *x, size_t count, float boost, float inverse,
                       float top, int8_t *levels) {
    for (size_t j = 0; j < count; j++)
        levels[j] = (int8_t)(uint8_t)bits_of(scaled(x[j], boost, inverse, top) + EVEN);
}

/* In units of 2^-24 steps a sum with noise is exact, and a shift rounds it down. The
 * noise is that of fedcore.rng.noise: 24 bits for each place. */
INLINE void at_random(const float *x, size_t count, float boost, float inverse,
                      float top, size_t place, uint64_t key, int8_t *levels) {
    uint32_t weyl = (uint32_t)place * GOLDEN + (uint32_t)key;
    uint32_t second = (uint32_t)(key >> 32);
    for (size_t j = 0; j < count; j++, weyl += GOLDEN) {
        uint32_t z = ((weyl ^ (weyl >> 16)) + second) * UINT32_C(0x21F0AAAD);
        z = (z ^ (z >> 15)) * UINT32_C(0xD35A2D97);
        int32_t sum = (int32_t)scaled(x[j], boost, inverse, top) + (int32_t)(z >> 8);
        levels[j] = (int8_t)(sum >> 24);
    }
}

WIDE void quantise(const float *x, size_t rows, size_t dim, size_t bucket, int top,
                   int measure, const uint64_t *seeds, int8_t *levels, float *steps) {
    float unit = seeds ? 0x1p24f : 1.0f, most = (float)top * unit;
    for (size_t row = 0; row < rows; row++, x += dim, levels += dim) {
        uint64_t key = seeds ? word(seeds[row], 0) : 0;
        for (size_t at = 0, count; at < dim; at += count) {
            count = least(bucket, dim - at);
            const float *some = x + at;
            double of = measure == NORM ? norm_of(some, count) : largest_of(some, count);
            float step = (float)(of / top);
            if (step != step) step = float_of(NOT_A_NUMBER);
            /* A step below 2^-64 is enlarged first, so that its inverse is a number. */
            float boost = step < 0x1p-64f ? 0x1p64f : 1.0f;
            float inverse = step == 0 ? 0.0f : unit / (step * boost);
            int8_t *into = levels + at;
            if (seeds && boost == 1.0f) /* and so left out by the compiler */
                at_random(some, count, 1.0f, inverse, most, at, key, into);
            else if (seeds)
                at_random(some, count, boost, inverse, most, at, key, into);
            else if (boost == 1.0f)
                to_nearest(some, count, 1.0f, inverse, most, into);
            else
                to_nearest(some, count, boost, inverse, most, into);
            *steps++ = step;
        }
    }
}

WIDE void put_levels(const int8_t *levels, size_t dim, size_t bucket,
                     const float *steps, float *out) {
    for (size_t at = 0, count; at < dim; at += count) {
        float step = *steps++;
        count = least(bucket, dim - at);
        for (size_t j = 0; j < count; j++) out[at + j] = (float)levels[at + j] * step;
    }
}

WIDE void add_levels(const int8_t *levels, size_t dim, size_t bucket,
                     const float *steps, float scale, float *out) {
    for (size_t at = 0, count; at < dim; at += count) {
        float step = *steps++;
        count = least(bucket, dim - at);
        for (size_t j = 0; j < count; j++)
            out[at + j] += (float)levels[at + j] * step * scale;
    }
}

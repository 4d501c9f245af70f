/* Inner loops of codecs.
 *
 * Every kernel has a twin in NumPy, in the Python file beside this folder, and gives the
 * same bytes: sums have a fixed order, nothing is contracted into fused multiply-adds
 * (-ffp-contract=off), and NaN never reaches an integer.
 */
#ifndef LATECOMER_KERNELS_H
#define LATECOMER_KERNELS_H

#include "common.h"

/* Compiled for wider registers as well; the library chooses when it is loaded. */
#if !defined(__x86_64__) || !defined(__GLIBC__) || defined(LATECOMER_PLAIN)
#define WIDE
#elif defined(__clang__) || __GNUC__ < 12
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#endif

enum { SUM_LANES = 64 };            /* of a sum: element i goes to lane i mod 64 */
enum { LARGEST = 0, NORM = 1 };     /* what the step of a bucket is a share of */

static const uint32_t NOT_A_NUMBER = 0x7FC00000;

INLINE uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

INLINE float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The lanes are added by halves: lane j and lane j + 32, then j and j + 16, ... */
INLINE double folded(double *lanes) {
    for (size_t j = 0; j < 32; j++) lanes[j] += lanes[j + 32];
    for (size_t j = 0; j < 16; j++) lanes[j] += lanes[j + 16];
    for (size_t j = 0; j < 8; j++) lanes[j] += lanes[j + 8];
    for (size_t j = 0; j < 4; j++) lanes[j] += lanes[j + 4];
    double even = lanes[0] + lanes[2], odd = lanes[1] + lanes[3], sum = even + odd;
    return sum == sum ? sum : (double)float_of(NOT_A_NUMBER);
}

/* SplitMix64 in counter form, as fedcore.rng.bits. */
INLINE uint64_t word(uint64_t seed, uint64_t place) {
    uint64_t z = seed + (place + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

typedef struct {
    float beta_1, rest_1, beta_2, rest_2, lr, decay; /* rest = 1 - beta */
} Betas;

/* adam.c: eps and scale have a value a row */
void adam(float *w, float *v, float *s, const float *g, size_t rows, size_t dim,
          const float *eps, const float *scale, const Betas *by);

/* pull.c */
void add_pull(float *g, const float *w, const float *anchor, size_t values, float pull,
              float decay);

/* sums.c: along rows of size values, in double precision */
void absolute_sums(const float *x, size_t rows, size_t size, double *out);
void square_sums(const float *x, size_t rows, size_t size, double *out);
void plain_sums(const float *x, size_t rows, size_t size, double *out);

/* rows.c */
void add_rows(const float *const *rows, const float *shares, size_t count, size_t dim,
              float *out);

/* signs.c */
void positive(const float *x, size_t rows, size_t dim, const uint64_t *seeds,
              uint8_t *out);
void put_signs(const uint8_t *plus, size_t count, float scale, float *out);
void add_signs(const uint8_t *plus, size_t count, float scale, float *out);

/* buckets.c */
void quantise(const float *x, size_t rows, size_t dim, size_t bucket, int top,
              int measure, const uint64_t *seeds, int8_t *levels, float *steps);
void put_levels(const int8_t *levels, size_t dim, size_t bucket, const float *steps,
                float *out);
void add_levels(const int8_t *levels, size_t dim, size_t bucket, const float *steps,
                float scale, float *out);

/* selection.c */
size_t above(const uint32_t *bits, size_t dim, int32_t threshold, size_t most,
             int64_t *out);
void largest(const uint32_t *bits, size_t rows, size_t dim, size_t k, uint32_t *some,
             int64_t *out);

/* rice.c */
uint64_t shifted_sum(const int64_t *numbers, size_t count, int width);
int put_rice(const int64_t *numbers, size_t count, int width, uint8_t *out,
             size_t bytes);
size_t take_rice(const uint8_t *low, size_t low_bytes, const uint8_t *unary, size_t bytes,
                 int width, uint64_t most, int64_t *numbers, size_t count);

#endif

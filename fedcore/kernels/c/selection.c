/* Which values are large; the twin is fedcore.arrays.above. */
#include "kernels.h"

enum { SOME = 32, FEW = 8 };

INLINE int exceeds(uint32_t bits, int32_t threshold) {
    return (int32_t)(bits & UINT32_C(0x7FFFFFFF)) > threshold;
}

/* Places of magnitudes whose bits exceed the threshold, ascending. Returns how many
 * there are, or most + 1 once there are more; never writes more than most. */
WIDE size_t above(const uint32_t *bits, size_t dim, int32_t threshold, size_t most,
                  int64_t *out) {
    size_t found = 0;
    for (size_t at = 0, count; at < dim; at += count) {
        count = least(SOME, dim - at);
        if (count == SOME && most - found >= SOME) { /* room for all: no branches */
            int any = 0;
            for (size_t j = 0; j < SOME; j++) any |= exceeds(bits[at + j], threshold);
            if (!any) continue;
            for (size_t end = at + SOME, few = at; few < end; few += FEW) {
                any = 0;
                for (size_t j = 0; j < FEW; j++) any |= exceeds(bits[few + j], threshold);
                if (!any) continue;
                for (size_t j = 0; j < FEW; j++) {
                    out[found] = (int64_t)(few + j);
                    found += (size_t)exceeds(bits[few + j], threshold);
                }
            }
        } else
            for (size_t j = 0; j < count; j++)
                if (exceeds(bits[at + j], threshold)) {
                    if (found == most) return most + 1;
                    out[found++] = (int64_t)(at + j);
                }
    }
    return found;
}

enum { HIGH = 11, LOW = 10 }; /* bits of a magnitude that one histogram counts */

/* The bucket in which the k-th largest lies, and its rank in there. */
INLINE size_t bucket_of(const uint32_t *counts, size_t buckets, size_t *k) {
    size_t bucket = buckets - 1;
    while (bucket && counts[bucket] < *k) *k -= counts[bucket--];
    return bucket;
}

/* The places of the k largest magnitudes of a row, 0 < k < dim, ascending; of equal
 * ones those that come first. There is room for a row in some. The twin is
 * fedcore.arrays.largest_indices. */
WIDE static void largest_of(const uint32_t *bits, size_t dim, size_t k, uint32_t *some,
                            int64_t *out) {
    uint32_t counts[1 << HIGH] = {0};
    const uint32_t magnitude = UINT32_C(0x7FFFFFFF), low = (1 << LOW) - 1;
    size_t near = 0, found = 0, all = k;
    for (size_t i = 0; i < dim; i++) counts[(bits[i] & magnitude) >> (2 * LOW)]++;
    uint32_t high = (uint32_t)bucket_of(counts, 1 << HIGH, &k);
    for (size_t i = 0; i < dim; i++) {
        some[near] = bits[i] & magnitude;
        near += some[near] >> (2 * LOW) == high;
    }
    memset(counts, 0, sizeof counts);
    for (size_t i = 0; i < near; i++) counts[some[i] >> LOW & low]++;
    high = high << LOW | (uint32_t)bucket_of(counts, 1 << LOW, &k);
    memset(counts, 0, sizeof counts);
    for (size_t i = 0; i < near; i++)
        if (some[i] >> LOW == high) counts[some[i] & low]++;
    uint32_t least = high << LOW | (uint32_t)bucket_of(counts, 1 << LOW, &k);
    for (size_t i = 0; i < dim && found < all; i++) {
        uint32_t value = bits[i] & magnitude;
        if (value < least || (value == least && !k)) continue;
        k -= value == least;
        out[found++] = (int64_t)i;
    }
}

void largest(const uint32_t *bits, size_t rows, size_t dim, size_t k, uint32_t *some,
             int64_t *out) {
    for (size_t row = 0; row < rows; row++)
        largest_of(bits + row * dim, dim, k, some, out + row * k);
}

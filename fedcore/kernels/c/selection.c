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

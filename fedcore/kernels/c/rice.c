/* Golomb-Rice code; the twin is fedcore.kernels.rice. */
#include "kernels.h"

uint64_t shifted_sum(const int64_t *numbers, size_t count, int width) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) sum += (uint64_t)numbers[i] >> width;
    return sum;
}

/* The low bits of all numbers, then the rest of each as zeros and a one. Out holds
 * zeros; returns 0 if the code does not end in its last byte. */
int put_rice(const int64_t *numbers, size_t count, int width, uint8_t *out,
             size_t bytes) {
    const uint64_t mask = (UINT64_C(1) << width) - 1;
    size_t low_bytes = (count * (size_t)width + 7) / 8, at = 0;
    uint64_t waiting = 0;
    int bits = 0;
    if (low_bytes > bytes) return 0;
    for (size_t i = 0; i < count; i++) { /* fewer than 8 bits wait, at most 31 come */
        waiting |= ((uint64_t)numbers[i] & mask) << bits;
        for (bits += width; bits >= 8; bits -= 8, waiting >>= 8)
            if (at < bytes) out[at++] = (uint8_t)waiting;
    }
    if (bits) out[at] = (uint8_t)waiting;
    out += low_bytes;
    size_t room = bytes - low_bytes, place = 0;
    for (size_t i = 0; i < count; i++, place++) {
        uint64_t zeros = (uint64_t)numbers[i] >> width;
        if (zeros >= 8 * (uint64_t)room - place) return 0;
        place += (size_t)zeros;
        out[place / 8] |= (uint8_t)(1 << place % 8);
    }
    return (place + 7) / 8 == room;
}

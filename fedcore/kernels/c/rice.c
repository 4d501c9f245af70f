/* Golomb-Rice code; the twin is fedcore.kernels.rice. */
#include "kernels.h"

/* The next bytes as a number, the first ones lowest; at most eight of them. */
INLINE uint64_t next_bytes(const uint8_t *from, size_t bytes) {
    uint64_t word = 0;
    for (size_t i = 0; i < bytes; i++) word |= (uint64_t)from[i] << (8 * i);
    return word;
}

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

/* Reads numbers whose low bits and unary parts lie apart. Returns how many bytes of the
 * unary parts were read, or 0 if they end early or a part is larger than most. */
size_t take_rice(const uint8_t *low, size_t low_bytes, const uint8_t *unary, size_t bytes,
                 int width, uint64_t most, int64_t *numbers, size_t count) {
    const uint64_t mask = (UINT64_C(1) << width) - 1;
    uint64_t word = 0, waiting = 0;
    size_t at = 0, low_at = 0;
    int left = 0, bits = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t zeros = 0;
        while (!word) {
            zeros += (uint64_t)left;
            if (at == bytes || zeros > most) return 0;
            size_t some = least(8, bytes - at);
            word = next_bytes(unary + at, some);
            at += some;
            left = 8 * (int)some;
        }
        int more = __builtin_ctzll(word);
        zeros += (uint64_t)more;
        if (zeros > most) return 0;
        word = word >> more >> 1;
        left -= more + 1;
        while (bits < width) {
            if (low_at == low_bytes) return 0;
            waiting |= (uint64_t)low[low_at++] << bits;
            bits += 8;
        }
        numbers[i] = (int64_t)(zeros << width | (waiting & mask));
        waiting >>= width;
        bits -= width;
    }
    return at - (size_t)left / 8;
}

/* Gradient descent of small dense networks, one client after the other.
 *
 * Layers are linear, with ReLU between them; the loss is the mean cross-entropy. All
 * steps of a client are taken while its model is in the cache. Sums over inputs,
 * outputs and samples are made in their order, so the width of registers and the other
 * clients make no difference. The twin is whatever else computes the gradients.
 */
#include "kernels.h"

#ifdef LATECOMER_DENSE

#include <math.h>
#include <stdlib.h>

enum { WIDTH = 16, ROWS = 6 }; /* of a tile: it stays in registers */

typedef float Floats __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(64), aligned(4), may_alias));

INLINE size_t padded(size_t count) { return (count + WIDTH - 1) / WIDTH * WIDTH; }

typedef struct {
    size_t in, out, wide;      /* inputs padded */
    size_t weight, bias;       /* in the flat vector */
    int has_bias;
    float *w, *b, *w_g, *b_g;  /* weights (out, wide), biases, their gradients */
    float *x, *xT, *gT;        /* inputs both ways, gradient of the outputs */
} Layer;

/* c = bias + a b over the inner dimension: so many rows of WIDTH columns. */
INLINE void tile(size_t rows, size_t inner, const float *a, size_t a_row,
                 size_t a_inner, const float *b, size_t b_inner, const float *bias,
                 float *c, size_t c_row) {
    Floats sums[ROWS];
    for (size_t r = 0; r < rows; r++) sums[r] = (Floats){0} + (bias ? bias[r] : 0.0f);
    for (size_t k = 0; k < inner; k++) {
        Floats right = *(const Floats *)(b + k * b_inner);
        for (size_t r = 0; r < rows; r++) sums[r] += a[r * a_row + k * a_inner] * right;
    }
    for (size_t r = 0; r < rows; r++) *(Floats *)(c + r * c_row) = sums[r];
}

INLINE void product(size_t rows, size_t columns, size_t inner, const float *a,
                    size_t a_row, size_t a_inner, const float *b, size_t b_inner,
                    const float *bias, float *c, size_t c_row) {
    for (size_t n = 0; n < columns; n += WIDTH)
        for (size_t m = 0; m < rows; m += ROWS) {
            const float *left = a + m * a_row, *right = b + n;
            const float *start = bias ? bias + m : NULL;
            float *out = c + m * c_row + n;
#define TILE(count)                                                                    \
    tile(count, inner, left, a_row, a_inner, right, b_inner, start, out, c_row)
            switch (rows - m) {
            case 1: TILE(1); break;
            case 2: TILE(2); break;
            case 3: TILE(3); break;
            case 4: TILE(4); break;
            case 5: TILE(5); break;
            default: TILE(6);
            }
#undef TILE
        }
}

/* The exponential of what is not positive, to 2 units in the last place: 2^n e^r with
 * a polynomial of degree 6 for e^r, |r| <= ln 2 / 2 (coefficients of Cephes' expf). */
INLINE void exponential(Floats *value) {
    const Floats none = {0}, x = *value;
    Ints number = x == x;
    Floats low = none - 87.0f;
    Ints above = x > low;
    Floats y = (Floats)(((Ints)x & above) | ((Ints)low & ~above));
    Floats shifted = y * 1.44269504088896341f + 12582912.0f; /* rounds to integers */
    Floats n = shifted - 12582912.0f;
    Floats r = y - n * 0.693359375f + n * 2.12194440e-4f;
    Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    Ints scale = ((Ints)shifted - (0x4B400000 - 127)) << 23;
    Floats found = p * (Floats)scale;
    *value = (Floats)(((Ints)found & number) | ((Ints)x & ~number));
}

/* Cross-entropy of outputs (out, batch), which become its gradient; returns the mean
 * over the samples. */
INLINE double cross_entropy(float *zT, size_t out, size_t wide, const int64_t *targets,
                            size_t size) {
    double loss = 0;
    const float share = 1.0f / (float)size;
    for (size_t n = 0; n < wide; n += WIDTH) {
        float *column = zT + n, of_target[WIDTH], total[WIDTH], chosen[WIDTH];
        size_t count = n < size ? least(WIDTH, size - n) : 0;
        Floats most = *(const Floats *)column, sum = {0}, weight = {0};
        for (size_t o = 1; o < out; o++) {
            Floats z = *(const Floats *)(column + o * wide);
            Ints above = z > most;
            most = (Floats)(((Ints)z & above) | ((Ints)most & ~above));
        }
        for (size_t j = 0; j < WIDTH; j++) {
            chosen[j] = j < count ? share : 0.0f;
            of_target[j] = j < count ? column[(size_t)targets[n + j] * wide + j] : 0.0f;
        }
        for (size_t o = 0; o < out; o++) {
            Floats *z = (Floats *)(column + o * wide);
            *z -= most;
            exponential(z);
            sum += *z;
        }
        memcpy(total, &sum, sizeof total);
        for (size_t j = 0; j < count; j++)
            loss += (double)(logf(total[j]) + (((float *)&most)[j] - of_target[j]));
        memcpy(&weight, chosen, sizeof weight);
        Floats scale = weight / sum;
        for (size_t o = 0; o < out; o++) *(Floats *)(column + o * wide) *= scale;
        for (size_t j = 0; j < count; j++)
            column[(size_t)targets[n + j] * wide + j] -= share;
    }
    return loss / (double)size;
}

#if defined(__clang__) || __GNUC__ >= 12
typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));
#define PAIRS(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)

INLINE void turn_four(const float *from, size_t wide, float *to, size_t high) {
    Four a = *(const Four *)from, b = *(const Four *)(from + wide);
    Four c = *(const Four *)(from + 2 * wide), d = *(const Four *)(from + 3 * wide);
    Four ab = PAIRS(a, b, 0, 4, 1, 5), cd = PAIRS(c, d, 0, 4, 1, 5);
    *(Four *)to = PAIRS(ab, cd, 0, 1, 4, 5);
    *(Four *)(to + high) = PAIRS(ab, cd, 2, 3, 6, 7);
    ab = PAIRS(a, b, 2, 6, 3, 7);
    cd = PAIRS(c, d, 2, 6, 3, 7);
    *(Four *)(to + 2 * high) = PAIRS(ab, cd, 0, 1, 4, 5);
    *(Four *)(to + 3 * high) = PAIRS(ab, cd, 2, 3, 6, 7);
}
#else
INLINE void turn_four(const float *from, size_t wide, float *to, size_t high) {
    for (size_t c = 0; c < 4; c++)
        for (size_t r = 0; r < 4; r++) to[c * high + r] = from[r * wide + c];
}
#endif

/* So many rows and columns of what lies in rows of so many values, the other way. */
INLINE void transpose(const float *from, size_t rows, size_t columns, size_t wide,
                      float *to, size_t high) {
    size_t whole_rows = rows & ~(size_t)3, whole_columns = columns & ~(size_t)3;
    for (size_t c = 0; c < whole_columns; c += 4)
        for (size_t r = 0; r < whole_rows; r += 4)
            turn_four(from + r * wide + c, wide, to + c * high + r, high);
    for (size_t c = 0; c < columns; c++)
        for (size_t r = c < whole_columns ? whole_rows : 0; r < rows; r++)
            to[c * high + r] = from[r * wide + c];
}

/* The gradients of one step go to w_g and b_g; the inputs are in the first layer's x.
 * Returns the loss. */
INLINE double gradients(Layer *layers, size_t count, const int64_t *targets,
                        size_t size) {
    size_t high = padded(size);
    for (size_t l = 0; l < count; l++) {
        Layer *at = &layers[l];
        float *zT = at->gT;
        if (l == 0) transpose(at->x, high, at->in, at->wide, at->xT, high);
        if (l + 1 < count) zT = at[1].xT;
        product(at->out, high, at->in, at->w, at->wide, 1, at->xT, high,
                at->has_bias ? at->b : NULL, zT, high);
        if (l + 1 == count) break;
        for (size_t i = 0; i < at->out * high; i += WIDTH) {
            Floats *z = (Floats *)(zT + i);
            *z = (Floats)((Ints)*z & ~(*z <= (Floats){0})); /* NaN stays */
        }
        transpose(zT, at->out, size, high, at[1].x, at[1].wide);
    }
    Layer *last = &layers[count - 1];
    double loss = cross_entropy(last->gT, last->out, high, targets, size);
    for (size_t l = count; l-- > 0;) {
        Layer *at = &layers[l];
        product(at->out, at->wide, size, at->gT, high, 1, at->x, at->wide, NULL,
                at->w_g, at->wide);
        for (size_t o = 0; at->has_bias && o < at->out; o++) {
            float sum = 0;
            for (size_t j = 0; j < size; j++) sum += at->gT[o * high + j];
            at->b_g[o] = sum;
        }
        if (l == 0) break;
        float *gT = at[-1].gT;
        product(at->in, high, at->out, at->w, 1, at->wide, at->gT, high, NULL, gT,
                high);
        for (size_t i = 0; i < at->in * high; i += WIDTH) {
            Floats *g = (Floats *)(gT + i);
            *g = (Floats)((Ints)*g & ~(*(Floats *)(at->xT + i) <= (Floats){0}));
        }
    }
    return loss;
}

/* Between the flat vector and the padded layers. */
INLINE void spread(const Layer *layers, size_t count, const float *flat, float *to,
                   const float *own) {
    for (size_t l = 0; l < count; l++) {
        const Layer *at = &layers[l];
        for (size_t o = 0; o < at->out; o++)
            memcpy(to + (at->w - own) + o * at->wide, flat + at->weight + o * at->in,
                   at->in * sizeof *flat);
        if (at->has_bias)
            memcpy(to + (at->b - own), flat + at->bias, at->out * sizeof *flat);
    }
}

/* What is left of from after a part of the layers; NULL: the layers themselves. */
INLINE void put_row(const float *row, const float *from, size_t size, float *to) {
    if (!from)
        memcpy(to, row, size * sizeof *to);
    else
        for (size_t i = 0; i < size; i++) to[i] = from[i] - row[i];
}

INLINE void collect(const Layer *layers, size_t count, const float *own,
                    const float *padded, const float *from, float *flat) {
    for (size_t l = 0; l < count; l++) {
        const Layer *at = &layers[l];
        for (size_t o = 0; o < at->out; o++) {
            size_t place = at->weight + o * at->in;
            put_row(padded + (at->w - own) + o * at->wide, from ? from + place : NULL,
                    at->in, flat + place);
        }
        if (at->has_bias)
            put_row(padded + (at->b - own), from ? from + at->bias : NULL, at->out,
                    flat + at->bias);
    }
}

typedef struct {
    Layer *layers;
    float *w, *g, *v, *start; /* padded models */
    size_t values;            /* of each of them */
    int64_t *targets;         /* of one step */
    void *memory;
} Room;

static int furnish(Room *room, const Network *network, size_t batch) {
    size_t count = network->layers, high = padded(batch), values = 0, inputs = 0;
    for (size_t l = 0; l < count; l++) {
        size_t in = (size_t)network->sizes[l], out = (size_t)network->sizes[l + 1];
        values += out * padded(in) + padded(out);
        inputs += high * padded(in) + in * high + out * high;
    }
    size_t floats = 4 * values + inputs + WIDTH;
    size_t before = count * sizeof(Layer) + batch * sizeof(int64_t);
    char *memory = calloc(1, before + floats * sizeof(float) + 64);
    if (!memory) return 0;
    room->memory = memory;
    room->layers = (Layer *)memory;
    room->targets = (int64_t *)(memory + count * sizeof(Layer));
    room->values = values;
    float *at = (float *)(((uintptr_t)(memory + before) + 63) / 64 * 64);
    room->w = at;
    room->g = at + values;
    room->v = at + 2 * values;
    room->start = at + 3 * values;
    at += 4 * values;
    size_t place = 0;
    for (size_t l = 0; l < count; l++) {
        Layer *layer = &room->layers[l];
        layer->in = (size_t)network->sizes[l];
        layer->out = (size_t)network->sizes[l + 1];
        layer->wide = padded(layer->in);
        layer->weight = (size_t)network->places[2 * l];
        layer->has_bias = network->places[2 * l + 1] >= 0;
        layer->bias = layer->has_bias ? (size_t)network->places[2 * l + 1] : 0;
        layer->w = room->w + place;
        layer->w_g = room->g + place;
        place += layer->out * layer->wide;
        layer->b = room->w + place;
        layer->b_g = room->g + place;
        place += padded(layer->out);
        layer->x = at;
        layer->xT = layer->x + high * layer->wide;
        layer->gT = layer->xT + layer->in * high;
        at = layer->gT + layer->out * high;
    }
    return 1;
}

INLINE void descend_one(const Room *room, const Network *network, const Descent *by,
                        const Samples *samples, size_t client, const float *from,
                        float *velocity, float *out, double *loss) {
    size_t count = network->layers, values = room->values;
    Layer *layers = room->layers, *first = layers;
    float *w = room->w, *g = room->g, *v = room->v, *start = room->start;
    spread(layers, count, from, w, w);
    if (by->pull != 0) spread(layers, count, from, start, w);
    if (velocity) spread(layers, count, velocity, v, w);
    else if (by->momentum != 0) memset(v, 0, values * sizeof *v);
    const float lr = (float)by->lr, momentum = (float)by->momentum;
    const float decay = (float)by->weight_decay, pull = (float)by->pull;
    const int64_t *rows = samples->rows + client * samples->steps * samples->batch;
    const int64_t *sizes = samples->sizes + client * samples->steps;
    int64_t *targets = room->targets;
    double total = 0;
    size_t taken = 0, classes = layers[count - 1].out;
    for (; taken < samples->steps && sizes[taken] > 0; taken++) {
        size_t size = least((size_t)sizes[taken], samples->batch), high = padded(size);
        const int64_t *each = rows + taken * samples->batch;
        for (size_t j = 0; j < size; j++) { /* may have changed since they were seen */
            size_t row = least((size_t)each[j], samples->count - 1);
            memcpy(first->x + j * first->wide, samples->x + row * first->in,
                   first->in * sizeof *w);
            targets[j] = (int64_t)least((size_t)samples->y[row], classes - 1);
        }
        memset(first->x + size * first->wide, 0,
               (high - size) * first->wide * sizeof *w);
        total += gradients(layers, count, targets, size);
        if (pull != 0)
            for (size_t i = 0; i < values; i++)
                g[i] += pull * (w[i] - start[i]) + decay * w[i];
        else if (decay != 0)
            for (size_t i = 0; i < values; i++) g[i] += decay * w[i];
        if (momentum != 0) {
            for (size_t i = 0; i < values; i++) {
                v[i] = v[i] * momentum + g[i];
                w[i] -= v[i] * lr;
            }
        } else
            for (size_t i = 0; i < values; i++) w[i] -= g[i] * lr;
    }
    *loss = total / (double)taken;
    collect(layers, count, w, w, from, out);
    if (velocity) collect(layers, count, w, v, NULL, velocity);
}

WIDE static void descend_all(const Room *room, const Network *network,
                             const Descent *by, const Samples *samples, size_t clients,
                             const float *start, size_t apart, float *velocity,
                             float *out, double *losses) {
    for (size_t n = 0; n < clients; n++)
        descend_one(room, network, by, samples, n, start + n * apart,
                    velocity ? velocity + n * network->dim : NULL,
                    out + n * network->dim, losses + n);
}

int descend(const Network *network, const Descent *by, const Samples *samples,
            size_t clients, const float *start, size_t apart, float *velocity,
            float *out, double *losses) {
    Room room;
    if (!furnish(&room, network, samples->batch)) return 0;
    descend_all(&room, network, by, samples, clients, start, apart, velocity, out,
                losses);
    free(room.memory);
    return 1;
}

#endif

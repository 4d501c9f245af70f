/* Gradient descent of one client after the other: the function DESCEND, for registers
 * of LANES numbers. The file that includes this one defines both names.
 *
 * All steps of a client are taken while its model is in the cache. Every sum is made in
 * one order, so the result depends neither on the width of registers nor on the other
 * clients.
 */
#include <stdlib.h>

#include "convolution.h"
#include "cross_entropy.h"
#include "linear.h"
#include "pooling.h"
#include "rule.h"

/* Returns the next part of the memory. Without memory, it only counts sizes. */
static void *part(Room *room, size_t items, size_t size) {
    void *found = room->memory ? room->memory + room->taken : NULL;
    room->taken += rounded(items * size, 64);
    return found;
}

static float *floats(Room *room, size_t count) {
    return part(room, count, sizeof(float));
}

/* Rows of weights are no multiple of 2 KiB, since such rows share places of the cache.
 * For the same reason channels have an odd number of places. */
static void measure(Layer *at, const Shape *is) {
    at->is = *is;
    at->linear = is->kind == PRODUCT && is->height == 1 && is->width == 1 &&
                 is->kernel[0] == 1 && is->kernel[1] == 1;
    at->apart = GROUP * (at->linear ? 1 : (is->height * is->width) | 1);
    at->group = is->channels * at->apart;
    at->taps = is->channels * is->kernel[0] * is->kernel[1];
    at->wide = rounded(is->channels * is->height * is->width, GROUP);
    if (at->wide % 512 == 0) at->wide += GROUP;
}

/* Gives every array that is needed its place in the memory. */
static void arrange(Room *room, const Network *network, const Rule *by,
                    const Models *of, size_t batch) {
    size_t count = room->count = network->layers, widest = 0, at_w[MOST_LAYERS];
    size_t high = rounded(batch, GROUP), groups = high / GROUP;
    room->taken = room->values = 0;
    room->targets = part(room, batch, sizeof *room->targets);
    for (size_t l = 0; l < count; l++) measure(&room->layers[l], &network->shapes[l]);
    for (size_t l = 0; l < count; l++) {
        Layer *at = &room->layers[l], *next = l + 1 < count ? at + 1 : NULL;
        const Shape *is = &at->is;
        at->to_apart = GROUP * is->rows * is->columns;
        if (next && !next->linear) at->to_apart = next->apart;
        at->to_group = is->out * at->to_apart;
        widest = larger(widest, larger(at->group, at->to_group));
        at->in = floats(room, groups * at->group);
        if (l == 0 || at->linear) at->rows = floats(room, high * at->wide);
        at_w[l] = room->values;
        if (is->kind == MAXIMUM)
            at->chosen = part(room, groups * at->to_group, sizeof *at->chosen);
        if (is->kind != PRODUCT) continue;
        size_t panels = rounded(is->out, PANEL);
        room->values += rounded(at->linear ? is->out * at->wide : panels * at->taps,
                                GROUP);
        room->values += rounded(is->out, GROUP);
        if (!at->linear)
            at->back = floats(room, rounded(is->channels, PANEL) * is->out *
                                        is->kernel[0] * is->kernel[1]);
    }
    room->ends[0] = floats(room, groups * widest);
    room->ends[1] = floats(room, groups * widest);
    room->w = floats(room, room->values);
    room->g = floats(room, room->values);
    if (of->velocity || by->momentum != 0 || by->adaptive)
        room->v = floats(room, room->values);
    if (of->squares || by->adaptive) room->s = floats(room, room->values);
    if (by->pull != 0 || by->period) room->start = floats(room, room->values);
    if (by->drifts) room->drift = floats(room, room->values);
    if (of->trained) room->trained = floats(room, room->values);
    for (size_t l = 0; room->memory && l < count; l++) {
        Layer *at = &room->layers[l];
        size_t end = l + 1 < count ? at_w[l + 1] : room->values;
        size_t at_b = end - rounded(at->is.out, GROUP);
        if (at->is.kind != PRODUCT) continue;
        at->w = room->w + at_w[l];
        at->w_g = room->g + at_w[l];
        at->b = at->is.bias < 0 ? NULL : room->w + at_b;
        at->b_g = room->g + at_b;
    }
}

static int furnish(Room *room, const Network *network, const Rule *by,
                   const Models *of, size_t batch) {
    memset(room, 0, sizeof *room);
    arrange(room, network, by, of, batch);
    char *memory = calloc(1, room->taken + 64);
    if (!memory) return 0;
    size_t over = (size_t)((uintptr_t)memory % 64);
    room->memory = memory + (over ? 64 - over : 0);
    arrange(room, network, by, of, batch);
    room->memory = memory;
    return 1;
}

/* Returns where the weights of an output begin: one after the other, or PANEL apart. */
INLINE float *row_of(const Layer *at, float *w, size_t o) {
    if (at->linear) return w + o * at->wide;
    return w + o / PANEL * PANEL * at->taps + o % PANEL;
}

/* Copies a flat vector to the layers' weights, or so many floats away from them. */
INLINE void spread(const Room *room, const float *flat, ptrdiff_t away) {
    for (size_t l = 0; l < room->count; l++) {
        const Layer *at = &room->layers[l];
        if (at->is.kind != PRODUCT) continue;
        for (size_t o = 0; o < at->is.out; o++) {
            const float *from = flat + at->is.weight + o * at->taps;
            float *to = row_of(at, at->w + away, o);
            if (at->linear)
                memcpy(to, from, at->taps * sizeof *to);
            else
                for (size_t t = 0; t < at->taps; t++) to[t * PANEL] = from[t];
        }
        if (at->b) memcpy(at->b + away, flat + at->is.bias, at->is.out * sizeof *flat);
    }
}

/* Writes from - row, or the row itself if from is NULL. */
INLINE void put_row(const float *row, size_t step, const float *from, size_t size,
                    float *to) {
    if (!from)
        for (size_t i = 0; i < size; i++) to[i] = row[i * step];
    else
        for (size_t i = 0; i < size; i++) to[i] = from[i] - row[i * step];
}

INLINE void collect(const Room *room, ptrdiff_t away, const float *from, float *flat) {
    for (size_t l = 0; l < room->count; l++) {
        const Layer *at = &room->layers[l];
        const Shape *is = &at->is;
        if (is->kind != PRODUCT) continue;
        for (size_t o = 0; o < is->out; o++) {
            size_t place = (size_t)is->weight + o * at->taps;
            const float *row = row_of(at, at->w + away, o), *left = NULL;
            if (from) left = from + place;
            if (at->linear)
                put_row(row, 1, left, at->taps, flat + place);
            else
                put_row(row, PANEL, left, at->taps, flat + place);
        }
        if (at->b)
            put_row(at->b + away, 1, from ? from + is->bias : NULL, is->out,
                    flat + is->bias);
    }
}

/* Copies the samples of one step into the first layer. Another thread may have changed
 * rows since they were checked. Places without a sample keep what they held. */
INLINE void fill(const Room *room, const Samples *samples, const int64_t *rows,
                 const Batch *batch) {
    const Layer *at = &room->layers[0];
    size_t area = at->is.height * at->is.width, values = at->is.channels * area;
    size_t classes = room->layers[room->count - 1].is.out;
    for (size_t j = 0; j < batch->size; j++) {
        size_t row = least((size_t)rows[j], samples->count - 1);
        memcpy(at->rows + j * at->wide, samples->x + row * values,
               values * sizeof(float));
        room->targets[j] = (int64_t)least((size_t)samples->y[row], classes - 1);
    }
    for (size_t g = 0; g < batch->groups; g++) {
        const float *from = at->rows + g * GROUP * at->wide;
        float *in = at->in + g * at->group;
        size_t count = rounded(least(GROUP, batch->size - g * GROUP), 4);
        if (at->linear)
            transpose(from, count, values, at->wide, in, GROUP);
        else
            for (size_t c = 0; c < at->is.channels; c++)
                transpose(from + c * area, count, area, at->wide, in + c * at->apart,
                          GROUP);
    }
}

/* Computes the gradients of one step, into g. Returns the loss. */
INLINE double gradients(const Room *room, const Batch *batch) {
    const Layer *layers = room->layers, *last = &layers[room->count - 1];
    float *g_out = room->ends[0], *g_in = room->ends[1];
    for (const Layer *at = layers; at <= last; at++) {
        float *out = at < last ? at[1].in : g_out;
        if (at->linear && at > layers)
            for (size_t g = 0; g < batch->groups; g++)
                transpose(at->in + g * at->group, at->is.channels,
                          least(GROUP, batch->size - g * GROUP), GROUP,
                          at->rows + g * GROUP * at->wide, at->wide);
        if (at->linear)
            linear(at, batch, out);
        else if (at->is.kind == PRODUCT)
            convolve(at, batch, out);
        else
            pool(at, batch, out, NULL, NULL);
    }
    double loss = cross_entropy(g_out, last->is.out, room->targets, batch);
    const Layer *first = layers;
    while (first->is.kind != PRODUCT) first++;
    for (const Layer *at = last;; at--) {
        if (at->linear)
            linear_weights(at, batch, g_out);
        else if (at->is.kind == PRODUCT)
            convolution_weights(at, batch, g_out);
        biases(at, batch, g_out);
        if (at == first) return loss;
        int given = at[-1].is.rectified != 0;
        if (at->linear)
            linear_inputs(at, batch, g_out, given, g_in);
        else if (at->is.kind == PRODUCT)
            convolution_inputs(at, batch, g_out, given, g_in);
        else
            pool_inputs(at, batch, g_out, given, g_in);
        float *other = g_out;
        g_out = g_in;
        g_in = other;
    }
}

/* Takes all steps of one client, whose arrays these are. Returns the mean loss. */
INLINE double descend_one(const Room *room, const Rule *by, const Samples *samples,
                          size_t client, const Models *of) {
    const float *w = room->w;
    spread(room, of->start, 0);
    if (by->pull != 0) spread(room, of->start, room->start - w);
    if (by->drifts) spread(room, of->drift, room->drift - w);
    if (of->velocity) spread(room, of->velocity, room->v - w);
    else if (by->momentum != 0 || by->adaptive)
        memset(room->v, 0, room->values * sizeof *w);
    if (of->squares) spread(room, of->squares, room->s - w);
    else if (by->adaptive) memset(room->s, 0, room->values * sizeof *w);
    Step step = {.lr = by->lr, .powers = {1, 1}};
    if (of->powers) memcpy(step.powers, of->powers, sizeof step.powers);
    const int64_t *rows = samples->rows + client * samples->steps * samples->batch;
    const int64_t *sizes = samples->sizes + client * samples->steps;
    double total = 0;
    size_t taken = 0;
    for (; taken < samples->steps && sizes[taken] > 0; taken++) {
        size_t size = least((size_t)sizes[taken], samples->batch);
        Batch batch = {.size = size, .groups = rounded(size, GROUP) / GROUP};
        for (size_t j = 0; j < GROUP; j++)
            batch.live[j] = (batch.groups - 1) * GROUP + j < size ? -1 : 0;
        fill(room, samples, rows + taken * samples->batch, &batch);
        total += gradients(room, &batch);
        begin(&step, by, room, taken);
        update(room, by, &step, of->trained != NULL);
    }
    collect(room, 0, of->start, of->out);
    if (of->velocity) collect(room, room->v - w, NULL, of->velocity);
    if (of->squares) collect(room, room->s - w, NULL, of->squares);
    return total / (double)taken;
}

int DESCEND(const Network *network, const Rule *by, const Samples *samples,
            size_t clients, const Models *models, double *losses) {
    Room room;
    if (!furnish(&room, network, by, models, samples->batch)) return 0;
    Models of = *models;
    if (of.trained) {
        spread(&room, of.trained, room.trained - room.w);
        only_where(room.trained, room.values);
    }
    for (size_t n = 0; n < clients; n++) {
        losses[n] = descend_one(&room, by, samples, n, &of);
        of.start += models->start_apart;
        if (by->drifts) of.drift += models->drift_apart;
        if (of.velocity) of.velocity += network->dim;
        if (of.squares) of.squares += network->dim;
        if (of.powers) of.powers += 2;
        of.out += network->dim;
    }
    free(room.memory);
    return 1;
}

/* How a gradient moves the model: the rule of Descent in fedcore/clients/_descent.py. */
#ifndef LATECOMER_RULE_H
#define LATECOMER_RULE_H

#include <math.h>

#include "layer.h"

enum { RUN = 256 * GROUP }; /* numbers whose squares are summed as floats */

typedef struct {
    Layer layers[MOST_LAYERS];
    size_t count, values; /* layers; numbers of a model, with padding */
    float *w, *g, *v, *s, *start, *drift, *trained; /* models with padding */
    float *ends[2];   /* gradients of a layer's outputs and inputs */
    int64_t *targets; /* of one step */
    char *memory;
    size_t taken; /* of the memory, in bytes */
} Room;

/* What differs from step to step. */
typedef struct {
    double lr;
    double powers[2];     /* momentum^t and beta_2^t at step t */
    float first, second;  /* of Adam: 1 / (1 - momentum^t), 1 / sqrt(1 - beta_2^t) */
} Step;

/* Prepares a client's next step, after so many. */
INLINE void begin(Step *step, const Rule *by, const Room *room, size_t taken) {
    if (by->period) {
        size_t number = taken % (size_t)by->period;
        if (!number) memcpy(room->start, room->w, room->values * sizeof *room->w);
        step->lr = by->lr / (double)(number + 1);
    }
    if (!by->adaptive) return;
    step->powers[0] *= by->momentum;
    step->powers[1] *= by->beta_2;
    step->first = (float)(1 / (1 - step->powers[0]));
    step->second = (float)(1 / sqrt(1 - step->powers[1]));
}

/* Replaces numbers by masks: all bits where a number is not 0. */
INLINE void only_where(float *numbers, size_t count) {
    for (size_t i = 0; i < count; i += LANES) {
        Floats *mask = (Floats *)(numbers + i);
        *mask = (Floats)(*mask != (Floats){0});
    }
}

/* Keeps a number where its mask is set; where it is not, even NaN becomes 0. */
INLINE void keep(Floats *value, const float *mask) {
    *value = (Floats)((Ints)*value & *(const Ints *)mask);
}

/* Returns the sum of squares, in an order that does not depend on LANES. */
INLINE double sum_of_squares(const float *values, size_t count) {
    double sum = 0;
    for (size_t from = 0; from < count; from += RUN) {
        float parts[GROUP] = {0};
        size_t end = least(from + RUN, count);
        for (size_t i = from; i < end; i += GROUP)
            for (size_t n = 0; n < GROUP; n += LANES) {
                Floats value = *(const Floats *)(values + i + n);
                *(Floats *)(parts + n) += value * value;
            }
        for (size_t j = 0; j < GROUP; j++) sum += parts[j];
    }
    return sum;
}

/* Clips the gradient: each number first, then all by their norm. */
INLINE void clip(const Room *room, const Rule *by) {
    if (by->clip_value < INFINITY) {
        Floats high = (Floats){0} + (float)by->clip_value, low = -high;
        for (size_t i = 0; i < room->values; i += LANES) {
            Floats *g = (Floats *)(room->g + i);
            Ints above = *g > high, below = *g < low;
            *g = (Floats)(((Ints)high & above) | ((Ints)*g & ~above));
            *g = (Floats)(((Ints)low & below) | ((Ints)*g & ~below));
        }
    }
    if (by->clip_norm < INFINITY) {
        double norm = sqrt(sum_of_squares(room->g, room->values));
        double share = by->clip_norm / (norm + 1e-6);
        if (share >= 1) return; /* not of NaN */
        for (size_t i = 0; i < room->values; i += LANES)
            *(Floats *)(room->g + i) *= (float)share;
    }
}

/* Turns gradients into the steps of Adam for a rate of 1. */
INLINE void adapt(const Room *room, const Rule *by, const Step *step) {
    const float beta_1 = (float)by->momentum, beta_2 = (float)by->beta_2;
    const float rest_1 = (float)(1 - by->momentum), rest_2 = (float)(1 - by->beta_2);
    const float eps = (float)by->eps, first = step->first, second = step->second;
    float *restrict g = room->g, *restrict v = room->v, *restrict s = room->s;
    for (size_t i = 0; i < room->values; i++) {
        v[i] = v[i] * beta_1 + rest_1 * g[i];
        s[i] = s[i] * beta_2 + g[i] * g[i] * rest_2;
        g[i] = v[i] / (sqrtf(s[i]) * second + eps) * first;
    }
}

/* Adds what pulls the weights to their anchor, or to 0, to the gradient. */
INLINE void attract(const Room *room, float pull, float decay) {
    for (size_t i = 0; pull != 0 && i < room->values; i += LANES) {
        Floats w = *(const Floats *)(room->w + i);
        *(Floats *)(room->g + i) +=
            pull * (w - *(const Floats *)(room->start + i)) + decay * w;
    }
    for (size_t i = 0; pull == 0 && decay != 0 && i < room->values; i += LANES)
        *(Floats *)(room->g + i) += decay * *(const Floats *)(room->w + i);
}

/* Turns gradients into steps with momentum. */
INLINE void gain(const Room *room, float momentum, int nesterov) {
    for (size_t i = 0; i < room->values; i += LANES) {
        Floats *g = (Floats *)(room->g + i), *v = (Floats *)(room->v + i);
        *v = *g + *v * momentum;
        if (nesterov)
            *g += *v * momentum;
        else
            *g = *v;
    }
}

/* Takes a step with the gradient in g. Each loop is short, and only runs if needed. */
INLINE void update(const Room *room, const Rule *by, const Step *step, int masked) {
    const float lr = (float)step->lr, decay = (float)by->weight_decay;
    for (size_t i = 0; masked && i < room->values; i += LANES)
        keep((Floats *)(room->g + i), room->trained + i);
    clip(room, by);
    for (size_t i = 0; by->drifts && i < room->values; i += LANES)
        *(Floats *)(room->g + i) += *(const Floats *)(room->drift + i);
    attract(room, (float)by->pull, by->decoupled ? 0 : decay);
    if (by->adaptive) {
        adapt(room, by, step);
        if (by->decoupled) attract(room, 0, decay);
    } else if (by->momentum != 0) {
        gain(room, (float)by->momentum, by->nesterov);
    }
    for (size_t i = 0; masked && i < room->values; i += LANES)
        keep((Floats *)(room->g + i), room->trained + i);
    for (size_t i = 0; i < room->values; i += LANES)
        *(Floats *)(room->w + i) -= *(const Floats *)(room->g + i) * lr;
}

#endif

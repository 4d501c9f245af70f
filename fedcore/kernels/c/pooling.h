/* Maxima and means of windows, channel by channel. */
#ifndef LATECOMER_POOLING_H
#define LATECOMER_POOLING_H

#include "convolution.h"

/* The window of an output; with a stride of 0, one of so many equal parts, which may
 * overlap. */
INLINE Part window(size_t place, size_t stride, size_t pad, size_t kernel, size_t size,
                   size_t places) {
    if (!stride)
        return (Part){place * size / places, ((place + 1) * size - 1) / places + 1};
    Part part = inside(place, stride, pad, kernel, size);
    return (Part){place * stride + part.from - pad, place * stride + part.to - pad};
}

/* Which of them it is stays: the first of equal ones, or the last that is no number. */
INLINE void maximum(const Layer *at, const float *in, Part high, Part wide, Floats *value,
                    Ints *chosen) {
    size_t width = at->is.width;
    int32_t number = 0;
    *value = *(const Floats *)(in + (high.from * width + wide.from) * GROUP);
    *chosen = (Ints){0};
    for (size_t k = high.from; k < high.to; k++)
        for (size_t l = wide.from; l < wide.to; l++, number++) {
            Floats other = *(const Floats *)(in + (k * width + l) * GROUP);
            Ints above = (other > *value) | (other != other);
            *value = (Floats)(((Ints)other & above) | ((Ints)*value & ~above));
            *chosen = (((Ints){0} + number) & above) | (*chosen & ~above);
        }
}

INLINE void mean(const Layer *at, const float *in, Part high, Part wide, Floats *value) {
    float count = (float)((high.to - high.from) * (wide.to - wide.from));
    *value = (Floats){0};
    for (size_t k = high.from; k < high.to; k++)
        for (size_t l = wide.from; l < wide.to; l++)
            *value += *(const Floats *)(in + (k * at->is.width + l) * GROUP);
    *value /= (Floats){0} + count;
}

/* Adds the gradient of an output to those of its window. */
INLINE void share(const Layer *at, Floats g, const int32_t *chosen, Part high, Part wide,
                  float *g_in) {
    int32_t number = 0;
    if (at->is.kind == MEAN)
        g /= (Floats){0} + (float)((high.to - high.from) * (wide.to - wide.from));
    for (size_t k = high.from; k < high.to; k++)
        for (size_t l = wide.from; l < wide.to; l++, number++) {
            Ints to = ~(Ints){0};
            if (at->is.kind == MAXIMUM) to = *(const Ints *)chosen == number;
            *(Floats *)(g_in + (k * at->is.width + l) * GROUP) +=
                (Floats)((Ints)g & to);
        }
}

/* Forward where out is given, or else backward. */
INLINE void pool(const Layer *at, const Batch *batch, float *out, const float *g_out,
                 float *g_in) {
    const Shape *is = &at->is;
    for (size_t q = 0; q < batch->groups; q++)
        for (size_t c = 0; c < is->channels; c++)
            for (size_t i = 0; i < is->rows; i++)
                for (size_t j = 0; j < is->columns; j++) {
                    Part high = window(i, is->stride[0], is->pad[0], is->kernel[0],
                                       is->height, is->rows);
                    Part wide = window(j, is->stride[1], is->pad[1], is->kernel[1],
                                       is->width, is->columns);
                    size_t from = q * at->group + c * at->apart;
                    size_t to = q * at->to_group + c * at->to_apart +
                                (i * is->columns + j) * GROUP;
                    for (size_t n = 0; n < lanes_of(batch, q); n += LANES) {
                        Floats value;
                        Ints chosen = {0};
                        if (!out) {
                            share(at, *(const Floats *)(g_out + to + n),
                                  at->chosen + to + n, high, wide, g_in + from + n);
                            continue;
                        }
                        if (is->kind == MEAN)
                            mean(at, at->in + from + n, high, wide, &value);
                        else {
                            maximum(at, at->in + from + n, high, wide, &value, &chosen);
                            *(Ints *)(at->chosen + to + n) = chosen;
                        }
                        if (is->rectified) rectify(&value);
                        *(Floats *)(out + to + n) = value;
                    }
                }
}

/* From the gradient of the outputs, that of the inputs, which ReLU may have given. */
INLINE void pool_inputs(const Layer *at, const Batch *batch, const float *g_out,
                        int given, float *g_in) {
    size_t values = batch->groups * at->group;
    memset(g_in, 0, values * sizeof *g_in);
    pool(at, batch, NULL, g_out, g_in);
    for (size_t i = 0; given && i < values; i += LANES) {
        Floats *g = (Floats *)(g_in + i);
        gate(g, at->in + i);
    }
}

#endif

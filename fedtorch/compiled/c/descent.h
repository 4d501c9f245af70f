/* Gradient descent of small networks: its arguments and results. */
#ifndef LATECOMER_DESCENT_H
#define LATECOMER_DESCENT_H

#include "common.h"

/* It needs a compiler with vectors. On x86 there are three widths of registers. */
#if defined(__GNUC__)
#define LATECOMER_DESCENT
#if defined(__x86_64__) && !defined(_WIN32) && !defined(LATECOMER_PLAIN)
#define LATECOMER_X86
#endif
#endif

enum { MOST_LAYERS = 64 };

enum { PRODUCT = 0, MAXIMUM = 1, MEAN = 2 }; /* kinds of layers */

/* A layer, as Python passes it: numbers of 64 bits. A linear layer is a convolution of
 * an image of 1 x 1. Pools have no weights; a mean with strides of 0 has parts of equal
 * size. */
typedef struct {
    uint64_t kind, rectified; /* whether ReLU follows */
    uint64_t channels, height, width;
    uint64_t out, rows, columns;
    uint64_t kernel[2], stride[2], pad[2];
    int64_t weight, bias; /* in the vector: (out, channels, kernel), (out); -1: none */
} Shape;

typedef struct {
    size_t layers, dim;
    const Shape *shapes;
} Network;

/* The rule of Descent in fedcore/clients/_descent.py, which says what the numbers mean. */
typedef struct {
    double lr, momentum, weight_decay, pull;
    double clip_norm, clip_value; /* infinity: not clipped */
    double beta_2, eps;           /* of Adam */
    int nesterov, adaptive, decoupled;
    int64_t period; /* 0: the anchor is the start */
    int drifts;     /* whether there are drifts */
} Rule;

typedef struct {
    const float *x;       /* (count, inputs) */
    const int64_t *y;     /* (count), classes */
    const int64_t *rows;  /* (clients, steps, batch) */
    const int64_t *sizes; /* (clients, steps): of each batch, 0 after the last one */
    size_t count, steps, batch;
} Samples;

/* Arrays (clients, dim). If rows are 0 floats apart, all clients have the same row. */
typedef struct {
    const float *start, *drift;
    size_t start_apart, drift_apart;
    float *velocity; /* changed in place; NULL: zero at first, and forgotten */
    float *squares;  /* of Adam, likewise */
    const double *powers; /* (clients, 2): momentum^t, beta_2^t after t steps; or NULL */
    const float *trained; /* (dim): 0 for what no step moves, else 1; NULL: all moves */
    float *out;      /* start - w after the last step */
} Models;

/* Writes the mean losses of the steps. Returns 0 if there is not enough memory. */
typedef int Descend(const Network *network, const Rule *by, const Samples *samples,
                    size_t clients, const Models *models, double *losses);

Descend descend_plain, descend_avx2, descend_avx512;

/* Returns the loop with registers of this many numbers, or with the widest ones for 0;
 * NULL if this processor has no such registers. */
Descend *descent_with(int lanes);

#endif

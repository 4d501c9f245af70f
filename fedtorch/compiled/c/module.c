/* The Python module of the trainer: checks every size, and releases the lock. */
#include "buffers.h"
#include "descent.h"

enum { INTERFACE = 2 }; /* raised with every change to what the callers pass */

#ifdef LATECOMER_DESCENT
static int product_fits(uint64_t a, uint64_t b, uint64_t c, uint64_t limit) {
    return a && b && c && a <= limit && b <= limit / a && c <= limit / a / b;
}

/* Whether the sizes of a layer's outputs follow from its inputs, and fit in memory. */
static int sized(const Shape *is, uint64_t most) {
    const uint64_t in[2] = {is->height, is->width}, out[2] = {is->rows, is->columns};
    if (is->kind > MEAN || is->rectified > 1) return 0;
    if (!product_fits(is->channels, is->height, is->width, most) ||
        !product_fits(is->out, is->rows, is->columns, most))
        return 0;
    if (is->kind != PRODUCT && is->out != is->channels) return 0;
    for (int d = 0; d < 2; d++) {
        uint64_t kernel = is->kernel[d], stride = is->stride[d], pad = is->pad[d];
        if (!kernel || kernel > most || pad >= kernel || stride > most) return 0;
        if (is->kind != PRODUCT && pad > kernel / 2) return 0;
        if (is->kind == MEAN && pad) return 0;
        if (is->kind == MEAN && !stride) continue; /* equal parts */
        if (!stride || in[d] + 2 * pad < kernel ||
            out[d] != (in[d] + 2 * pad - kernel) / stride + 1)
            return 0;
    }
    return 1;
}

/* Whether the vector holds count numbers from a place on. */
static int lies(int64_t place, uint64_t count, size_t dim) {
    return place >= 0 && (uint64_t)place <= dim && count <= dim - (uint64_t)place;
}

/* Whether each layer takes the output of the one before, and the vector holds its
 * weights, in any order. */
static int fits(const Network *network, size_t batch) {
    const uint64_t limit = (SIZE_MAX / sizeof(float)) >> 14; /* numbers of a layer */
    const Shape *last = &network->shapes[network->layers - 1];
    if (batch >= limit) return 0;
    for (const Shape *is = network->shapes; is <= last; is++) {
        const Shape *next = is < last ? is + 1 : NULL;
        if (!sized(is, limit / (batch + 64))) return 0;
        if (next && next->height == 1 && next->width == 1 && next->kind == PRODUCT &&
            next->kernel[0] == 1 && next->kernel[1] == 1) {
            if (next->channels != is->out * is->rows * is->columns) return 0;
        } else if (next && (next->channels != is->out || next->height != is->rows ||
                            next->width != is->columns))
            return 0;
        if (is->kind != PRODUCT) continue;
        uint64_t area = is->kernel[0] * is->kernel[1];
        if (!product_fits(is->kernel[0], is->kernel[1], is->channels, network->dim) ||
            !product_fits(area * is->channels, is->out, 1, network->dim) ||
            !lies(is->weight, area * is->channels * is->out, network->dim) ||
            (is->bias >= 0 && !lies(is->bias, is->out, network->dim)))
            return 0;
    }
    return last->kind == PRODUCT && last->rows == 1 && last->columns == 1;
}

/* Whether the class of every row exists; -1: a row or a size is wrong. */
static int sound(const Samples *samples, size_t clients, int64_t classes) {
    for (size_t step = 0; step < clients * samples->steps; step++) {
        int64_t size = samples->sizes[step];
        if (size < 0 || (size_t)size > samples->batch) return -1;
        const int64_t *rows = samples->rows + step * samples->batch;
        for (int64_t j = 0; j < size; j++) {
            int64_t row = rows[j];
            if (row < 0 || (size_t)row >= samples->count) return -1;
            int64_t y = samples->y[row];
            if (y < 0 || y >= classes) return 0;
        }
    }
    return 1;
}

/* Floats from row to row: dim, or 0 if one row serves all clients; -1: neither fits. */
static ptrdiff_t from_row_to_row(size_t numbers, size_t dim, size_t clients) {
    if (numbers == dim * clients) return (ptrdiff_t)dim;
    return numbers == dim ? 0 : -1;
}

static PyObject *py_descend(PyObject *self, PyObject *args) {
    PyObject *shapes_, *x_, *y_, *rows_, *taken_, *start_, *drift_, *velocity_, *out_;
    PyObject *squares_, *powers_, *trained_, *losses_;
    Shape own[MOST_LAYERS];
    Network network = {.shapes = own};
    Rule by;
    Models models = {.drift = NULL};
    Buffers buffers = {.count = 0};
    size_t said, inputs, count, picked, steps, started, drifting, moving, written;
    size_t clients;
    long long period;
    int lanes;
    (void)self;
    if (!PyArg_ParseTuple(args, "O(ddddddddpppL)OOOOOOOOOOOOi", &shapes_, &by.lr,
                          &by.momentum, &by.weight_decay, &by.pull, &by.clip_norm,
                          &by.clip_value, &by.beta_2, &by.eps, &by.nesterov,
                          &by.adaptive, &by.decoupled, &period, &x_, &y_, &rows_,
                          &taken_, &start_, &drift_, &velocity_, &squares_, &powers_,
                          &trained_, &out_, &losses_, &lanes))
        return NULL;
    by.period = period;
    if (period < 0) {
        PyErr_SetString(PyExc_ValueError, "expected a period of 0 steps or more");
        return NULL;
    }
    Descend *descend = descent_with(lanes);
    if (!descend) {
        PyErr_SetString(PyExc_ValueError, "this processor has no such registers");
        return NULL;
    }
    IN(int64_t, shapes, said);
    if (!said || said * sizeof *shapes % sizeof *own ||
        said * sizeof *shapes > sizeof own)
        return refuse(&buffers, "expected up to 64 layers, and 16 numbers for each");
    memcpy(own, shapes, said * sizeof *shapes);
    IN(float, x, inputs);
    IN(int64_t, y, count);
    IN(int64_t, rows, picked);
    IN(int64_t, taken, steps);
    IN(float, start, started);
    OUT(float, out, written);
    OUT(double, losses, clients);
    if (!clients || !steps || steps % clients || picked % steps || !picked ||
        written % clients || !written)
        return refuse(&buffers, "expected steps, rows and a model for each client");
    network.dim = written / clients;
    network.layers = said * sizeof *shapes / sizeof *own;
    Samples samples = {.x = x, .y = y, .rows = rows, .sizes = taken, .count = count,
                       .steps = steps / clients, .batch = picked / steps};
    if (!fits(&network, samples.batch))
        return refuse(&buffers, "expected layers that fit, and lie in the vector");
    models.start = start;
    models.out = out;
    ptrdiff_t apart = from_row_to_row(started, network.dim, clients);
    if (apart < 0)
        return refuse(&buffers, "expected one model to start from, or one a client");
    models.start_apart = (size_t)apart;
    by.drifts = drift_ != Py_None;
    if (by.drifts) {
        IN(float, drift, drifting);
        apart = from_row_to_row(drifting, network.dim, clients);
        if (apart < 0) return refuse(&buffers, "expected one drift, or one a client");
        models.drift = drift;
        models.drift_apart = (size_t)apart;
    }
    if (velocity_ != Py_None) {
        OUT(float, velocity, moving);
        if (moving != written) return refuse(&buffers, "expected a velocity a client");
        models.velocity = velocity;
    }
    if (squares_ != Py_None) {
        OUT(float, squares, moving);
        if (moving != written) return refuse(&buffers, "expected squares of a client");
        models.squares = squares;
    }
    if (powers_ != Py_None) {
        IN(double, powers, moving);
        if (moving != 2 * clients)
            return refuse(&buffers, "expected two powers for each client");
        models.powers = powers;
    }
    if (trained_ != Py_None) {
        IN(float, trained, moving);
        if (moving != network.dim)
            return refuse(&buffers, "expected a number for each value of the model");
        models.trained = trained;
    }
    const Shape *first = own, *last = &own[network.layers - 1];
    if (!count || inputs % count ||
        inputs / count != first->channels * first->height * first->width)
        return refuse(&buffers, "expected inputs of the first layer, and a class each");
    int is_sound, has_room = 1;
    Py_BEGIN_ALLOW_THREADS
    is_sound = sound(&samples, clients, (int64_t)last->out);
    if (is_sound == 1)
        has_room = descend(&network, &by, &samples, clients, &models, losses);
    Py_END_ALLOW_THREADS
    if (is_sound < 0) return refuse(&buffers, "expected batches of rows that exist");
    if (!has_room) {
        PyErr_NoMemory();
        return finish(&buffers, NULL);
    }
    return finish(&buffers, PyBool_FromLong(is_sound));
}
#endif

static PyMethodDef methods[] = {
#ifdef LATECOMER_DESCENT
    {"descend", py_descend, METH_VARARGS,
     "(shapes of layers, (lr, momentum, weight_decay, pull, clip_norm, clip_value, "
     "beta_2, eps, nesterov, adaptive, decoupled, period), x, y, rows, sizes of "
     "batches, start, drift or None, velocity or None, squares or None, powers or "
     "None, trained or None, out, losses, numbers of a register or 0) -> whether all "
     "targets are classes"},
#endif
    {NULL, NULL, 0, NULL}};

MODULE("Gradient descent of small networks; the caller is fedtorch.compiled.loop.")

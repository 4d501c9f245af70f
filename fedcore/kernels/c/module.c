/* The Python module: takes buffers, checks every size, and releases the lock.
 *
 * Types are for the callers in Python to check; whatever they pass, and whatever other
 * threads write into it meanwhile, no kernel reads or writes outside of a buffer.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "kernels.h"

enum {
    INTERFACE = 6, /* raised with every change to what the callers pass */
    MOST_BUFFERS = 10
};

typedef struct {
    Py_buffer of[MOST_BUFFERS];
    int count;
} Buffers;

static void release(Buffers *buffers) {
    while (buffers->count) PyBuffer_Release(&buffers->of[--buffers->count]);
}

static uint64_t nothing; /* what an empty buffer is said to start with */

/* The memory of the next argument, or NULL with an exception: so many whole items. */
static void *take(Buffers *buffers, PyObject *argument, size_t item, int writable,
                  size_t *items) {
    Py_buffer *buffer = &buffers->of[buffers->count];
    if (PyObject_GetBuffer(argument, buffer, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE))
        return NULL;
    buffers->count++;
    *items = (size_t)buffer->len / item;
    if (!buffer->len) return &nothing; /* which may lie anywhere */
    if ((size_t)buffer->len % item || (uintptr_t)buffer->buf % item) {
        PyErr_Format(PyExc_ValueError, "expected aligned items of %zu bytes", item);
        return NULL;
    }
    return buffer->buf;
}

static PyObject *finish(Buffers *buffers, PyObject *found) {
    release(buffers);
    return found;
}

static PyObject *refuse(Buffers *buffers, const char *expected) {
    PyErr_SetString(PyExc_ValueError, expected);
    return finish(buffers, NULL);
}

static PyObject *done(Buffers *buffers) { return finish(buffers, Py_NewRef(Py_None)); }

static size_t wanted(size_t dim, size_t bucket) {
    return dim / bucket + (dim % bucket != 0);
}

typedef void Sums(const float *, size_t, size_t, double *);

static PyObject *summed(PyObject *args, Sums *sums) {
    PyObject *x_, *out_;
    Buffers buffers = {.count = 0};
    size_t values, rows;
    if (!PyArg_ParseTuple(args, "OO", &x_, &out_)) return NULL;
    const float *x = take(&buffers, x_, sizeof *x, 0, &values);
    if (!x) return finish(&buffers, NULL);
    double *out = take(&buffers, out_, sizeof *out, 1, &rows);
    if (!out) return finish(&buffers, NULL);
    if (rows ? values % rows : values) return refuse(&buffers, "expected equal rows");
    Py_BEGIN_ALLOW_THREADS
    sums(x, rows, rows ? values / rows : 0, out);
    Py_END_ALLOW_THREADS
    return done(&buffers);
}

static PyObject *py_absolute_sums(PyObject *self, PyObject *args) {
    (void)self;
    return summed(args, absolute_sums);
}

static PyObject *py_square_sums(PyObject *self, PyObject *args) {
    (void)self;
    return summed(args, square_sums);
}

static PyObject *py_plain_sums(PyObject *self, PyObject *args) {
    (void)self;
    return summed(args, plain_sums);
}

/* Whether it is an array (N, dim) in one piece, of C's own floats. */
static int has_rows(const Py_buffer *array, size_t dim) {
    return array->format && !strcmp(array->format, "f") && array->ndim == 2 &&
           (size_t)array->shape[1] == dim &&
           (uintptr_t)array->buf % sizeof(float) == 0;
}

/* Rows (array, place); neighbours are mostly of the same array. */
typedef struct {
    const float **of;
    Py_buffer *held; /* the arrays */
    size_t count, holds;
} Rows;

/* Whether all of them are rows that the loop takes. */
static int found(Rows *rows, PyObject *pairs, size_t dim) {
    PyObject *last = NULL;
    for (size_t k = 0; k < rows->count; k++) {
        PyObject *pair = PyTuple_GetItem(pairs, (Py_ssize_t)k);
        if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) return 0;
        PyObject *array = PyTuple_GetItem(pair, 0);
        Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GetItem(pair, 1));
        if (place < 0) return 0;
        Py_buffer *buffer = &rows->held[rows->holds];
        if (array == last)
            buffer--;
        else if (PyObject_GetBuffer(array, buffer, PyBUF_ND | PyBUF_FORMAT))
            return 0;
        else
            rows->holds++;
        last = array;
        if (!has_rows(buffer, dim) || place >= buffer->shape[0]) return 0;
        rows->of[k] = (const float *)buffer->buf + (size_t)place * dim;
    }
    return 1;
}

static PyObject *py_add_rows(PyObject *self, PyObject *args) {
    PyObject *pairs, *shares_, *out_;
    Buffers buffers = {.count = 0};
    size_t shared, dim;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!OO", &PyTuple_Type, &pairs, &shares_, &out_))
        return NULL;
    const float *shares = take(&buffers, shares_, sizeof *shares, 0, &shared);
    if (!shares) return finish(&buffers, NULL);
    float *out = take(&buffers, out_, sizeof *out, 1, &dim);
    if (!out) return finish(&buffers, NULL);
    Rows rows = {.count = (size_t)PyTuple_Size(pairs)};
    if (shared != rows.count) return refuse(&buffers, "expected a share a row");
    rows.of = PyMem_Malloc((rows.count + 1) * sizeof *rows.of);
    rows.held = PyMem_Malloc((rows.count + 1) * sizeof *rows.held);
    int is_taken = rows.of && rows.held && found(&rows, pairs, dim);
    PyErr_Clear(); /* what it does not take is for NumPy */
    if (is_taken) {
        Py_BEGIN_ALLOW_THREADS
        add_rows(rows.of, shares, rows.count, dim, out);
        Py_END_ALLOW_THREADS
    }
    while (rows.holds) PyBuffer_Release(&rows.held[--rows.holds]);
    PyMem_Free(rows.held);
    PyMem_Free(rows.of);
    return finish(&buffers, PyBool_FromLong(is_taken));
}

static PyObject *py_positive(PyObject *self, PyObject *args) {
    PyObject *x_, *seeds_, *out_;
    Buffers buffers = {.count = 0};
    size_t values, rows, marks;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOO", &x_, &seeds_, &out_)) return NULL;
    const float *x = take(&buffers, x_, sizeof *x, 0, &values);
    if (!x) return finish(&buffers, NULL);
    const uint64_t *seeds = take(&buffers, seeds_, sizeof *seeds, 0, &rows);
    if (!seeds) return finish(&buffers, NULL);
    uint8_t *out = take(&buffers, out_, 1, 1, &marks);
    if (!out) return finish(&buffers, NULL);
    if (marks != values || (rows ? values % rows : values))
        return refuse(&buffers, "expected a seed a row, and a mark a value");
    Py_BEGIN_ALLOW_THREADS
    positive(x, rows, rows ? values / rows : 0, seeds, out);
    Py_END_ALLOW_THREADS
    return done(&buffers);
}

typedef void Signs(const uint8_t *, size_t, float, float *);

static PyObject *signs(PyObject *args, Signs *each) {
    PyObject *plus_, *sizes_, *scales_, *out_;
    Buffers buffers = {.count = 0};
    size_t values, parts, scaled, written, covered = 0;
    if (!PyArg_ParseTuple(args, "OOOO", &plus_, &sizes_, &scales_, &out_)) return NULL;
    const uint8_t *plus = take(&buffers, plus_, 1, 0, &values);
    if (!plus) return finish(&buffers, NULL);
    const volatile int64_t *sizes = take(&buffers, sizes_, sizeof *sizes, 0, &parts);
    if (!sizes) return finish(&buffers, NULL);
    const float *scales = take(&buffers, scales_, sizeof *scales, 0, &scaled);
    if (!scales) return finish(&buffers, NULL);
    float *out = take(&buffers, out_, sizeof *out, 1, &written);
    if (!out) return finish(&buffers, NULL);
    for (size_t part = 0; part < parts; part++) {
        if (sizes[part] < 0 || (uint64_t)sizes[part] > values - covered)
            return refuse(&buffers, "expected parts that make up the vector");
        covered += (size_t)sizes[part];
    }
    if (covered != values || written != values || scaled != parts)
        return refuse(&buffers, "expected a scale a part, and parts of all values");
    Py_BEGIN_ALLOW_THREADS
    for (size_t part = 0; part < parts; part++) {
        size_t size = least((size_t)sizes[part], values); /* may have changed since */
        each(plus, size, scales[part], out);
        plus += size;
        out += size;
        values -= size;
    }
    Py_END_ALLOW_THREADS
    return done(&buffers);
}

static PyObject *py_put_signs(PyObject *self, PyObject *args) {
    (void)self;
    return signs(args, put_signs);
}

static PyObject *py_add_signs(PyObject *self, PyObject *args) {
    (void)self;
    return signs(args, add_signs);
}

static PyObject *py_quantise(PyObject *self, PyObject *args) {
    PyObject *x_, *seeds_, *levels_, *steps_;
    Py_ssize_t rows, bucket;
    int top, measure;
    Buffers buffers = {.count = 0};
    size_t values, seeded, coded, stepped;
    const uint64_t *seeds = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "OnniiOOO", &x_, &rows, &bucket, &top, &measure, &seeds_,
                          &levels_, &steps_))
        return NULL;
    if (rows < 1 || bucket < 1 || top < 1 || top > 127 || measure < 0 || measure > NORM)
        return refuse(&buffers, "expected rows, buckets, a top of 1 to 127 and a measure");
    const float *x = take(&buffers, x_, sizeof *x, 0, &values);
    if (!x) return finish(&buffers, NULL);
    if (seeds_ != Py_None) {
        seeds = take(&buffers, seeds_, sizeof *seeds, 0, &seeded);
        if (!seeds) return finish(&buffers, NULL);
        if (seeded != (size_t)rows) return refuse(&buffers, "expected a seed a row");
    }
    int8_t *levels = take(&buffers, levels_, 1, 1, &coded);
    if (!levels) return finish(&buffers, NULL);
    float *steps = take(&buffers, steps_, sizeof *steps, 1, &stepped);
    if (!steps) return finish(&buffers, NULL);
    size_t dim = values / (size_t)rows;
    if (values % (size_t)rows || coded != values || stepped % (size_t)rows ||
        stepped / (size_t)rows != wanted(dim, (size_t)bucket))
        return refuse(&buffers, "expected a level a value, and a step a bucket");
    Py_BEGIN_ALLOW_THREADS
    quantise(x, (size_t)rows, dim, (size_t)bucket, top, measure, seeds, levels, steps);
    Py_END_ALLOW_THREADS
    return done(&buffers);
}

static PyObject *py_put_levels(PyObject *self, PyObject *args) {
    PyObject *levels_, *steps_, *scale_, *out_;
    Py_ssize_t bucket;
    Buffers buffers = {.count = 0};
    size_t dim, stepped, written;
    double scale = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "OnOOO", &levels_, &bucket, &steps_, &scale_, &out_))
        return NULL;
    if (scale_ != Py_None) {
        scale = PyFloat_AsDouble(scale_);
        if (PyErr_Occurred()) return NULL;
    }
    if (bucket < 1) return refuse(&buffers, "expected a bucket of at least one value");
    const int8_t *levels = take(&buffers, levels_, 1, 0, &dim);
    if (!levels) return finish(&buffers, NULL);
    const float *steps = take(&buffers, steps_, sizeof *steps, 0, &stepped);
    if (!steps) return finish(&buffers, NULL);
    float *out = take(&buffers, out_, sizeof *out, 1, &written);
    if (!out) return finish(&buffers, NULL);
    if (written != dim || stepped != wanted(dim, (size_t)bucket))
        return refuse(&buffers, "expected a value a level, and a step a bucket");
    Py_BEGIN_ALLOW_THREADS
    if (scale_ == Py_None)
        put_levels(levels, dim, (size_t)bucket, steps, out);
    else
        add_levels(levels, dim, (size_t)bucket, steps, (float)scale, out);
    Py_END_ALLOW_THREADS
    return done(&buffers);
}

static PyObject *py_above(PyObject *self, PyObject *args) {
    PyObject *x_, *out_;
    int threshold;
    Buffers buffers = {.count = 0};
    size_t dim, most, found;
    (void)self;
    if (!PyArg_ParseTuple(args, "OiO", &x_, &threshold, &out_)) return NULL;
    const uint32_t *bits = take(&buffers, x_, sizeof *bits, 0, &dim);
    if (!bits) return finish(&buffers, NULL);
    int64_t *out = take(&buffers, out_, sizeof *out, 1, &most);
    if (!out) return finish(&buffers, NULL);
    Py_BEGIN_ALLOW_THREADS
    found = above(bits, dim, threshold, most, out);
    Py_END_ALLOW_THREADS
    return finish(&buffers, PyLong_FromSize_t(found));
}

static PyObject *py_largest(PyObject *self, PyObject *args) {
    PyObject *x_, *some_, *out_;
    Buffers buffers = {.count = 0};
    size_t values, dim, chosen;
    Py_ssize_t rows;
    (void)self;
    if (!PyArg_ParseTuple(args, "OnOO", &x_, &rows, &some_, &out_)) return NULL;
    const uint32_t *bits = take(&buffers, x_, sizeof *bits, 0, &values);
    if (!bits) return finish(&buffers, NULL);
    uint32_t *some = take(&buffers, some_, sizeof *some, 1, &dim);
    if (!some) return finish(&buffers, NULL);
    int64_t *out = take(&buffers, out_, sizeof *out, 1, &chosen);
    if (!out) return finish(&buffers, NULL);
    if (rows < 1 || !dim || dim > UINT32_MAX || values / (size_t)rows != dim ||
        values % (size_t)rows || !chosen || chosen % (size_t)rows ||
        chosen / (size_t)rows >= dim)
        return refuse(&buffers, "expected rows, and fewer places than a row has values");
    Py_BEGIN_ALLOW_THREADS
    largest(bits, (size_t)rows, dim, chosen / (size_t)rows, some, out);
    Py_END_ALLOW_THREADS
    return done(&buffers);
}

static PyObject *py_shifted_sum(PyObject *self, PyObject *args) {
    PyObject *numbers_;
    int width;
    Buffers buffers = {.count = 0};
    size_t count;
    (void)self;
    if (!PyArg_ParseTuple(args, "Oi", &numbers_, &width)) return NULL;
    const int64_t *numbers = take(&buffers, numbers_, sizeof *numbers, 0, &count);
    if (!numbers) return finish(&buffers, NULL);
    if (width < 0 || width > 62) return refuse(&buffers, "expected 0 to 62 bits");
    uint64_t sum = shifted_sum(numbers, count, width);
    return finish(&buffers, PyLong_FromUnsignedLongLong(sum));
}

static PyObject *py_put_rice(PyObject *self, PyObject *args) {
    PyObject *numbers_, *out_;
    int width;
    Buffers buffers = {.count = 0};
    size_t count, bytes;
    (void)self;
    if (!PyArg_ParseTuple(args, "OiO", &numbers_, &width, &out_)) return NULL;
    if (width < 0 || width > 31) return refuse(&buffers, "expected 0 to 31 low bits");
    const int64_t *numbers = take(&buffers, numbers_, sizeof *numbers, 0, &count);
    if (!numbers) return finish(&buffers, NULL);
    uint8_t *out = take(&buffers, out_, 1, 1, &bytes);
    if (!out) return finish(&buffers, NULL);
    int fits_in;
    Py_BEGIN_ALLOW_THREADS
    fits_in = put_rice(numbers, count, width, out, bytes);
    Py_END_ALLOW_THREADS
    if (!fits_in) return refuse(&buffers, "expected as many bytes as the code takes");
    return done(&buffers);
}

#ifdef LATECOMER_DESCENT
static int product_fits(uint64_t a, uint64_t b, uint64_t c, uint64_t limit) {
    return a && b && c && a <= limit && b <= limit / a && c <= limit / a / b;
}

/* Whether the outputs of a layer follow from its inputs, and lie in memory. */
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

/* Whether so many numbers lie in the vector, from here on. */
static int lies(int64_t place, uint64_t count, size_t dim) {
    return place >= 0 && (uint64_t)place <= dim && count <= dim - (uint64_t)place;
}

/* Whether each layer takes what the one before gives, and its weights lie in the
 * vector, in any order. */
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

/* Whether every row exists and is of a class that there is; -1: the sizes are wrong. */
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

static PyObject *py_descend(PyObject *self, PyObject *args) {
    PyObject *shapes_, *x_, *y_, *rows_, *taken_, *start_, *velocity_, *out_, *losses_;
    Shape own[MOST_LAYERS];
    Network network = {.shapes = own};
    Descent by;
    Samples samples;
    Buffers buffers = {.count = 0};
    size_t said, inputs, rows, steps, started, moving = 0, written, clients;
    float *velocity = NULL;
    int lanes;
    (void)self;
    if (!PyArg_ParseTuple(args, "O(dddd)OOOOOOOOi", &shapes_, &by.lr, &by.momentum,
                          &by.weight_decay, &by.pull, &x_, &y_, &rows_, &taken_,
                          &start_, &velocity_, &out_, &losses_, &lanes))
        return NULL;
    Descend *descend = descent_with(lanes);
    if (!descend) {
        PyErr_SetString(PyExc_ValueError, "this processor has no such registers");
        return NULL;
    }
    const int64_t *shapes = take(&buffers, shapes_, sizeof *shapes, 0, &said);
    if (!shapes) return finish(&buffers, NULL);
    if (!said || said * sizeof *shapes % sizeof *own ||
        said * sizeof *shapes > sizeof own)
        return refuse(&buffers, "expected up to 64 layers, and 16 numbers for each");
    memcpy(own, shapes, said * sizeof *shapes);
    samples.x = take(&buffers, x_, sizeof *samples.x, 0, &inputs);
    if (!samples.x) return finish(&buffers, NULL);
    samples.y = take(&buffers, y_, sizeof *samples.y, 0, &samples.count);
    if (!samples.y) return finish(&buffers, NULL);
    samples.rows = take(&buffers, rows_, sizeof *samples.rows, 0, &rows);
    if (!samples.rows) return finish(&buffers, NULL);
    samples.sizes = take(&buffers, taken_, sizeof *samples.sizes, 0, &steps);
    if (!samples.sizes) return finish(&buffers, NULL);
    const float *start = take(&buffers, start_, sizeof *start, 0, &started);
    if (!start) return finish(&buffers, NULL);
    if (velocity_ != Py_None) {
        velocity = take(&buffers, velocity_, sizeof *velocity, 1, &moving);
        if (!velocity) return finish(&buffers, NULL);
    }
    float *out = take(&buffers, out_, sizeof *out, 1, &written);
    if (!out) return finish(&buffers, NULL);
    double *losses = take(&buffers, losses_, sizeof *losses, 1, &clients);
    if (!losses) return finish(&buffers, NULL);
    if (!clients || !steps || steps % clients || rows % steps || !rows ||
        written % clients || !written)
        return refuse(&buffers, "expected steps, rows and a model for each client");
    network.dim = written / clients;
    network.layers = said * sizeof *shapes / sizeof *own;
    samples.steps = steps / clients;
    samples.batch = rows / steps;
    if (!fits(&network, samples.batch))
        return refuse(&buffers, "expected layers that fit, and lie in the vector");
    if (started != network.dim && started != written)
        return refuse(&buffers, "expected one model to start from, or one a client");
    if (velocity && moving != written)
        return refuse(&buffers, "expected a velocity a client");
    const Shape *first = own, *last = &own[network.layers - 1];
    if (!samples.count || inputs % samples.count ||
        inputs / samples.count != first->channels * first->height * first->width)
        return refuse(&buffers, "expected inputs of the first layer, and a class each");
    size_t apart = started == written ? network.dim : 0;
    int is_sound, has_room = 1;
    Py_BEGIN_ALLOW_THREADS
    is_sound = sound(&samples, clients, (int64_t)last->out);
    if (is_sound == 1)
        has_room = descend(&network, &by, &samples, clients, start, apart, velocity,
                           out, losses);
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
    {"absolute_sums", py_absolute_sums, METH_VARARGS, "(x, out)"},
    {"square_sums", py_square_sums, METH_VARARGS, "(x, out)"},
    {"plain_sums", py_plain_sums, METH_VARARGS, "(x, out)"},
    {"add_rows", py_add_rows, METH_VARARGS,
     "(rows, shares, out) -> whether they are rows that it takes"},
    {"positive", py_positive, METH_VARARGS, "(x, seeds, out)"},
    {"put_signs", py_put_signs, METH_VARARGS, "(plus, sizes, scales, out)"},
    {"add_signs", py_add_signs, METH_VARARGS, "(plus, sizes, scales, out)"},
    {"quantise", py_quantise, METH_VARARGS,
     "(x, rows, bucket, top, measure, seeds or None, levels, steps)"},
    {"put_levels", py_put_levels, METH_VARARGS,
     "(levels, bucket, steps, scale to add with or None, out)"},
    {"above", py_above, METH_VARARGS, "(x, threshold, out)"},
    {"largest", py_largest, METH_VARARGS, "(x, rows, room for a row, out)"},
    {"shifted_sum", py_shifted_sum, METH_VARARGS, "(numbers, bits)"},
    {"put_rice", py_put_rice, METH_VARARGS, "(numbers, low bits, zeros to write to)"},
#ifdef LATECOMER_DESCENT
    {"descend", py_descend, METH_VARARGS,
     "(shapes of layers, (lr, momentum, weight_decay, pull), x, y, rows, sizes of "
     "batches, start, velocity or None, out, losses, numbers of a register or 0) -> "
     "whether all targets are classes"},
#endif
    {NULL, NULL, 0, NULL}};

static int started(PyObject *module) {
    return PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);
}

static struct PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)started}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_compiled",
    .m_doc = "Inner loops of codecs and simulation; the callers are in fedcore.kernels.",
    .m_size = 0, .m_methods = methods, .m_slots = slots};

PyMODINIT_FUNC PyInit__compiled(void);
PyMODINIT_FUNC PyInit__compiled(void) { return PyModuleDef_Init(&definition); }

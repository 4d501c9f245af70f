/* The Python module of the codecs' loops: checks every size, and releases the lock. */
#include "buffers.h"
#include "kernels.h"

enum { INTERFACE = 8 }; /* raised with every change to what the callers pass */

static size_t wanted(size_t dim, size_t bucket) {
    return dim / bucket + (dim % bucket != 0);
}

static PyObject *py_adam(PyObject *self, PyObject *args) {
    PyObject *w_, *v_, *s_, *g_, *eps_, *scale_;
    double beta_1, beta_2, lr, decay;
    Buffers buffers = {.count = 0};
    size_t values, means, squares, gradients, rows, scales;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOOOOdddd", &w_, &v_, &s_, &g_, &eps_, &scale_, &beta_1,
                          &beta_2, &lr, &decay))
        return NULL;
    OUT(float, w, values);
    OUT(float, v, means);
    OUT(float, s, squares);
    IN(float, g, gradients);
    IN(float, eps, rows);
    IN(float, scale, scales);
    if (means != values || squares != values || gradients != values ||
        scales != rows || (rows ? values % rows : values))
        return refuse(&buffers, "expected equal rows, and a scale a row");
    Betas by = {(float)beta_1, (float)(1 - beta_1), (float)beta_2, (float)(1 - beta_2),
                (float)lr, (float)decay};
    Py_BEGIN_ALLOW_THREADS
    adam(w, v, s, g, rows, rows ? values / rows : 0, eps, scale, &by);
    Py_END_ALLOW_THREADS
    return done(&buffers);
}

static PyObject *py_add_pull(PyObject *self, PyObject *args) {
    PyObject *g_, *w_, *anchor_;
    double pull, decay;
    Buffers buffers = {.count = 0};
    size_t values, models, anchors;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOdd", &g_, &w_, &anchor_, &pull, &decay))
        return NULL;
    OUT(float, g, values);
    IN(float, w, models);
    IN(float, anchor, anchors);
    if (models != values || anchors != values)
        return refuse(&buffers, "expected as many values in each");
    Py_BEGIN_ALLOW_THREADS
    add_pull(g, w, anchor, values, (float)pull, (float)decay);
    Py_END_ALLOW_THREADS
    return done(&buffers);
}

typedef void Sums(const float *, size_t, size_t, double *);

static PyObject *summed(PyObject *args, Sums *sums) {
    PyObject *x_, *out_;
    Buffers buffers = {.count = 0};
    size_t values, rows;
    if (!PyArg_ParseTuple(args, "OO", &x_, &out_)) return NULL;
    IN(float, x, values);
    OUT(double, out, rows);
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

/* Whether the loop takes all of these rows. */
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
    IN(float, shares, shared);
    OUT(float, out, dim);
    Rows rows = {.count = (size_t)PyTuple_Size(pairs)};
    if (shared != rows.count) return refuse(&buffers, "expected a share a row");
    rows.of = PyMem_Malloc((rows.count + 1) * sizeof *rows.of);
    rows.held = PyMem_Malloc((rows.count + 1) * sizeof *rows.held);
    int is_taken = rows.of && rows.held && found(&rows, pairs, dim);
    PyErr_Clear(); /* NumPy adds the others */
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
    IN(float, x, values);
    IN(uint64_t, seeds, rows);
    OUT(uint8_t, out, marks);
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
    IN(uint8_t, plus, values);
    IN(volatile int64_t, sizes, parts);
    IN(float, scales, scaled);
    OUT(float, out, written);
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
    IN(float, x, values);
    if (seeds_ != Py_None) {
        seeds = take(&buffers, seeds_, sizeof *seeds, 0, &seeded);
        if (!seeds) return finish(&buffers, NULL);
        if (seeded != (size_t)rows) return refuse(&buffers, "expected a seed a row");
    }
    OUT(int8_t, levels, coded);
    OUT(float, steps, stepped);
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
    IN(int8_t, levels, dim);
    IN(float, steps, stepped);
    OUT(float, out, written);
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
    OUT(int64_t, out, most);
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
    OUT(uint32_t, some, dim);
    OUT(int64_t, out, chosen);
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
    IN(int64_t, numbers, count);
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
    IN(int64_t, numbers, count);
    OUT(uint8_t, out, bytes);
    int fits_in;
    Py_BEGIN_ALLOW_THREADS
    fits_in = put_rice(numbers, count, width, out, bytes);
    Py_END_ALLOW_THREADS
    if (!fits_in) return refuse(&buffers, "expected as many bytes as the code takes");
    return done(&buffers);
}

static PyObject *py_take_rice(PyObject *self, PyObject *args) {
    PyObject *low_, *unary_, *out_;
    int width;
    unsigned long long most;
    Buffers buffers = {.count = 0};
    size_t low_bytes, bytes, count, used;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOiKO", &low_, &unary_, &width, &most, &out_))
        return NULL;
    if (width < 0 || width > 31 || most >> 31)
        return refuse(&buffers, "expected 0 to 31 low bits, and fewer than 2^31 zeros");
    IN(uint8_t, low, low_bytes);
    IN(uint8_t, unary, bytes);
    OUT(int64_t, out, count);
    Py_BEGIN_ALLOW_THREADS
    used = take_rice(low, low_bytes, unary, bytes, width, most, out, count);
    Py_END_ALLOW_THREADS
    return finish(&buffers, PyLong_FromSize_t(used));
}

static PyMethodDef methods[] = {
    {"adam", py_adam, METH_VARARGS,
     "(w, v, s, g, eps, scale, beta_1, beta_2, lr, decay)"},
    {"add_pull", py_add_pull, METH_VARARGS, "(g, w, anchor, pull, decay)"},
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
    {"take_rice", py_take_rice, METH_VARARGS,
     "(low bits, unary parts, width, most zeros, out) -> bytes of the unary parts, or 0"},
    {NULL, NULL, 0, NULL}};

MODULE("Inner loops of codecs; the callers are in fedcore.kernels.")

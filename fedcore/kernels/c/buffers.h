/* Takes the arguments of a Python function as memory, and checks sizes.
 *
 * The callers in Python check types. Whatever they pass, and whatever other threads
 * write into it meanwhile, no loop reads or writes outside a buffer. A module is a file
 * that includes this one, defines INTERFACE and methods, and ends with MODULE.
 */
#ifndef LATECOMER_BUFFERS_H
#define LATECOMER_BUFFERS_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "common.h"

enum { MOST_BUFFERS = 16 };

typedef struct {
    Py_buffer of[MOST_BUFFERS];
    int count;
} Buffers;

static uint64_t nothing; /* stands for the memory of an empty buffer */

/* Returns the memory of the next argument, and counts its items, which must be whole; or
 * NULL with an exception. */
INLINE void *take(Buffers *buffers, PyObject *argument, size_t item, int writable,
                  size_t *items) {
    Py_buffer *buffer = &buffers->of[buffers->count];
    if (buffers->count == MOST_BUFFERS) {
        PyErr_SetString(PyExc_SystemError, "more buffers than there is room for");
        return NULL;
    }
    if (PyObject_GetBuffer(argument, buffer, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE))
        return NULL;
    buffers->count++;
    *items = (size_t)buffer->len / item;
    if (!buffer->len) return &nothing; /* its address may be any */
    if ((size_t)buffer->len % item || (uintptr_t)buffer->buf % item) {
        PyErr_Format(PyExc_ValueError, "expected aligned items of %zu bytes", item);
        return NULL;
    }
    return buffer->buf;
}

INLINE PyObject *finish(Buffers *buffers, PyObject *found) {
    while (buffers->count) PyBuffer_Release(&buffers->of[--buffers->count]);
    return found;
}

INLINE PyObject *refuse(Buffers *buffers, const char *expected) {
    PyErr_SetString(PyExc_ValueError, expected);
    return finish(buffers, NULL);
}

INLINE PyObject *done(Buffers *buffers) { return finish(buffers, Py_NewRef(Py_None)); }

/* IN and OUT declare name as the memory of the argument name_ and count its items, or
 * end the function with an exception. The function needs a variable buffers. */
#define IN(type, name, items)                                                     \
    const type *name = take(&buffers, name##_, sizeof(type), 0, &items);          \
    if (!name) return finish(&buffers, NULL)
#define OUT(type, name, items)                                                    \
    type *name = take(&buffers, name##_, sizeof(type), 1, &items);                \
    if (!name) return finish(&buffers, NULL)

#define MODULE(documentation)                                                     \
    static int started(PyObject *module) {                                        \
        return PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);           \
    }                                                                             \
    static struct PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)started},     \
                                              {0, NULL}};                         \
    static struct PyModuleDef definition = {                                      \
        PyModuleDef_HEAD_INIT, .m_name = "_compiled", .m_doc = documentation,     \
        .m_size = 0, .m_methods = methods, .m_slots = slots};                     \
    PyMODINIT_FUNC PyInit__compiled(void);                                        \
    PyMODINIT_FUNC PyInit__compiled(void) { return PyModuleDef_Init(&definition); }

#endif

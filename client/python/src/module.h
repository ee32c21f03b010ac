/* module: the compiled half of the Python package, penstock._penstock. _penstock.pyi says what it
 * offers.
 *
 *   module.[ch]    the module: its state, its types, its functions
 *   errors.[ch]    failures, raised as penstock.errors makes them
 *   options.[ch]   a dict -> struct penstock_options
 *   channel.[ch]   a stream, who may call it when, and the leases of its batches: no Python in it
 *   call.[ch]      a call into a channel: without the GIL, and ended by Ctrl-C
 *   stream.[ch]    Stream
 *   batch.[ch]     Batch
 *   view.[ch]      View: the buffer protocol
 *   dlpack.[ch]    View: DLPack
 *   pool.[ch]      Pool, Block
 *   convert.[ch]   Converter, fill_images, fill_labels; channels.[ch]: mean and std
 *   mixer.[ch]     Mixer
 *   cuda.[ch]      Cuda: libpenstock_cuda, whose objects are in here too; with nvcc alone
 *
 * The stable ABI. The headers are asked for 3.11's (Py_LIMITED_API), the first that has the buffer
 * protocol, and the module runs on 3.9 all the same: that has these functions too, with the same
 * structs, and only promises them from 3.11 on. So no function may be used here that came after
 * 3.9, whatever the headers allow: PyModule_AddObjectRef, Py_NewRef, PyErr_GetRaisedException are
 * such. The linker does not see it; tests/python/test_extension.py compares with a list.
 *
 * One interpreter per process: signals, the GIL and fork() are the process's. A second one is
 * refused at import; so are builds without a GIL, which load no module of the stable ABI. */
#pragma once

/* First of all headers: it says what the others declare. */
#include <Python.h>

struct module_state {
	PyObject *from_code; /* penstock.errors.from_code */
	PyObject *closed_error, *read_only_error;
	PyTypeObject *stream, *batch, *view, *pool, *block, *converter, *mixer;
	PyTypeObject *cuda; /* NULL: built without it */
};

/* The module behind an object of one of its types. */
struct module_state *module_state_of(PyObject *object);

/* tp_new of types that are made by the module alone. */
PyObject *module_refuse_new(PyTypeObject *type, PyObject *args, PyObject *kwargs);

/* Frees the memory of an object, and lets its type go. The last step of every tp_dealloc. */
void module_free_object(PyObject *object);

/* Slots are void pointers, and C knows no conversion of a function's into one. */
#define MODULE_SLOT(function) ((void *)(uintptr_t)(function))

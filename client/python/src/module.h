/* module: the compiled half of the Python package, penstock._penstock. _penstock.pyi describes what
 * it offers.
 *
 * A map of this folder:
 *   module.[ch]    the module: its state, its types, its functions
 *   errors.[ch]    raises failures as the exceptions that penstock.errors makes of them
 *   options.[ch]   a dict -> struct penstock_options
 *   channel.[ch]   a stream, its turns between threads, its leases; without Python
 *   call.[ch]      a call into a channel: without the GIL, and Ctrl-C ends it
 *   stream.[ch]    Stream
 *   batch.[ch]     Batch
 *   view.[ch]      View: the buffer protocol
 *   dlpack.[ch]    View: DLPack
 *   pool.[ch]      Pool, Block
 *   convert.[ch]   Converter, fill_images, fill_labels
 *   channels.[ch]  reads mean and std
 *   mixer.[ch]     Mixer
 *   cuda.[ch]      Cuda: libpenstock_cuda, linked into this module if nvcc was found
 *
 * The stable ABI. The module is compiled against the stable ABI of 3.11 (Py_LIMITED_API), the first
 * one with the buffer protocol, and it also runs on 3.9: Python 3.9 has these functions with the
 * same structs, but promises them only from 3.11 on. The module must therefore not use a function
 * that was added after 3.9, although the headers allow it: PyModule_AddObjectRef, Py_NewRef and
 * PyErr_GetRaisedException are such functions. The linker does not notice;
 * tests/python/test_extension.py compares the symbols with a list.
 *
 * One interpreter per process, because signals, the GIL and fork() belong to the process. The
 * module refuses to be imported by a second one. Builds of Python without a GIL do not load
 * modules of the stable ABI: CMake then builds the module for that Python only, and the
 * interpreter enables its GIL when it imports the module, because the module does not say that it
 * can do without (Py_mod_gil). */
#pragma once

/* Python.h comes before all other headers, because it defines macros that change them. */
#include <Python.h>

struct module_state {
	PyObject *from_code; /* penstock.errors.from_code */
	PyObject *closed_error, *read_only_error;
	PyTypeObject *stream, *batch, *view, *pool, *block, *converter, *mixer;
	PyTypeObject *cuda; /* NULL: built without CUDA */
};

/* The state of the module that defined the type of `object`. */
struct module_state *module_state_of(PyObject *object);

/* tp_new of types whose objects only the module makes. */
PyObject *module_refuse_new(PyTypeObject *type, PyObject *args, PyObject *kwargs);

/* Frees the memory of an object and drops its reference to its type. The last step of every
 * tp_dealloc. */
void module_free_object(PyObject *object);

/* Slots are void pointers, and C does not define the conversion of a function pointer into one. */
#define MODULE_SLOT(function) ((void *)(uintptr_t)(function))

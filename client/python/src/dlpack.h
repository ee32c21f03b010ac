/* dlpack: exports a View by DLPack (the Python side: data-apis.org, array API 2024.12,
 * __dlpack__). */
#pragma once

#include "client/python/src/module.h"

/* View.__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None). BufferError if the
 * request cannot be met. */
PyObject *dlpack_export(PyObject *object, PyObject *args, PyObject *kwargs);

/* View.__dlpack_device__(). */
PyObject *dlpack_device(PyObject *view, PyObject *unused);

/* cuda: the Python type Cuda, which brings a stream's batches to a device through libpenstock_cuda.
 *
 * The objects of libpenstock_cuda are linked into this module, as libpenstock is, and the
 * library is not loaded at run time: it would load a second libpenstock, and only the
 * libpenstock that opened a stream may use it. Only the driver is loaded at run time, when a
 * stream is attached. A module that was built without nvcc has no Cuda, and penstock/cuda.py
 * uses torch instead. */
#pragma once

#include "client/python/src/module.h"

#ifdef PENSTOCK_PYTHON_CUDA
extern PyType_Spec cuda_spec;
#endif

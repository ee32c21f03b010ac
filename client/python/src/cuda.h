/* cuda: Cuda, a stream's batches on a device: libpenstock_cuda as Python sees it.
 *
 * Its objects are inside this module, as libpenstock is, and not looked up at run time: the library
 * as such brings a libpenstock of its own along, and a stream may only be used by the one that
 * opened it. Only the driver is looked up, when a stream is attached. Where there was no nvcc the
 * module has no Cuda, and penstock/cuda.py goes through torch. */
#pragma once

#include "client/python/src/module.h"

#ifdef PENSTOCK_PYTHON_CUDA
extern PyType_Spec cuda_spec;
#endif

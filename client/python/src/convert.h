/* convert: Converter, fill_images and fill_labels, which fill tensors from a batch. */
#pragma once

#include "client/python/src/module.h"

#include <stdint.h>

extern PyType_Spec converter_spec;

/* Reads "float32" and the like as enum penstock_dtype. 0; -1 with a ValueError. */
int convert_read_dtype(const char *name, uint32_t *ret_dtype);

/* fill_images(batch, block, group=0), fill_labels(batch, block): copy the batch without converting
 * it. */
PyObject *convert_fill_images(PyObject *module, PyObject *args);
PyObject *convert_fill_labels(PyObject *module, PyObject *args);

/* convert: Converter, fill_images and fill_labels, what makes tensors of a batch. */
#pragma once

#include "client/python/src/module.h"

#include <stdint.h>

extern PyType_Spec converter_spec;

/* "float32" and its like as enum penstock_dtype. 0; -1 with a ValueError. */
int convert_read_dtype(const char *name, uint32_t *ret_dtype);

/* fill_images(batch, block), fill_labels(batch, block): as the stream has them. */
PyObject *convert_fill_images(PyObject *module, PyObject *args);
PyObject *convert_fill_labels(PyObject *module, PyObject *args);

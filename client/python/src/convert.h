/* convert: Converter and fill_labels, what makes tensors of a batch. */
#pragma once

#include "client/python/src/module.h"

extern PyType_Spec converter_spec;

/* fill_labels(batch, block). */
PyObject *convert_fill_labels(PyObject *module, PyObject *args);

/* channels: three numbers, one for each channel. */
#pragma once

#include "client/python/src/module.h"

/* Of a sequence. 0; -1 with an exception: TypeError it is none, ValueError it has not three. */
int channels_read(PyObject *sequence, const char *name, float ret_values[3]);

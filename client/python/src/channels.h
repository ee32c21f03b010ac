/* channels: reads three numbers, one for each channel. */
#pragma once

#include "client/python/src/module.h"

/* Reads `sequence`; `name` is the argument that errors mention. 0; -1 with an exception: TypeError
 * (not a sequence of numbers) or ValueError (not three of them). */
int channels_read(PyObject *sequence, const char *name, float ret_values[3]);

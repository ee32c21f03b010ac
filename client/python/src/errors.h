/* errors: failures, raised as penstock.errors makes them. All with the GIL held. */
#pragma once

#include "client/python/src/module.h"

/* Raises what penstock.errors.from_code makes of a negative errno and its sentence. Returns NULL,
 * so that `return errors_raise(...)` reads as one step. */
PyObject *errors_raise(struct module_state *state, int code, const char *sentence);

/* The same with a sentence made here. */
PyObject *errors_raise_format(struct module_state *state, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The stream was closed. */
PyObject *errors_raise_closed(struct module_state *state);

/* The stream, and its batches, are another process's. */
PyObject *errors_raise_forked(struct module_state *state, long owner);

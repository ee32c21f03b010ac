/* errors: raises failures as the exceptions that penstock.errors makes of them. The caller holds
 * the GIL. */
#pragma once

#include "client/python/src/module.h"

/* Raises the exception that penstock.errors.from_code makes of a negative errno and its sentence.
 * Returns NULL, so that `return errors_raise(...)` is one step. */
PyObject *errors_raise(struct module_state *state, int code, const char *sentence);

/* The same with a sentence that is formatted here. */
PyObject *errors_raise_format(struct module_state *state, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Raises ClosedError: the stream was closed. */
PyObject *errors_raise_closed(struct module_state *state);

/* Raises ForkError: the stream and its batches belong to the process `owner`. */
PyObject *errors_raise_forked(struct module_state *state, long owner);

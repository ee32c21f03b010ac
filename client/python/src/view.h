/* view: the Python type View, the read-only memory of a batch. */
#pragma once

#include "client/python/src/channel.h"
#include "client/python/src/module.h"

enum { VIEW_DIMS = 4 };

struct view {
	PyObject ob_base;
	struct lease *lease;
	const void *data;
	const char *format; /* in the notation of Python's module struct */
	Py_ssize_t item_bytes, bytes;
	int dims;
	Py_ssize_t shape[VIEW_DIMS], strides[VIEW_DIMS];
};

extern PyType_Spec view_spec;

/* `name` is "images", "labels" or "samples". NULL with an exception: TypeError (not a str) or
 * ValueError (another name). */
PyObject *view_new(struct module_state *state, struct lease *lease, PyObject *name, uint32_t group);

/* A View of `size` bytes of the lease's batch. NULL with an exception. */
PyObject *view_of_bytes(
	struct module_state *state, struct lease *lease, const void *data, size_t size);

/* 0; -1 with an exception: this process is a forked child, and the memory belongs to its parent. */
int view_check(struct module_state *state, const struct view *view);

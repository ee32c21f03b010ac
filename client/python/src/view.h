/* view: View, read-only memory of a batch. */
#pragma once

#include "client/python/src/channel.h"
#include "client/python/src/module.h"

enum { VIEW_DIMS = 4 };

struct view {
	PyObject ob_base;
	struct lease *lease;
	const void *data;
	const char *format; /* as struct's */
	Py_ssize_t item_bytes, bytes;
	int dims;
	Py_ssize_t shape[VIEW_DIMS], strides[VIEW_DIMS];
};

extern PyType_Spec view_spec;

/* `name`: "images", "labels", "samples"; a str, or TypeError, and of these, or ValueError. */
PyObject *view_new(struct module_state *state, struct lease *lease, PyObject *name);

/* 0; -1 with an exception: this process is a child, and the memory its parent's. */
int view_check(struct module_state *state, const struct view *view);

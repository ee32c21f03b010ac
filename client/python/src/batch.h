/* batch: Batch, a lease as Python sees it. */
#pragma once

#include "client/python/src/channel.h"
#include "client/python/src/module.h"

struct batch {
	PyObject ob_base;
	struct lease *lease; /* NULL: released */
	unsigned int count, height, width;
	char last;
	unsigned long long epoch, batch;
};

extern PyType_Spec batch_spec;

/* Takes over the reference to the lease, which holds a batch. NULL with an exception: the lease
 * stays the caller's. */
PyObject *batch_new(struct module_state *state, struct lease *lease);

/* The lease of an object that must be a Batch, borrowed. NULL with an exception: another type, it
 * was released, or this process is a child. */
struct lease *batch_lease(struct module_state *state, PyObject *object);

/* Rows of images: count x views. */
uint32_t batch_rows(const struct lease *lease);

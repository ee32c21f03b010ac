/* batch: the Python type Batch, which holds a lease. */
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

/* Makes a Batch of `lease`, which must hold a batch, and takes over the caller's reference. NULL
 * with an exception: the caller keeps its reference. */
PyObject *batch_new(struct module_state *state, struct lease *lease);

/* The lease of `object`, borrowed. NULL with an exception: `object` is not a Batch, it was
 * released, or this process is a forked child. */
struct lease *batch_lease(struct module_state *state, PyObject *object);

/* The images of one group of views in a batch; those of a stream without groups are group 0. */
struct batch_images {
	const void *images;
	uint32_t rows, height, width;
};

/* 0; -1 with an exception: there is no such group. */
int batch_group(const struct lease *lease, uint32_t group, struct batch_images *ret);

/* How many images the batch has: count x views. */
uint32_t batch_rows(const struct lease *lease);

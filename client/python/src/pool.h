/* pool: Pool and Block, the memory of tensors that belong to the user. */
#pragma once

#include "client/python/src/module.h"

struct block {
	PyObject ob_base;
	struct pool *pool;
	void *address;
	Py_ssize_t bytes;
};

extern PyType_Spec pool_spec, block_spec;

/* `object` as a Block of at least `bytes` bytes, borrowed. NULL with an exception. */
struct block *block_check(struct module_state *state, PyObject *object, size_t bytes);

/* mixer: the Python type Mixer: penstock_mix for batches that were copied into blocks. */
#pragma once

#include "client/python/src/module.h"

#include "penstock/penstock.h"

#include <stddef.h>

extern PyType_Spec mixer_spec;

/* Reads a sequence of tuples (epoch, mixup, cutmix, mix, mix_switch, smoothing), or NULL for none.
 * *ret_epochs is the caller's, who frees it with PyMem_Free(); NULL if there are none. 0; -1 with
 * an exception. */
int mixer_read_epochs(
	PyObject *listed, const struct penstock_mix_epoch **ret_epochs, size_t *ret_count);

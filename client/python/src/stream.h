/* stream: Stream, a channel as Python sees it. */
#pragma once

#include "client/python/src/channel.h"
#include "client/python/src/module.h"

extern PyType_Spec stream_spec;

/* The channel of an object that must be a Stream, borrowed. NULL with an exception: another type,
 * it was closed, or this process is a child. */
struct channel *stream_channel(struct module_state *state, PyObject *object);

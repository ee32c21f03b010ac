/* stream: the Python type Stream, which holds a channel. */
#pragma once

#include "client/python/src/channel.h"
#include "client/python/src/module.h"

extern PyType_Spec stream_spec;

/* The channel of `object`, borrowed. NULL with an exception: `object` is not a Stream, it was
 * closed, or this process is a forked child. */
struct channel *stream_channel(struct module_state *state, PyObject *object);

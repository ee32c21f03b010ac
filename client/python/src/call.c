/* call: see call.h.
 *
 * Thread: any, with the GIL. */
#include "client/python/src/call.h"

#include "client/python/src/errors.h"

#include <errno.h>
#include <stdio.h>

/* How often a call that waits for its turn checks for signals. */
enum { CALL_LOOK_MS = 100 };

int call_interrupted(void *data)
{
	struct channel *channel = data;
	PyThreadState *thread = channel->interrupt_data;
	/* Dropping a lease calls the library from an arbitrary place. Such a call never blocks, and
	 * a signal must not end it. */
	if (!thread)
		return 0;
	PyEval_RestoreThread(thread);
	int result = PyErr_CheckSignals();
	(void)PyEval_SaveThread();
	return result;
}

/* 0, or -1 with an exception if the channel cannot be called. */
static int call_check(struct module_state *state, const struct call *call)
{
	const struct channel *channel = call->channel;
	if (channel_is_forked(channel))
		errors_raise_forked(state, (long)channel->owner);
	else if (!call->after_close && atomic_load_explicit(&channel->closed, memory_order_acquire))
		errors_raise_closed(state);
	else
		return 0;
	return -1;
}

/* Waits once for the turn and runs the body if it gets it. Returns what channel_take returns. */
static int call_try(struct call *call, call_body *body, void *data)
{
	struct channel *channel = call->channel;
	PyThreadState *thread = PyEval_SaveThread();
	int result = channel_take(channel, thread, CALL_LOOK_MS);
	if (result == 0) {
		call->result = body(channel, data);
		if (call->result < 0)
			(void)snprintf(
				call->sentence, sizeof call->sentence, "%s", penstock_error());
		channel_give(channel);
	}
	PyEval_RestoreThread(thread);
	return result;
}

static int call_refuse_mine(struct module_state *state)
{
	errors_raise(state, -EINPROGRESS,
		"a signal handler used a stream while the code that it interrupted was using the "
		"same stream: only set a flag in the handler, and check the flag between batches");
	return -1;
}

int call_run(struct module_state *state, struct call *call, call_body *body, void *data)
{
	int result = CHANNEL_E_BUSY;
	while (result == CHANNEL_E_BUSY) {
		if (call_check(state, call) < 0)
			return -1;
		result = call_try(call, body, data);
		if (result == CHANNEL_E_BUSY && PyErr_CheckSignals() < 0)
			return -1;
	}
	if (result == CHANNEL_E_MINE)
		return call_refuse_mine(state);
	return PyErr_Occurred() ? -1 : 0;
}

/* call: a call into a channel's stream. It runs without the GIL, and Ctrl-C ends it.
 *
 *   struct call call = {.channel = channel};
 *   if (call_run(state, &call, stream_ask_classes, &lines) < 0)
 *           return NULL;           // an exception: interrupted, forked
 *   if (call.result < 0)
 *           return errors_raise(state, call.result, call.sentence);
 */
#pragma once

#include "client/python/src/channel.h"
#include "client/python/src/module.h"

enum { CALL_SENTENCE = 1024 };

struct call {
	struct channel *channel;
	bool after_close; /* the call is also allowed on a closed stream: it ends a lease */
	int result; /* of the body */
	char sentence[CALL_SENTENCE]; /* penstock_error() after the body; only if result < 0 */
};

/* Calls the library. It runs with the turn and without the GIL. */
typedef int call_body(struct channel *channel, void *data);

/* Waits for the turn and runs `body`. 0; -1 with an exception set: a signal handler raised one, the
 * stream was closed, the process is a forked child, or the thread is already inside a call. */
int call_run(struct module_state *state, struct call *call, call_body *body, void *data);

/* The callback options.interrupt; `data` is the channel. Runs Python's signal handlers. */
int call_interrupted(void *data);

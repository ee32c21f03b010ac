/* call: a call into a channel's stream: without the GIL, and ended by Ctrl-C.
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
	bool after_close; /* allowed: the end of a lease */
	int result; /* of the body */
	char sentence[CALL_SENTENCE]; /* penstock_error() after it, where result < 0 */
};

/* Calls the library; has the turn and no GIL. */
typedef int call_body(struct channel *channel, void *data);

/* Waits for the turn and runs `body`. 0; -1 with an exception set: a signal's handler raised, the
 * stream was closed, the process is a child, or it calls from within a call. */
int call_run(struct module_state *state, struct call *call, call_body *body, void *data);

/* options.interrupt; data: the channel. Runs the signals' handlers. */
int call_interrupted(void *data);

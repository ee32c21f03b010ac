/* openers: threads that open remote objects, since opening one asks the network and blocks.
 *
 * Threads are started as objects wait to be opened, up to OPENERS_MOST, and stay until the owner
 * ends. An owner that ends interrupts openings that are still under way (remote/interrupt.h), and
 * so does not wait for a server that does not answer.
 *
 * One lock, which is held while `opened` is called: an opening that was canceled is not
 * answered. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stdint.h>

struct openers;
struct opening;
struct remote_object;

/* `object` is NULL unless `result` is 0; the function owns it. `fault` has the sentence for a
 * negative result. Called on a thread of openers, with their lock: must not block, and must not
 * call openers. */
typedef void opened_fn(
	void *context, int result, struct remote_object *object, const struct fault *fault);

/* NULL: no memory. Starts no thread. */
struct openers *openers_new(void);
/* All openings must have been answered or canceled. Interrupts those that were canceled while they
 * were under way, and waits until the threads have ended. Accepts NULL. */
void openers_free(struct openers *openers);

/* What is opened. Copied. */
struct opening_what {
	const char *url;
	/* What a listing said of it: then the server is not asked. NULL: it is. */
	const char *etag;
	uint64_t size;
};

/* Opens an object on behalf of `owner`, which is only compared: openings that hang
 * do not hold up those of other owners. *place, which belongs to openers until the opening is
 * answered or canceled, says that it is under way, and is NULL afterwards. 0; or -ENOMEM, or the
 * error for which no thread could be started: then `opened` is not called. */
int openers_ask(struct openers *openers, const void *owner, const struct opening_what *what,
	opened_fn *opened, void *context, struct opening **place);

/* True: `opened` will not be called. False: it has been called, or *place was never asked. */
bool openers_cancel(struct openers *openers, struct opening **place);

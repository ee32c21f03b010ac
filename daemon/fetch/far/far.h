/* far: ops whose bytes are in remote storage: how they are asked, answered and canceled.
 *
 * A map of this folder:
 *   far.[ch]      this file
 *   openers.[ch]  threads that open remote objects
 *
 * An op with `remote` has a job here, from the planner's fetch_far_new to its fetch_far_end. The
 * engine asks it through fetch_far_ask; the answer comes on a thread of remote/ or of the openers,
 * which puts the job into `answers` and kicks the engine; fetch_far_next gives the op back, done or
 * with its next question. Bytes that the cache of remote/ holds are read by the engine itself,
 * through the kernel, from the cache's file.
 *
 * Outcomes are those of local files: an object that was replaced is a file that was changed, one
 * that does not exist is a missing file, one that ends early is a short one. All other errors end
 * the stream with the sentence of remote/: whatever could be tried again, remote/ has tried.
 *
 * Locks: lane->lock, far.lock, those of openers and remote/, inbox.lock. An answer takes only the
 * last one, so that it may come while its question is asked or canceled. */
#pragma once

#include "base/fault.h"
#include "base/list.h"
#include "fetch/fetch_op.h"

#include <pthread.h>
#include <stdbool.h>

struct dataset;
struct far_job;
struct lane;
struct fetch_reader;
struct opening_what;
struct openers;
struct remote_object;

enum {
	/* In flight of one reader in a lane, at least; remote/ limits the connections. */
	FAR_READS = 128,
	/* Neighbors are merged up to this size: with some megabytes, the time of a request is
	 * mostly that of its bytes. */
	FAR_MERGE_BYTES = 4 << 20,
};

struct far {
	struct list_head jobs; /* all, guarded by lane->lock */
	_Atomic(struct far_job *) answers; /* the latest first */
	pthread_mutex_t lock;
	struct list_head answered; /* taken out of `answers`, oldest first; guarded by `lock` */
	struct openers *openers; /* NULL until something is opened; guarded by lane->lock */
};

void fetch_far_init(struct lane *lane);
/* No op may be in flight. */
void fetch_far_deinit(struct lane *lane);

/* Whether a shard, or a folder's samples, are in remote storage. */
bool fetch_far_is(const struct dataset *dataset, uint32_t shard);

/* --- with lane->lock --- */

/* Gives an op with `remote` its job. `what` is what it opens; NULL: it has an object. 0 or
 * -ENOMEM. */
int fetch_far_new(struct lane *lane, struct fetch_op *op, const struct opening_what *what);
/* The op, which is done, will be asked again from its beginning. */
void fetch_far_again(struct fetch_op *op);
/* Ends the op's job, and gives back the object that it opened and still has. */
void fetch_far_end(struct fetch_op *op);
/* The object that it opened, which is the caller's from now on. */
struct remote_object *fetch_far_take(struct fetch_op *op);
/* The sentence of an op that is done with a negative result; NULL: the op is not remote. */
const struct fault *fetch_far_fault(const struct fetch_op *op);

/* Cancels what is in flight: the reads for items of `reader` only; NULL: everything. They complete
 * soon, with -ECANCELED or with another result. */
void fetch_far_cancel(struct lane *lane, const struct fetch_reader *reader);
/* Cancels the opening of shards of a dataset. */
void fetch_far_forget(struct lane *lane, const struct dataset *dataset);

/* --- without it --- */

/* Asks an op that has a question for remote storage. False: the cache has the bytes, and the
 * engine reads them from op->fd. */
bool fetch_far_ask(struct lane *lane, struct fetch_op *op);
/* An op whose answer has come; NULL: none. */
struct fetch_op *fetch_far_next(struct lane *lane);
/* Whether fetch_far_next would return an op. */
bool fetch_far_more(struct lane *lane);

/* For tests: datasets whose paths begin with `prefix` are taken for remote ones, whose URLs are
 * their paths. NULL: none. The text is borrowed. */
void fetch_far_pretend(const char *prefix);

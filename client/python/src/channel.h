/* channel: a stream, who may call it when, and the leases of its batches.
 *
 * libpenstock wants one thread at a time. Python drops objects wherever the last reference happens
 * to go: in any thread, in the garbage collector, while another thread asks the daemon something,
 * at the end of the process; DLPack's consumers even without the GIL. So whoever drops a lease
 * never waits: either nobody calls the library, and it is given back at once, or it is put on a
 * list, and whoever calls gives it back with his own call's end.
 *
 * Locks. `guard` is held for a few instructions, in which nothing is called; it may be taken with
 * the GIL. `busy` is the turn to call the library, and may last as long as the daemon takes. It is
 * waited for without the GIL only (channel_take), or not at all (channel_drop_lease). Whoever has
 * it may want the GIL (to look for signals): nobody who has the GIL waits for him.
 *
 * After fork() the child's copy is dead: `guard` may have been held, by a thread that the child
 * does not have, so it is not touched. Dropping leases there gives nothing back: they are the
 * parent's.
 *
 * No Python in here. Thread: any. */
#pragma once

#include "penstock/penstock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A batch that is held. Ends with the last reference: of the Batch, its Views, what DLPack's
 * consumers made of them. */
struct lease {
	atomic_uint refs;
	struct channel *channel;
	struct penstock_batch batch;
	struct lease *next; /* in channel.dropped */
};

struct channel {
	atomic_uint refs; /* the Stream until it is closed, each lease, each call under way */
	atomic_bool closed; /* no more calls */
	pid_t owner;
	struct penstock_stream *stream;
	struct penstock_stream_info info;
	int stream_fd; /* penstock_stream_fd */
	int bell_fd; /* readable once it is closed */
	pthread_mutex_t guard;
	pthread_cond_t free; /* `busy` ended */
	bool busy;
	pthread_t caller; /* while busy */
	void *interrupt_data; /* the caller's, while busy */
	struct lease *dropped; /* to be given back by whoever is busy */
	uint32_t held; /* leases that the library counts; while busy */
};

enum {
	CHANNEL_E_BUSY = 1, /* another thread's turn is not over yet */
	CHANNEL_E_MINE = 2, /* this thread's own is not over: a signal's handler calls */
};

/* Without a stream yet. NULL where there is no memory or no descriptor for it: errno. */
struct channel *channel_new(void);

/* The stream that was opened for it. */
void channel_begin(struct channel *channel, struct penstock_stream *stream);

struct channel *channel_ref(struct channel *channel);

/* The last one closes the stream. */
void channel_unref(struct channel *channel);

/* No more calls; whoever waits is woken. The caller's reference goes. */
void channel_close(struct channel *channel);

/* Whether this process is a child of the one that opened. */
bool channel_is_forked(const struct channel *channel);

/* Waits up to `ms` for the turn to call the library; not with the GIL. 0, CHANNEL_E_BUSY,
 * CHANNEL_E_MINE. */
int channel_take(struct channel *channel, void *interrupt_data, unsigned ms);

/* Gives back what was dropped meanwhile, and ends the turn. Overwrites penstock_error(). */
void channel_give(struct channel *channel);

/* Gives back what was dropped so far; with the turn. Whether that was anything. */
bool channel_settle(struct channel *channel);

/* A lease of no batch yet, or NULL: no memory. Has one reference. */
struct lease *lease_new(struct channel *channel);

struct lease *lease_ref(struct lease *lease);

/* The last one gives the batch back, now or as soon as whoever calls the library is done. Never
 * waits. */
void lease_unref(struct lease *lease);

/* With the turn: gives the batch back now, though the lease stays. As penstock_batch_release. */
int lease_release(struct lease *lease);

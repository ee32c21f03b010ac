/* channel: a stream, which thread may call it when, and the leases of its batches.
 *
 * libpenstock allows one thread at a time. Python drops objects wherever the last reference happens
 * to go away: in any thread, in the garbage collector, while another thread asks the daemon
 * something, at the end of the process; consumers of DLPack even do it without the GIL. Therefore a
 * thread that drops a lease never waits. If no thread is calling the library, it returns the batch
 * at once. Otherwise it puts the lease on a list, and the thread that is calling the library
 * returns the batch at the end of its call.
 *
 * Locks. A thread holds `guard` for a few instructions and calls nothing meanwhile; it may take it
 * with the GIL. `busy` is the turn to call the library, and may last as long as the daemon takes. A
 * thread waits for the turn only without the GIL (channel_take), or does not wait
 * (channel_drop_lease). The thread that has the turn may need the GIL, to check for signals: a
 * thread that holds the GIL must never wait for the turn.
 *
 * After fork() the child's copy cannot be used. Another thread of the parent may have held `guard`,
 * and the child does not have that thread, so the child does not touch `guard`. Dropping leases in
 * the child returns nothing: they belong to the parent.
 *
 * These files contain no Python. Thread: any. */
#pragma once

#include "penstock/penstock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The most groups of views that a stream may have. */
enum { CHANNEL_GROUPS = 16 };

/* A batch that this process holds. It ends with the last reference: the Batch, its Views, and what
 * consumers of DLPack made of them each hold one. */
struct lease {
	atomic_uint refs;
	struct channel *channel;
	struct penstock_batch batch;
	/* The images of each group of views; without groups only images[0]. Valid as long as the
	 * lease. */
	const void *images[CHANNEL_GROUPS];
	struct lease *next; /* in channel.dropped */
};

struct channel {
	/* Held by the Stream until it is closed, by each lease, and by each call in progress. */
	atomic_uint refs;
	atomic_bool closed; /* further calls are refused */
	pid_t owner;
	struct penstock_stream *stream;
	struct penstock_stream_info info;
	uint32_t groups; /* of views; 0: they are not divided */
	struct penstock_view_group group[CHANNEL_GROUPS];
	int stream_fd; /* penstock_stream_fd */
	int bell_fd; /* readable once the channel is closed */
	pthread_mutex_t guard;
	pthread_cond_t free; /* signaled when `busy` becomes false */
	bool busy;
	pthread_t caller; /* the thread that has the turn; valid while busy */
	void *interrupt_data; /* passed by the caller to channel_take; valid while busy */
	struct lease *dropped; /* the thread that has the turn returns them */
	/* Leases that the library counts. Only the thread that has the turn uses it. */
	uint32_t held;
};

enum {
	CHANNEL_E_BUSY = 1, /* another thread still has the turn */
	CHANNEL_E_MINE = 2, /* this thread already has the turn: the call is in a signal handler */
};

/* A channel without a stream. NULL with errno set: no memory or no descriptor. */
struct channel *channel_new(void);

/* Gives the channel the stream that was opened for it. */
void channel_begin(struct channel *channel, struct penstock_stream *stream);

struct channel *channel_ref(struct channel *channel);

/* Dropping the last reference closes the stream. */
void channel_unref(struct channel *channel);

/* Refuses further calls, wakes the threads that wait, and drops the caller's reference. */
void channel_close(struct channel *channel);

/* Whether this process is a forked child of the one that opened the stream. */
bool channel_is_forked(const struct channel *channel);

/* Waits up to `ms` for the turn to call the library. The caller must not hold the GIL. 0,
 * CHANNEL_E_BUSY or CHANNEL_E_MINE. */
int channel_take(struct channel *channel, void *interrupt_data, unsigned ms);

/* Returns the batches that were dropped meanwhile, and ends the turn. Overwrites
 * penstock_error(). */
void channel_give(struct channel *channel);

/* Returns the batches that were dropped so far. The caller has the turn. True if there were any. */
bool channel_settle(struct channel *channel);

/* A lease without a batch and with one reference. NULL: no memory. */
struct lease *lease_new(struct channel *channel);

struct lease *lease_ref(struct lease *lease);

/* Dropping the last reference returns the batch, either now or at the end of the call that another
 * thread is making. Never waits. */
void lease_unref(struct lease *lease);

/* Returns the batch to the daemon now; the lease remains, without a batch. The caller has the turn.
 * Returns what penstock_batch_release returns. */
int lease_release(struct lease *lease);

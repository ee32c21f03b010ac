/* channel: see channel.h. */
#include "client/python/src/channel.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static int channel_init_free(pthread_cond_t *condition)
{
	pthread_condattr_t attributes;
	int result = pthread_condattr_init(&attributes);
	if (result != 0)
		return result;
	/* The wall clock may be set while a thread waits. */
	(void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	result = pthread_cond_init(condition, &attributes);
	(void)pthread_condattr_destroy(&attributes);
	return result;
}

struct channel *channel_new(void)
{
	struct channel *channel = calloc(1, sizeof *channel);
	if (!channel)
		return NULL;
	channel->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int result = channel->bell_fd < 0 ? errno : channel_init_free(&channel->free);
	if (result != 0) {
		if (channel->bell_fd >= 0)
			(void)close(channel->bell_fd);
		free(channel);
		errno = result;
		return NULL;
	}
	(void)pthread_mutex_init(&channel->guard, NULL); /* never fails on Linux */
	atomic_init(&channel->refs, 1);
	channel->owner = getpid();
	return channel;
}

void channel_begin(struct channel *channel, struct penstock_stream *stream)
{
	channel->stream = stream;
	channel->stream_fd = penstock_stream_fd(stream);
	penstock_stream_info(stream, &channel->info);
	channel->groups = penstock_stream_groups(stream);
	for (uint32_t i = 0; i < channel->groups; i++)
		(void)penstock_stream_group(stream, i, &channel->group[i]);
}

struct channel *channel_ref(struct channel *channel)
{
	/* Relaxed: the caller already has a reference, and the count publishes nothing. */
	atomic_fetch_add_explicit(&channel->refs, 1, memory_order_relaxed);
	return channel;
}

bool channel_is_forked(const struct channel *channel)
{
	return channel->owner != getpid();
}

/* In a forked child, another thread of the parent may have been changing the stream during fork():
 * then it cannot be closed. */
static bool channel_may_close(struct channel *channel)
{
	return !channel_is_forked(channel) ||
	       (pthread_mutex_trylock(&channel->guard) == 0 && !channel->busy);
}

static void channel_free(struct channel *channel)
{
	if (!channel_may_close(channel))
		return;
	penstock_stream_close(channel->stream);
	(void)close(channel->bell_fd);
	if (!channel_is_forked(channel)) {
		(void)pthread_mutex_destroy(&channel->guard);
		(void)pthread_cond_destroy(&channel->free);
	}
	free(channel);
}

void channel_unref(struct channel *channel)
{
	/* The thread that drops the last reference sees everything that the others did. */
	if (atomic_fetch_sub_explicit(&channel->refs, 1, memory_order_acq_rel) == 1)
		channel_free(channel);
}

void channel_close(struct channel *channel)
{
	const uint64_t one = 1;
	/* Partner: call_check, before and after each wait. */
	atomic_store_explicit(&channel->closed, true, memory_order_release);
	/* A forked child shares the bell with the parent. */
	if (!channel_is_forked(channel)) {
		ssize_t n = write(channel->bell_fd, &one, sizeof one);
		(void)n; /* one write cannot overflow the counter */
	}
	channel_unref(channel);
}

/* ---- turns ---- */

static struct timespec channel_deadline(unsigned ms)
{
	struct timespec at;
	(void)clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_sec += ms / 1000;
	at.tv_nsec += (long)(ms % 1000) * 1000000;
	if (at.tv_nsec >= 1000000000) {
		at.tv_sec++;
		at.tv_nsec -= 1000000000;
	}
	return at;
}

static int channel_take_guarded(struct channel *channel, unsigned ms)
{
	struct timespec deadline = channel_deadline(ms);
	while (channel->busy) {
		if (pthread_equal(channel->caller, pthread_self()))
			return CHANNEL_E_MINE;
		if (pthread_cond_timedwait(&channel->free, &channel->guard, &deadline) != 0)
			return CHANNEL_E_BUSY;
	}
	channel->busy = true;
	channel->caller = pthread_self();
	return 0;
}

int channel_take(struct channel *channel, void *interrupt_data, unsigned ms)
{
	(void)pthread_mutex_lock(&channel->guard);
	int result = channel_take_guarded(channel, ms);
	if (result == 0)
		channel->interrupt_data = interrupt_data;
	(void)pthread_mutex_unlock(&channel->guard);
	return result;
}

static struct lease *channel_take_dropped(struct channel *channel, bool end)
{
	(void)pthread_mutex_lock(&channel->guard);
	struct lease *dropped = channel->dropped;
	channel->dropped = NULL;
	if (end && !dropped) {
		channel->busy = false;
		(void)pthread_cond_signal(&channel->free);
	}
	(void)pthread_mutex_unlock(&channel->guard);
	return dropped;
}

/* Returning a batch fails if the daemon is gone or took the batch back. The next call for a batch
 * reports it. */
static bool channel_give_back(struct lease *dropped)
{
	bool any = dropped;
	while (dropped) {
		struct lease *lease = dropped;
		dropped = lease->next;
		(void)lease_release(lease);
		free(lease);
	}
	return any;
}

bool channel_settle(struct channel *channel)
{
	return channel_give_back(channel_take_dropped(channel, false));
}

void channel_give(struct channel *channel)
{
	while (channel_give_back(channel_take_dropped(channel, true)))
		continue;
}

/* ---- leases ---- */

struct lease *lease_new(struct channel *channel)
{
	struct lease *lease = calloc(1, sizeof *lease);
	if (!lease)
		return NULL;
	atomic_init(&lease->refs, 1);
	lease->channel = channel_ref(channel);
	return lease;
}

struct lease *lease_ref(struct lease *lease)
{
	atomic_fetch_add_explicit(&lease->refs, 1, memory_order_relaxed);
	return lease;
}

int lease_release(struct lease *lease)
{
	if (!lease->batch.images)
		return 0;
	lease->channel->held--;
	int result = penstock_batch_release(lease->channel->stream, &lease->batch);
	lease->batch.images = NULL;
	return result;
}

/* Puts the lease on the list. True if no thread had the turn; this thread has it now. */
static bool channel_drop_lease(struct channel *channel, struct lease *lease)
{
	(void)pthread_mutex_lock(&channel->guard);
	lease->next = channel->dropped;
	channel->dropped = lease;
	bool mine = !channel->busy;
	if (mine) {
		channel->busy = true;
		channel->caller = pthread_self();
		channel->interrupt_data = NULL;
	}
	(void)pthread_mutex_unlock(&channel->guard);
	return mine;
}

void lease_unref(struct lease *lease)
{
	struct channel *channel = lease->channel;
	/* The thread that drops the last reference sees all reads by the others as done. */
	if (atomic_fetch_sub_explicit(&lease->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (!lease->batch.images || channel_is_forked(channel))
		free(lease);
	else if (channel_drop_lease(channel, lease))
		channel_give(channel);
	channel_unref(channel);
}

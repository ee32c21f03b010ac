/* permit: see permit.h. Tickets keep the order: `serving` is the ticket that is next. */
#include "base/permit.h"

#include "base/clock.h"
#include "base/util.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>

void permit_init(struct permit *permit, uint64_t total_bytes)
{
	*permit = (struct permit){.total = total_bytes};
	pthread_mutex_init(&permit->lock, NULL);
	pthread_cond_init(&permit->turn, NULL);
}

void permit_deinit(struct permit *permit)
{
	assert(permit->used == 0);
	pthread_cond_destroy(&permit->turn);
	pthread_mutex_destroy(&permit->lock);
}

static void permit_take(struct permit *permit, uint64_t bytes)
{
	permit->used += bytes;
	permit->largest = UTIL_MAX(permit->largest, bytes);
	if (permit->used > permit->peak)
		permit->peak = permit->used;
}

static bool permit_has_turn(const struct permit *permit, uint64_t ticket, uint64_t bytes)
{
	return permit->serving == ticket && permit->total - permit->used >= bytes;
}

int permit_acquire(struct permit *permit, uint64_t bytes)
{
	if (bytes > permit->total)
		return PERMIT_E_TOO_LARGE;
	pthread_mutex_lock(&permit->lock);
	uint64_t ticket = permit->next_ticket++;
	if (!permit_has_turn(permit, ticket, bytes)) {
		gauge_set(&permit->waits, permit->waits.value + 1, clock_ns());
		do
			pthread_cond_wait(&permit->turn, &permit->lock);
		while (!permit_has_turn(permit, ticket, bytes));
		gauge_set(&permit->waits, permit->waits.value - 1, clock_ns());
	}
	permit->serving++;
	permit_take(permit, bytes);
	pthread_cond_broadcast(&permit->turn);
	pthread_mutex_unlock(&permit->lock);
	return 0;
}

int permit_try(struct permit *permit, uint64_t bytes)
{
	if (bytes > permit->total)
		return PERMIT_E_TOO_LARGE;
	int result = -EAGAIN;
	pthread_mutex_lock(&permit->lock);
	if (permit->serving == permit->next_ticket && permit->total - permit->used >= bytes) {
		permit_take(permit, bytes);
		result = 0;
	}
	pthread_mutex_unlock(&permit->lock);
	return result;
}

void permit_release(struct permit *permit, uint64_t bytes)
{
	pthread_mutex_lock(&permit->lock);
	assert(permit->used >= bytes);
	permit->used -= bytes;
	pthread_cond_broadcast(&permit->turn);
	pthread_mutex_unlock(&permit->lock);
}

void permit_note(struct permit *permit, uint64_t bytes)
{
	pthread_mutex_lock(&permit->lock);
	permit->largest = UTIL_MAX(permit->largest, bytes);
	pthread_mutex_unlock(&permit->lock);
}

void permit_stats_read(struct permit *permit, struct permit_stats *ret)
{
	pthread_mutex_lock(&permit->lock);
	*ret = (struct permit_stats){
		.wait_ns = gauge_at(&permit->waits, clock_ns()).sum_ns,
		.largest = permit->largest,
	};
	pthread_mutex_unlock(&permit->lock);
}

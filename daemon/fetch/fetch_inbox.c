/* fetch_inbox: where submitters hand items to a lane, and how its threads sleep and are woken. */
#include "base/clock.h"
#include "fetch/fetch_internal.h"

#include <sys/eventfd.h>
#include <time.h>

void fetch_inbox_init(struct fetch_inbox *inbox)
{
	pthread_condattr_t attr;
	pthread_mutex_init(&inbox->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&inbox->cond, &attr);
	pthread_condattr_destroy(&attr);
	inbox->tail = &inbox->items;
	inbox->eventfd = -1;
}

void fetch_inbox_deinit(struct fetch_inbox *inbox)
{
	pthread_cond_destroy(&inbox->cond);
	pthread_mutex_destroy(&inbox->lock);
}

void fetch_inbox_kick(struct fetch_inbox *inbox)
{
	bool wake = inbox->sleepers > 0 && !inbox->kicked;
	inbox->kicked = true;
	if (!wake)
		return;
	if (inbox->eventfd < 0)
		pthread_cond_signal(&inbox->cond);
	else
		(void)eventfd_write(inbox->eventfd, 1);
}

void fetch_kick(struct lane *lane)
{
	pthread_mutex_lock(&lane->inbox.lock);
	fetch_inbox_kick(&lane->inbox);
	pthread_mutex_unlock(&lane->inbox.lock);
}

bool fetch_sleep_begin(struct fetch_inbox *inbox)
{
	pthread_mutex_lock(&inbox->lock);
	bool sleeps = !inbox->items && !inbox->kicked;
	if (sleeps)
		inbox->sleepers++;
	inbox->kicked = false;
	pthread_mutex_unlock(&inbox->lock);
	return sleeps;
}

void fetch_sleep_end(struct fetch_inbox *inbox)
{
	pthread_mutex_lock(&inbox->lock);
	inbox->sleepers--;
	inbox->kicked = false;
	pthread_mutex_unlock(&inbox->lock);
}

void fetch_sleep(struct fetch_inbox *inbox, bool retry)
{
	pthread_mutex_lock(&inbox->lock);
	if (!inbox->items && !inbox->kicked) {
		inbox->sleepers++;
		if (retry && !inbox->timed) {
			inbox->timed = true;
			uint64_t until = clock_ns() + FETCH_RETRY_NS;
			struct timespec at = {
				.tv_sec = (time_t)(until / 1000000000u),
				.tv_nsec = (long)(until % 1000000000u),
			};
			(void)pthread_cond_timedwait(&inbox->cond, &inbox->lock, &at);
			inbox->timed = false;
		} else {
			pthread_cond_wait(&inbox->cond, &inbox->lock);
		}
		inbox->sleepers--;
	}
	inbox->kicked = false;
	pthread_mutex_unlock(&inbox->lock);
}

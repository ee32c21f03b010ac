/* feed: see feed.h. */
#include "client/cli/watch/feed.h"

#include "base/clock.h"
#include "base/util.h"
#include "client/cli/document.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>

struct feed {
	const char *socket;
	int fd;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t changed; /* interval_s */
	double interval_s;
	struct feed_answer waiting;
	bool full;
};

double feed_now_s(void)
{
	return (double)clock_ns() * 1e-9;
}

static void feed_wait(struct feed *feed, double asked_s)
{
	(void)pthread_mutex_lock(&feed->lock);
	while (feed_now_s() < asked_s + feed->interval_s) {
		double until_s = asked_s + feed->interval_s;
		struct timespec until = {.tv_sec = (time_t)until_s};
		until.tv_nsec = (long)((until_s - (double)until.tv_sec) * 1e9);
		(void)pthread_cond_timedwait(&feed->changed, &feed->lock, &until);
	}
	(void)pthread_mutex_unlock(&feed->lock);
}

static void feed_put(struct feed *feed, const struct feed_answer *answer)
{
	const uint64_t one = 1;
	(void)pthread_mutex_lock(&feed->lock);
	if (feed->full)
		document_free(feed->waiting.root);
	feed->waiting = *answer;
	feed->full = true;
	(void)pthread_mutex_unlock(&feed->lock);
	/* Fails only after 2^64 answers that were not taken. */
	(void)!write(feed->fd, &one, sizeof one);
}

static void *feed_thread(void *context)
{
	struct feed *feed = context;
	double asked_s = feed_now_s();
	for (;;) {
		struct feed_answer answer = {.root = NULL};
		feed_wait(feed, asked_s);
		asked_s = feed_now_s();
		answer.error = answer_ask(feed->socket, NULL, &answer.root, answer.said);
		answer.at_s = feed_now_s();
		feed_put(feed, &answer);
	}
	return NULL;
}

/* The thread that draws receives the signals. */
static int feed_spawn(struct feed *feed)
{
	sigset_t all, before;
	pthread_t thread;
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = pthread_create(&thread, NULL, feed_thread, feed);
	if (r == 0)
		(void)pthread_detach(thread);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

struct feed *feed_start(const char *socket, double interval_s)
{
	pthread_condattr_t monotonic;
	struct feed *feed = calloc(1, sizeof *feed);
	if (!feed)
		return NULL;
	feed->socket = socket;
	feed->interval_s = interval_s;
	feed->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	(void)pthread_mutex_init(&feed->lock, NULL);
	(void)pthread_condattr_init(&monotonic);
	(void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&feed->changed, &monotonic);
	(void)pthread_condattr_destroy(&monotonic);
	int r = feed->fd < 0 ? errno : feed_spawn(feed);
	if (r == 0)
		return feed;
	if (feed->fd >= 0)
		(void)close(feed->fd);
	free(feed);
	errno = r;
	return NULL;
}

int feed_fd(const struct feed *feed)
{
	return feed->fd;
}

bool feed_take(struct feed *feed, struct feed_answer *ret_answer)
{
	uint64_t count;
	(void)!read(feed->fd, &count, sizeof count);
	(void)pthread_mutex_lock(&feed->lock);
	bool full = feed->full;
	if (full)
		*ret_answer = feed->waiting;
	feed->full = false;
	(void)pthread_mutex_unlock(&feed->lock);
	return full;
}

void feed_pace(struct feed *feed, double interval_s)
{
	(void)pthread_mutex_lock(&feed->lock);
	feed->interval_s = interval_s;
	(void)pthread_cond_signal(&feed->changed);
	(void)pthread_mutex_unlock(&feed->lock);
}

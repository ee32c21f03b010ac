/* openers: see openers.h. */
#include "fetch/far/openers.h"

#include "base/list.h"
#include "base/quota.h"
#include "remote/interrupt.h"
#include "remote/object.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Each thread asks one server one question at a time: enough for a few thousand openings a second
 * at some milliseconds each. A server that does not answer keeps its threads for minutes, so the
 * openings of one dataset have only a quota of them; the threads beyond are for datasets that have
 * none. */
enum { OPENERS_OWN = 32, OPENERS_MOST = 64, OPENERS_STACK = 256 << 10 };

struct opening {
	struct list_node node;
	opened_fn *opened;
	void *context;
	struct opening **place; /* NULL: canceled while it was being opened */
	const void *owner; /* compared only */
	bool waits; /* in `waiting`, otherwise in `opening` */
	uint64_t size;
	const char *etag; /* in `url`; NULL: the server is asked */
	char url[];
};

struct openers {
	pthread_mutex_t lock; /* guards everything */
	pthread_cond_t some;
	pthread_cond_t gone; /* a thread has ended */
	struct list_head waiting, opening;
	unsigned threads, idle;
	unsigned queued; /* in `waiting` */
	atomic_bool ended; /* the owner waits for the threads to end; interrupts their openings */
};

struct openers *openers_new(void)
{
	struct openers *openers = calloc(1, sizeof *openers);
	if (!openers)
		return NULL;
	pthread_mutex_init(&openers->lock, NULL);
	pthread_cond_init(&openers->some, NULL);
	pthread_cond_init(&openers->gone, NULL);
	return openers;
}

void openers_free(struct openers *openers)
{
	if (!openers)
		return;
	pthread_mutex_lock(&openers->lock);
	assert(list_is_empty(&openers->waiting));
	atomic_store_explicit(&openers->ended, true, memory_order_relaxed);
	pthread_cond_broadcast(&openers->some);
	while (openers->threads > 0)
		pthread_cond_wait(&openers->gone, &openers->lock);
	pthread_mutex_unlock(&openers->lock);
	pthread_cond_destroy(&openers->gone);
	pthread_cond_destroy(&openers->some);
	pthread_mutex_destroy(&openers->lock);
	free(openers);
}

/* Called with the lock. */
static bool openers_allow(const struct openers *openers, const void *owner)
{
	unsigned own = 0, used = 0;
	list_each (opening, &openers->opening, struct opening, node) {
		own += opening->owner == owner;
		used++;
	}
	return quota_allows(own, used, quota_total(OPENERS_OWN), 1);
}

/* Called with the lock: the oldest opening whose owner may have one more; NULL: none. */
static struct opening *openers_next(struct openers *openers)
{
	const void *refused = NULL;
	list_each (opening, &openers->waiting, struct opening, node) {
		if (refused && opening->owner == refused)
			continue;
		if (openers_allow(openers, opening->owner))
			return opening;
		refused = opening->owner;
	}
	return NULL;
}

/* Called with the lock, which it releases while the object is opened. */
static void openers_open(struct openers *openers, struct opening *opening)
{
	struct remote_object *object = NULL;
	struct fault fault = {""};
	opening->waits = false;
	openers->queued--;
	list_remove(&openers->waiting, &opening->node);
	list_append(&openers->opening, &opening->node);
	/* An opening that ended may have made room for more than this one. */
	if (openers->queued && openers->idle)
		pthread_cond_signal(&openers->some);
	pthread_mutex_unlock(&openers->lock);
	int result = opening->etag ? remote_object_open_listed(opening->url, opening->size,
					     opening->etag, 0, &object, &fault)
				   : remote_object_open(opening->url, &object, &fault);
	pthread_mutex_lock(&openers->lock);
	list_remove(&openers->opening, &opening->node);
	bool wanted = opening->place != NULL;
	if (wanted) {
		*opening->place = NULL;
		opening->opened(opening->context, result, result < 0 ? NULL : object, &fault);
	}
	free(opening);
	if (wanted || result < 0)
		return;
	pthread_mutex_unlock(&openers->lock);
	remote_object_unref(object);
	pthread_mutex_lock(&openers->lock);
}

static void *openers_run(void *context)
{
	struct openers *openers = context;
	(void)interrupt_set(&openers->ended);
	pthread_mutex_lock(&openers->lock);
	while (!atomic_load_explicit(&openers->ended, memory_order_relaxed)) {
		struct opening *opening = openers_next(openers);
		if (opening) {
			openers_open(openers, opening);
			continue;
		}
		openers->idle++;
		pthread_cond_wait(&openers->some, &openers->lock);
		openers->idle--;
	}
	/* The owner frees the table once it has the lock and there are no threads. */
	if (--openers->threads == 0)
		pthread_cond_signal(&openers->gone);
	pthread_mutex_unlock(&openers->lock);
	return NULL;
}

/* Called with the lock. 0 or negative errno. */
static int openers_start(struct openers *openers)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	sigfillset(&all);
	pthread_attr_init(&attr);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	/* The event loop handles all signals. */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	(void)pthread_attr_setstacksize(&attr, OPENERS_STACK);
	int rc = pthread_create(&thread, &attr, openers_run, openers);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (rc != 0)
		return -rc;
	(void)pthread_setname_np(thread, "penstock-open");
	openers->threads++;
	return 0;
}

int openers_ask(struct openers *openers, const void *owner, const struct opening_what *what,
	opened_fn *opened, void *context, struct opening **place)
{
	const size_t bytes = strlen(what->url) + 1, etag = what->etag ? strlen(what->etag) + 1 : 0;
	struct opening *opening = malloc(sizeof *opening + bytes + etag);
	if (!opening)
		return -ENOMEM;
	*opening = (struct opening){
		.opened = opened,
		.context = context,
		.place = place,
		.owner = owner,
		.waits = true,
		.size = what->size,
	};
	memcpy(opening->url, what->url, bytes);
	if (what->etag)
		opening->etag = memcpy(opening->url + bytes, what->etag, etag);
	pthread_mutex_lock(&openers->lock);
	bool more = openers->queued >= openers->idle && openers->threads < OPENERS_MOST &&
		    openers_allow(openers, owner);
	int rc = more ? openers_start(openers) : 0;
	/* Opening with fewer threads is better than not opening at all. */
	if (rc < 0 && openers->threads > 0)
		rc = 0;
	if (rc == 0) {
		*place = opening;
		openers->queued++;
		list_append(&openers->waiting, &opening->node);
		pthread_cond_signal(&openers->some);
	}
	pthread_mutex_unlock(&openers->lock);
	if (rc < 0)
		free(opening);
	return rc;
}

bool openers_cancel(struct openers *openers, struct opening **place)
{
	pthread_mutex_lock(&openers->lock);
	struct opening *opening = *place;
	*place = NULL;
	if (opening) {
		opening->place = NULL;
		if (opening->waits) {
			list_remove(&openers->waiting, &opening->node);
			openers->queued--;
			free(opening);
		}
	}
	pthread_mutex_unlock(&openers->lock);
	return opening != NULL;
}

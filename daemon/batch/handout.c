/* loan: see loan.h.
 *
 * One descriptor of inotify serves all: a user has few of them. A watch is set before a client is
 * given anything, since whoever owns a memfd may take the daemon's right to watch it (fchmod). It
 * does not keep the memory, and goes with it. */
#include "batch/handout.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <unistd.h>

struct handout_watch {
	struct handout_watch *next;
	int number; /* of inotify's */
	bool gone;
};

static pthread_once_t handout_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t handout_lock = PTHREAD_MUTEX_INITIALIZER;
static int handout_inotify = -1; /* set once */
static struct handout_watch *handout_watches; /* under the lock, as what they hold */

static void handout_path(int fd, char path[40])
{
	(void)snprintf(path, 40, "/proc/self/fd/%d", fd);
}

static int handout_open(int memfd, bool writable)
{
	char path[40];
	handout_path(memfd, path);
	return open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
}

static void handout_close(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

/* ---- what inotify says ---- */

/* What was lost because too much came at once is not known of anybody. */
static void handout_hear(const struct inotify_event *event)
{
	for (struct handout_watch *w = handout_watches; w; w = w->next)
		if (w->number == event->wd || event->mask & IN_Q_OVERFLOW)
			w->gone = true;
}

static void handout_look_locked(void)
{
	_Alignas(struct inotify_event) char bytes[4096];
	ssize_t size;
	while ((size = read(handout_inotify, bytes, sizeof bytes)) > 0) {
		const struct inotify_event *event;
		for (ssize_t at = 0; at < size; at += (ssize_t)(sizeof *event + event->len)) {
			event = (const struct inotify_event *)(const void *)(bytes + at);
			handout_hear(event);
		}
	}
}

void handout_look(void)
{
	(void)pthread_mutex_lock(&handout_lock);
	if (handout_watches)
		handout_look_locked();
	(void)pthread_mutex_unlock(&handout_lock);
}

static struct handout_watch *handout_watch_make(int fd)
{
	char path[40];
	struct handout_watch *watch = handout_inotify < 0 ? NULL : calloc(1, sizeof *watch);
	if (!watch)
		return NULL;
	handout_path(fd, path);
	(void)pthread_mutex_lock(&handout_lock);
	watch->number = inotify_add_watch(handout_inotify, path, IN_DELETE_SELF);
	bool set = watch->number >= 0;
	if (set) {
		watch->next = handout_watches;
		handout_watches = watch;
	}
	(void)pthread_mutex_unlock(&handout_lock);
	if (!set)
		free(watch);
	return set ? watch : NULL;
}

static void handout_watch_free(struct handout_watch *watch)
{
	struct handout_watch **place = &handout_watches;
	if (!watch)
		return;
	(void)pthread_mutex_lock(&handout_lock);
	handout_look_locked();
	if (!watch->gone)
		(void)inotify_rm_watch(handout_inotify, watch->number);
	while (*place != watch)
		place = &(*place)->next;
	*place = watch->next;
	(void)pthread_mutex_unlock(&handout_lock);
	free(watch);
}

/* A kernel, or what is in its place, that never says it would keep all memory charged for ever. */
static bool handout_is_told(void)
{
	struct handout loan = {.give = memfd_create("penstock-watch", MFD_CLOEXEC)};
	loan.watch = loan.give < 0 ? NULL : handout_watch_make(loan.give);
	bool watched = loan.watch;
	handout_end(&loan);
	handout_look();
	bool told = watched && !handout_is_held(&loan);
	handout_deinit(&loan);
	return told;
}

static void handout_set_up(void)
{
	handout_inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (handout_inotify >= 0 && !handout_is_told())
		handout_close(&handout_inotify);
}

void handout_begin(void)
{
	(void)pthread_once(&handout_once, handout_set_up);
}

/* ---- loans ---- */

struct handout handout_make(int memfd, bool writable)
{
	handout_begin();
	struct handout loan = {.give = handout_open(memfd, writable)};
	if (loan.give < 0)
		loan.give = memfd;
	else
		(void)close(memfd);
	loan.watch = handout_watch_make(loan.give);
	return loan;
}

void handout_end(struct handout *loan)
{
	handout_close(&loan->give);
}

bool handout_is_held(const struct handout *loan)
{
	if (!loan->watch)
		return false;
	(void)pthread_mutex_lock(&handout_lock);
	bool held = !loan->watch->gone;
	(void)pthread_mutex_unlock(&handout_lock);
	return held;
}

void handout_deinit(struct handout *loan)
{
	handout_close(&loan->give);
	handout_watch_free(loan->watch);
	loan->watch = NULL;
}

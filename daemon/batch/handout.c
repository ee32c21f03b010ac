/* handout: see handout.h.
 *
 * One inotify descriptor serves all handouts, since a user has few of them. The watch is set before
 * a client is given the memory, since the owner of a memfd may take away the daemon's right to
 * watch it (fchmod). A watch does not keep the memory, and disappears with it. */
#include "batch/handout.h"

#include "base/list.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <unistd.h>

struct handout_watch {
	struct list_node node;
	int number; /* inotify's watch descriptor */
	bool gone;
};

static pthread_once_t handout_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t handout_lock = PTHREAD_MUTEX_INITIALIZER;
static int handout_inotify = -1; /* set once */
static struct list_head handout_watches; /* under the lock, as are the watches */

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

/* ---- inotify ---- */

/* After an overflow any of the watches may have lost its event, so all of them count as gone. */
static void handout_hear(const struct inotify_event *event)
{
	list_each (w, &handout_watches, struct handout_watch, node)
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
	if (!list_is_empty(&handout_watches))
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
	if (set)
		list_append(&handout_watches, &watch->node);
	(void)pthread_mutex_unlock(&handout_lock);
	if (!set)
		free(watch);
	return set ? watch : NULL;
}

static void handout_watch_free(struct handout_watch *watch)
{
	if (!watch)
		return;
	(void)pthread_mutex_lock(&handout_lock);
	handout_look_locked();
	if (!watch->gone)
		(void)inotify_rm_watch(handout_inotify, watch->number);
	list_remove(&handout_watches, &watch->node);
	(void)pthread_mutex_unlock(&handout_lock);
	free(watch);
}

/* Tries whether this kernel reports the end of a memfd at all. With one that does not, all memory
 * would stay charged for ever. */
static bool handout_is_told(void)
{
	struct handout handout = {.give = memfd_create("penstock-watch", MFD_CLOEXEC)};
	handout.watch = handout.give < 0 ? NULL : handout_watch_make(handout.give);
	bool watched = handout.watch;
	handout_end(&handout);
	handout_look();
	bool told = watched && !handout_is_held(&handout);
	handout_deinit(&handout);
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

/* ---- a handout ---- */

struct handout handout_make(int memfd, bool writable)
{
	handout_begin();
	struct handout handout = {.give = handout_open(memfd, writable)};
	if (handout.give < 0)
		handout.give = memfd;
	else
		(void)close(memfd);
	handout.watch = handout_watch_make(handout.give);
	return handout;
}

void handout_end(struct handout *handout)
{
	handout_close(&handout->give);
}

bool handout_is_held(const struct handout *handout)
{
	if (!handout->watch)
		return false;
	(void)pthread_mutex_lock(&handout_lock);
	bool held = !handout->watch->gone;
	(void)pthread_mutex_unlock(&handout_lock);
	return held;
}

void handout_deinit(struct handout *handout)
{
	handout_close(&handout->give);
	handout_watch_free(handout->watch);
	handout->watch = NULL;
}

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

struct loan_watch {
	struct loan_watch *next;
	int number; /* of inotify's */
	bool gone;
};

static pthread_once_t loan_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t loan_lock = PTHREAD_MUTEX_INITIALIZER;
static int loan_inotify = -1; /* set once */
static struct loan_watch *loan_watches; /* under the lock, as what they hold */

static void loan_path(int fd, char path[40])
{
	(void)snprintf(path, 40, "/proc/self/fd/%d", fd);
}

static int loan_open(int memfd, bool writable)
{
	char path[40];
	loan_path(memfd, path);
	return open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
}

static void loan_close(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

/* ---- what inotify says ---- */

/* What was lost because too much came at once is not known of anybody. */
static void loan_hear(const struct inotify_event *event)
{
	for (struct loan_watch *w = loan_watches; w; w = w->next)
		if (w->number == event->wd || event->mask & IN_Q_OVERFLOW)
			w->gone = true;
}

static void loan_look_locked(void)
{
	_Alignas(struct inotify_event) char bytes[4096];
	ssize_t size;
	while ((size = read(loan_inotify, bytes, sizeof bytes)) > 0) {
		const struct inotify_event *event;
		for (ssize_t at = 0; at < size; at += (ssize_t)(sizeof *event + event->len)) {
			event = (const struct inotify_event *)(const void *)(bytes + at);
			loan_hear(event);
		}
	}
}

void loan_look(void)
{
	(void)pthread_mutex_lock(&loan_lock);
	if (loan_watches)
		loan_look_locked();
	(void)pthread_mutex_unlock(&loan_lock);
}

static struct loan_watch *loan_watch_make(int fd)
{
	char path[40];
	struct loan_watch *watch = loan_inotify < 0 ? NULL : calloc(1, sizeof *watch);
	if (!watch)
		return NULL;
	loan_path(fd, path);
	(void)pthread_mutex_lock(&loan_lock);
	watch->number = inotify_add_watch(loan_inotify, path, IN_DELETE_SELF);
	bool set = watch->number >= 0;
	if (set) {
		watch->next = loan_watches;
		loan_watches = watch;
	}
	(void)pthread_mutex_unlock(&loan_lock);
	if (!set)
		free(watch);
	return set ? watch : NULL;
}

static void loan_watch_free(struct loan_watch *watch)
{
	struct loan_watch **place = &loan_watches;
	if (!watch)
		return;
	(void)pthread_mutex_lock(&loan_lock);
	loan_look_locked();
	if (!watch->gone)
		(void)inotify_rm_watch(loan_inotify, watch->number);
	while (*place != watch)
		place = &(*place)->next;
	*place = watch->next;
	(void)pthread_mutex_unlock(&loan_lock);
	free(watch);
}

/* A kernel, or what is in its place, that never says it would keep all memory charged for ever. */
static bool loan_is_told(void)
{
	struct loan loan = {.give = memfd_create("penstock-watch", MFD_CLOEXEC)};
	loan.watch = loan.give < 0 ? NULL : loan_watch_make(loan.give);
	bool watched = loan.watch;
	loan_end(&loan);
	loan_look();
	bool told = watched && !loan_is_held(&loan);
	loan_deinit(&loan);
	return told;
}

static void loan_set_up(void)
{
	loan_inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (loan_inotify >= 0 && !loan_is_told())
		loan_close(&loan_inotify);
}

void loan_begin(void)
{
	(void)pthread_once(&loan_once, loan_set_up);
}

/* ---- loans ---- */

struct loan loan_make(int memfd, bool writable)
{
	loan_begin();
	struct loan loan = {.give = loan_open(memfd, writable)};
	if (loan.give < 0)
		loan.give = memfd;
	else
		(void)close(memfd);
	loan.watch = loan_watch_make(loan.give);
	return loan;
}

void loan_end(struct loan *loan)
{
	loan_close(&loan->give);
}

bool loan_is_held(const struct loan *loan)
{
	if (!loan->watch)
		return false;
	(void)pthread_mutex_lock(&loan_lock);
	bool held = !loan->watch->gone;
	(void)pthread_mutex_unlock(&loan_lock);
	return held;
}

void loan_deinit(struct loan *loan)
{
	loan_close(&loan->give);
	loan_watch_free(loan->watch);
	loan->watch = NULL;
}

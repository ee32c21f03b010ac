/* quarantine: the file that names broken samples, one per line: source, path, reason, separated by
 * tabs.
 *
 * The event loop takes what is new of a stream, and a thread finds the names and appends the lines,
 * one thread of a stream at a time: an index or a disk that hangs holds up nothing but that, and
 * the memory of the stream when it has ended. At most SERVE_QUARANTINE_LINES lines per stream; a
 * sample is named once as long as it stays in a small table. A file that cannot be written, or has
 * grown to SERVE_QUARANTINE_BYTES over many streams, is said once per stream and costs nothing
 * else. A line that was cut (a full disk, a daemon that was killed) is ended before the next one
 * begins. */
#define LOG_TOPIC LOG_STREAM
#include "serve/serve_impl.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the thread ---- */

/* The cache folder, and those above it: where the indexes lie beside their tars, nobody else has
 * made it. */
static void quarantine_make_folder(const char *folder)
{
	char path[4096];
	(void)snprintf(path, sizeof path, "%s", folder);
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		(void)mkdir(path, 0700);
		*slash = '/';
	}
	(void)mkdir(path, 0700);
}

static int quarantine_descriptor(const char *path, const char *folder)
{
	int const flags = O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	int fd = open(path, flags, 0600);
	if (fd < 0 && errno == ENOENT) {
		quarantine_make_folder(folder);
		fd = open(path, flags, 0600);
	}
	struct stat status;
	if (fd >= 0 && (fstat(fd, &status) || !S_ISREG(status.st_mode) ||
			       status.st_size >= SERVE_QUARANTINE_BYTES)) {
		(void)close(fd);
		errno = EFBIG;
		return -1;
	}
	return fd;
}

/* Whether the last line has no end. */
static bool quarantine_is_cut(int fd)
{
	struct stat status;
	char last;
	return fstat(fd, &status) == 0 && status.st_size > 0 &&
	       pread(fd, &last, 1, status.st_size - 1) == 1 && last != '\n';
}

static bool quarantine_write(int fd, const char *text, size_t size)
{
	while (size) {
		ssize_t n = write(fd, text, size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		text += n;
		size -= (size_t)n;
	}
	return true;
}

static void quarantine_append(struct group *group, const char *text, size_t size)
{
	struct quarantine *q = &group->quarantine;
	const char *folder = group->server->cache_dir;
	char path[4096 + 32];
	(void)snprintf(path, sizeof path, "%s/quarantine.tsv", folder);
	int fd = quarantine_descriptor(path, folder);
	q->failed = fd < 0;
	if (fd < 0) {
		(void)snprintf(q->notice, sizeof q->notice,
			"broken samples are not named in %.400s: %s; `penstock check` lists them",
			path, strerror(errno));
		return;
	}
	bool whole = !quarantine_is_cut(fd) || quarantine_write(fd, "\n", 1);
	whole = whole && quarantine_write(fd, text, size);
	if (close(fd) || !whole)
		(void)snprintf(q->notice, sizeof q->notice,
			"the quarantine file could not be written in full: is the disk of the "
			"cache folder full?");
}

/* Control bytes in names would break the line. */
static void quarantine_print(FILE *lines, const char *text, char end)
{
	for (; *text; text++)
		(void)fputc((unsigned char)*text < ' ' ? '?' : *text, lines);
	(void)fputc(end, lines);
}

static void quarantine_name(struct group *group, const struct stream_broken *broken, FILE *lines)
{
	char path[8192];
	if (concat_path(stream_samples_of(group->stream), broken->sample, path, sizeof path, NULL))
		(void)snprintf(
			path, sizeof path, "sample %llu", (unsigned long long)broken->sample);
	if (group->quarantine.first)
		log_warning("broken sample %s (%s); the others are named in %s/quarantine.tsv",
			path, broken->reason, group->server->cache_dir);
	group->quarantine.first = false;
	quarantine_print(lines, group->spec.source, '\t');
	quarantine_print(lines, path, '\t');
	quarantine_print(lines, broken->reason, '\n');
}

/* malloc'ed; NULL when memory is out. */
static char *quarantine_lines(struct group *group, size_t *ret_size)
{
	char *text = NULL;
	FILE *lines = open_memstream(&text, ret_size);
	if (!lines)
		return NULL;
	for (unsigned i = 0; i < group->quarantine.count; i++)
		quarantine_name(group, &group->quarantine.broken[i], lines);
	return fclose(lines) ? (free(text), NULL) : text;
}

static void *quarantine_main(void *argument)
{
	struct group *group = argument;
	struct server *server = group->server;
	size_t size;
	(void)pthread_setname_np(pthread_self(), "penstock-broken");
	char *text = quarantine_lines(group, &size);
	/* One stream's lines at a time; names may lie on storage that the file does not. */
	pthread_mutex_lock(&server->quarantine_lock);
	if (text)
		quarantine_append(group, text, size);
	else
		(void)snprintf(group->quarantine.notice, sizeof group->quarantine.notice,
			"broken samples of %.400s are not named: no memory; `penstock check` lists "
			"them",
			group->spec.source);
	pthread_mutex_unlock(&server->quarantine_lock);
	free(text);
	/* Afterwards the group may be gone. */
	atomic_store_explicit(&group->quarantine.done, true, memory_order_release);
	server->environment.wake(server->environment.wake_context);
	return NULL;
}

/* ---- the event loop ---- */

static bool quarantine_seen(struct quarantine *q, uint64_t sample)
{
	uint64_t *place = &q->seen[hash_mix(sample) % SERVE_QUARANTINE_SEEN];
	bool seen = *place == sample + 1;
	*place = sample + 1;
	return seen;
}

static bool quarantine_wants(struct quarantine *q, const struct stream_broken *broken)
{
	return !quarantine_seen(q, broken->sample) && q->lines < SERVE_QUARANTINE_LINES;
}

/* What is new, as far as there is room for it. */
static void quarantine_collect(struct group *group)
{
	struct quarantine *q = &group->quarantine;
	unsigned n;
	q->count = 0;
	q->first = q->lines == 0;
	while (q->count < SERVE_QUARANTINE_ROOM &&
		(n = stream_broken_take(
			 group->stream, q->broken + q->count, SERVE_QUARANTINE_ROOM - q->count))) {
		const struct stream_broken *taken = q->broken + q->count;
		for (unsigned i = 0; i < n; i++)
			if (quarantine_wants(q, &taken[i])) {
				q->broken[q->count++] = taken[i];
				q->lines++;
			}
	}
}

static void quarantine_start(struct group *group)
{
	struct quarantine *q = &group->quarantine;
	char text[FAULT_TEXT];
	q->notice[0] = 0;
	q->failed = true;
	atomic_store_explicit(&q->done, false, memory_order_relaxed); /* before the thread is */
	int result = open_task_thread(&q->thread, quarantine_main, group);
	q->running = result == 0;
	if (q->running)
		return;
	q->lines = SERVE_QUARANTINE_LINES;
	(void)snprintf(text, sizeof text,
		"broken samples of %.400s are not named: cannot start a thread: %s; `penstock "
		"check` lists them",
		group->spec.source, strerror(result));
	server_notice(group->server, text);
}

static void quarantine_end(struct group *group)
{
	struct quarantine *q = &group->quarantine;
	pthread_join(q->thread, NULL);
	q->running = false;
	if (q->failed)
		q->lines = SERVE_QUARANTINE_LINES;
	if (q->notice[0])
		server_notice(group->server, q->notice);
}

bool quarantine_take(struct group *group)
{
	struct quarantine *q = &group->quarantine;
	if (!group->stream)
		return false;
	if (q->running && !atomic_load_explicit(&q->done, memory_order_acquire))
		return true;
	if (q->running)
		quarantine_end(group);
	quarantine_collect(group);
	if (q->count)
		quarantine_start(group);
	return q->running;
}

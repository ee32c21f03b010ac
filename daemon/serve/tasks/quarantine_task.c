/* quarantine_task: appends broken samples to the quarantine file, one a line: source, path, reason,
 * separated by tabs.
 *
 * The event loop takes what is new of a stream; a thread finds the names and appends the lines.
 * A stream has one such thread at a time, so an index or a disk that hangs holds up nothing but
 * that, and the memory of the stream once it has ended. A stream writes at most
 * QUARANTINE_TASK_LINES lines, and names a sample once as long as the sample stays in a small
 * table. A file that cannot be written, or has grown to QUARANTINE_TASK_BYTES over many streams,
 * is reported once per stream. A line that was cut (a full disk, a daemon that was killed) is
 * ended before the next one begins. */
#define LOG_TOPIC LOG_STREAM
#include "serve/tasks/tasks.h"

#include "base/hash.h"
#include "base/log.h"
#include "proto/text.h"
#include "serve/session/session.h"
#include "serve/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { QUARANTINE_TASK_LINES = 1000, QUARANTINE_TASK_BYTES = 16 << 20 };

/* ---- the thread ---- */

/* The cache folder and those above it. Where indexes are stored beside their tars, nothing else has
 * made it. */
static void quarantine_task_make_folder(const char *folder)
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

static int quarantine_task_descriptor(const char *path, const char *folder)
{
	int const flags = O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	int fd = open(path, flags, 0600);
	if (fd < 0 && errno == ENOENT) {
		quarantine_task_make_folder(folder);
		fd = open(path, flags, 0600);
	}
	struct stat status;
	if (fd >= 0 && (fstat(fd, &status) || !S_ISREG(status.st_mode) ||
			       status.st_size >= QUARANTINE_TASK_BYTES)) {
		(void)close(fd);
		errno = EFBIG;
		return -1;
	}
	return fd;
}

/* Whether the last line lacks its end. */
static bool quarantine_task_is_cut(int fd)
{
	struct stat status;
	char last;
	return fstat(fd, &status) == 0 && status.st_size > 0 &&
	       pread(fd, &last, 1, status.st_size - 1) == 1 && last != '\n';
}

static bool quarantine_task_write(int fd, const char *text, size_t size)
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

static void quarantine_task_append(struct group *group, const char *text, size_t size)
{
	struct quarantine_task *q = &group->quarantine;
	const char *folder = group->server->cache_dir;
	char path[4096 + 32];
	(void)snprintf(path, sizeof path, "%s/quarantine.tsv", folder);
	int fd = quarantine_task_descriptor(path, folder);
	q->failed = fd < 0;
	if (fd < 0) {
		(void)snprintf(q->notice, sizeof q->notice,
			"broken samples are not named in %.400s: %s; `penstock check` lists them",
			path, strerror(errno));
		return;
	}
	bool whole = !quarantine_task_is_cut(fd) || quarantine_task_write(fd, "\n", 1);
	whole = whole && quarantine_task_write(fd, text, size);
	if (close(fd) || !whole)
		(void)snprintf(q->notice, sizeof q->notice,
			"the quarantine file could not be written in full: is the disk of the "
			"cache folder full?");
}

/* Control bytes in names would break the line. */
static void quarantine_task_print(struct text *lines, const char *text, char end)
{
	for (; *text; text++)
		text_put_bytes(lines, (unsigned char)*text < ' ' ? "?" : text, 1);
	text_put_bytes(lines, &end, 1);
}

static void quarantine_task_name(
	struct group *group, const struct stream_broken *broken, struct text *lines)
{
	char path[8192];
	if (concat_path(stream_samples_of(group->stream), broken->sample, path, sizeof path, NULL))
		(void)snprintf(
			path, sizeof path, "sample %llu", (unsigned long long)broken->sample);
	if (group->quarantine.first)
		log_warning("broken sample %s (%s); the others are named in %s/quarantine.tsv",
			path, broken->reason, group->server->cache_dir);
	group->quarantine.first = false;
	quarantine_task_print(lines, group->spec.source, '\t');
	quarantine_task_print(lines, path, '\t');
	quarantine_task_print(lines, broken->reason, '\n');
}

static void quarantine_task_run(void *argument)
{
	struct group *group = argument;
	struct quarantine_task *q = &group->quarantine;
	struct text lines = {0};
	for (unsigned i = 0; i < q->count; i++)
		quarantine_task_name(group, &q->broken[i], &lines);
	/* Only around the writing: finding the names may wait for other storage. */
	pthread_mutex_lock(&group->server->tasks.quarantine_lock);
	if (lines.failed)
		(void)snprintf(q->notice, sizeof q->notice,
			"broken samples of %.400s are not named: no memory; `penstock check` lists "
			"them",
			group->spec.source);
	else
		quarantine_task_append(group, lines.bytes, lines.size);
	pthread_mutex_unlock(&group->server->tasks.quarantine_lock);
	text_free(&lines);
}

/* ---- the event loop ---- */

static bool quarantine_task_seen(struct quarantine_task *q, uint64_t sample)
{
	uint64_t *place = &q->seen[hash_mix(sample) % QUARANTINE_TASK_SEEN];
	bool seen = *place == sample + 1;
	*place = sample + 1;
	return seen;
}

static bool quarantine_task_wants(struct quarantine_task *q, const struct stream_broken *broken)
{
	return !quarantine_task_seen(q, broken->sample) && q->lines < QUARANTINE_TASK_LINES;
}

/* What is new, as far as there is room for it. */
static void quarantine_task_collect(struct group *group)
{
	struct quarantine_task *q = &group->quarantine;
	unsigned n;
	q->count = 0;
	q->first = q->lines == 0;
	while (q->count < QUARANTINE_TASK_ROOM &&
		(n = stream_broken_take(
			 group->stream, q->broken + q->count, QUARANTINE_TASK_ROOM - q->count))) {
		const struct stream_broken *taken = q->broken + q->count;
		for (unsigned i = 0; i < n; i++)
			if (quarantine_task_wants(q, &taken[i])) {
				q->broken[q->count++] = taken[i];
				q->lines++;
			}
	}
}

static void quarantine_task_start(struct group *group)
{
	struct quarantine_task *q = &group->quarantine;
	char text[FAULT_TEXT];
	q->notice[0] = 0;
	q->failed = true;
	int result = loop_start_task(
		&group->server->loop, &q->task, "penstock-broken", quarantine_task_run, group);
	if (!result)
		return;
	q->lines = QUARANTINE_TASK_LINES;
	(void)snprintf(text, sizeof text,
		"broken samples of %.400s are not named: cannot start a thread: %s; `penstock "
		"check` lists them",
		group->spec.source, strerror(-result));
	recorder_notice(group->server, text);
}

static void quarantine_task_end(struct group *group)
{
	struct quarantine_task *q = &group->quarantine;
	if (q->failed)
		q->lines = QUARANTINE_TASK_LINES;
	if (q->notice[0])
		recorder_notice(group->server, q->notice);
}

bool quarantine_task_take(struct group *group)
{
	struct quarantine_task *q = &group->quarantine;
	if (!group->stream)
		return false;
	if (q->task.running) {
		if (!task_collect(&q->task))
			return true;
		quarantine_task_end(group);
	}
	quarantine_task_collect(group);
	if (q->count)
		quarantine_task_start(group);
	return q->task.running;
}

/* quarantine: the file that names broken samples, one per line: source, path, reason, separated by
 * tabs.
 *
 * Written by the event loop, appended, at most SERVE_QUARANTINE_LINES lines per stream; a sample is
 * named once as long as it stays in a small table. A file that cannot be written, or has grown to
 * SERVE_QUARANTINE_BYTES over many streams, is said once per stream and costs nothing else. A line
 * that was cut (a full disk, a daemon that was killed) is ended before the next one begins. */
#define LOG_TOPIC LOG_STREAM
#include "serve/serve_impl.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool quarantine_seen(struct group *group, uint64_t sample)
{
	uint64_t *place = &group->seen[hash_mix(sample) % SERVE_QUARANTINE_SEEN];
	bool seen = *place == sample + 1;
	*place = sample + 1;
	return seen;
}

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

static FILE *quarantine_open(struct server *server)
{
	char path[4096 + 32];
	(void)snprintf(path, sizeof path, "%s/quarantine.tsv", server->cache_dir);
	int fd = quarantine_descriptor(path, server->cache_dir);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "a");
	if (!file) {
		char text[FAULT_TEXT];
		(void)snprintf(text, sizeof text,
			"broken samples are not named in %.400s: %s; `penstock check` lists them",
			path, strerror(errno));
		server_notice(server, text);
		if (fd >= 0)
			(void)close(fd);
		return NULL;
	}
	if (quarantine_is_cut(fd))
		(void)fputc('\n', file);
	return file;
}

/* Control bytes in names would break the line. */
static void quarantine_print(FILE *file, const char *text)
{
	for (; *text; text++)
		(void)fputc((unsigned char)*text < ' ' ? '?' : *text, file);
}

void quarantine_take(struct group *group)
{
	struct stream_broken broken[16];
	FILE *file = NULL;
	unsigned n;
	while (group->stream &&
		(n = stream_broken_take(group->stream, broken, UTIL_COUNT(broken)))) {
		for (unsigned i = 0; i < n; i++) {
			char path[8192];
			if (quarantine_seen(group, broken[i].sample) ||
				group->quarantine_lines >= SERVE_QUARANTINE_LINES)
				continue;
			if (parts_path(stream_parts(group->stream), broken[i].sample, path,
				    sizeof path, NULL))
				(void)snprintf(path, sizeof path, "sample %llu",
					(unsigned long long)broken[i].sample);
			if (group->quarantine_lines++ == 0)
				log_warning("broken sample %s (%s); the others are named in "
					    "%s/quarantine.tsv",
					path, broken[i].reason, group->server->cache_dir);
			if (!file && !(file = quarantine_open(group->server))) {
				group->quarantine_lines = SERVE_QUARANTINE_LINES;
				return;
			}
			quarantine_print(file, group->spec.source);
			(void)fputc('\t', file);
			quarantine_print(file, path);
			(void)fputc('\t', file);
			quarantine_print(file, broken[i].reason);
			(void)fputc('\n', file);
		}
	}
	if (file && fclose(file))
		server_notice(group->server, "the quarantine file could not be written in full: is "
					     "the disk of the cache folder full?");
}

/* procfile: reads small files of /proc and /sys/fs/cgroup whole, without allocating.
 *
 * A file that is larger than the buffer is cut. Any thread; no state. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROCFILE_ROOM = 16 << 10 }; /* enough for each of the files that the daemon reads */

/* Reads the file `path` below `root` ("" for the machine itself) and adds a zero byte. Returns the
 * file's size, or a negative errno and an empty buffer. */
ssize_t procfile_read(const char *root, const char *path, char *buffer, size_t room);

/* The number after a key at the beginning of a line: "VmRSS:   512 kB", "oom_kill 3". */
bool procfile_value(const char *text, const char *key, uint64_t *ret);

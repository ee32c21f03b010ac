/* procfile: small files of /proc and /sys/fs/cgroup, read whole, without allocating.
 *
 * Any thread; no state. What does not fit into the buffer is cut. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROCFILE_ROOM = 16 << 10 }; /* more than any of the files that are read here has */

/* Reads the file `path` below `root` ("" for the machine itself) and puts a zero behind it. Its
 * bytes, or a negative errno, with the buffer empty. */
ssize_t procfile_read(const char *root, const char *path, char *buffer, size_t room);

/* The number behind a key at the beginning of a line: "VmRSS:   512 kB", "oom_kill 3". */
bool procfile_value(const char *text, const char *key, uint64_t *ret);

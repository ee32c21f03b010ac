/* tarwrite: writes members into a tar that every reader accepts.
 *
 * The format is POSIX ustar ("ustar Interchange Format" of the pax utility in POSIX.1-2017):
 * regular files of mode 0644, owner 0, time 0, so that the same members give the same bytes. A path
 * of more than 100 bytes is split at a slash into prefix and name; if that is impossible, a GNU
 * long name (type L) precedes the header: unlike the path of pax it holds any bytes, UTF-8 or not.
 * Two blocks of zeros end the tar.
 *
 * It collects whole megabytes before it writes. Main thread; blocks. */
#pragma once

#include "base/fault.h"

#include <stddef.h>
#include <stdint.h>

struct tarwrite {
	int fd; /* borrowed */
	const char *path; /* borrowed; for faults */
	uint8_t *buffer;
	size_t used;
	uint64_t size; /* bytes of the tar so far */
};

enum { TARWRITE_END = 1024 }; /* bytes of the end mark */

/* Begins an empty tar in `fd`. 0 or -ENOMEM. */
int tarwrite_init(struct tarwrite *tar, int fd, const char *path, struct fault *fault);
void tarwrite_deinit(struct tarwrite *tar);

/* The bytes that a member takes in the tar. Pure. */
uint64_t tarwrite_member_bytes(const char *name, uint64_t size);

/* Appends a member. 0; -errno with a fault (-ENOSPC, -EDQUOT, -EFBIG: no room). */
int tarwrite_member(struct tarwrite *tar, const char *name, const void *data, uint64_t size,
	struct fault *fault);

/* Writes the rest and the end mark. 0 or as tarwrite_member. */
int tarwrite_end(struct tarwrite *tar, struct fault *fault);

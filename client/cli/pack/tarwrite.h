/* tarwrite: members one after another into a tar that every reader takes.
 *
 * POSIX ustar ("ustar Interchange Format" of the pax utility in POSIX.1-2017): regular files of
 * mode 0644, owner 0, time 0, so that the same members give the same bytes. A path beyond 100 bytes
 * is cut at a slash into prefix and name; where that is not possible, a GNU long name (type L) goes
 * before the header: unlike pax's path it holds any bytes, UTF-8 or not. The end is two blocks of
 * zeros.
 *
 * Bytes are gathered to whole megabytes before they are written. Main thread; blocks. */
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

/* Bytes that a member takes in all. Pure. */
uint64_t tarwrite_member_bytes(const char *name, uint64_t size);

/* Appends a member. 0; -errno with a fault (-ENOSPC, -EDQUOT, -EFBIG: no room). */
int tarwrite_member(struct tarwrite *tar, const char *name, const void *data, uint64_t size,
	struct fault *fault);

/* Writes the end mark and everything gathered. 0 or as tarwrite_member. */
int tarwrite_end(struct tarwrite *tar, struct fault *fault);

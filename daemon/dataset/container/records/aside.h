/* aside: compressed parts of a shard (Zstandard), unpacked into an unlinked file while the shard is
 * indexed, because nothing but their content says where values are. Memory is one piece; the file
 * has the parts of one group of rows at a time. What a part may unpack to is bounded (packed_most),
 * and the build can be stopped meanwhile. Blocks. One thread. */
#pragma once

#include "base/fault.h"
#include "dataset/container/container.h"
#include "dataset/container/window.h"
#include "unpack/unpack.h"

#include <stddef.h>
#include <stdint.h>

struct aside {
	const struct index_job *job; /* borrowed */
	struct blob own; /* not open: nothing was unpacked */
	uint64_t end; /* of what it holds */
	uint64_t told; /* bytes that were unpacked since the last report of progress */
	struct unpack *unpack;
	struct window window;
};

void aside_init(struct aside *aside, const struct index_job *job);
void aside_deinit(struct aside *aside);

/* Forgets what it holds. */
void aside_clear(struct aside *aside);

/* Unpacks `stored` bytes at `offset` of the shard, which are `whole` bytes (UNPACK_UNKNOWN: as many
 * as there are), at most UINT32_MAX and packed_most. They are then at *ret_at of the file. 0;
 * -EINVAL: they are damaged, with a fault that names `what`; -ECANCELED; -ENOMEM; -errno. */
int aside_put(struct aside *aside, uint64_t offset, uint64_t stored, uint64_t whole,
	const char *what, uint64_t *ret_at, uint64_t *ret_size, struct fault *fault);

/* Points *ret to `size` bytes at `at` of the file, which it has, valid until the next call. 0 or as
 * window_get. */
int aside_get(struct aside *aside, uint64_t at, size_t size, const char *what, const uint8_t **ret,
	struct fault *fault);

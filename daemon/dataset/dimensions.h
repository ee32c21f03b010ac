/* dimensions: the width and height of every image of a dataset, read from the images' headers once
 * and kept in a file beside each shard.
 *
 * The file is SHARD.dim beside the shard or in the cache folder, by the same rule as indexes (for a
 * folder always in the cache folder): 72 bytes of head and 8 bytes per sample. Its head ties it to
 * the samples of the index and, for a tar, to the time of its last change; a checksum covers the
 * rest. A file that does not fit or is damaged is made again and replaces the old one, complete or
 * not at all. Where no file can be written, the images are measured at each opening, and a notice
 * says so.
 *
 * Memory: a few tens of kilobytes, and a small stack for each thread that reads headers. Blocks;
 * several threads may call it for the same dataset. */
#pragma once

#include "base/fault.h"
#include "base/progress.h"

#include <stddef.h>
#include <stdint.h>

struct dataset;

/* 0 x 0: the file has no header that can be read. */
struct dimension {
	uint32_t width, height;
};

enum { DIMENSIONS_THREADS = 8 };

struct dimensions_job {
	const struct dataset *dataset;
	/* Measures the image in a part of a file. 0; 1: it has no size that can be found; or the
	 * negative errno of a read. On several threads at once. */
	int (*measure)(
		int fd, uint64_t offset, uint32_t size, uint32_t *ret_width, uint32_t *ret_height);
	/* Receives all samples in order, some at a time. May receive a shard's samples a second
	 * time; then only the second time counts. */
	void (*take)(
		void *context, uint64_t first, const struct dimension *dimension, size_t count);
	void *context;
	progress_fn *progress; /* may be NULL */
	void *progress_context;
};

/* 0; -ECANCELED; -ENOMEM; -EIO and other errors of storage, with a fault that names the sample: a
 * file that cannot be opened or read has no place in the order of the samples. *ret_unreadable is
 * the number of images without a size, and `ret_notice` "" or a sentence that is worth logging. */
int dimensions_walk(const struct dimensions_job *job, uint64_t *ret_unreadable, char *ret_notice,
	size_t room, struct fault *fault);

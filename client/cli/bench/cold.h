/* cold: takes a dataset's files out of the page cache before a run, without being root, and looks
 * whether that worked.
 *
 * What is dirty is written first, then posix_fadvise(DONTNEED) asks the kernel to drop each file:
 * the images or tars, their indexes, the checkpoints kept of them. It is a request: pages that
 * somebody maps or locks stay, and a file system that is memory, or that keeps its pages elsewhere,
 * lets nothing go. So mincore() counts before and after; it tells only who owns a file or may write
 * to it. Files are mapped for that and never touched through the mapping: one that shrinks
 * meanwhile raises no signal. What lies below the page cache (a disk's own memory, a server's) is
 * out of reach. Main thread; blocks on storage. */
#pragma once

#include <stdint.h>

struct dataset;

struct cold {
	uint64_t files, bytes; /* looked at */
	uint64_t cached_before, cached_after; /* bytes of them in the page cache */
};

/* Empties the page cache of the files of `dataset`, which was opened as `source`. CLI_OK; or an
 * exit code after saying why a run would not be cold: more than COLD_REST_PART of the bytes stay,
 * or nobody tells how many. */
int cold_drop(const struct dataset *dataset, const char *source, struct cold *ret);

enum { COLD_REST_PART = 100 }; /* one in a hundred may stay: pages that others use just now */

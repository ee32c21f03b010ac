/* cold: drops a dataset's files from the page cache before a run, without root privileges, and
 * checks that it worked.
 *
 * Dirty pages are written first. Then posix_fadvise(DONTNEED) asks the kernel to drop each file:
 * the images or tar files, their indexes and their entry points. The kernel may refuse: pages
 * that a process maps or locks stay, and a file system that is memory, or that keeps its pages
 * elsewhere, drops nothing. So mincore() counts before and after. It only answers the owner of a
 * file and users who may write to it. It needs a mapping, but never touches the pages, so a file
 * that shrinks meanwhile raises no signal. Caches below the page cache (of a disk or a server)
 * are out of reach. Main thread; blocks on storage. */
#pragma once

#include <stdint.h>

struct dataset;

struct cold {
	uint64_t files, bytes; /* of the dataset */
	uint64_t cached_before, cached_after; /* bytes of them in the page cache */
};

/* Drops the files of `dataset`, which was opened as `source`. CLI_OK; or an exit code after saying
 * why the run would not be cold: more than one byte in COLD_REST_PART stays, or the kernel does not
 * tell how many. */
int cold_drop(const struct dataset *dataset, const char *source, struct cold *ret);

enum { COLD_REST_PART = 100 }; /* a few pages may be in use just now */

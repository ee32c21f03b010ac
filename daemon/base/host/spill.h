/* spill: unlinked temporary files for what a rare sample needs beyond the memory budget.
 *
 * What a sample becomes must not depend on the budget. So what does not fit is written to a file in
 * the cache folder, which has no name and ends with its descriptor. Its pages are in the page
 * cache, which the kernel writes back and reclaims when a cgroup or the machine is short of memory.
 * In a folder that is a tmpfs they would stay in memory.
 *
 * Coefficients and rows go through pread and pwrite: a disk that is full is then an error number,
 * and not a SIGBUS. Two things are mapped, once all their bytes were written with pwrite: a copy of
 * a huge file, of which decoders want one piece of memory, and the buffers of images so wide that
 * not even their rows fit the budget. Only a disk that cannot read back what it has accepted would
 * end the daemon there.
 *
 * Blocks. Any thread; each file belongs to one. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct spill {
	const char *folder; /* made when the first file is needed; outlives the spill */
};

/* Makes a file. Returns a descriptor or -errno. */
int spill_open(const struct spill *spill);

/* A file that can be read in memory: maps its first `bytes` bytes, which were written with pwrite,
 * and at least `slack` readable bytes after them. Syncs it first: pages that could not be written
 * back are an error here, and are not lost later. 0 or -errno. */
int spill_map(int fd, size_t bytes, size_t slack, uint8_t **ret);
void spill_unmap(uint8_t *data, size_t bytes, size_t slack);

/* Memory for `bytes` bytes that the kernel can write to the file `fd` and take back. The file gets
 * its blocks now, so that a full disk is an error here. 0 or -errno. */
int spill_memory(int fd, size_t bytes, uint8_t **ret);

/* Takes the pages of [from, to) out of the process. What they hold stays in the file. `data` was
 * mapped by spill_map; `from` and `to` are offsets in it. */
void spill_drop(const uint8_t *data, size_t from, size_t to);

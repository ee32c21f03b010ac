/* map: sealed memory of the daemon, checked and mapped read-only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map {
	const uint8_t *bytes; /* NULL: not mapped */
	size_t size;
};

/* Checks that the memfd can no longer be shrunk, grown or unsealed and, unless it may be
 * `writable`, no longer be mapped for writing. 0, or -EPROTO with a sentence that calls it
 * `what`. */
int map_check_seals(int fd, bool writable, const char *what);

/* Maps all of `fd`, which must be sealed as map_check_seals says, and exactly `size` bytes long.
 * The descriptor stays the caller's and may be closed. 0, -EPROTO, or -ENOMEM and others of mmap,
 * with a sentence. */
int map_init(struct map *map, int fd, uint64_t size, bool writable);

/* Accepts a zeroed map. */
void map_deinit(struct map *map);

/* Whether any of `bytes` bytes from `at` on is mapped by a stream of this process. Only the first
 * 256 maps that exist at once are known. Thread: any. */
bool map_meets(const void *at, size_t bytes);

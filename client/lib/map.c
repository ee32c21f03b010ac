/* map: see map.h.
 *
 * The seals make it safe to read another process's memory: without F_SEAL_SHRINK a process could
 * truncate the file, and this one would die of SIGBUS in the middle of a training step. So they are
 * checked, not assumed, and checked before the size.
 *
 * All maps are listed, for functions that must not write to one.
 *
 * Thread: that of the stream; map_meets any. */
#include "client/lib/map.h"

#include "client/lib/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* linux/fcntl.h, 5.1 */
#endif

enum { MAP_LISTED = 256 };

/* Without a lock, which a child of fork() could find held for ever. `end` is 0 until `begin` is
 * that of a map. */
static struct {
	atomic_uintptr_t begin, end;
} map_list[MAP_LISTED];

static void map_list_add(const struct map *map)
{
	for (size_t i = 0; i < MAP_LISTED; i++) {
		uintptr_t none = 0, begin = (uintptr_t)map->bytes;
		if (!atomic_compare_exchange_strong(&map_list[i].begin, &none, begin))
			continue;
		atomic_store(&map_list[i].end, begin + map->size);
		return;
	}
}

static void map_list_remove(const struct map *map)
{
	for (size_t i = 0; i < MAP_LISTED; i++) {
		if (atomic_load(&map_list[i].begin) != (uintptr_t)map->bytes)
			continue;
		atomic_store(&map_list[i].end, 0);
		atomic_store(&map_list[i].begin, 0);
		return;
	}
}

bool map_meets(const void *at, size_t bytes)
{
	for (size_t i = 0; i < MAP_LISTED; i++) {
		uintptr_t begin = atomic_load(&map_list[i].begin);
		uintptr_t end = atomic_load(&map_list[i].end);
		if (end && (uintptr_t)at < end && begin < (uintptr_t)at + bytes)
			return true;
	}
	return false;
}

int map_check_seals(int fd, bool writable, const char *what)
{
	const int fixed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0)
		return error_set(
			-EPROTO, "the daemon sent %s as a descriptor that is not a memfd", what);
	bool closed = writable || seals & (F_SEAL_FUTURE_WRITE | F_SEAL_WRITE);
	if ((seals & fixed) != fixed || !closed)
		return error_set(-EPROTO,
			"the daemon sent %s without its seals (has %#x; shrink, grow, future-write "
			"and seal are required): the daemon is broken or not penstockd",
			what, (unsigned)seals);
	return 0;
}

int map_init(struct map *map, int fd, uint64_t size, bool writable)
{
	struct stat status;
	int result = map_check_seals(fd, writable, "an extent");
	if (result < 0)
		return result;
	if (fstat(fd, &status) < 0)
		return error_set(
			-errno, "the size of an extent cannot be read: %s", strerror(errno));
	if (status.st_size < 0 || (uint64_t)status.st_size != size || size == 0 || size > SIZE_MAX)
		return error_set(-EPROTO,
			"the daemon announced an extent of %llu bytes and sent one of %lld",
			(unsigned long long)size, (long long)status.st_size);
	void *bytes = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED)
		return error_set(-errno,
			"%llu bytes of the daemon's memory cannot be mapped: %s (does a limit on "
			"address space apply, `ulimit -v`?)",
			(unsigned long long)size, strerror(errno));
	*map = (struct map){.bytes = bytes, .size = (size_t)size};
	map_list_add(map);
	return 0;
}

void map_deinit(struct map *map)
{
	if (map->bytes) {
		map_list_remove(map);
		(void)munmap((void *)(uintptr_t)map->bytes, map->size);
	}
	*map = (struct map){0};
}

/* spill: see spill.h. */
#include "base/host/spill.h"

#include "base/store.h"
#include "base/util.h"
#include "base/whole.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SPILL_PAGE = 4096, SPILL_PIECE = 64 << 10 };

int spill_open(const struct spill *spill)
{
	int result = store_folder_make(spill->folder);
	return result ? result : store_unlinked(spill->folder);
}

int spill_map(int fd, size_t bytes, size_t slack, uint8_t **ret)
{
	static const uint8_t zeros[SPILL_PIECE];
	/* Not ftruncate: in a tmpfs that is full, reading a hole is a SIGBUS. */
	for (size_t at = 0; at < slack; at += sizeof zeros) {
		int result = whole_write(
			fd, zeros, UTIL_MIN(slack - at, sizeof zeros), (uint64_t)bytes + at);
		if (result)
			return result;
	}
	if (fdatasync(fd))
		return -errno;
	void *data = mmap(NULL, bytes + slack, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return -errno;
	*ret = data;
	return 0;
}

void spill_unmap(uint8_t *data, size_t bytes, size_t slack)
{
	(void)munmap(data, bytes + slack);
}

int spill_memory(int fd, size_t bytes, uint8_t **ret)
{
	static const uint8_t zeros[SPILL_PIECE];
	for (size_t at = 0; at < bytes; at += SPILL_PIECE) {
		int result = whole_write(fd, zeros, UTIL_MIN(bytes - at, sizeof zeros), at);
		if (result)
			return result;
	}
	void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (data == MAP_FAILED)
		return -errno;
	*ret = data;
	return 0;
}

void spill_drop(const uint8_t *data, size_t from, size_t to)
{
	from = util_align(from, SPILL_PAGE);
	to -= to % SPILL_PAGE;
	if (from < to)
		(void)madvise((void *)(uintptr_t)(data + from), to - from, MADV_DONTNEED);
}

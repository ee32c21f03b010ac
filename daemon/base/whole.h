/* whole: reads and writes that continue after a short answer and after EINTR. Any thread;
 * blocks. */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

/* Reads `size` bytes at `offset`; fewer only at the end of the file. Returns how many, or
 * -errno. */
static inline ssize_t whole_read(int fd, void *buffer, size_t size, uint64_t offset)
{
	size_t done = 0;
	while (done < size) {
		ssize_t n =
			pread(fd, (uint8_t *)buffer + done, size - done, (off_t)(offset + done));
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			break;
		done += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)done;
}

/* Writes `size` bytes at `offset`. 0 or -errno. */
static inline int whole_write(int fd, const void *data, size_t size, uint64_t offset)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = pwrite(
			fd, (const uint8_t *)data + done, size - done, (off_t)(offset + done));
		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

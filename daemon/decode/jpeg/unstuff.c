/* unstuff: see unstuff.h. The plain C form, and what all forms share. */
#include "decode/jpeg/unstuff.h"

#include <string.h>

size_t unstuff_c(uint8_t *to, const uint8_t *from, size_t size, size_t *ret_written)
{
	size_t at = 0, written = 0;
	while (at < size) {
		const uint8_t *ff = memchr(from + at, 0xff, size - at);
		size_t run = (ff ? (size_t)(ff - from) : size) - at;
		memcpy(to + written, from + at, run);
		written += run;
		at += run;
		if (!ff || at + 1 == size || from[at + 1] != 0)
			break;
		to[written++] = 0xff;
		at += 2;
	}
	*ret_written = written;
	return at;
}

int unstuff_scan(unstuff_fn *unstuff, uint8_t *to, const uint8_t *from, size_t size,
	struct unstuff_segment *segments, size_t capacity, struct unstuff_found *ret)
{
	enum { RST0 = 0xd0, RST7 = 0xd7 };
	struct unstuff_found found = {0};
	int reason = 0;
	if (size > UINT32_MAX)
		return STEPBACK_SIZE;
	while (found.segments < capacity) {
		size_t written;
		found.end +=
			unstuff(to + found.bytes, from + found.end, size - found.end, &written);
		segments[found.segments++] =
			(struct unstuff_segment){(uint32_t)found.bytes, (uint32_t)written};
		found.bytes += written;
		unsigned marker = size - found.end < 2 ? 0 : from[found.end + 1];
		if (marker < RST0 || marker > RST7 || found.segments == capacity)
			break;
		if (marker != RST0 + (found.segments - 1) % 8) {
			reason = STEPBACK_RESTART;
			break;
		}
		found.end += 2;
	}
	*ret = found;
	return reason;
}

uint64_t unstuff_origin(struct unstuff_origin *origin, uint64_t offset)
{
	while (origin->at < origin->size && origin->at - origin->dropped < offset) {
		uint64_t wanted = offset + origin->dropped - origin->at;
		size_t left = origin->size - origin->at;
		size_t reach = wanted < left ? (size_t)wanted : left;
		const uint8_t *ff = memchr(origin->from + origin->at, 0xff, reach);
		if (!ff) {
			origin->at += reach;
			continue;
		}
		origin->at = (size_t)(ff - origin->from) + 2;
		origin->dropped++;
	}
	return offset + origin->dropped;
}

/* unstuff: removes the stuffing (the zero after each FF) from entropy-coded bytes, up to a marker.
 *
 * Reading bits then needs no look at single bytes. Restart markers are found on the way: the bytes
 * between two of them are a segment, which is entered at its first bit with predictions of 0. A
 * stretch of bytes may also begin and end at entry points, anywhere in the scan.
 *
 * There is one function per instruction set, chosen by lanes_choose; all give the same bytes. Pure;
 * any thread. */
#pragma once

#include "decode/stepback.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	/* Bytes after both buffers: readable after the source's end (their values do not matter),
	 * writable after the output. */
	UNSTUFF_SLACK = 64,
};

/* Copies up to `size` bytes, ending before the first marker: an FF that is the last byte or is
 * followed by something other than 00. Writes at most `size` bytes, and may overwrite UNSTUFF_SLACK
 * bytes after them. Returns how many source bytes were read; *ret_written: how many were written.
 */
typedef size_t unstuff_fn(uint8_t *to, const uint8_t *from, size_t size, size_t *ret_written);

unstuff_fn unstuff_c;
#ifdef __x86_64__
unstuff_fn unstuff_avx2, unstuff_avx512;
#endif

struct unstuff_segment {
	uint32_t start, bytes; /* in the output */
};

struct unstuff_found {
	size_t segments, bytes; /* written */
	size_t end; /* offset in the source of the marker that ended it, or `size` */
};

/* Unstuffs a scan from its first byte: `segments` segments with restart markers in order between
 * them, or fewer where another marker follows. 0; STEPBACK_RESTART for a restart marker out of
 * order (the segments before it were found); STEPBACK_SIZE beyond 4 GiB. */
int unstuff_scan(unstuff_fn *unstuff, uint8_t *to, const uint8_t *from, size_t size,
	struct unstuff_segment *segments, size_t capacity, struct unstuff_found *ret);

/* Whether the end marker is at this offset of the source. A file that gets entry points must have
 * it where the scan ended: libjpeg goes on reading after any other marker. */
static inline bool unstuff_is_end(const uint8_t *from, size_t size, size_t at)
{
	enum { EOI = 0xd9 };
	return at < size && size - at >= 2 && from[at] == 0xff && from[at + 1] == EOI;
}

/* Whether a complete marker is at this offset of the source, where unstuffing stopped. If the file
 * ends there instead, libjpeg suspends before the last block, because it looks further ahead than
 * it needs; any marker prevents that. */
static inline bool unstuff_is_marker(const uint8_t *from, size_t size, size_t at)
{
	return at < size && size - at >= 2 && from[at + 1] != 0xff;
}

/* Finds bytes of the output in the source. Zeroed at first, except for from and size. */
struct unstuff_origin {
	const uint8_t *from;
	size_t size;
	size_t at, dropped; /* source bytes seen so far, and the zeros left out among them */
};

/* The offset in the source of the byte at `offset` of the output. Call with ascending offsets. */
uint64_t unstuff_origin(struct unstuff_origin *origin, uint64_t offset);

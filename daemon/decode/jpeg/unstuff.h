/* unstuff: entropy-coded bytes without their stuffing (the zero behind each FF), up to a marker.
 *
 * Reading bits then needs no look at single bytes. Restart markers are found on the way: what lies
 * between two of them is a segment, entered at its first bit with predictions of 0. A stretch may
 * also begin and end at checkpoints, in the middle of everything.
 *
 * One table entry per instruction set, chosen by lanes_choose; all give the same bytes. Pure; any
 * thread. */
#pragma once

#include "decode/stepback.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	UNSTUFF_SLACK = 64, /* bytes behind both buffers: readable behind the source's end (their
			       values do not matter), writable behind what was written */
};

/* Copies up to `size` bytes, ending before the first marker: an FF with something other than 00
 * behind it, or as the last byte. Writes at most `size` bytes, and scribbles up to UNSTUFF_SLACK
 * behind what it wrote. Returns how many source bytes were read; *ret_written: how many came out.
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

/* Unstuffs a scan from its first byte: `segments` segments with restart markers in their order
 * between them, or fewer where something else comes. 0; STEPBACK_RESTART for a restart marker out
 * of turn (those before it were found); STEPBACK_SIZE beyond 4 GiB. */
int unstuff_scan(unstuff_fn *unstuff, uint8_t *to, const uint8_t *from, size_t size,
	struct unstuff_segment *segments, size_t capacity, struct unstuff_found *ret);

/* Whether the end marker stands at an offset of the source. A file that is judged whole must have
 * it where the scan ended: libjpeg goes on reading behind anything else. */
static inline bool unstuff_is_end(const uint8_t *from, size_t size, size_t at)
{
	enum { EOI = 0xd9 };
	return at < size && size - at >= 2 && from[at] == 0xff && from[at + 1] == EOI;
}

/* Whether a marker, whole, stands at an offset of the source where unstuffing stopped. Where the
 * file ends instead, libjpeg suspends before the last block, because it looks further ahead than it
 * needs; whatever marker there is would do for it. */
static inline bool unstuff_is_marker(const uint8_t *from, size_t size, size_t at)
{
	return at < size && size - at >= 2 && from[at + 1] != 0xff;
}

/* Where bytes of the output lie in the source; zeroed but for from and size at first. */
struct unstuff_origin {
	const uint8_t *from;
	size_t size;
	size_t at, dropped; /* source bytes looked at, zeros left out among them */
};

/* The offset in the source of the byte at `offset` of the output. Offsets are asked for in
 * ascending order. */
uint64_t unstuff_origin(struct unstuff_origin *origin, uint64_t offset);

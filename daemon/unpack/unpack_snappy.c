/* unpack_snappy: a raw Snappy block (snappy's format_description.txt), piece by piece. libsnappy is
 * C++, and it unpacks whole blocks only.
 *
 * A block is the number of its bytes and then elements: literals, and copies of what was unpacked
 * before. The format allows a copy to reach back over the whole block. All known compressors work
 * on pieces of 64 KiB (kBlockSize in snappy.cc, in the Go, Rust and Java ports too), so no copy
 * reaches back further; one that does is refused. The window is HISTORY bytes that were unpacked
 * before, and up to AHEAD bytes after them.
 *
 * Points are places between elements from which unpacking can begin with an empty window. The
 * first place after each 64 KiB is one until a copy after it reaches back over it. That copy then
 * reaches back over all later ones, too, and leaves those alone that are further back than copies
 * can reach, so that the latest few are a stack. The block's first element is always a point. */
#include "unpack/unpack_method.h"

#include "base/util.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
	HISTORY = 64 << 10,
	AHEAD = 64 << 10,
	SLACK = 16, /* copies of up to this many bytes write this many */
	PREAMBLE_MOST = 5, /* bytes of a varint of 32 bits */
	LITERAL_SHORT = 60, /* lengths below are in the tag */
	POINT_STEP = 64 << 10,
	/* Two that a copy can reach, one that it cannot, one that a caller's sample begins
	 * before. */
	POINTS = 6,
};

struct snappy_point {
	uint64_t total; /* bytes unpacked before it */
	uint64_t from; /* stored bytes before it */
};

struct snappy_points {
	unsigned count; /* in ascending order; the first is the block's first element */
	struct snappy_point at[POINTS];
};

struct snappy {
	uint64_t left; /* bytes of the block whose elements were not read */
	uint64_t total; /* bytes unpacked */
	uint32_t literal; /* bytes still to be copied of the element that was read last */
	uint32_t copy, distance; /* the same for a copy */
	size_t filled, taken; /* of the window */
	uint64_t point_next; /* value of `total` from which on there is another point */
	struct snappy_points points;
	struct snappy_points sample; /* those before the caller's sample */
	uint8_t window[HISTORY + AHEAD + SLACK];
};

/* Takes one byte of the input. */
static int snappy_byte(struct unpack *unpack, uint8_t *ret, struct fault *fault)
{
	const uint8_t *input;
	size_t size;
	int rc = unpack_input(unpack, &input, &size, fault);
	if (rc < 0)
		return rc;
	if (!size)
		return unpack_cut(unpack, fault);
	*ret = input[0];
	unpack_consume(unpack, 1);
	return 0;
}

/* Takes a number of `size` bytes. */
static int snappy_number(struct unpack *unpack, size_t size, uint32_t *ret, struct fault *fault)
{
	uint8_t byte = 0;
	*ret = 0;
	for (size_t i = 0; i < size; i++) {
		int rc = snappy_byte(unpack, &byte, fault);
		if (rc < 0)
			return rc;
		*ret |= (uint32_t)byte << 8 * i;
	}
	return 0;
}

/* The number of bytes in front of the elements. */
static int snappy_preamble(struct unpack *unpack, uint64_t *ret, struct fault *fault)
{
	uint64_t value = 0;
	uint8_t byte = 0x80;
	for (unsigned i = 0; i < PREAMBLE_MOST && byte & 0x80; i++) {
		int rc = snappy_byte(unpack, &byte, fault);
		if (rc < 0)
			return rc;
		value |= (uint64_t)(byte & 0x7f) << 7 * i;
	}
	if (byte & 0x80 || value > UINT32_MAX)
		return unpack_damaged(unpack, "its length has more than 32 bits", fault);
	*ret = value;
	return 0;
}

static struct snappy *snappy_state(struct unpack *unpack)
{
	struct snappy *own = unpack_state(unpack, sizeof *own);
	if (!own)
		return NULL;
	own->total = own->left = 0;
	own->literal = own->copy = own->distance = 0;
	own->filled = own->taken = 0;
	own->point_next = 0;
	own->points.count = own->sample.count = 0;
	return own;
}

static int snappy_begin(struct unpack *unpack, struct fault *fault)
{
	struct snappy *own = snappy_state(unpack);
	if (!own)
		return unpack_no_memory(unpack, fault);
	int rc = snappy_preamble(unpack, &own->left, fault);
	if (rc == 0 && unpack->whole == UNPACK_UNKNOWN)
		unpack->whole = unpack->end = own->left;
	if (rc < 0 || own->left == unpack->whole)
		return rc;
	if (own->left > unpack->whole)
		return unpack_too_long(unpack, fault);
	return unpack_damaged(
		unpack, "it says that it has fewer bytes than its container says", fault);
}

static int snappy_part_begin(struct unpack *unpack, struct fault *fault)
{
	struct snappy *own = snappy_state(unpack);
	if (!own)
		return unpack_no_memory(unpack, fault);
	own->left = unpack->whole;
	return 0;
}

/* ---- points ---- */

static void point_add(const struct unpack *unpack, struct snappy *own)
{
	struct snappy_points *points = &own->points;
	if (points->count == POINTS) {
		points->count--;
		memmove(points->at + 1, points->at + 2, (POINTS - 2) * sizeof points->at[0]);
	}
	points->at[points->count++] =
		(struct snappy_point){own->total, unpack->at - unpack->input_size};
	own->point_next = (own->total / POINT_STEP + 1) * POINT_STEP;
}

/* A copy refers to byte `from`. */
static void points_drop(struct snappy_points *points, uint64_t from)
{
	while (points->count > 1 && points->at[points->count - 1].total > from)
		points->count--;
}

static void snappy_sample_begin(struct unpack *unpack, uint64_t at)
{
	struct snappy *own = unpack->state[unpack->packed.method];
	own->sample = own->points;
	points_drop(&own->sample, at);
}

static bool snappy_sample_end(const struct unpack *unpack, uint64_t at, uint32_t size,
	uint64_t *ret_from, struct packed *ret)
{
	const struct snappy *own = unpack->state[unpack->packed.method];
	const struct snappy_points *points = &own->sample;
	const uint64_t to = unpack->at - unpack->input_size;
	if (!points->count)
		return false;
	const struct snappy_point *point = &points->at[points->count - 1];
	assert(at >= point->total && unpack->made >= at + size);
	if (to - point->from > UINT32_MAX || at - point->total + size > UINT32_MAX)
		return false;
	*ret_from = point->from;
	*ret = (struct packed){.stored = (uint32_t)(to - point->from),
		.inner = (uint32_t)(at - point->total),
		.whole = (uint32_t)(at - point->total) + size,
		.method = PACKED_SNAPPY_PART};
	return true;
}

/* ---- elements ---- */

/* Makes room in a window that is full: what copies can still refer to stays. */
static void snappy_slide(struct snappy *own)
{
	if (own->filled < HISTORY + AHEAD)
		return;
	memmove(own->window, own->window + own->filled - HISTORY, HISTORY);
	own->filled = own->taken = HISTORY;
}

static int snappy_literal(
	struct unpack *unpack, struct snappy *own, size_t end, struct fault *fault)
{
	const uint8_t *input;
	size_t size;
	int rc = unpack_input(unpack, &input, &size, fault);
	if (rc < 0)
		return rc;
	if (!size)
		return unpack_cut(unpack, fault);
	size = UTIL_MIN(size, UTIL_MIN((size_t)own->literal, end - own->filled));
	memcpy(own->window + own->filled, input, size);
	unpack_consume(unpack, size);
	own->filled += size;
	own->total += size;
	own->literal -= (uint32_t)size;
	return 0;
}

/* Copies what was unpacked `distance` bytes before; both may overlap. */
static void snappy_copy(struct snappy *own, size_t end)
{
	uint8_t *to = own->window + own->filled;
	const uint8_t *from = to - own->distance;
	size_t size = UTIL_MIN((size_t)own->copy, end - own->filled);
	if (own->distance >= SLACK && size <= SLACK)
		memcpy(to, from, SLACK);
	else if (own->distance >= size)
		memcpy(to, from, size);
	else
		for (size_t i = 0; i < size; i++)
			to[i] = from[i];
	own->filled += size;
	own->total += size;
	own->copy -= (uint32_t)size;
}

/* Reads the length of a literal. */
static int snappy_long(
	struct unpack *unpack, uint8_t tag, uint64_t *ret_length, struct fault *fault)
{
	uint32_t number = tag >> 2;
	int rc = 0;
	if (number >= LITERAL_SHORT)
		rc = snappy_number(unpack, number - LITERAL_SHORT + 1, &number, fault);
	*ret_length = (uint64_t)number + 1;
	return rc;
}

/* Reads the length of a copy and how far back it begins. */
static int snappy_back(struct unpack *unpack, struct snappy *own, uint8_t tag, uint64_t *ret_length,
	struct fault *fault)
{
	static const uint8_t sizes[] = {0, 1, 2, 4};
	const unsigned kind = tag & 3;
	uint32_t distance = 0;
	int rc = snappy_number(unpack, sizes[kind], &distance, fault);
	if (rc < 0)
		return rc;
	*ret_length = kind == 1 ? (tag >> 2 & 7u) + 4 : (tag >> 2) + 1u;
	if (kind == 1)
		distance |= (uint32_t)(tag >> 5) << 8;
	if (!distance || distance > own->total)
		return unpack_damaged(unpack, "a copy begins before its first byte", fault);
	if (distance > HISTORY)
		return unpack_damaged(unpack,
			"a copy begins more than 64 KiB back, as no known writer has it", fault);
	own->distance = distance;
	points_drop(&own->points, own->total - distance);
	points_drop(&own->sample, own->total - distance);
	return 0;
}

/* Reads the next element's tag and numbers. */
static int snappy_element(struct unpack *unpack, struct snappy *own, struct fault *fault)
{
	uint64_t length = 0;
	uint8_t tag = 0;
	const bool part = unpack->packed.method == PACKED_SNAPPY_PART;
	if (own->total >= own->point_next)
		point_add(unpack, own);
	int rc = snappy_byte(unpack, &tag, fault);
	if (rc == 0)
		rc = tag & 3 ? snappy_back(unpack, own, tag, &length, fault)
			     : snappy_long(unpack, tag, &length, fault);
	if (rc < 0)
		return rc;
	if (length > own->left && !part)
		return unpack_too_long(unpack, fault);
	length = UTIL_MIN(length, own->left);
	own->left -= length;
	if (tag & 3)
		own->copy = (uint32_t)length;
	else
		own->literal = (uint32_t)length;
	return 0;
}

/* Unpacks until the window is filled up to `end` or the block has ended. */
static int snappy_fill(struct unpack *unpack, struct snappy *own, size_t end, struct fault *fault)
{
	int rc = 0;
	while (rc == 0 && own->filled < end) {
		if (own->literal)
			rc = snappy_literal(unpack, own, end, fault);
		else if (own->copy)
			snappy_copy(own, end);
		else if (own->left)
			rc = snappy_element(unpack, own, fault);
		else
			break;
	}
	return rc;
}

/* Nothing may follow the last element. */
static int snappy_end(struct unpack *unpack, struct fault *fault)
{
	const uint8_t *input;
	size_t size;
	int rc = unpack_input(unpack, &input, &size, fault);
	if (rc == 0 && size)
		rc = unpack_too_long(unpack, fault);
	return rc;
}

static int snappy_make(
	struct unpack *unpack, uint8_t *out, size_t room, size_t *ret_made, struct fault *fault)
{
	struct snappy *own = unpack->state[unpack->packed.method];
	if (own->taken == own->filled) {
		snappy_slide(own);
		int rc = snappy_fill(unpack, own,
			own->filled + UTIL_MIN(room, HISTORY + AHEAD - own->filled), fault);
		if (rc < 0)
			return rc;
	}
	const size_t made = UTIL_MIN(room, own->filled - own->taken);
	memcpy(out, own->window + own->taken, made);
	own->taken += made;
	*ret_made = made;
	const bool ends = !made && unpack->packed.method == PACKED_SNAPPY;
	return ends ? snappy_end(unpack, fault) : 0;
}

static const char *snappy_library(void)
{
	return "";
}

const struct unpack_method unpack_snappy = {
	.name = "Snappy",
	.library = snappy_library,
	.begin = snappy_begin,
	.make = snappy_make,
	.part_begin = snappy_sample_begin,
	.part_end = snappy_sample_end,
	.unmake = free,
};

const struct unpack_method unpack_snappy_part = {
	.name = "Snappy",
	.library = snappy_library,
	.begin = snappy_part_begin,
	.make = snappy_make,
	.unmake = free,
};

/* measure: see measure.h. */
#include "decode/measure.h"

#include "base/util.h"
#include "base/whole.h"
#include "decode/sniff.h"

#include <stdbool.h>
#include <string.h>

enum {
	MARKER_SOF0 = 0xc0,
	MARKER_DHT = 0xc4,
	MARKER_JPG = 0xc8,
	MARKER_DAC = 0xcc,
	MARKER_RST0 = 0xd0,
	MARKER_EOI = 0xd9,
	MARKER_SOS = 0xda,
	MARKER_DHP = 0xde,
	MARKER_JPG0 = 0xf0,
	MARKER_JPG13 = 0xfd,
	FRAME_BYTES = 6, /* of a frame header, up to its components */
	PNG_BYTES = 24, /* of a PNG, up to the height */
};

/* A piece of the image, and where it begins. */
struct window {
	int fd;
	uint64_t offset; /* of the image in its file */
	uint64_t size; /* of the image */
	uint64_t at;
	size_t filled;
	unsigned reads;
	int error; /* of a read */
	uint8_t bytes[MEASURE_PIECE];
};

/* Makes `count` bytes from `at` on available; NULL where the image ends before, a read fails or
 * there have been too many. */
static const uint8_t *window_bytes(struct window *w, uint64_t at, size_t count)
{
	if (at > w->size || count > w->size - at)
		return NULL;
	if (at >= w->at && at + count <= w->at + w->filled)
		return w->bytes + (at - w->at);
	if (w->reads++ == MEASURE_READS)
		return NULL;
	w->at = at;
	w->filled = 0;
	ssize_t n = whole_read(
		w->fd, w->bytes, (size_t)UTIL_MIN(w->size - at, sizeof w->bytes), w->offset + at);
	if (n < 0)
		w->error = (int)n;
	else
		w->filled = (size_t)n;
	return w->filled >= count ? w->bytes : NULL;
}

static uint32_t be16(const uint8_t *p)
{
	return (uint32_t)p[0] << 8 | p[1];
}

static uint32_t be32(const uint8_t *p)
{
	return be16(p) << 16 | be16(p + 2);
}

/* The code of the next marker at or after *at; -1: there is none. */
static int next_marker(struct window *w, uint64_t *at)
{
	const uint8_t *p;
	bool fill = false;
	for (; (p = window_bytes(w, *at, 1)); ++*at) {
		if (fill && *p && *p != 0xff) {
			++*at;
			return *p;
		}
		fill = *p == 0xff;
	}
	return -1;
}

static bool has_payload(int marker)
{
	return marker != MARKER_JPG && !(marker >= MARKER_RST0 && marker <= MARKER_EOI) &&
	       !(marker >= MARKER_JPG0 && marker <= MARKER_JPG13);
}

static bool is_frame(int marker)
{
	return (marker >= MARKER_SOF0 && marker < MARKER_RST0 && marker != MARKER_DHT &&
		       marker != MARKER_JPG && marker != MARKER_DAC) ||
	       marker == MARKER_DHP;
}

/* Reads the segment at *at, and steps behind it. */
static bool read_segment(
	struct window *w, int marker, uint64_t *at, uint32_t *ret_width, uint32_t *ret_height)
{
	const uint8_t *p = window_bytes(w, *at, 2);
	if (!p)
		return false;
	uint32_t length = UTIL_MAX(be16(p), 2u);
	if (is_frame(marker)) {
		p = length >= 2 + FRAME_BYTES ? window_bytes(w, *at + 2, FRAME_BYTES) : NULL;
		if (!p)
			return false;
		*ret_height = be16(p + 1);
		*ret_width = be16(p + 3);
	}
	*at += length;
	return true;
}

static bool measure_jpeg(struct window *w, uint32_t *ret_width, uint32_t *ret_height)
{
	uint64_t at = 2; /* the third byte, FF, begins the first marker */
	for (;;) {
		int marker = next_marker(w, &at);
		if (marker < MARKER_SOF0)
			return false;
		if (marker == MARKER_SOS)
			return true;
		if (has_payload(marker) && !read_segment(w, marker, &at, ret_width, ret_height))
			return false;
	}
}

static bool measure_png(struct window *w, uint32_t *ret_width, uint32_t *ret_height)
{
	const uint8_t *p = window_bytes(w, 0, PNG_BYTES);
	if (!p || memcmp(p + 12, "IHDR", 4) != 0)
		return false;
	*ret_width = be32(p + 16);
	*ret_height = be32(p + 20);
	return true;
}

int measure_image(int fd, uint64_t offset, uint32_t size, uint32_t *ret_width, uint32_t *ret_height)
{
	struct window w = {.fd = fd, .offset = offset, .size = size};
	uint32_t width = 0, height = 0;
	const size_t head = UTIL_MIN(size, (uint32_t)PNG_BYTES);
	const uint8_t *p = window_bytes(&w, 0, head);
	bool found = false;
	if (p && sniff_jpeg(p, head))
		found = measure_jpeg(&w, &width, &height);
	else if (p && sniff_png(p, head))
		found = measure_png(&w, &width, &height);
	if (w.error)
		return w.error;
	if (!found || !width || !height)
		return 1;
	*ret_width = width;
	*ret_height = height;
	return 0;
}

/* unpack_pixels: pixels that are stored without a header, as a PGM or PPM file, which every reader
 * of PNM files reads. The header always has PACKED_HEADER bytes. */
#include "unpack/unpack_method.h"

#include "base/util.h"

#include <stdlib.h>
#include <string.h>

enum { PLANES_MOST = 3, PLANES_PIXELS = 16 << 10 };

static int pixels_begin(struct unpack *unpack, struct fault *fault)
{
	(void)unpack, (void)fault;
	return 0;
}

/* Copies what there is of the header from byte `made` on. */
static size_t header_copy(const struct unpack *unpack, uint8_t *out, size_t room)
{
	const struct packed *packed = &unpack->packed;
	char text[PACKED_HEADER + 1];
	size_t size = UTIL_MIN(room, PACKED_HEADER - (size_t)unpack->made);
	(void)snprintf(text, sizeof text, "P%c %5u %5u  255\n", packed->channels == 1 ? '5' : '6',
		(unsigned)packed->width, (unsigned)packed->height);
	memcpy(out, text + unpack->made, size);
	return size;
}

static int pixels_make(
	struct unpack *unpack, uint8_t *out, size_t room, size_t *ret_made, struct fault *fault)
{
	if (unpack->made >= PACKED_HEADER)
		return unpack_plain.make(unpack, out, room, ret_made, fault);
	*ret_made = header_copy(unpack, out, room);
	return 0;
}

/* Channels are stored one after the other: reads the same range of each plane. */
struct planes {
	uint8_t plane[PLANES_MOST][PLANES_PIXELS];
};

static int planes_begin(struct unpack *unpack, struct fault *fault)
{
	return unpack_state(unpack, sizeof(struct planes)) ? 0 : unpack_no_memory(unpack, fault);
}

static int planes_make(
	struct unpack *unpack, uint8_t *out, size_t room, size_t *ret_made, struct fault *fault)
{
	if (unpack->made < PACKED_HEADER) {
		*ret_made = header_copy(unpack, out, room);
		return 0;
	}
	struct planes *own = unpack->state[unpack->packed.method];
	const size_t channels = unpack->packed.channels;
	const uint64_t each = unpack->stored / channels, at = unpack->made - PACKED_HEADER;
	/* A caller may have taken some of a pixel's channels only. */
	const uint64_t first = at / channels;
	const size_t skip = (size_t)(at % channels);
	const size_t pixels = (size_t)UTIL_MIN((uint64_t)PLANES_PIXELS, each - first);
	const size_t wanted = UTIL_MIN(pixels, (room + skip + channels - 1) / channels);
	for (size_t i = 0; i < channels; i++) {
		int rc = unpack_source_read(unpack, i * each + first, own->plane[i], wanted, fault);
		if (rc < 0)
			return rc;
	}
	const size_t made = UTIL_MIN(room, wanted * channels - UTIL_MIN(skip, wanted * channels));
	for (size_t i = 0; i < made; i++)
		out[i] = own->plane[(i + skip) % channels][(i + skip) / channels];
	*ret_made = made;
	return 0;
}

static const char *pixels_library(void)
{
	return "";
}

const struct unpack_method unpack_pixels = {
	.name = "pixels",
	.library = pixels_library,
	.begin = pixels_begin,
	.make = pixels_make,
	.unmake = free,
};

const struct unpack_method unpack_planes = {
	.name = "planes of pixels",
	.library = pixels_library,
	.begin = planes_begin,
	.make = planes_make,
	.unmake = free,
};

/* resize: Pillow's Image.resize of an image in memory, or of a part of it.
 *
 * For images whose size the operations before it decide, so that the result may be larger than any
 * window that a sink was made for. It is made tile by tile: a tile's pixels do not depend on the
 * others, since the whole source decides all weights and the order of the passes. Belongs to the
 * sink's thread. */
#pragma once

#include "pixel/pixel.h"

struct pixel_resize {
	const uint8_t *from; /* the first pixel of the part; R, G, B */
	size_t from_stride; /* bytes from one row of the image to the next */
	struct pixel_size from_size; /* of the part, up to 65,535 a side */
	uint8_t *to; /* rows without gaps */
	struct pixel_size to_size;
	enum weights_filter filter;
};

/* Bytes of scratch for a part of this width. */
uint64_t pixel_resize_scratch(uint32_t width);

/* Uses the sink, which must not have begun anything else. */
void pixel_resize(struct pixel_sink *sink, const struct pixel_resize *resize, uint8_t *scratch);

/* thumb: makes a source small while it is decoded. Each of its pixels is added to the pixel that it
 * falls into, so the memory does not depend on the size of the source. Main thread. */
#pragma once

#include "decode/decode.h"

#include <stddef.h>
#include <stdint.h>

struct thumb {
	unsigned tile; /* the largest side in pixels */
	int w, h; /* of the last result */
	uint32_t src_w, src_h, y;
	uint32_t *sum; /* h x w x 4: red, green, blue, how many */
	uint8_t *rgb; /* h x w x 3 */
};

/* 0 or -ENOMEM. */
int thumb_init(struct thumb *thumb, unsigned tile);
void thumb_deinit(struct thumb *thumb);

/* Makes the largest image within the tile that has the source's shape; a small source keeps its
 * size. 0, 1 if the source is broken, or -ENOMEM. */
int thumb_make(struct thumb *thumb, struct decoder *decoder, const uint8_t *data, size_t size);

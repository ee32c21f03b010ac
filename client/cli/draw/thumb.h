/* thumb: a source made small while it is decoded: each of its pixels is added to the one that it
 * falls into, so memory does not depend on how large it is. Main thread. */
#pragma once

#include "decode/decode.h"

#include <stddef.h>
#include <stdint.h>

struct thumb {
	unsigned tile; /* most pixels of a side */
	int w, h; /* of the one that was made */
	uint32_t src_w, src_h, y;
	uint32_t *sum; /* h x w x 4: red, green, blue, how many */
	uint8_t *rgb; /* h x w x 3 */
};

/* 0 or -ENOMEM. */
int thumb_init(struct thumb *thumb, unsigned tile);
void thumb_deinit(struct thumb *thumb);

/* The largest size within the tile that keeps the shape; a small source keeps its own. 0, 1 when it
 * is broken, or -ENOMEM. */
int thumb_make(struct thumb *thumb, struct decoder *decoder, const uint8_t *data, size_t size);

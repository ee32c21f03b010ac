/* headline: what an image's header says of itself, for people: its kind, its sampling, its restart
 * interval. Says nothing of whether it decodes. Main thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct headline {
	char kind[48]; /* "JPEG", "progressive JPEG", "PNG, 8 bit, palette", ...; "" when unknown */
	char colour[16]; /* of a JPEG: "gray", "YCbCr", "RGB", "CMYK", "YCCK"; else "" */
	char sampling[24]; /* "4:2:0", or the factors ("2x2,1x2,1x1"); "" where there is none */
	uint32_t restart; /* MCUs between restart markers; 0: none */
};

/* Of bytes that may be anything. 0, or -ENOMEM. */
int headline_read(const uint8_t *data, size_t size, struct headline *ret);

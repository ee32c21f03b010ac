/* headline: what an image's header says, for people: its kind, its chroma subsampling, its restart
 * interval. It does not tell whether the image decodes. Main thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct headline {
	char kind[48]; /* "JPEG", "progressive JPEG", "PNG, 8 bit, palette", ...; "" if unknown */
	char colour[16]; /* of a JPEG: "gray", "YCbCr", "RGB", "CMYK", "YCCK"; else "" */
	char sampling[24]; /* "4:2:0", or the factors ("2x2,1x2,1x1"); "" if there is none */
	uint32_t restart; /* MCUs between restart markers; 0: none */
};

/* Reads the header; `data` may hold any bytes. 0, or -ENOMEM. */
int headline_read(const uint8_t *data, size_t size, struct headline *ret);

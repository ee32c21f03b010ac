/* jpegwalk: reads a JPEG's markers up to the first scan, by Pillow's rules.
 *
 * Pillow walks the markers itself before libjpeg sees a byte, and refuses files that libjpeg would
 * take (an Adobe segment of six bytes, a marker FF 01, a quantisation table that is cut). Its image
 * has the size that this walk found. The rules are those of Pillow 13.0.0,
 * src/PIL/JpegImagePlugin.py, found by reading it and tested against it. Pure: no state, no
 * allocation; time is linear in `size`. */
#pragma once

#include "decode/sentence.h"

struct jpegwalk {
	uint32_t width, height; /* both at least 1 */
	unsigned layers; /* 1 gray, 3 colour, 4 CMYK or YCCK */
};

/* An enum decode_outcome: DECODE_OK, _CORRUPT, _TRUNCATED or _UNSUPPORTED, with words. `data`
 * begins FF D8 FF. */
int jpegwalk_read(const uint8_t *data, size_t size, struct jpegwalk *ret, struct sentence *words);

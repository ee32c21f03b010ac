/* jpegwalk: reads a JPEG's markers up to the first scan, by Pillow's rules.
 *
 * Pillow walks the markers before libjpeg sees a byte, and refuses files that libjpeg would take
 * (an Adobe segment of six bytes, a marker FF 01, a quantization table that is cut, some EXIF
 * resolutions: exif.h). Its image has the size that this walk finds. The rules are those of Pillow
 * 13.0.0, src/PIL/JpegImagePlugin.py; tests compare them with it. Pure: no state, no allocation;
 * time is linear in `size`. */
#pragma once

#include "decode/sentence.h"

struct jpegwalk {
	uint32_t width, height; /* both at least 1 */
	unsigned layers; /* 1 gray, 3 color, 4 CMYK or YCCK */
};

/* Returns an enum decode_outcome: DECODE_OK, _CORRUPT, _TRUNCATED or _UNSUPPORTED, with a sentence.
 * `data` begins with FF D8 FF. */
int jpegwalk_read(
	const uint8_t *data, size_t size, struct jpegwalk *ret, struct sentence *sentence);

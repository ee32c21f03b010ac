/* decode_jpeg: decodes JPEGs by libjpeg-turbo, read the way Pillow reads them. */
#pragma once

#include "decode/jpegwalk.h"
#include "decode/reader.h"

extern const struct reader decode_jpeg;

/* As decoder_shrink; `self` is the reader's. */
void decode_jpeg_shrink(void *self, uint8_t shrink);

/* How many scans an image of several may have (decode.h, scan_pixels), and how many bytes from its
 * first scan's data to its end. */
unsigned decode_jpeg_scans(const struct decode_limits *limits, const struct jpegwalk *walk);
uint64_t decode_jpeg_scans_bytes(const struct jpegwalk *walk);

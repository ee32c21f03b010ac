/* measure: the size of an image, from its header only, read in small pieces.
 *
 * The size is the one that decoding finds: of a JPEG, that of the last frame header before the
 * first scan (jpegwalk.h); of a PNG, that of its first chunk. Segments in between are passed over
 * without being read, so a photograph with megabytes of metadata costs a few reads. The EXIF
 * orientation is ignored, as decoding ignores it. Any thread; blocks. */
#pragma once

#include <stdint.h>

/* Measures the image in the bytes [offset, offset + size) of a file. 0; 1: it has no size that can
 * be found (no JPEG or PNG, cut, or with more than MEASURE_READS pieces in front of its scan); or
 * the negative errno of a read. */
enum { MEASURE_READS = 1024, MEASURE_PIECE = 4096 };
int measure_image(
	int fd, uint64_t offset, uint32_t size, uint32_t *ret_width, uint32_t *ret_height);

/* exif: reads EXIF tags: the resolution, for which Pillow refuses some JPEGs, and the orientation.
 *
 * jpegwalk.c finds the segment in a JPEG and asks for the resolution. Decoding ignores the
 * orientation, as Pillow does; `penstock pack` reads it (client/cli/pack/metadata.c).
 *
 * Where no JFIF segment gives a density, Pillow reads the resolution from the first directory while
 * it opens the file, and fails on one that is a single byte or text of less than two characters
 * (Pillow 13.0.0, JpegImagePlugin.py, where dpi is read). It catches all other errors there. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether Pillow refuses the file for its resolution. `tiff`: the segment's payload after
 * "Exif\0\0". */
bool exif_density_refused(const uint8_t *tiff, size_t size);

/* How a viewer has to turn the image, 1 to 8, as Pillow's getexif() finds it in the first
 * directory; 0: not given. `bytes` as `tiff` above. */
unsigned exif_orientation(const uint8_t *bytes, size_t size);

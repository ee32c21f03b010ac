/* exif: the two things of an Exif segment that matter here: for what Pillow refuses a JPEG, and how
 * its picture is turned.
 *
 * Where no JFIF segment gives a density, Pillow reads the resolution out of the first directory
 * while it opens the file, and stumbles over one written as a single byte or as text of less than
 * two characters (Pillow 13.0.0, JpegImagePlugin.py, the reading of dpi). All its other surprises
 * there are caught. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `tiff`: the segment's payload after "Exif\0\0". */
bool exif_density_refused(const uint8_t *tiff, size_t size);

/* How a viewer has to turn the picture, 1 to 8, as Pillow's getexif() finds it in the first
 * directory; 0: it does not say. `bytes` as `tiff` above. */
unsigned exif_orientation(const uint8_t *bytes, size_t size);

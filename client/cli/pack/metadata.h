/* metadata: the segments of a JPEG that the packed file keeps: its color profile and its
 * orientation.
 *
 * Neither changes a pixel of Image.open(f).convert("RGB"), but a trainer that applies the
 * orientation, or a person who looks at the images, needs both. libjpeg writes the JFIF and Adobe
 * segments, which do affect colors. pack drops everything else (camera data, thumbnails, comments).
 *
 * The orientation is what Pillow 13's getexif() returns (Image.py): the Exif tag, else the value of
 * tiff:Orientation in an XMP segment. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct metadata_part {
	const uint8_t *bytes; /* in the file */
	uint16_t size;
};

enum {
	METADATA_PROFILE_PARTS = 255, /* one byte numbers the segments of an ICC profile */
	METADATA_ORIENTATION = 32, /* bytes of a segment with only the orientation */
};

struct metadata {
	struct metadata_part profile[METADATA_PROFILE_PARTS]; /* "ICC_PROFILE\0" and so on */
	unsigned profile_parts;
	unsigned orientation; /* 2 .. 8; 0: none */
};

/* Walks the segments up to the first scan. False if they do not follow each other as ITU-T T.81
 * requires, or repeat something: pack leaves such a file unchanged. */
bool metadata_read(const uint8_t *data, size_t size, struct metadata *ret);

/* Whether the color profile, if any, is for pixels of that many components: 1, gray; 3, RGB.
 * With any other profile a reader would misinterpret the pixels. */
bool metadata_profile_fits(const struct metadata *metadata, unsigned components);

/* Writes the payload of an Exif segment that holds only the orientation. */
void metadata_orientation(unsigned orientation, uint8_t ret[METADATA_ORIENTATION]);

/* metadata: what of a JPEG's segments goes along into the packed file: its colour profile, and how
 * it has to be turned.
 *
 * Neither changes a pixel of Image.open(f).convert("RGB"), but a trainer that turns pictures by
 * their orientation, or a person that looks at them, wants both. JFIF and Adobe segments, which do
 * decide about colours, are libjpeg's to write. All else (camera data, thumbnails, comments) stays
 * behind.
 *
 * The orientation is what Pillow 13's getexif() says (Image.py): the Exif tag, else what an XMP
 * segment has under tiff:Orientation. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct metadata_part {
	const uint8_t *bytes; /* in the file */
	uint16_t size;
};

enum {
	METADATA_PROFILE_PARTS = 255, /* an ICC profile's segments count themselves in one byte */
	METADATA_ORIENTATION = 32, /* bytes of a segment that holds nothing but the orientation */
};

struct metadata {
	struct metadata_part profile[METADATA_PROFILE_PARTS]; /* "ICC_PROFILE\0" and so on */
	unsigned profile_parts;
	unsigned orientation; /* 2 .. 8; 0: as it lies */
};

/* Walks the segments up to the first scan. False where they are not one behind the other as ITU-T
 * T.81 has them, or say one thing twice: such a file is left as it is. */
bool metadata_read(const uint8_t *data, size_t size, struct metadata *ret);

/* Whether the colour profile, if there is one, is for pixels of that many components: 1, gray; 3,
 * RGB. Another one would have a reader take the pixels for what they are not. */
bool metadata_profile_fits(const struct metadata *metadata, unsigned components);

/* The payload of an Exif segment with the orientation alone. */
void metadata_orientation(unsigned orientation, uint8_t ret[METADATA_ORIENTATION]);

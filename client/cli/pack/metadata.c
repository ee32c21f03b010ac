/* metadata: see metadata.h. Any thread. */
#include "client/cli/pack/metadata.h"

#include "decode/exif.h"

#include <string.h>

enum {
	MARKER_SOI = 0xd8,
	MARKER_SOS = 0xda,
	MARKER_APP1 = 0xe1,
	MARKER_APP2 = 0xe2,
	MARKER_FIRST = 0xc0,
	MARKER_RST0 = 0xd0,
	MARKER_EOI = 0xd9,
	MARKER_LAST = 0xfe,
};

static const char exif_name[] = "Exif\0"; /* with its second zero */
static const char xmp_name[] = "http://ns.adobe.com/xap/1.0/";
static const char icc_name[] = "ICC_PROFILE";

struct walk {
	struct metadata *found;
	bool exif, xmp;
	unsigned exif_says, xmp_says;
};

static bool is_named(struct metadata_part part, const char *name, size_t size)
{
	return part.size >= size && memcmp(part.bytes, name, size) == 0;
}

/* The digit after tiff:Orientation=" or tiff:Orientation>, as Pillow's regular expression
 * matches it. */
static unsigned xmp_orientation(struct metadata_part part)
{
	static const char name[] = "tiff:Orientation";
	enum { NAME = sizeof name - 1 };
	for (size_t at = 0; at + NAME + 2 < part.size; at++) {
		const uint8_t *behind = part.bytes + at + NAME;
		if (memcmp(part.bytes + at, name, NAME) != 0)
			continue;
		if (behind[0] == '=' && behind[1] == '"')
			behind += 2;
		else if (behind[0] == '>')
			behind++;
		else
			continue;
		if (behind < part.bytes + part.size && *behind >= '0' && *behind <= '9')
			return *behind - (unsigned)'0';
	}
	return 0;
}

/* False: there was already one. */
static bool walk_app1(struct walk *walk, struct metadata_part part)
{
	if (is_named(part, exif_name, sizeof exif_name)) {
		if (walk->exif)
			return false;
		walk->exif = true;
		walk->exif_says = exif_orientation(
			part.bytes + sizeof exif_name, part.size - sizeof exif_name);
	} else if (is_named(part, xmp_name, sizeof xmp_name)) {
		if (walk->xmp)
			return false;
		walk->xmp = true;
		walk->xmp_says = xmp_orientation(part);
	}
	return true;
}

static bool walk_app2(struct walk *walk, struct metadata_part part)
{
	if (!is_named(part, icc_name, sizeof icc_name))
		return true;
	if (walk->found->profile_parts == METADATA_PROFILE_PARTS)
		return false;
	walk->found->profile[walk->found->profile_parts++] = part;
	return true;
}

static bool walk_segment(struct walk *walk, unsigned marker, struct metadata_part part)
{
	if (marker == MARKER_APP1)
		return walk_app1(walk, part);
	if (marker == MARKER_APP2)
		return walk_app2(walk, part);
	return true;
}

static bool has_length(unsigned marker)
{
	return marker >= MARKER_FIRST && marker <= MARKER_LAST &&
	       !(marker >= MARKER_RST0 && marker <= MARKER_EOI);
}

static void walk_finish(const struct walk *walk)
{
	unsigned orientation = walk->exif_says ? walk->exif_says : walk->xmp_says;
	walk->found->orientation = orientation >= 2 && orientation <= 8 ? orientation : 0;
}

bool metadata_read(const uint8_t *data, size_t size, struct metadata *ret)
{
	struct walk walk = {.found = ret};
	size_t at = 2;
	ret->profile_parts = 0;
	ret->orientation = 0;
	if (size < 2 || data[0] != 0xff || data[1] != MARKER_SOI)
		return false;
	for (;;) {
		if (size - at < 4 || data[at] != 0xff || !has_length(data[at + 1]))
			return false;
		unsigned marker = data[at + 1];
		size_t length = (size_t)data[at + 2] << 8 | data[at + 3];
		if (length < 2 || length > size - at - 2)
			return false;
		struct metadata_part part = {data + at + 4, (uint16_t)(length - 2)};
		if (!walk_segment(&walk, marker, part))
			return false;
		at += 2 + length;
		if (marker == MARKER_SOS)
			break;
	}
	walk_finish(&walk);
	return true;
}

/* Bytes 16 to 19 of a profile name its color space (ICC.1:2022, 7.2.8); the segment's name and
 * count take the 14 bytes before the profile. */
bool metadata_profile_fits(const struct metadata *metadata, unsigned components)
{
	enum { COLOURS = 14 + 16, COLOURS_SIZE = 4 };
	const struct metadata_part *first = &metadata->profile[0];
	if (!metadata->profile_parts)
		return true;
	return first->size >= COLOURS + COLOURS_SIZE && first->bytes[sizeof icc_name] == 1 &&
	       memcmp(first->bytes + COLOURS, components == 1 ? "GRAY" : "RGB ", COLOURS_SIZE) == 0;
}

/* A TIFF of one directory with one entry (TIFF 6.0, sections 2 and 8; tag 274), big-endian. */
void metadata_orientation(unsigned orientation, uint8_t ret[METADATA_ORIENTATION])
{
	static const uint8_t segment[METADATA_ORIENTATION] = {'E', 'x', 'i', 'f', 0, 0, /* Exif */
		'M', 'M', 0, 42, 0, 0, 0, 8, /* the directory begins at byte 8 */
		0, 1, /* one entry */
		0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, /* tag, SHORT, one, its value */
		0, 0, 0, 0}; /* no other directory */
	enum { VALUE = 25 };
	memcpy(ret, segment, METADATA_ORIENTATION);
	ret[VALUE] = (uint8_t)orientation;
}

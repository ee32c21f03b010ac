/* exif: see exif.h. Reads the first directory as Pillow's TiffImagePlugin does: it skips entries
 * whose data is missing, whose type is unknown, or whose tag was seen already; a read past the end
 * stops the directory and keeps what was read. */
#include "decode/exif.h"

#include <string.h>

enum {
	TAG_ORIENTATION = 0x0112,
	TAG_X_RESOLUTION = 0x011a,
	TAG_RESOLUTION_UNIT = 0x0128,
	ENTRY_BYTES = 12
};
enum { TYPE_BYTE = 1, TYPE_ASCII = 2, TYPE_SHORT = 3, TYPE_LONG = 4, TYPE_UNDEFINED = 7 };

struct tiff {
	const uint8_t *bytes;
	size_t size;
	bool little;
};

struct value {
	unsigned tag; /* to look for */
	const uint8_t *bytes; /* NULL: the tag was not found */
	size_t size;
	unsigned type;
};

static uint32_t read_number(const struct tiff *tiff, const uint8_t *p, unsigned bytes)
{
	uint32_t value = 0;
	for (unsigned i = 0; i < bytes; i++)
		value = value << 8 | p[tiff->little ? bytes - 1 - i : i];
	return value;
}

/* Bytes of one element of a TIFF type; 0 for types that Pillow does not know. */
static unsigned unit_bytes(unsigned type)
{
	static const uint8_t bytes[17] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8};
	return type < sizeof(bytes) ? bytes[type] : 0;
}

static bool open_header(struct tiff *tiff)
{
	static const char *const heads[] = {"MM\0\x2a", "II\x2a\0", "MM\x2a\0", "II\0\x2a"};
	if (tiff->size < 8)
		return false;
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		if (memcmp(tiff->bytes, heads[i], 4) == 0) {
			tiff->little = heads[i][0] == 'I';
			return true;
		}
	return false;
}

/* The value of an entry, which is stored in the entry or elsewhere. *stop: it reaches past the end.
 */
static struct value entry_value(
	const struct tiff *tiff, const uint8_t *entry, uint64_t *total, bool *stop)
{
	struct value value = {.type = read_number(tiff, entry + 2, 2)};
	uint64_t bytes = (uint64_t)read_number(tiff, entry + 4, 4) * unit_bytes(value.type);
	if (bytes == 0)
		return value;
	value.size = (size_t)bytes;
	if (bytes <= 4) {
		value.bytes = entry + 8;
		return value;
	}
	*total += bytes;
	if (*total > tiff->size)
		return value;
	uint32_t at = read_number(tiff, entry + 8, 4);
	*stop = at > tiff->size || bytes > tiff->size - at;
	if (!*stop)
		value.bytes = tiff->bytes + at;
	return value;
}

static struct value *wanted_value(struct value *wanted, size_t count, unsigned tag)
{
	for (size_t i = 0; i < count; i++)
		if (wanted[i].tag == tag)
			return &wanted[i];
	return NULL;
}

/* Finds the wanted tags of the first directory. */
static void read_directory(const struct tiff *tiff, struct value *wanted, size_t count)
{
	uint64_t at = read_number(tiff, tiff->bytes + 4, 4), total = 0;
	if (at + 2 > tiff->size)
		return;
	unsigned entries = read_number(tiff, tiff->bytes + at, 2);
	at += 2;
	bool stop = false;
	for (unsigned i = 0; i < entries && !stop && at + ENTRY_BYTES <= tiff->size;
		i++, at += ENTRY_BYTES) {
		unsigned tag = read_number(tiff, tiff->bytes + at, 2);
		struct value *known = wanted_value(wanted, count, tag);
		if (known && known->bytes)
			continue;
		struct value value = entry_value(tiff, tiff->bytes + at, &total, &stop);
		value.tag = tag;
		if (known && value.bytes)
			*known = value;
	}
}

/* Skips a second "Exif\0\0", which some cameras write. */
static struct tiff open_tiff(const uint8_t *bytes, size_t size)
{
	if (size >= 6 && memcmp(bytes, "Exif\0\0", 6) == 0) {
		bytes += 6;
		size -= 6;
	}
	return (struct tiff){bytes, size, false};
}

bool exif_density_refused(const uint8_t *bytes, size_t size)
{
	struct tiff tiff = open_tiff(bytes, size);
	struct value wanted[] = {{.tag = TAG_X_RESOLUTION}, {.tag = TAG_RESOLUTION_UNIT}};
	if (!open_header(&tiff))
		return false;
	read_directory(&tiff, wanted, sizeof(wanted) / sizeof(wanted[0]));
	struct value resolution = wanted[0];
	if (!resolution.bytes || !wanted[1].bytes)
		return false;
	if (resolution.type == TYPE_BYTE || resolution.type == TYPE_UNDEFINED)
		return resolution.size == 1;
	if (resolution.type != TYPE_ASCII)
		return false;
	size_t length = resolution.size - (resolution.bytes[resolution.size - 1] == 0);
	return length == 0 ||
	       (length == 1 && resolution.bytes[0] >= '0' && resolution.bytes[0] <= '9');
}

unsigned exif_orientation(const uint8_t *bytes, size_t size)
{
	struct tiff tiff = open_tiff(bytes, size);
	struct value found = {.tag = TAG_ORIENTATION};
	if (!open_header(&tiff))
		return 0;
	read_directory(&tiff, &found, 1);
	if (!found.bytes || (found.type != TYPE_SHORT && found.type != TYPE_LONG))
		return 0;
	unsigned bytes_each = unit_bytes(found.type);
	uint32_t value = read_number(&tiff, found.bytes, bytes_each);
	return found.size == bytes_each && value <= 8 ? value : 0;
}

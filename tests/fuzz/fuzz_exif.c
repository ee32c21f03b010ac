/* The parts of a JPEG that penstock reads before a decoder does: EXIF entries, and the walk over
 * the markers.
 *
 * The first byte tells what the others are: the bytes of an EXIF segment, choices from which a
 * segment with a known orientation is made (recipe.h), or a JPEG. Expected: no read outside the
 * given bytes; an orientation of 0 to 8, equal to the one that was written; for an accepted JPEG
 * a size and layers that a JPEG may have; and a sentence with every refusal. */
#include "decode/exif.h"
#include "decode/jpegwalk.h"

#include "fuzz/drive.h"
#include "fuzz/number.h"
#include "fuzz/recipe.h"
#include "fuzz/want.h"

#include "base/util.h"

enum { INPUT_ROOM = 4096, TIFF_ROOM = 4096, ENTRY = 12, ORIENTATION = 0x0112 };

struct tiff {
	size_t size;
	bool little;
	uint8_t bytes[TIFF_ROOM];
};

static void put(struct tiff *tiff, size_t at, uint32_t value, unsigned bytes)
{
	(void)(tiff->little ? number_little : number_big)(tiff->bytes + at, value, bytes);
}

static void put_entry(struct tiff *tiff, size_t at, uint32_t tag, uint32_t type, uint32_t count)
{
	put(tiff, at, tag, 2);
	put(tiff, at + 2, type, 2);
	put(tiff, at + 4, count, 4);
}

/* Other entries: of every type, with data in the entry or after all entries. */
static void put_other(struct tiff *tiff, struct recipe *recipe, size_t at)
{
	const uint8_t how = recipe_byte(recipe);
	const uint32_t tag = 0x200u + how;
	put_entry(tiff, at, tag, how % 16, 1 + how % 4);
	put(tiff, at + 8, 8 + recipe_byte(recipe) % 64u, 4);
}

/* Makes a directory with the orientation among other entries. Returns the expected orientation. */
static unsigned make(struct tiff *tiff, struct recipe *recipe)
{
	const uint8_t how = recipe_byte(recipe), entries = 1 + recipe_byte(recipe) % 20;
	const uint8_t which = recipe_byte(recipe) % entries, value = recipe_byte(recipe) % 12;
	const unsigned type = how & 2 ? 3 : 4;
	const size_t front = how & 4 ? 6 : 0, directory = 8 + how / 8 % 8u * 2;
	tiff->little = how & 1;
	memset(tiff->bytes, 0, sizeof tiff->bytes);
	memcpy(tiff->bytes, "Exif\0\0", front);
	memcpy(tiff->bytes + front, tiff->little ? "II*\0" : "MM\0*", 4);
	put(tiff, front + 4, (uint32_t)directory, 4);
	put(tiff, front + directory, entries, 2);
	for (size_t i = 0; i < entries; i++) {
		const size_t at = front + directory + 2 + i * ENTRY;
		if (i > which && how & 64) { /* the first counts */
			put_entry(tiff, at, ORIENTATION, type, 1);
		} else if (i != which) {
			put_other(tiff, recipe, at);
		} else {
			put_entry(tiff, at, ORIENTATION, type, 1);
			put(tiff, at + 8, value, type == 3 ? 2 : 4);
		}
	}
	tiff->size = front + directory + 2 + (size_t)entries * ENTRY + 128;
	return value <= 8 ? value : 0;
}

static void try_exif(const uint8_t *bytes, size_t size)
{
	want(exif_orientation(bytes, size) <= 8, "an orientation that does not exist");
	(void)exif_density_refused(bytes, size);
}

static void try_made(struct recipe *recipe)
{
	static struct tiff tiff;
	const unsigned expected = make(&tiff, recipe);
	uint8_t *exact = malloc(tiff.size);
	want(exact != NULL, "no memory");
	memcpy(exact, tiff.bytes, tiff.size);
	want(exif_orientation(exact, tiff.size) == expected,
		"not the orientation that was written");
	for (uint8_t cut = recipe_byte(recipe) % 8; cut; cut--)
		try_exif(exact + tiff.size - tiff.size / (cut + 1u), tiff.size / (cut + 1u));
	free(exact);
}

static void try_jpeg(const uint8_t *bytes, size_t size)
{
	struct sentence words = {{0}};
	struct jpegwalk walk;
	if (size < 3 || memcmp(bytes, "\xff\xd8\xff", 3) != 0)
		return;
	int outcome = jpegwalk_read(bytes, size, &walk, &words);
	want(outcome >= 0 && outcome < DECODE_OUTCOMES, "no such outcome");
	want(!outcome || words.text[0], "refused without a sentence");
	want(outcome || (walk.width && walk.height && walk.width <= 65535 && walk.height <= 65535),
		"a size that a JPEG cannot have");
	want(outcome || walk.layers == 1 || walk.layers == 3 || walk.layers == 4,
		"layers that a JPEG cannot have");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct recipe recipe = {data, size, 1};
	if (size == 0 || size > INPUT_ROOM)
		return 0;
	if (data[0] % 3 == 0) {
		try_made(&recipe);
		return 0;
	}
	uint8_t *exact = malloc(size);
	want(exact != NULL, "no memory");
	memcpy(exact, data + 1, size - 1);
	if (data[0] % 3 == 1)
		try_exif(exact, size - 1);
	else
		try_jpeg(exact, size - 1);
	free(exact);
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
/* Segments that Pillow looks into, whole or not. */
static size_t put_segment(uint8_t *bytes, size_t at, struct random *random)
{
#define SEGMENT(marker, size, text)                  \
	{                                            \
		marker, size, sizeof(text) - 1, text \
	}
	static const struct {
		uint8_t marker, size, length;
		const char *text;
	} segments[] = {SEGMENT(0xe0, 14, "JFIF\0\1\1\1\0\1\0\1\0"),
		SEGMENT(0xe1, 60, "Exif\0\0II*\0\10\0\0\0\2\0\32\1\1\0\1\0\0\0\1\0\0\0\50\1"),
		SEGMENT(0xe2, 16, "ICC_PROFILE\0\1\1"),
		SEGMENT(0xed, 40, "Photoshop 3.0\0008BIM\3\355\0\0\0\0\0\20"),
		SEGMENT(0xee, 12, "Adobe\0d\0\0\0\0\1"),
		SEGMENT(0xc0, 15, "\10\0\20\0\20\3\1\42\0\2\21\1\3\21\1"),
		SEGMENT(0xc0, 9, "\10\0\20\0\20\1\1\21\0"), SEGMENT(0xdb, 65, "\0\1\1\1\1"),
		SEGMENT(0xfe, 5, "text"), SEGMENT(0xda, 10, "\3\1\0\2\21\3\21\0\77"),
		SEGMENT(0xc2, 15, "\10\0\1\0\1\3\1\21\0\2\21\1\3\21\1")};
#undef SEGMENT
	const size_t which = draw(random, UTIL_COUNT(segments));
	const size_t size = segments[which].size;
	bytes[at] = 0xff;
	bytes[at + 1] = segments[which].marker;
	bytes[at + 2] = 0;
	bytes[at + 3] = (uint8_t)(size + 2 - one_in(random, 10));
	memset(bytes + at + 4, 1, size);
	memcpy(bytes + at + 4, segments[which].text, UTIL_MIN(segments[which].length, size));
	return at + 4 + size;
}

static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	size_t size = 1;
	(void)room;
	bytes[0] = (uint8_t)draw(random, 3);
	if (bytes[0] == 2) {
		memcpy(bytes + 1, "\xff\xd8", 2);
		size = 3;
		for (uint32_t i = 1 + draw(random, 8); i; i--)
			size = put_segment(bytes, size, random);
		return size;
	}
	for (uint32_t i = draw(random, 120); i; i--)
		bytes[size++] = (uint8_t)(one_in(random, 2) ? draw(random, 256) : draw(random, 20));
	if (bytes[0] == 1 && size > 12)
		memcpy(bytes + 1, "II*\0\10\0\0\0", 8);
	return size;
}

const struct drive fuzz_drive = {"fuzz_exif", INPUT_ROOM, compose, NULL};
#endif

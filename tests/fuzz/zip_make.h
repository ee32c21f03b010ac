/* zip_make: ZIP files made of choices: stored and deflated members, with ZIP64 fields, sizes after
 * the data and extra fields; a comment; bytes in front of the archive. Either one that every reader
 * takes, with all images in class folders or none; or one whose numbers lie, with other files and
 * odd names. */
#pragma once

#include "fuzz/number.h"
#include "fuzz/recipe.h"
#include "fuzz/want.h"

#include "base/util.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

enum {
	ZIP_MADE_ROOM = 128 << 10,
	ZIP_MADE_MEMBERS = 48,
	ZIP_MADE_NAME = 64,
	ZIP_MADE_DATA = 2048,
};

struct zip_made_member {
	bool image; /* it must be a sample */
	char name[ZIP_MADE_NAME];
	uint32_t size, stored, crc;
	uint16_t flags, method;
	uint64_t header;
	bool wide; /* its numbers are in ZIP64 fields */
	uint8_t data[ZIP_MADE_DATA];
};

struct zip_made {
	struct recipe *recipe;
	bool lies;
	unsigned count;
	struct zip_made_member member[ZIP_MADE_MEMBERS];
	size_t size;
	uint8_t bytes[ZIP_MADE_ROOM];
};

static inline void zip_put(struct zip_made *made, const void *data, size_t size)
{
	want(size <= ZIP_MADE_ROOM - made->size, "the made archive is too large");
	memcpy(made->bytes + made->size, data, size);
	made->size += size;
}

/* A little-endian number, which may lie. */
static inline void zip_number(struct zip_made *made, uint64_t value, unsigned size)
{
	static const uint64_t lies[] = {0, 1, 2, 8, 14, 100, 0xffff, 0x10000, 0xfffffffe,
		0xffffffff, UINT64_C(1) << 32, INT64_MAX, UINT64_MAX, UINT64_MAX - 20};
	uint8_t bytes[8];
	if (made->lies)
		value = recipe_lie(made->recipe, 250, value, lies, UTIL_COUNT(lies));
	zip_put(made, bytes, number_little(bytes, value, size));
}

static inline size_t zip_deflate(const uint8_t *data, size_t size, uint8_t *out, size_t room)
{
	z_stream stream = {0};
	want(deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) == Z_OK, "no memory");
	stream.next_in = (Bytef *)(uintptr_t)data;
	stream.avail_in = (uInt)size;
	stream.next_out = out;
	stream.avail_out = (uInt)room;
	want(deflate(&stream, Z_FINISH) == Z_STREAM_END, "deflate");
	(void)deflateEnd(&stream);
	return room - stream.avail_out;
}

/* Names of members that are unlike each other. `flat`: without folders. */
static inline void zip_name_make(
	struct zip_made *made, struct zip_made_member *member, unsigned number, bool flat)
{
	static const char *const folders[] = {
		"a/", "a-b/", "b/", "a/c/", "a/c-d/", "\xc3\xa4/", "a./", "b/c/", "B/", "b/a/"};
	static const char *const ends[] = {
		".jpg", ".JPEG", ".png", "", ".txt", "-1.jpg", "1.jpg", ".jpg", ".png"};
	static const char *const odd[] = {"../", "/", "./", "a//", ".git/", "__MACOSX/", "a/../",
		"\xff\xfe/", "a\\b/", "very-long-name-of-a-folder/"};
	const uint8_t where = recipe_byte(made->recipe), end = recipe_byte(made->recipe);
	/* The first image is in a class folder itself, so that no folder in it is the root. */
	const char *folder = flat ? "" : folders[number > 1 ? where % UTIL_COUNT(folders) : 0];
	if (made->lies && where >= 240)
		folder = odd[where % UTIL_COUNT(odd)];
	/* A true archive has the same name never twice, and images only. */
	const char *ending = ends[end % UTIL_COUNT(ends)];
	if (!made->lies && (!*ending || !strcmp(ending, ".txt")))
		ending = ".png";
	if (made->lies && end >= 240)
		number = 0;
	(void)snprintf(member->name, sizeof member->name, "%s%s%03u%s", folder,
		end & 16 ? "img" : "", number, ending);
	member->image = true;
}

static inline void zip_local_make(struct zip_made *made, struct zip_made_member *member)
{
	uint8_t packed[ZIP_MADE_DATA + 64];
	const uint8_t how = recipe_byte(made->recipe), extra = recipe_byte(made->recipe);
	const bool later = how & 4;
	const size_t name = strlen(member->name), pad = extra < 192 ? 0 : extra % 32;
	member->wide = how & 2;
	member->method = how & 1 ? 8 : 0;
	member->flags = (uint16_t)((later ? 8 : 0) | (how & 8 ? 1 << 11 : 0));
	for (size_t i = 0; i < name; i++)
		if (member->name[i] & 0x80 && (uint8_t)member->name[i] >= 0xf8)
			member->flags &= (uint16_t) ~(1 << 11);
	const size_t stored =
		member->method ? zip_deflate(member->data, member->size, packed, sizeof packed)
			       : member->size;
	if (!member->method)
		memcpy(packed, member->data, member->size);
	member->stored = (uint32_t)stored;
	member->crc = (uint32_t)crc32(0, member->data, member->size);
	member->header = made->size;
	zip_put(made, "PK\3\4", 4);
	zip_number(made, 20, 2);
	zip_number(made, member->flags, 2);
	zip_number(made, member->method, 2);
	zip_number(made, 0, 4);
	zip_number(made, later ? 0 : member->crc, 4);
	zip_number(made, later ? 0 : member->wide ? UINT32_MAX : stored, 4);
	zip_number(made, later ? 0 : member->wide ? UINT32_MAX : member->size, 4);
	zip_number(made, name, 2);
	zip_number(made, (member->wide ? 20 : 0) + (pad ? 4 + pad : 0), 2);
	zip_put(made, member->name, name);
	if (pad) {
		zip_number(made, 0xcafe, 2);
		zip_number(made, pad, 2);
		for (size_t i = 0; i < pad; i++)
			zip_put(made, "x", 1);
	}
	if (member->wide) {
		zip_number(made, 1, 2);
		zip_number(made, 16, 2);
		zip_number(made, member->size, 8);
		zip_number(made, stored, 8);
	}
	zip_put(made, packed, stored);
	if (later) {
		zip_put(made, "PK\7\10", 4);
		zip_number(made, member->crc, 4);
		zip_number(made, stored, 4);
		zip_number(made, member->size, 4);
	}
}

static inline void zip_entry_make(
	struct zip_made *made, const struct zip_made_member *member, uint64_t base)
{
	const size_t name = strlen(member->name);
	zip_put(made, "PK\1\2", 4);
	zip_number(made, 20, 2);
	zip_number(made, 20, 2);
	zip_number(made, member->flags, 2);
	zip_number(made, member->method, 2);
	zip_number(made, 0, 4);
	zip_number(made, member->crc, 4);
	zip_number(made, member->wide ? UINT32_MAX : member->stored, 4);
	zip_number(made, member->wide ? UINT32_MAX : member->size, 4);
	zip_number(made, name, 2);
	zip_number(made, member->wide ? 28 : 0, 2);
	zip_number(made, 0, 2);
	zip_number(made, 0, 2);
	zip_number(made, 0, 2);
	zip_number(made, 0, 4);
	zip_number(made, member->wide ? UINT32_MAX : member->header - base, 4);
	zip_put(made, member->name, name);
	if (member->wide) {
		zip_number(made, 1, 2);
		zip_number(made, 24, 2);
		zip_number(made, member->size, 8);
		zip_number(made, member->stored, 8);
		zip_number(made, member->header - base, 8);
	}
}

static inline void zip_end_make(
	struct zip_made *made, uint64_t directory, uint64_t base, bool wide, size_t comment)
{
	const uint64_t size = made->size - directory, at = made->size - base;
	if (wide) {
		zip_put(made, "PK\6\6", 4);
		zip_number(made, 44, 8);
		zip_number(made, 45, 2);
		zip_number(made, 45, 2);
		zip_number(made, 0, 4);
		zip_number(made, 0, 4);
		zip_number(made, made->count, 8);
		zip_number(made, made->count, 8);
		zip_number(made, size, 8);
		zip_number(made, directory - base, 8);
		zip_put(made, "PK\6\7", 4);
		zip_number(made, 0, 4);
		zip_number(made, at, 8);
		zip_number(made, 1, 4);
	}
	zip_put(made, "PK\5\6", 4);
	zip_number(made, 0, 2);
	zip_number(made, 0, 2);
	zip_number(made, wide ? UINT16_MAX : made->count, 2);
	zip_number(made, wide ? UINT16_MAX : made->count, 2);
	zip_number(made, wide ? UINT32_MAX : size, 4);
	zip_number(made, wide ? UINT32_MAX : directory - base, 4);
	zip_number(made, comment, 2);
	for (size_t i = 0; i < comment; i++)
		zip_put(made, &"PK\5\6"[i % 4], 1);
}

/* The bytes of a member, all different from those of the others. */
static inline void zip_data_make(struct zip_made *made, struct zip_made_member *member, unsigned i)
{
	const uint8_t size = recipe_byte(made->recipe);
	member->size = size < 32 ? 0 : size < 224 ? size : size * 8u - 1;
	for (uint32_t at = 0; at < member->size; at++)
		member->data[at] = (uint8_t)(at / 7 * i + (at % 5));
}

static inline void zip_make(struct zip_made *made, struct recipe *recipe, bool lies)
{
	made->recipe = recipe;
	made->lies = lies;
	made->count = 0;
	made->size = 0;
	const uint8_t how = recipe_byte(recipe), order = recipe_byte(recipe);
	const unsigned count = 1 + recipe_byte(recipe) % (ZIP_MADE_MEMBERS - 1);
	const bool flat = how & 1;
	for (unsigned i = 0; i < (how & 2 ? 16u : 0); i++)
		zip_put(made, "front of archive", 16);
	const uint64_t base = made->size;
	for (; made->count < count; made->count++) {
		struct zip_made_member *member = &made->member[made->count];
		zip_name_make(made, member, made->count + 1, flat);
		zip_data_make(made, member, made->count + 1);
		zip_local_make(made, member);
	}
	const uint64_t directory = made->size;
	/* The directory may have another order than the file; lies name a member twice. */
	for (unsigned i = 0; i < count; i++) {
		unsigned which = order & 1 ? count - 1 - i : (i + order / 2) % count;
		if (lies && recipe_byte(recipe) >= 253)
			which = recipe_byte(recipe) % count;
		zip_entry_make(made, &made->member[which], base);
	}
	zip_end_make(made, directory, base, how & 4, how & 8 ? how / 16u : 0);
}

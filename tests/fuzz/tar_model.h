/* tar_model: computes the members of a tar and their samples a second time: with the whole file in
 * memory, without the reader's window, state or order of checks. It knows which files must be
 * refused, but not the sentences. For fuzz_tar.c.
 *
 * Based only on dataset/tar.h and dataset/dataset.h: names and sizes as in POSIX.1-2017's pax
 * and in GNU tar, keys as in WebDataset. */
#pragma once

#include "dataset/container/tar.h"
#include "dataset/dataset.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

enum { TAR_MODEL_MEMBERS = 512 };

struct tar_model_member {
	enum tar_kind kind;
	uint64_t size, offset;
	size_t name_size;
	char name[TAR_NAME_MAX + 1];
};

struct tar_model {
	bool refused;
	unsigned count;
	struct tar_model_member member[TAR_MODEL_MEMBERS];
};

struct tar_model_words { /* the size in extended headers; -1: none */
	int name_size;
	bool sparse, sized;
	uint64_t size;
	char name[TAR_NAME_MAX + 1];
};

struct tar_model_file {
	const uint8_t *bytes;
	uint64_t size, at;
	struct tar_model_words own, all; /* for the next member; for all members that follow */
};

static inline bool tar_model_number(const uint8_t *field, int digits, uint64_t *ret)
{
	char text[16] = {0};
	*ret = 0;
	if (field[0] == 0xff)
		return false;
	if (field[0] == 0x80) {
		for (int i = 1; i < digits; i++) {
			if (*ret >= UINT64_C(1) << 55)
				return false;
			*ret = *ret * 256 + field[i];
		}
		return true;
	}
	memcpy(text, field, (size_t)digits);
	const char *from = text + strspn(text, " \t\n\v\f\r");
	size_t octal = strspn(from, "01234567");
	for (size_t i = 0; i < octal; i++)
		*ret = *ret * 8 + (uint64_t)(from[i] - '0');
	return from[octal + strspn(from + octal, " \t\n\v\f\r")] == 0;
}

static inline bool tar_model_header(const uint8_t *block)
{
	int64_t sums[2] = {8 * ' ', 8 * ' '};
	uint64_t stored;
	for (int i = 0; i < TAR_BLOCK; i++) {
		bool counts = i < 148 || i > 155;
		sums[0] += counts ? block[i] : 0;
		sums[1] += counts ? (int8_t)block[i] : 0;
	}
	return tar_model_number(block + 148, 8, &stored) &&
	       ((int64_t)stored == sums[0] || (int64_t)stored == sums[1]);
}

static inline bool tar_model_say(struct tar_model_words *words, const char *name, size_t size)
{
	if (size > TAR_NAME_MAX)
		return false;
	memcpy(words->name, name, size);
	words->name_size = (int)size;
	return true;
}

static inline bool tar_model_decimal(const char *text, size_t size, uint64_t *ret)
{
	*ret = 0;
	for (size_t i = 0; i < size; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		uint64_t digit = (uint64_t)(text[i] - '0');
		if (*ret > (INT64_MAX - digit) / 10)
			return false;
		*ret = *ret * 10 + digit;
	}
	return size > 0;
}

static inline bool tar_model_word(struct tar_model_words *words, const char *key, size_t key_size,
	const char *value, size_t size)
{
	if (key_size == 4 && memcmp(key, "size", 4) == 0) {
		words->sized = true;
		return tar_model_decimal(value, size, &words->size);
	}
	if (key_size == 4 && memcmp(key, "path", 4) == 0) {
		size = strnlen(value, size);
		while (size && value[size - 1] == '/')
			size--;
		return tar_model_say(words, value, size);
	}
	if (key_size <= 11 || memcmp(key, "GNU.sparse.", 11) != 0)
		return true;
	words->sparse = true;
	return key_size != 15 || memcmp(key + 11, "name", 4) != 0 ||
	       tar_model_say(words, value, size);
}

/* Records "LENGTH KEY=VALUE\n", one after the other, up to a zero byte. */
static inline bool tar_model_pax(struct tar_model_words *words, const char *text, size_t size)
{
	for (size_t at = 0; at < size && text[at];) {
		size_t digits = 0, length = 0;
		while (at + digits < size && text[at + digits] >= '0' && text[at + digits] <= '9' &&
			length <= size)
			length = length * 10 + (size_t)(text[at + digits++] - '0');
		if (!digits || at + digits >= size || text[at + digits] != ' ' ||
			length > size - at || length < digits + 1)
			return false;
		const char *key = text + at + digits + 1, *end = text + at + length;
		const char *equals = memchr(key, '=', (size_t)(end - key));
		if (!equals || equals == key || equals + 1 == end ||
			!tar_model_word(words, key, (size_t)(equals - key), equals + 1,
				(size_t)(end - equals) - 2))
			return false;
		at += length;
	}
	return true;
}

/* Adds the entries of `from` that `into` does not have. */
static inline void tar_model_merge(struct tar_model_words *into, const struct tar_model_words *from)
{
	if (into->name_size < 0) {
		into->name_size = from->name_size;
		memcpy(into->name, from->name, sizeof into->name);
	}
	if (!into->sized) {
		into->sized = from->sized;
		into->size = from->size;
	}
	into->sparse |= from->sparse;
}

/* An extended header's data. */
static inline bool tar_model_extend(
	struct tar_model_file *file, uint8_t type, const uint8_t *data, uint64_t size)
{
	struct tar_model_words words = {.name_size = -1};
	if (type == 'K')
		return true;
	if (size > TAR_EXTENSION_MAX)
		return false;
	const char *text = (const char *)data;
	if (type == 'L') {
		if (file->own.name_size >= 0)
			return true;
		return tar_model_say(&file->own, text, strnlen(text, size));
	}
	if (!tar_model_pax(&words, text, size))
		return false;
	if (type == 'g') {
		tar_model_merge(&words, &file->all);
		file->all = words;
	} else {
		tar_model_merge(&file->own, &words);
	}
	return true;
}

static inline void tar_model_name(
	const struct tar_model_file *file, const uint8_t *block, struct tar_model_member *member)
{
	const struct tar_model_words *words = file->own.name_size >= 0 ? &file->own : &file->all;
	const char *prefix = (const char *)block + 345;
	const uint8_t type = block[156];
	size_t size = 0;
	if (words->name_size >= 0) {
		size = (size_t)words->name_size;
		memcpy(member->name, words->name, size);
	} else {
		size_t front = strnlen(prefix, 155), own = strnlen((const char *)block, 100);
		if (type == 'L' || type == 'K' || type == 'S')
			front = 0;
		if (front) {
			memcpy(member->name, prefix, front);
			member->name[front++] = '/';
		}
		memcpy(member->name + front, block, own);
		size = front + own;
	}
	member->name[size] = 0;
	member->name_size = size;
}

static inline bool tar_model_folder(const uint8_t *block)
{
	size_t size = strnlen((const char *)block, 100);
	return block[156] == 0 && size && block[size - 1] == '/';
}

static inline enum tar_kind tar_model_kind(const struct tar_model_file *file, const uint8_t *block)
{
	uint8_t type = block[156];
	if (type == 'S')
		return TAR_SPARSE;
	if ((type != 0 && type != '0' && type != '7') || tar_model_folder(block))
		return TAR_OTHER;
	return file->own.sparse || file->all.sparse ? TAR_SPARSE : TAR_FILE;
}

/* Takes one header, of a member or not. False: the file is refused. */
static inline bool tar_model_step(struct tar_model_file *file, struct tar_model *ret, bool *pending)
{
	const uint8_t *block = file->bytes + file->at;
	uint64_t size, data = file->at + TAR_BLOCK;
	if (!tar_model_header(block) || !tar_model_number(block + 124, 12, &size))
		return false;
	uint8_t type = block[156];
	*pending = type && strchr("LKxXg", type);
	if (!*pending && (file->own.sized || file->all.sized))
		size = file->own.sized ? file->own.size : file->all.size;
	if (!*pending && ((type && strchr("123456", type)) || tar_model_folder(block)))
		size = 0;
	for (bool more = type == 'S' && block[482]; more; data += TAR_BLOCK) {
		if (file->size - data < TAR_BLOCK)
			return false;
		more = file->bytes[data + 504];
	}
	uint64_t padded = (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
	if (padded > file->size - data)
		return false;
	file->at = data + padded;
	if (*pending)
		return tar_model_extend(file, type, file->bytes + data, size);
	if (ret->count < TAR_MODEL_MEMBERS) {
		struct tar_model_member *member = &ret->member[ret->count];
		tar_model_name(file, block, member);
		member->kind = tar_model_kind(file, block);
		member->size = size;
		member->offset = data;
	}
	ret->count++;
	file->own = (struct tar_model_words){.name_size = -1};
	return true;
}

static inline bool tar_model_zero(const uint8_t *block)
{
	for (int i = 0; i < TAR_BLOCK; i++)
		if (block[i])
			return false;
	return true;
}

/* Lists the members up to the point where the file is refused, or to its end. */
static inline void tar_model_list(const uint8_t *bytes, uint64_t size, struct tar_model *ret)
{
	static struct tar_model_file file;
	bool pending = false;
	file.bytes = bytes;
	file.size = size;
	file.at = 0;
	file.own = file.all = (struct tar_model_words){.name_size = -1};
	ret->count = 0;
	ret->refused = size == 0;
	while (!ret->refused) {
		bool end = file.at == size;
		if (!end && size - file.at < TAR_BLOCK)
			ret->refused = true;
		else if (end || tar_model_zero(bytes + file.at))
			break;
		else
			ret->refused = !tar_model_step(&file, ret, &pending);
	}
	ret->refused |= pending;
}

/* ---- samples ---- */

struct tar_model_sample {
	const struct tar_model_member *image;
	enum sample_format format;
};

/* The beginning and the length of the key; NULL: the name has none. */
static inline const char *tar_model_key(const char *name, size_t *ret_size)
{
	while (strncmp(name, "./", 2) == 0)
		name += 2;
	for (const char *part = name; part; part = strchr(part, '/')) {
		part += *part == '/';
		size_t size = strcspn(part, "/");
		if (size == 8 && memcmp(part, "__MACOSX", 8) == 0)
			return NULL;
	}
	const char *base = name;
	for (const char *c = name; *c; c++)
		base = *c == '/' ? c + 1 : base;
	size_t size = strcspn(base, ".");
	if (size == 0 || !base[size])
		return NULL;
	*ret_size = (size_t)(base - name) + size;
	return name;
}

/* 'i', 's', 'c', 'j' and 0: image, image of another type, .cls, .json, none of these. */
static inline char tar_model_part(const char *extension, enum sample_format *ret_format)
{
	static const char *const others[] = {
		"ppm", "bmp", "pgm", "tif", "tiff", "webp", "gif", "pbm", "pnm"};
	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
		if (strcasecmp(extension, others[i]) == 0) {
			*ret_format = SAMPLE_OTHER;
			return 's';
		}
	*ret_format = strcasecmp(extension, "png") == 0 ? SAMPLE_PNG : SAMPLE_JPEG;
	if (*ret_format == SAMPLE_PNG || strcasecmp(extension, "jpg") == 0 ||
		strcasecmp(extension, "jpeg") == 0)
		return 'i';
	if (strcasecmp(extension, "cls") == 0)
		return 'c';
	return strcasecmp(extension, "json") == 0 ? 'j' : 0;
}

static inline bool tar_model_fits(const struct tar_model_member *member, bool image)
{
	return member->kind != TAR_SPARSE && (!image || member->size <= UINT32_MAX);
}

/* What has been found of the current sample. */
struct tar_model_group {
	char parts[4];
	unsigned spares; /* images of other types */
	struct tar_model_sample spare; /* the first */
};

/* A sample has ended: without an image it takes that of another type, of which it may have one. */
static inline bool tar_model_end(
	const struct tar_model_group *group, struct tar_model_sample *samples, unsigned *count)
{
	if (strchr(group->parts, 'i') || !group->spares)
		return true;
	samples[(*count)++] = group->spare;
	return group->spares == 1 && tar_model_fits(group->spare.image, true);
}

/* Finds the samples of a list that was not refused, by searching back over its members. False:
 * refused, because a part is sparse, too large, or appears twice. */
static inline bool tar_model_group(
	const struct tar_model *list, struct tar_model_sample *samples, unsigned *ret_count)
{
	const char *open = NULL; /* the current key */
	size_t open_size = 0;
	struct tar_model_group group = {.parts = ""};
	*ret_count = 0;
	for (unsigned i = 0; i < list->count; i++) {
		const struct tar_model_member *member = &list->member[i];
		enum sample_format format;
		size_t size = 0;
		const char *key = tar_model_key(member->name, &size);
		if (member->kind == TAR_OTHER || !key)
			continue;
		if (!open || size != open_size || memcmp(key, open, size) != 0) {
			if (!tar_model_end(&group, samples, ret_count))
				return false;
			group = (struct tar_model_group){.parts = ""};
		}
		open = key;
		open_size = size;
		char part = tar_model_part(key + size + 1, &format);
		if (part == 's' && !group.spares++)
			group.spare = (struct tar_model_sample){member, format};
		if (!part || part == 's')
			continue;
		if (strchr(group.parts, part) || !tar_model_fits(member, part == 'i'))
			return false;
		group.parts[strlen(group.parts) + 1] = 0;
		group.parts[strlen(group.parts)] = part;
		if (part == 'i')
			samples[(*ret_count)++] = (struct tar_model_sample){member, format};
	}
	return tar_model_end(&group, samples, ret_count);
}

/* tar: see tar.h. Layout of a header block (POSIX.1-2017, pax, "ustar Interchange Format"): name
 * 0..99, size 124..135, checksum 148..155, type 156, prefix 345..499. The magic is ignored, as by
 * tarfile, because archives with unusual magics exist. */
#include "dataset/container/tar.h"

#include "base/util.h"
#include "base/whole.h"
#include "dataset/container/unread.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum {
	AT_NAME = 0,
	NAME_SIZE = 100,
	AT_SIZE = 124,
	NUMBER_SIZE = 12,
	AT_CHECKSUM = 148,
	CHECKSUM_SIZE = 8,
	AT_TYPE = 156,
	AT_PREFIX = 345,
	PREFIX_SIZE = 155,
	AT_SPARSE_MORE = 482, /* GNU: another block of the map of holes follows */
	AT_MAP_MORE = 504, /* the same in such a block */
};

static const char *const again = "copy or download the shard again";

void tar_init(
	struct tar_reader *reader, const struct blob *blob, uint64_t file_size, const char *path)
{
	*reader = (struct tar_reader){.blob = blob, .path = path, .file_size = file_size};
}

static void extra_clear(struct tar_extra *extra)
{
	free(extra->name);
	*extra = (struct tar_extra){0};
}

void tar_deinit(struct tar_reader *reader)
{
	extra_clear(&reader->local);
	extra_clear(&reader->global);
	free(reader->extension);
	reader->extension = NULL;
}

static int fault_cut(const struct tar_reader *reader, uint64_t at, uint64_t need, const char *what,
	struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s is cut off: at byte %llu %s needs %llu bytes, but the file ends at byte %llu: "
		"%s",
		reader->path, (unsigned long long)at, what, (unsigned long long)need,
		(unsigned long long)reader->file_size, again);
}

/* Reads `size` bytes; fewer only at the end of the file. */
static ssize_t read_at(
	struct tar_reader *reader, uint64_t at, void *buffer, size_t size, struct fault *fault)
{
	ssize_t n = blob_read(reader->blob, buffer, size, at);
	if (n < 0)
		return fault_set(fault, (int)n, "%s cannot be read at byte %llu: %s", reader->path,
			(unsigned long long)at, blob_error((int)n));
	return n;
}

static int fault_shrunk(const struct tar_reader *reader, uint64_t at, struct fault *fault)
{
	(void)fault_set(fault, -ESTALE,
		"%s became shorter while it was read (byte %llu does not exist any more): open it "
		"again when it is complete",
		reader->path, (unsigned long long)at);
	return -ESTALE;
}

/* Reads `size` bytes, all of which the file had when it was opened. */
static int read_all(
	struct tar_reader *reader, uint64_t at, void *buffer, size_t size, struct fault *fault)
{
	ssize_t n = read_at(reader, at, buffer, size, fault);
	if (n < 0)
		return (int)n;
	return (size_t)n < size ? fault_shrunk(reader, at + (uint64_t)n, fault) : 0;
}

int tar_read(
	struct tar_reader *reader, uint64_t offset, void *buffer, size_t size, struct fault *fault)
{
	if (offset >= reader->window_at &&
		offset + size <= reader->window_at + reader->window_size) {
		memcpy(buffer, reader->window + (offset - reader->window_at), size);
		return 0;
	}
	return read_all(reader, offset, buffer, size, fault);
}

/* The block at `at`, through the window; the caller has checked that the file has it. */
static int block_at(
	struct tar_reader *reader, uint64_t at, const uint8_t **ret, struct fault *fault)
{
	if (at < reader->window_at || at + TAR_BLOCK > reader->window_at + reader->window_size) {
		reader->window_size = 0;
		ssize_t n = read_at(reader, at, reader->window, TAR_WINDOW, fault);
		if (n < 0)
			return (int)n;
		if (n < TAR_BLOCK)
			return fault_shrunk(reader, at + (uint64_t)n, fault);
		reader->window_at = at;
		reader->window_size = (size_t)n;
	}
	*ret = reader->window + (at - reader->window_at);
	return 0;
}

/* Base-256 (GNU): the first byte marks it and carries the sign, the rest is a big-endian number. */
static int number_binary(const uint8_t *field, size_t size, uint64_t *ret)
{
	if (field[0] != 0x80)
		return -ERANGE;
	uint64_t value = 0;
	for (size_t i = 1; i < size; i++) {
		if (value >> 55)
			return -ERANGE;
		value = value << 8 | field[i];
	}
	*ret = value;
	return 0;
}

static bool is_blank(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

int tar_number(const uint8_t *field, size_t size, uint64_t *ret)
{
	if (field[0] == 0x80 || field[0] == 0xff)
		return number_binary(field, size, ret);
	const uint8_t *zero = memchr(field, 0, size);
	size_t end = zero ? (size_t)(zero - field) : size, i = 0;
	while (i < end && is_blank(field[i]))
		i++;
	while (end > i && is_blank(field[end - 1]))
		end--;
	if (i < end && field[i] == '-')
		return -ERANGE;
	uint64_t value = 0;
	for (; i < end; i++) {
		if (field[i] < '0' || field[i] > '7')
			return -EINVAL;
		value = value << 3 |
			(uint64_t)(field[i] - '0'); /* at most 36 bits: a field has 12 digits */
	}
	*ret = value;
	return 0;
}

int tar_block_valid(const uint8_t block[TAR_BLOCK])
{
	/* The checksum field counts as eight spaces. Old tars summed signed bytes. */
	int64_t plain = (int64_t)CHECKSUM_SIZE * ' ', with_sign = plain;
	for (int i = 0; i < TAR_BLOCK; i++) {
		if (i >= AT_CHECKSUM && i < AT_CHECKSUM + CHECKSUM_SIZE)
			continue;
		plain += block[i];
		with_sign += (int8_t)block[i];
	}
	uint64_t stored;
	if (tar_number(block + AT_CHECKSUM, CHECKSUM_SIZE, &stored) < 0)
		return 0;
	return (int64_t)stored == plain || (int64_t)stored == with_sign;
}

static bool block_is_zero(const uint8_t *block)
{
	for (int i = 0; i < TAR_BLOCK; i++)
		if (block[i])
			return false;
	return true;
}

/* Whether it begins as the images that a folder may contain. */
static bool is_image(const uint8_t *bytes, size_t size)
{
	return size >= 4 && (!memcmp(bytes, "\xff\xd8\xff", 3) || !memcmp(bytes, "\x89PNG", 4));
}

static int fault_image(const struct tar_reader *reader, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s is an image, not a tar file: name the folder that contains it", reader->path);
}

static int fault_header(
	const struct tar_reader *reader, uint64_t at, const uint8_t *block, struct fault *fault)
{
	if (at > 0)
		return fault_set(fault, -EINVAL,
			"%s is damaged: expected a member's header at byte %llu, but its checksum "
			"is wrong: %s",
			reader->path, (unsigned long long)at, again);
	if (unread_fault(reader->path, block, TAR_BLOCK, fault) < 0)
		return -EINVAL;
	if (is_image(block, TAR_BLOCK))
		return fault_image(reader, fault);
	return fault_set(fault, -EINVAL,
		"%s is not a tar file (its first %d bytes are not a member's header), nor of "
		"another kind that is read (`penstock --version` lists them)",
		reader->path, TAR_BLOCK);
}

static int fault_number(
	const struct tar_reader *reader, uint64_t at, const char *what, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s is damaged: the header at byte %llu has %s that is not a number from 0 to "
		"2^63-1: %s",
		reader->path, (unsigned long long)at, what, again);
}

static int fault_name(const struct tar_reader *reader, uint64_t at, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s: the header at byte %llu has a name of more than %d bytes: pack the shard "
		"again with shorter names",
		reader->path, (unsigned long long)at, TAR_NAME_MAX);
}

/* Keeps a name for the next member. */
static int extra_name(const struct tar_reader *reader, struct tar_extra *extra, const char *name,
	size_t size, uint64_t at, struct fault *fault)
{
	if (size > TAR_NAME_MAX)
		return fault_name(reader, at, fault);
	char *copy = malloc(size + 1);
	if (!copy)
		return fault_set(fault, -ENOMEM, "no memory for a name of %zu bytes", size);
	memcpy(copy, name, size);
	copy[size] = 0;
	free(extra->name);
	extra->name = copy;
	extra->name_size = size;
	return 0;
}

/* Loads the data of an extended header into reader->extension. */
static int extension_load(
	struct tar_reader *reader, uint64_t header, uint64_t size, struct fault *fault)
{
	if (size > TAR_EXTENSION_MAX)
		return fault_set(fault, -EINVAL,
			"%s: the extended header at byte %llu has %llu bytes, at most %d are read: "
			"pack the shard again without such attributes",
			reader->path, (unsigned long long)header, (unsigned long long)size,
			TAR_EXTENSION_MAX);
	if (!reader->extension)
		reader->extension = malloc(TAR_EXTENSION_MAX + 1);
	if (!reader->extension)
		return fault_set(fault, -ENOMEM, "no memory for an extended header");
	reader->extension[size] = 0;
	return tar_read(reader, header + TAR_BLOCK, reader->extension, (size_t)size, fault);
}

/* One record of a pax header: "LENGTH KEYWORD=VALUE\n". LENGTH is the size of the whole record. */
struct pax_record {
	const char *keyword, *value;
	size_t keyword_size, value_size;
};

/* Parses the record at `text` and returns its size, 0 if it is not a record. Like tarfile, it
 * requires neither the newline nor a particular character set. */
static size_t pax_parse(const char *text, size_t size, struct pax_record *ret)
{
	uint64_t length = 0;
	size_t i = 0;
	for (; i < size && text[i] >= '0' && text[i] <= '9' && length <= TAR_EXTENSION_MAX; i++)
		length = length * 10 + (uint64_t)(text[i] - '0');
	if (i == 0 || i >= size || text[i] != ' ' || length > size)
		return 0;
	const char *keyword = text + i + 1;
	const char *equals = length > i + 1 ? memchr(keyword, '=', (size_t)length - i - 1) : NULL;
	if (!equals || equals == keyword || equals + 1 >= text + length)
		return 0;
	ret->keyword = keyword;
	ret->keyword_size = (size_t)(equals - keyword);
	ret->value = equals + 1;
	ret->value_size = (size_t)(text + length - 1 - ret->value);
	return (size_t)length;
}

static bool pax_is(const struct pax_record *record, const char *keyword)
{
	return record->keyword_size == strlen(keyword) &&
	       !memcmp(record->keyword, keyword, record->keyword_size);
}

static int pax_decimal(const struct pax_record *record, uint64_t *ret)
{
	int64_t value = 0;
	for (size_t i = 0; i < record->value_size; i++) {
		unsigned digit = (unsigned)(record->value[i] - '0');
		if (digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, digit, &value))
			return -EINVAL;
	}
	*ret = (uint64_t)value;
	return record->value_size ? 0 : -EINVAL;
}

static int pax_take(const struct tar_reader *reader, const struct pax_record *record,
	uint64_t header, struct tar_extra *extra, struct fault *fault)
{
	if (pax_is(record, "path")) {
		size_t size = strnlen(record->value, record->value_size);
		while (size > 0 && record->value[size - 1] == '/')
			size--;
		return extra_name(reader, extra, record->value, size, header, fault);
	}
	if (pax_is(record, "size")) {
		if (pax_decimal(record, &extra->size) < 0)
			return fault_number(reader, header, "a size", fault);
		extra->has_size = 1;
	}
	if (record->keyword_size > 11 && !memcmp(record->keyword, "GNU.sparse.", 11)) {
		extra->sparse = 1;
		if (pax_is(record, "GNU.sparse.name"))
			return extra_name(
				reader, extra, record->value, record->value_size, header, fault);
	}
	return 0;
}

/* Moves what `from` says and `into` does not yet say. */
static void extra_merge(struct tar_extra *into, struct tar_extra *from)
{
	if (!into->name) {
		into->name = from->name;
		into->name_size = from->name_size;
		from->name = NULL;
	}
	if (!into->has_size) {
		into->has_size = from->has_size;
		into->size = from->size;
	}
	into->sparse |= from->sparse;
	extra_clear(from);
}

static int pax_load(
	struct tar_reader *reader, uint64_t header, uint64_t size, bool global, struct fault *fault)
{
	int rc = extension_load(reader, header, size, fault);
	struct tar_extra extra = {0};
	for (size_t at = 0; rc == 0 && at < size && reader->extension[at];) {
		struct pax_record record;
		size_t step = pax_parse(reader->extension + at, (size_t)size - at, &record);
		if (step == 0)
			rc = fault_set(fault, -EINVAL,
				"%s is damaged: the extended header at byte %llu has no record of "
				"the form \"length keyword=value\" at its byte %zu: %s",
				reader->path, (unsigned long long)header, at, again);
		else
			rc = pax_take(reader, &record, header, &extra, fault);
		at += step;
	}
	if (rc < 0) {
		extra_clear(&extra);
	} else if (global) { /* the newest global value counts, but the oldest local one */
		extra_merge(&extra, &reader->global);
		reader->global = extra;
	} else {
		extra_merge(&reader->local, &extra);
	}
	return rc;
}

static int longname_load(
	struct tar_reader *reader, uint64_t header, uint64_t size, struct fault *fault)
{
	int rc = extension_load(reader, header, size, fault);
	if (rc < 0 || reader->local.name)
		return rc;
	return extra_name(reader, &reader->local, reader->extension, strlen(reader->extension),
		header, fault);
}

/* Checks that `size` bytes and their padding after the header are within the file, and steps over
 * them. */
static int step_over(struct tar_reader *reader, uint64_t header, uint64_t size, struct fault *fault)
{
	uint64_t data = header + TAR_BLOCK;
	uint64_t padded = util_align(size, TAR_BLOCK); /* size < 2^63: no overflow */
	if (padded > reader->file_size - data)
		return fault_cut(
			reader, data, padded, "the member after the previous header", fault);
	reader->next = data + padded;
	return 0;
}

/* The whole file is shorter than a header: a small tar, once compressed, is. */
static int fault_short(struct tar_reader *reader, size_t size, struct fault *fault)
{
	uint8_t bytes[TAR_BLOCK];
	int rc = read_all(reader, 0, bytes, size, fault);
	if (rc < 0)
		return rc;
	if (unread_fault(reader->path, bytes, size, fault) < 0)
		return -EINVAL;
	if (is_image(bytes, size))
		return fault_image(reader, fault);
	return fault_set(fault, -EINVAL,
		"%s is not a tar file (it has %zu bytes, but a member's header has %d), nor of "
		"another kind that is read (`penstock --version` lists them)",
		reader->path, size, TAR_BLOCK);
}

/* Reads and checks the next header block. 1; 0 at the end; or a fault. */
static int header_next(struct tar_reader *reader, const uint8_t **ret, struct fault *fault)
{
	uint64_t at = reader->next, left = reader->file_size - at;
	if (left == 0 && at == 0)
		return fault_set(fault, -EINVAL,
			"%s is empty: a tar file has at least one block of %d bytes", reader->path,
			TAR_BLOCK);
	if (left == 0)
		return 0;
	if (left < TAR_BLOCK && at > 0)
		return fault_cut(reader, at, TAR_BLOCK, "a member's header", fault);
	if (left < TAR_BLOCK)
		return fault_short(reader, (size_t)left, fault);
	int rc = block_at(reader, at, ret, fault);
	if (rc < 0)
		return rc;
	if (block_is_zero(*ret))
		return 0;
	return tar_block_valid(*ret) ? 1 : fault_header(reader, at, *ret, fault);
}

/* Writes the name of the header block, with its prefix, to reader->name. GNU's own types use the
 * prefix field for other data. */
static void name_from_block(
	struct tar_reader *reader, const uint8_t *block, struct tar_member *member)
{
	size_t size = 0;
	bool gnu = strchr("LKS", block[AT_TYPE]) && block[AT_TYPE];
	size_t prefix = gnu ? 0 : strnlen((const char *)block + AT_PREFIX, PREFIX_SIZE);
	if (prefix) {
		memcpy(reader->name, block + AT_PREFIX, prefix);
		reader->name[prefix] = '/';
		size = prefix + 1;
	}
	size_t own = strnlen((const char *)block + AT_NAME, NAME_SIZE);
	memcpy(reader->name + size, block + AT_NAME, own);
	reader->name[size + own] = 0;
	member->name_size = size + own;
}

static void member_name(struct tar_reader *reader, const uint8_t *block, struct tar_member *member)
{
	const struct tar_extra *from = reader->local.name ? &reader->local : &reader->global;
	if (from->name) {
		memcpy(reader->name, from->name, from->name_size + 1);
		member->name_size = from->name_size;
	} else {
		name_from_block(reader, block, member);
	}
	member->name = reader->name;
}

/* Before pax, a folder was a regular member whose name ended with a slash. */
static bool is_old_folder(const uint8_t *block)
{
	size_t size = strnlen((const char *)block + AT_NAME, NAME_SIZE);
	return block[AT_TYPE] == 0 && size > 0 && block[AT_NAME + size - 1] == '/';
}

static enum tar_kind member_kind(const struct tar_reader *reader, const uint8_t *block)
{
	switch (block[AT_TYPE]) {
	case 0:
	case '0':
	case '7': /* "contiguous": treated as an ordinary file everywhere */
		if (is_old_folder(block))
			return TAR_OTHER;
		return reader->local.sparse || reader->global.sparse ? TAR_SPARSE : TAR_FILE;
	case 'S':
		return TAR_SPARSE;
	default:
		return TAR_OTHER;
	}
}

/* Links, devices, folders and FIFOs have no data, whatever their size field says. Unknown types
 * have. */
static bool has_data(const uint8_t *block)
{
	uint8_t type = block[AT_TYPE];
	return !(type && strchr("123456", type)) && !is_old_folder(block);
}

/* GNU's sparse members may have more blocks of their map between header and data. */
static int skip_sparse_map(
	struct tar_reader *reader, uint64_t *header, const uint8_t *block, struct fault *fault)
{
	bool more = block[AT_TYPE] == 'S' && block[AT_SPARSE_MORE];
	while (more) {
		*header += TAR_BLOCK;
		if (reader->file_size - *header < TAR_BLOCK)
			return fault_cut(
				reader, *header, TAR_BLOCK, "the map of a sparse member", fault);
		const uint8_t *map = NULL;
		int rc = block_at(reader, *header, &map, fault);
		if (rc < 0)
			return rc;
		more = map[AT_MAP_MORE] != 0;
	}
	return 0;
}

static int member_take(struct tar_reader *reader, const uint8_t *block, uint64_t size,
	struct tar_member *ret, struct fault *fault)
{
	uint64_t header = reader->next, data_header = header;
	struct tar_member member = {.header = header};
	member.kind = member_kind(reader, block);
	member_name(reader, block, &member);
	if (reader->local.has_size || reader->global.has_size)
		size = reader->local.has_size ? reader->local.size : reader->global.size;
	if (!has_data(block))
		size = 0;
	extra_clear(&reader->local);
	/* `block` points into the window, which reading the map of a sparse member may move: it is
	 * not used after this. */
	int rc = skip_sparse_map(reader, &data_header, block, fault);
	if (rc == 0)
		rc = step_over(reader, data_header, size, fault);
	if (rc < 0)
		return rc;
	member.offset = data_header + TAR_BLOCK;
	member.size = size;
	*ret = member;
	return 1;
}

/* Takes an extended header: 1 if it was one, 0 if `type` is a member's type. */
static int extension_take(
	struct tar_reader *reader, uint8_t type, uint64_t size, struct fault *fault)
{
	uint64_t header = reader->next;
	if (!type || !strchr("LKxXg", type))
		return 0;
	int rc = step_over(reader, header, size, fault);
	if (rc < 0)
		return rc;
	if (type == 'L')
		rc = longname_load(reader, header, size, fault);
	else if (type != 'K') /* K: a link's target */
		rc = pax_load(reader, header, size, type == 'g', fault);
	return rc < 0 ? rc : 1;
}

int tar_next(struct tar_reader *reader, struct tar_member *ret, struct fault *fault)
{
	for (bool pending = false;; pending = true) {
		uint64_t at = reader->next, size = 0;
		const uint8_t *block = NULL;
		int rc = header_next(reader, &block, fault);
		if (rc == 0 && pending)
			return fault_set(fault, -EINVAL,
				"%s is cut off: expected the member of the previous extended "
				"header at byte %llu: %s",
				reader->path, (unsigned long long)at, again);
		if (rc <= 0)
			return rc;
		if (tar_number(block + AT_SIZE, NUMBER_SIZE, &size) < 0)
			return fault_number(reader, at, "a size", fault);
		rc = extension_take(reader, block[AT_TYPE], size, fault);
		if (rc < 0)
			return rc;
		if (rc == 0)
			return member_take(reader, block, size, ret, fault);
	}
}

/* Finds the first byte from `at` on that is not zero; `end` if there is none before it. */
static int find_nonzero(
	struct tar_reader *reader, uint64_t at, uint64_t end, uint64_t *ret, struct fault *fault)
{
	for (; at < end; at += reader->window_size) {
		reader->window_at = at;
		reader->window_size = (size_t)UTIL_MIN(end - at, (uint64_t)TAR_WINDOW);
		int rc = read_all(reader, at, reader->window, reader->window_size, fault);
		if (rc < 0)
			return rc;
		for (size_t i = 0; i < reader->window_size; i++)
			if (reader->window[i]) {
				*ret = at + i;
				return 0;
			}
	}
	*ret = end;
	return 0;
}

int tar_end_read(
	struct tar_reader *reader, enum tar_end *ret, uint64_t *ret_at, struct fault *fault)
{
	uint64_t at = reader->next, left = reader->file_size - at, found;
	*ret = TAR_END_CUT;
	*ret_at = reader->file_size;
	if (left < 2 * TAR_BLOCK)
		return 0;
	uint64_t end = at + UTIL_MIN(left, (uint64_t)TAR_PADDING_MAX);
	int rc = find_nonzero(reader, at, end, &found, fault);
	if (rc < 0)
		return rc;
	*ret = found < end ? TAR_END_BYTES : TAR_END_WHOLE;
	*ret_at = found;
	uint8_t block[TAR_BLOCK];
	uint64_t header = found - found % TAR_BLOCK;
	if (found == end || reader->file_size - header < TAR_BLOCK)
		return 0;
	rc = read_all(reader, header, block, sizeof block, fault);
	if (rc == 0 && tar_block_valid(block))
		*ret = TAR_END_TAR;
	return rc;
}

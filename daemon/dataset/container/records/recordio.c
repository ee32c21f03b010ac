/* recordio: see recordio.h. */
#include "dataset/container/records/recordio.h"

#include "base/util.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

enum { LENGTH_BITS = 29, PART_WHOLE = 0, PART_FIRST = 1, PART_MIDDLE = 2, PART_LAST = 3 };
/* dmlc's writer takes records below 2^30 bytes. */
#define SIZE_MOST (UINT64_C(1) << 30)

void recordio_init(
	struct recordio *reader, const struct blob *blob, const char *path, uint64_t size)
{
	window_init(&reader->window, blob, path, size);
}

void recordio_deinit(struct recordio *reader)
{
	window_deinit(&reader->window);
}

static uint32_t take_32(const uint8_t *bytes)
{
	uint32_t value;
	memcpy(&value, bytes, sizeof value);
	return value; /* files are little-endian, and so are the machines that penstock runs on */
}

static uint64_t padded(uint64_t size)
{
	return util_align(size, 4);
}

/* One part. */
struct part {
	uint32_t which;
	uint32_t size;
};

static int part_at(struct recordio *reader, uint64_t at, struct part *ret, struct fault *fault)
{
	const uint8_t *head = NULL;
	int rc = window_get(
		&reader->window, at, RECORDIO_HEAD, "the header of a record", &head, fault);
	if (rc < 0)
		return rc;
	const uint32_t magic = take_32(head), coded = take_32(head + 4);
	if (magic != RECORDIO_MAGIC)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: found 0x%08x, but a record of a RecordIO file begins with "
			"0x%08x: the file is damaged, or its .idx file belongs to another one",
			reader->window.path, (unsigned long long)at, magic, RECORDIO_MAGIC);
	ret->which = coded >> LENGTH_BITS;
	ret->size = coded & ((UINT32_C(1) << LENGTH_BITS) - 1);
	if (ret->which > PART_LAST)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: a record's header says that it is part %u, but a part is 0 "
			"to 3: the file is damaged, make it again",
			reader->window.path, (unsigned long long)at, ret->which);
	const uint64_t left = reader->window.size - at - RECORDIO_HEAD;
	if (padded(ret->size) > left && ret->size != left)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: a record of %u bytes begins here, but the file ends at "
			"byte %llu: it is damaged or was cut off; copy it again from where it came "
			"from",
			reader->window.path, (unsigned long long)at, ret->size,
			(unsigned long long)reader->window.size);
	return 0;
}

static int order_fault(const struct recordio *reader, uint64_t at, uint32_t which,
	const char *expected, struct fault *fault)
{
	static const char *const names[] = {
		"a whole record", "a record's first part", "a middle part", "a last part"};
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: found %s, expected %s: the file is damaged, or its .idx file "
		"belongs to another one",
		reader->window.path, (unsigned long long)at, names[which], expected);
}

/* Reads the parts after the first one. */
static int parts_rest(struct recordio *reader, struct recordio_record *record, struct fault *fault)
{
	struct part part = {PART_FIRST, 0};
	int rc = 0;
	while (rc == 0 && part.which != PART_LAST) {
		const uint64_t at = record->next;
		rc = part_at(reader, at, &part, fault);
		if (rc == 0 && part.which != PART_MIDDLE && part.which != PART_LAST)
			return order_fault(
				reader, at, part.which, "the next part of a record", fault);
		record->parts++;
		record->size += RECORDIO_MAGIC_BYTES + part.size;
		record->stored = at + RECORDIO_HEAD + part.size - record->at;
		record->next = at + RECORDIO_HEAD + padded(part.size);
		if (rc == 0 && record->stored >= SIZE_MOST)
			return fault_set(fault, -EINVAL,
				"%s: byte %llu: a record has more than 2^30 bytes: the file is "
				"damaged, make it again",
				reader->window.path, (unsigned long long)record->at);
		if (rc == 0 && part.which == PART_MIDDLE && part.size % 4)
			return order_fault(reader, at, part.which,
				"a part whose length is a multiple of 4", fault);
	}
	return rc;
}

int recordio_at(
	struct recordio *reader, uint64_t at, struct recordio_record *ret, struct fault *fault)
{
	struct part part;
	if (at == reader->window.size)
		return 0;
	int rc = part_at(reader, at, &part, fault);
	if (rc < 0)
		return rc;
	if (part.which != PART_WHOLE && part.which != PART_FIRST)
		return order_fault(reader, at, part.which, "the beginning of a record", fault);
	if (part.which == PART_FIRST && part.size % 4)
		return order_fault(
			reader, at, part.which, "a part whose length is a multiple of 4", fault);
	struct recordio_record record = {.at = at,
		.stored = (uint64_t)RECORDIO_HEAD + part.size,
		.next = at + RECORDIO_HEAD + padded(part.size),
		.size = part.size,
		.parts = 1};
	if (part.which == PART_FIRST)
		rc = parts_rest(reader, &record, fault);
	if (rc < 0)
		return rc;
	/* The last record's padding may be missing. */
	record.next = UTIL_MIN(record.next, reader->window.size);
	*ret = record;
	return 1;
}

int recordio_copy(struct recordio *reader, const struct recordio_record *record, uint64_t from,
	void *to, size_t size, struct fault *fault)
{
	const uint32_t magic = RECORDIO_MAGIC;
	uint8_t *out = to;
	uint64_t at = record->at;
	for (uint32_t number = 0; size > 0 && number < record->parts; number++) {
		struct part part;
		int rc = part_at(reader, at, &part, fault);
		if (rc < 0)
			return rc;
		/* Each part but the first stands for the magic number in front of its bytes. */
		const uint64_t before = number ? RECORDIO_MAGIC_BYTES : 0;
		const uint64_t length = before + part.size;
		for (; size > 0 && from < before; from++, size--)
			*out++ = ((const uint8_t *)&magic)[from];
		if (size > 0 && from < length) {
			const size_t take = (size_t)UTIL_MIN(length - from, (uint64_t)size);
			const uint8_t *bytes = NULL;
			rc = window_get(&reader->window, at + RECORDIO_HEAD + from - before, take,
				"the head of an image's record", &bytes, fault);
			if (rc < 0)
				return rc;
			memcpy(out, bytes, take);
			out += take;
			size -= take;
			from += take;
		}
		from -= UTIL_MIN(from, length);
		at += RECORDIO_HEAD + padded(part.size);
	}
	return 0;
}

int recordio_image(struct recordio *reader, const struct recordio_record *record,
	struct recordio_image *ret, struct fault *fault)
{
	uint8_t bytes[RECORDIO_IR];
	if (record->size < sizeof bytes)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: a record has %llu bytes, but MXNet's header of an image "
			"has %d: the file is not one of images, or is damaged",
			reader->window.path, (unsigned long long)record->at,
			(unsigned long long)record->size, RECORDIO_IR);
	int rc = recordio_copy(reader, record, 0, bytes, sizeof bytes, fault);
	if (rc < 0)
		return rc;
	struct recordio_image image = {.flag = take_32(bytes)};
	memcpy(&image.label, bytes + 4, sizeof image.label);
	memcpy(&image.id, bytes + 8, sizeof image.id);
	const uint64_t skip = RECORDIO_IR + (uint64_t)image.flag * sizeof(float);
	if (skip > record->size)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: a record says that it has %u labels, but it has only %llu "
			"bytes: the file is not one of images, or is damaged",
			reader->window.path, (unsigned long long)record->at, image.flag,
			(unsigned long long)record->size);
	image.skip = (uint32_t)skip;
	*ret = image;
	return 0;
}

/* ---- the .idx file ---- */

void recordio_idx_init(
	struct recordio_idx *idx, const struct blob *blob, const char *path, uint64_t size)
{
	window_init(&idx->window, blob, path, size);
	idx->next = 0;
	idx->number = 0;
}

void recordio_idx_deinit(struct recordio_idx *idx)
{
	window_deinit(&idx->window);
}

static int line_fault(const struct recordio_idx *idx, uint64_t at, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: line %llu is not of the form KEY, tab, byte of the .rec file: make "
		"the file again (MXNet's tools/rec2idx.py), or remove it to read the records in "
		"their own order",
		idx->window.path, (unsigned long long)at, (unsigned long long)idx->number);
}

static bool is_blank(uint8_t byte)
{
	return byte == ' ' || byte == '\t' || byte == '\r';
}

/* Takes a line apart; false if it is not of the form. */
static bool line_parse(const uint8_t *text, size_t size, struct recordio_line *ret)
{
	while (size > 0 && is_blank(text[size - 1]))
		size--;
	size_t key = 0, at;
	while (key < size && text[key] > ' ')
		key++;
	for (at = key; at < size && is_blank(text[at]); at++)
		;
	if (key == 0 || key > RECORDIO_KEY_MAX || at == size)
		return false;
	uint64_t value = 0;
	for (; at < size; at++)
		if (!isdigit(text[at]) || __builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, (uint64_t)(text[at] - '0'), &value))
			return false;
	memcpy(ret->key, text, key);
	ret->key[key] = 0;
	ret->key_size = key;
	ret->record = value;
	return true;
}

int recordio_idx_next(struct recordio_idx *idx, struct recordio_line *ret, struct fault *fault)
{
	enum { LINE_MAX_BYTES = RECORDIO_KEY_MAX + 64 };
	while (idx->next < idx->window.size) {
		const uint64_t at = idx->next, left = idx->window.size - at;
		const size_t room = (size_t)UTIL_MIN(left, (uint64_t)LINE_MAX_BYTES);
		const uint8_t *text = NULL;
		int rc = window_get(&idx->window, at, room, "a line", &text, fault);
		if (rc < 0)
			return rc;
		const uint8_t *end = memchr(text, '\n', room);
		const size_t size = end ? (size_t)(end - text) : room;
		idx->number++;
		if (!end && room < left)
			return line_fault(idx, at, fault);
		idx->next = at + size + (end ? 1 : 0);
		size_t blanks = 0;
		while (blanks < size && is_blank(text[blanks]))
			blanks++;
		if (blanks == size)
			continue;
		ret->at = at;
		return line_parse(text, size, ret) ? 1 : line_fault(idx, at, fault);
	}
	return 0;
}

/* cursor: see cursor.h. */
#include "dataset/container/parquet/cursor.h"

#include "base/array.h"
#include "base/util.h"

#include <errno.h>

struct cursor *cursor_new(const struct parquet *parquet, uint32_t node, bool reads_text)
{
	struct cursor *cursor = calloc(1, sizeof *cursor);
	if (!cursor)
		return NULL;
	cursor->parquet = parquet;
	cursor->leaf = &parquet->schema.node[node];
	cursor->reads_text = reads_text;
	schema_path(&parquet->schema, node, cursor->name, sizeof cursor->name);
	(void)snprintf(cursor->what, sizeof cursor->what, "a page of column %s", cursor->name);
	window_init(&cursor->window, parquet->blob, parquet->path, parquet->size);
	return cursor;
}

void cursor_free(struct cursor *cursor)
{
	if (!cursor)
		return;
	window_deinit(&cursor->window);
	unpack_free(cursor->unpack);
	free(cursor->definition.bytes);
	free(cursor->repeated.bytes);
	free(cursor->dictionary);
	free(cursor->dictionary_text);
	free(cursor);
}

void cursor_begin(struct cursor *cursor, const struct parquet_chunk *chunk)
{
	cursor->chunk = *chunk;
	cursor->next = chunk->at;
	cursor->left = chunk->values;
	cursor->page_left = 0;
	cursor->dictionary_count = 0;
	cursor->dictionary_read = false;
	cursor->text_size = 0;
}

static int no_memory(const struct cursor *cursor, struct fault *fault)
{
	return fault_set(fault, -ENOMEM, "no memory to index %s", cursor->parquet->path);
}

/* The page in hand is damaged. */
static int page_fault(const struct cursor *cursor, const char *how, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: %s is damaged: %s; copy the file again from where it came from",
		cursor->parquet->path, (unsigned long long)cursor->page.header, cursor->what, how);
}

/* ---- the bytes of a page ---- */

/* Bytes of a value; 0: its length is stored before it. */
static uint32_t value_size(const struct cursor *cursor)
{
	static const uint8_t sizes[PARQUET_TYPES] = {[PARQUET_INT32] = 4,
		[PARQUET_INT64] = 8,
		[PARQUET_INT96] = 12,
		[PARQUET_FLOAT] = 4,
		[PARQUET_DOUBLE] = 8};
	return cursor->leaf->type == PARQUET_FIXED ? cursor->leaf->length
						   : sizes[cursor->leaf->type];
}

/* A page of a few bytes may unpack to 2 GiB, and a file may have any number of such pages. */
static int unpacked_check(struct cursor *cursor, uint32_t size, struct fault *fault)
{
	uint64_t most = 0;
	if (__builtin_mul_overflow(cursor->parquet->size, CURSOR_RATIO, &most))
		most = UINT64_MAX;
	most = UTIL_MAX(most, CURSOR_UNPACKED);
	cursor->unpacked += size;
	if (cursor->unpacked <= most)
		return 0;
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: the pages of column %s up to this one unpack to more than %llu "
		"bytes, which images and labels do not: the file is damaged or made to waste time; "
		"copy it again from where it came from, or write it without compression",
		cursor->parquet->path, (unsigned long long)cursor->page.header, cursor->name,
		(unsigned long long)most);
}

/* Opens the bytes of the page from byte `from` on. */
static int page_open(struct cursor *cursor, uint32_t from, bool compressed, struct fault *fault)
{
	static const uint8_t methods[PARQUET_CODECS] = {
		[PARQUET_SNAPPY] = PACKED_SNAPPY,
		[PARQUET_GZIP] = PACKED_GZIP,
		[PARQUET_ZSTD] = PACKED_ZSTD,
	};
	const struct page *page = &cursor->page;
	struct cursor_place *place = &cursor->place;
	*place = (struct cursor_place){
		.base = page->data + from,
		.stored = page->stored - from,
		.whole = page->whole - from,
		.method = compressed ? methods[cursor->chunk.codec] : PACKED_NONE,
	};
	if (place->method == PACKED_NONE) {
		if (place->stored != place->whole)
			return page_fault(
				cursor, "it is not compressed, but its two sizes differ", fault);
		stream_plain(
			&cursor->stream, &cursor->window, place->base, place->whole, cursor->what);
		return 0;
	}
	if (!cursor->unpack)
		cursor->unpack = unpack_new();
	if (!cursor->unpack)
		return no_memory(cursor, fault);
	int rc = unpacked_check(cursor, place->whole, fault);
	if (rc < 0)
		return rc;
	return stream_packed(&cursor->stream, &cursor->window, cursor->unpack, place->method,
		place->base, place->stored, place->whole, cursor->what, fault);
}

/* ---- values ---- */

/* A value begins at byte `at` of the page, and its first bytes may have been read. */
static void span_begin(const struct cursor *cursor, uint64_t at)
{
	if (cursor->place.method != PACKED_NONE)
		unpack_part_begin(cursor->unpack, at);
}

/* Its last byte was read or skipped. */
static struct cursor_span span_end(const struct cursor *cursor, uint64_t at, uint32_t size)
{
	const struct cursor_place *place = &cursor->place;
	struct cursor_span span = {.inner = (uint32_t)at, .size = size, .stored = place->stored};
	struct packed packed;
	uint64_t from;
	if (place->method == PACKED_NONE)
		return (struct cursor_span){.from = (uint32_t)at, .size = size};
	if (unpack_part_end(cursor->unpack, at, size, &from, &packed))
		span = (struct cursor_span){.from = (uint32_t)from,
			.stored = packed.stored,
			.inner = packed.inner,
			.size = size,
			.part = true,
			.window = packed.window};
	return span;
}

static void place_value(
	const struct cursor_place *place, const struct cursor_span *span, struct cursor_value *ret)
{
	ret->offset = place->base + span->from;
	ret->size = span->size;
	ret->packed = (struct packed){0};
	if (place->method == PACKED_NONE)
		return;
	static const uint8_t parts[PACKED_METHODS] = {
		[PACKED_GZIP] = PACKED_DEFLATE_PART,
		[PACKED_SNAPPY] = PACKED_SNAPPY_PART,
		[PACKED_ZSTD] = PACKED_ZSTD_PART,
	};
	ret->packed = (struct packed){.stored = span->stored,
		.inner = span->inner,
		.whole = span->part ? span->inner + span->size : place->whole,
		.window = span->window,
		.method = span->part ? parts[place->method] : place->method};
}

static uint64_t little(const uint8_t *bytes, size_t size)
{
	uint64_t value = 0;
	for (size_t i = 0; i < size; i++)
		value |= (uint64_t)bytes[i] << 8 * i;
	return value;
}

/* Reads the size of the next plain value, and its bits if it is a number. The bytes of other values
 * follow. */
static int plain_begin(struct cursor *cursor, uint64_t *ret_at, uint32_t *ret_size,
	uint64_t *ret_bits, struct fault *fault)
{
	const bool sized = cursor->leaf->type != PARQUET_BYTES;
	uint8_t bytes[8] = {0};
	uint32_t size = sized ? value_size(cursor) : 4;
	const bool number = sized && cursor->leaf->type != PARQUET_FIXED && size <= sizeof bytes;
	*ret_at = cursor->stream.at;
	if (!sized || number) {
		int rc = stream_read(&cursor->stream, bytes, size, fault);
		if (rc < 0)
			return rc;
	}
	*ret_bits = little(bytes, sizeof bytes);
	if (!sized) {
		size = (uint32_t)*ret_bits;
		*ret_at = cursor->stream.at;
	}
	if (size > cursor->stream.end - *ret_at)
		return stream_damaged(
			&cursor->stream, "a value is longer than the bytes that are left", fault);
	*ret_size = size;
	return 0;
}

/* Whether plain_begin has left the value's bytes in the stream. */
static bool plain_bytes_follow(const struct cursor *cursor)
{
	return cursor->leaf->type >= PARQUET_BYTES || cursor->leaf->type == PARQUET_INT96;
}

static int plain_next(struct cursor *cursor, struct cursor_value *ret, struct fault *fault)
{
	uint64_t at = 0;
	uint32_t size = 0, read = 0;
	int rc = plain_begin(cursor, &at, &size, &ret->bits, fault);
	if (rc < 0)
		return rc;
	span_begin(cursor, at);
	const bool follow = plain_bytes_follow(cursor);
	if (follow && cursor->reads_text && size <= sizeof cursor->text) {
		rc = stream_read(&cursor->stream, cursor->text, size, fault);
		ret->text = cursor->text;
		read = size;
	}
	if (rc == 0 && follow)
		rc = stream_skip(&cursor->stream, size - read, fault);
	if (rc < 0)
		return rc;
	const struct cursor_span span = span_end(cursor, at, size);
	place_value(&cursor->place, &span, ret);
	return 0;
}

/* Plain booleans are bits, the lowest first; those of the encoding RLE are runs after their
 * size. */
static int boolean_next(struct cursor *cursor, struct cursor_value *ret, struct fault *fault)
{
	if (cursor->page.encoding == PAGE_RLE) {
		uint8_t size[4];
		uint32_t value = 0;
		int rc = cursor->indexes_begun
				 ? 0
				 : stream_read(&cursor->stream, size, sizeof size, fault);
		if (!cursor->indexes_begun)
			runs_init(&cursor->indexes, &cursor->stream, 1);
		cursor->indexes_begun = true;
		if (rc == 0)
			rc = runs_next(&cursor->indexes, &value, fault);
		ret->bits = value & 1;
		return rc;
	}
	if (!cursor->bits_left) {
		int rc = stream_read(&cursor->stream, &cursor->bits, 1, fault);
		if (rc < 0)
			return rc;
		cursor->bits_left = 8;
	}
	ret->bits = cursor->bits & 1;
	cursor->bits >>= 1;
	cursor->bits_left--;
	return 0;
}

static int indexed_next(struct cursor *cursor, struct cursor_value *ret, struct fault *fault)
{
	uint32_t index = 0;
	int rc = 0;
	if (!cursor->indexes_begun) {
		uint8_t width = 0;
		rc = stream_read(&cursor->stream, &width, 1, fault);
		if (rc == 0 && width > 32)
			rc = page_fault(cursor,
				"the numbers of its dictionary entries have more than 32 bits",
				fault);
		runs_init(&cursor->indexes, &cursor->stream, width);
		cursor->indexes_begun = true;
	}
	if (rc == 0)
		rc = runs_next(&cursor->indexes, &index, fault);
	if (rc < 0)
		return rc;
	if (index >= cursor->dictionary_count)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: %s is damaged: it names entry %u of a dictionary of %zu; "
			"copy the file again from where it came from",
			cursor->parquet->path, (unsigned long long)cursor->page.header,
			cursor->what, index, cursor->dictionary_count);
	const struct cursor_entry *entry = &cursor->dictionary[index];
	place_value(&cursor->dictionary_place, &entry->span, ret);
	ret->bits = entry->bits;
	if (cursor->reads_text && entry->span.size <= INDEX_NAME_MAX)
		ret->text = cursor->dictionary_text + entry->bits;
	return 0;
}

/* ---- dictionaries ---- */

static int text_keep(
	struct cursor *cursor, uint32_t size, struct cursor_entry *entry, struct fault *fault)
{
	if (size > CURSOR_TEXT_MAX - cursor->text_size)
		return fault_set(fault, -EINVAL,
			"%s: the dictionary of column %s has more than %d bytes of text: write the "
			"file with a smaller dictionary (dictionary_pagesize_limit)",
			cursor->parquet->path, cursor->name, CURSOR_TEXT_MAX);
	if (cursor->text_size + size > cursor->text_room || !cursor->dictionary_text) {
		const size_t room = UTIL_MAX(cursor->text_size + size, 2 * cursor->text_room + 64);
		char *grown = realloc(cursor->dictionary_text, room);
		if (!grown)
			return no_memory(cursor, fault);
		cursor->dictionary_text = grown;
		cursor->text_room = room;
	}
	entry->bits = cursor->text_size;
	int rc = stream_read(
		&cursor->stream, cursor->dictionary_text + cursor->text_size, size, fault);
	cursor->text_size += rc == 0 ? size : 0;
	return rc;
}

static int entry_read(struct cursor *cursor, struct fault *fault)
{
	struct cursor_entry *grown = array_grown(cursor->dictionary, cursor->dictionary_count,
		&cursor->dictionary_room, sizeof *grown);
	uint64_t at = 0, bits = 0;
	uint32_t size = 0;
	if (!grown)
		return no_memory(cursor, fault);
	cursor->dictionary = grown;
	struct cursor_entry *entry = &grown[cursor->dictionary_count];
	int rc = plain_begin(cursor, &at, &size, &bits, fault);
	if (rc < 0)
		return rc;
	span_begin(cursor, at);
	entry->bits = bits;
	if (plain_bytes_follow(cursor))
		rc = cursor->reads_text ? text_keep(cursor, size, entry, fault)
					: stream_skip(&cursor->stream, size, fault);
	if (rc < 0)
		return rc;
	entry->span = span_end(cursor, at, size);
	cursor->dictionary_count++;
	return 0;
}

static int dictionary_read(struct cursor *cursor, struct fault *fault)
{
	const struct page *page = &cursor->page;
	if (cursor->dictionary_read || cursor->left != cursor->chunk.values)
		return page_fault(cursor, "a dictionary comes after other pages", fault);
	if (page->encoding != PAGE_PLAIN && page->encoding != PAGE_PLAIN_DICTIONARY)
		return page_fault(cursor, "a dictionary is not plain", fault);
	if (cursor->leaf->type == PARQUET_BOOLEAN)
		return page_fault(cursor, "booleans have no dictionary", fault);
	if (page->values > CURSOR_DICTIONARY_MAX)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: the dictionary of column %s has %u entries, but at most %d "
			"are read: write the file with a smaller dictionary "
			"(dictionary_pagesize_limit)",
			cursor->parquet->path, (unsigned long long)page->header, cursor->name,
			page->values, CURSOR_DICTIONARY_MAX);
	/* Of type FIXED_LEN_BYTE_ARRAY(0), any number of entries would have no bytes. */
	if (page->values > page->whole)
		return page_fault(cursor, "a dictionary has more entries than bytes", fault);
	int rc = page_open(cursor, 0, cursor->chunk.codec != PARQUET_UNCOMPRESSED, fault);
	cursor->dictionary_place = cursor->place;
	for (uint32_t i = 0; i < page->values && rc == 0; i++)
		rc = entry_read(cursor, fault);
	cursor->dictionary_read = true;
	return rc < 0 ? rc
		      : stream_skip(&cursor->stream, cursor->stream.end - cursor->stream.at, fault);
}

/* ---- levels ---- */

static unsigned width_of(unsigned most)
{
	unsigned width = 0;
	for (; most; most >>= 1)
		width++;
	return width;
}

/* Reads `size` bytes of levels out of the stream. */
static int levels_take(struct cursor *cursor, struct cursor_levels *levels, uint32_t size,
	unsigned most, struct fault *fault)
{
	if (size > CURSOR_LEVELS_MAX)
		return page_fault(cursor, "its levels have more than 4 MiB", fault);
	if (size > levels->room || !levels->bytes) {
		uint8_t *grown = realloc(levels->bytes, (size_t)size + 1);
		if (!grown)
			return no_memory(cursor, fault);
		levels->bytes = grown;
		levels->room = size;
	}
	int rc = stream_read(&cursor->stream, levels->bytes, size, fault);
	stream_memory(&levels->stream, cursor->parquet->path, levels->bytes, size, cursor->what);
	levels->stream.base = cursor->page.header;
	runs_init(&levels->runs, &levels->stream, width_of(most));
	return rc;
}

/* In pages of version 1, levels come after their size. */
static int levels_read(struct cursor *cursor, struct cursor_levels *levels, unsigned most,
	uint8_t encoding, struct fault *fault)
{
	uint8_t bytes[4] = {0};
	if (!most)
		return 0;
	if (encoding != PAGE_RLE)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: the levels of column %s are encoded as %s, which penstock "
			"does not read: write the file again with a current program",
			cursor->parquet->path, (unsigned long long)cursor->page.header,
			cursor->name, page_encoding_name(encoding));
	int rc = stream_read(&cursor->stream, bytes, sizeof bytes, fault);
	if (rc == 0 && little(bytes, 4) > cursor->stream.end - cursor->stream.at)
		return stream_damaged(
			&cursor->stream, "its levels are longer than the page", fault);
	return rc < 0 ? rc : levels_take(cursor, levels, (uint32_t)little(bytes, 4), most, fault);
}

static int level_next(const struct cursor *cursor, struct cursor_levels *levels, unsigned most,
	uint32_t *ret, struct fault *fault)
{
	*ret = 0;
	if (!most)
		return 0;
	int rc = runs_next(&levels->runs, ret, fault);
	if (rc == 0 && *ret > most)
		return page_fault(cursor, "a level is above the highest of its column", fault);
	return rc;
}

/* ---- pages ---- */

static int encoding_check(const struct cursor *cursor, struct fault *fault)
{
	const uint8_t encoding = cursor->page.encoding;
	const bool boolean = cursor->leaf->type == PARQUET_BOOLEAN;
	const bool indexed = encoding == PAGE_PLAIN_DICTIONARY || encoding == PAGE_RLE_DICTIONARY;
	if (indexed && !cursor->dictionary_read)
		return page_fault(cursor, "it needs a dictionary, and none comes before it", fault);
	if (encoding == PAGE_PLAIN || (indexed && !boolean) || (boolean && encoding == PAGE_RLE))
		return 0;
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: column %s is encoded as %s (%u), which penstock does not read: "
		"write the file with PLAIN or dictionary encoding, the defaults of `datasets` and "
		"pyarrow",
		cursor->parquet->path, (unsigned long long)cursor->page.header, cursor->name,
		page_encoding_name(encoding), encoding);
}

static int page_begin(struct cursor *cursor, struct fault *fault)
{
	const struct page *page = &cursor->page;
	const struct schema_node *leaf = cursor->leaf;
	const uint32_t levels = page->definition_bytes + page->repeated_bytes;
	int rc = encoding_check(cursor, fault);
	if (rc == 0 && page->values > cursor->left)
		rc = page_fault(cursor, "the chunk has more values than the footer says", fault);
	if (rc < 0)
		return rc;
	bool compressed = cursor->chunk.codec != PARQUET_UNCOMPRESSED;
	if (page->type == PAGE_DATA_2) {
		stream_plain(&cursor->stream, &cursor->window, page->data, levels, cursor->what);
		rc = levels_take(
			cursor, &cursor->repeated, page->repeated_bytes, leaf->repeated, fault);
		if (rc == 0)
			rc = levels_take(cursor, &cursor->definition, page->definition_bytes,
				leaf->definition, fault);
		compressed &= page->compressed;
	}
	if (rc == 0)
		rc = page_open(cursor, levels, compressed, fault);
	if (rc == 0 && page->type == PAGE_DATA)
		rc = levels_read(
			cursor, &cursor->repeated, leaf->repeated, page->repeated_encoding, fault);
	if (rc == 0 && page->type == PAGE_DATA)
		rc = levels_read(cursor, &cursor->definition, leaf->definition,
			page->definition_encoding, fault);
	if (rc < 0)
		return rc;
	cursor->page_left = page->values;
	cursor->left -= page->values;
	cursor->indexes_begun = false;
	cursor->bits_left = 0;
	return 0;
}

/* Goes to the next page with values. 1; 0: the chunk has no more. */
static int page_next(struct cursor *cursor, struct fault *fault)
{
	while (!cursor->page_left) {
		if (!cursor->left)
			return 0;
		if (cursor->next >= cursor->chunk.end)
			return fault_set(fault, -EINVAL,
				"%s: byte %llu: column %s ends with %llu values missing: the file "
				"is "
				"damaged; copy it again from where it came from",
				cursor->parquet->path, (unsigned long long)cursor->next,
				cursor->name, (unsigned long long)cursor->left);
		int rc = page_read(&cursor->window, cursor->next, cursor->chunk.end, cursor->what,
			&cursor->page, fault);
		if (rc < 0)
			return rc;
		cursor->next = cursor->page.data + cursor->page.stored;
		if (cursor->page.type == PAGE_DICTIONARY)
			rc = dictionary_read(cursor, fault);
		else if (cursor->page.type != PAGE_INDEX)
			rc = page_begin(cursor, fault);
		if (rc < 0)
			return rc;
	}
	return 1;
}

static int value_next(struct cursor *cursor, struct cursor_value *ret, struct fault *fault)
{
	if (cursor->leaf->type == PARQUET_BOOLEAN)
		return boolean_next(cursor, ret, fault);
	return cursor->page.encoding == PAGE_PLAIN ? plain_next(cursor, ret, fault)
						   : indexed_next(cursor, ret, fault);
}

int cursor_next(struct cursor *cursor, struct cursor_value *ret, struct fault *fault)
{
	const struct schema_node *leaf = cursor->leaf;
	int rc = page_next(cursor, fault);
	if (rc <= 0)
		return rc;
	*ret = (struct cursor_value){.size = 0};
	rc = level_next(cursor, &cursor->repeated, leaf->repeated, &ret->repeated, fault);
	if (rc == 0)
		rc = level_next(
			cursor, &cursor->definition, leaf->definition, &ret->definition, fault);
	ret->present = ret->definition == leaf->definition;
	if (rc == 0 && ret->present)
		rc = value_next(cursor, ret, fault);
	if (rc < 0)
		return rc;
	/* A compressed page must not unpack to more than its header says: its end is looked at. */
	if (--cursor->page_left == 0)
		rc = stream_skip(&cursor->stream, cursor->stream.end - cursor->stream.at, fault);
	return rc < 0 ? rc : 1;
}

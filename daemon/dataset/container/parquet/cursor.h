/* cursor: the values of a column chunk, one after the other, with their places in the file.
 *
 * Nulls count: a value comes with its levels, and is present if its definition level is the
 * column's highest. A value of binary type is not read, only its place: a range of the file, or a
 * part of what a compressed page unpacks to. Numbers are read; so is text, if the cursor was told
 * to. Pages of both versions, plain values and dictionaries; other encodings are refused.
 *
 * Memory: a window, a piece, what unpacking needs (three times UNPACK_BYTES), the levels of one
 * page (at most CURSOR_LEVELS_MAX) and the dictionary of one chunk (CURSOR_DICTIONARY_MAX entries,
 * CURSOR_TEXT_MAX bytes of text). Time: the pages of a column unpack to at most CURSOR_RATIO times
 * the file's size, or to CURSOR_UNPACKED. Blocks. One thread. */
#pragma once

#include "dataset/container/parquet/page.h"
#include "dataset/container/parquet/parquet.h"
#include "dataset/container/parquet/stream.h"
#include "dataset/index.h"

enum {
	CURSOR_LEVELS_MAX = 4 << 20,
	CURSOR_DICTIONARY_MAX = 1 << 20,
	CURSOR_TEXT_MAX = 16 << 20,
	CURSOR_NAME = 300,
	CURSOR_RATIO = 1024, /* bytes that pages unpack to, for each byte of the file */
};
/* Bytes that the pages of a column may unpack to in any case. */
#define CURSOR_UNPACKED (UINT64_C(4) << 30)

struct cursor_value {
	uint32_t definition, repeated; /* levels */
	bool present;
	/* If present. Without a place for booleans. */
	uint64_t offset; /* of the bytes to read, in the file */
	uint32_t size;
	struct packed packed;
	uint64_t bits; /* of a number: its bytes, the lowest first */
	const char *text; /* not zero-terminated, valid until the next call; NULL: not read, or
			     longer than INDEX_NAME_MAX */
};

/* Where the values of a page are stored. */
struct cursor_place {
	uint64_t base; /* of the first byte, in the file */
	uint32_t stored, whole;
	uint8_t method; /* enum packed_method */
};

/* Which of them a value needs. */
struct cursor_span {
	uint32_t from, stored; /* bytes to read: the first, from `base` on, and how many */
	uint32_t inner, size; /* of the value, in what they are or unpack to */
	bool part; /* they are not the whole page */
	uint8_t window; /* of the part: see struct packed */
};

struct cursor_entry {
	struct cursor_span span;
	uint64_t bits; /* of a number; of text that is read, where it begins in `text` */
};

struct cursor_levels {
	uint8_t *bytes;
	size_t room;
	struct stream stream;
	struct runs runs;
};

struct cursor {
	const struct parquet *parquet; /* borrowed */
	const struct schema_node *leaf; /* borrowed */
	bool reads_text;
	char name[CURSOR_NAME]; /* "image.bytes" */
	char what[CURSOR_NAME + 64]; /* "a page of column image.bytes", for faults */
	struct window window;
	struct unpack *unpack; /* NULL until a page is compressed */

	struct parquet_chunk chunk;
	uint64_t next; /* of the next page */
	uint64_t left; /* values of the chunk that no page before it has */
	uint64_t unpacked; /* bytes that the compressed pages of all chunks have */

	struct page page;
	uint32_t page_left; /* values */
	struct cursor_place place;
	struct stream stream;
	struct cursor_levels definition, repeated;
	struct runs indexes; /* of dictionary entries, or booleans */
	bool indexes_begun;
	uint8_t bits, bits_left; /* of plain booleans */

	struct cursor_place dictionary_place;
	struct cursor_entry *dictionary;
	size_t dictionary_count, dictionary_room;
	char *dictionary_text;
	size_t text_size, text_room;
	bool dictionary_read;
	char text[INDEX_NAME_MAX];
};

/* For leaf `node` of the schema. NULL: no memory. */
struct cursor *cursor_new(const struct parquet *parquet, uint32_t node, bool reads_text);
void cursor_free(struct cursor *cursor); /* takes NULL */

/* Begins a chunk. */
void cursor_begin(struct cursor *cursor, const struct parquet_chunk *chunk);

/* The next value. 1; 0 after the last of the chunk; -EINVAL: damaged, or an encoding that is not
 * read; -ENOMEM; -errno of a read. */
int cursor_next(struct cursor *cursor, struct cursor_value *ret, struct fault *fault);

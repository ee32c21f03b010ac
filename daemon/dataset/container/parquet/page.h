/* page: the header of a page in a column chunk. Reads the file, blocks. */
#pragma once

#include "base/fault.h"
#include "dataset/container/window.h"

#include <stdbool.h>
#include <stdint.h>

/* By their numbers in parquet.thrift. */
enum page_type { PAGE_DATA, PAGE_INDEX, PAGE_DICTIONARY, PAGE_DATA_2 };

enum page_encoding {
	PAGE_PLAIN = 0,
	PAGE_PLAIN_DICTIONARY = 2,
	PAGE_RLE = 3,
	PAGE_BIT_PACKED = 4,
	PAGE_RLE_DICTIONARY = 8,
};

struct page {
	uint64_t header; /* of the header's first byte */
	uint64_t data; /* of the first byte after it */
	uint32_t stored; /* bytes from there on; they end within the chunk */
	uint32_t whole; /* bytes that they unpack to; the same if they are not compressed */
	uint32_t values; /* with nulls; of a dictionary, its entries */
	uint32_t definition_bytes, repeated_bytes; /* of PAGE_DATA_2: not compressed, in front */
	uint8_t type; /* enum page_type */
	uint8_t encoding, definition_encoding,
		repeated_encoding; /* enum page_encoding, or others */
	bool compressed; /* of PAGE_DATA_2; otherwise the chunk's codec says it */
};

/* Reads the header at `at` of a chunk that ends at `end`. 0; -EINVAL; -errno. */
int page_read(struct window *window, uint64_t at, uint64_t end, const char *what, struct page *ret,
	struct fault *fault);

/* "DELTA_BINARY_PACKED" and so on. */
const char *page_encoding_name(uint8_t encoding);

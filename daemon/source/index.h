/* index: the sidecar that says where every sample is.
 *
 * A file of 4 KiB pages, each with its own number and checksum, never trusted for bounds: every offset read from it
 * is checked against the shard's size before use, and a page that does not check is an error, not a guess.
 *
 *   page 0            struct index_head: magic, version, what it was made from (shard size, mtime), counts, digests
 *   record_pages      records: INDEX_RECORDS of struct index_record each, in sample order; numbered from 1
 *   name_pages        names: each record's name lies whole within one page, at (name_page, name_offset, name_size);
 *                     numbered from 0, so that they can be written before the number of records is known
 *   table_pages       tables: directories with their mtimes (folders), class names; numbered from 0
 *
 * Written to a temporary file beside its place, fsynced, renamed: a torn index is never seen. Nothing in it depends on
 * when or where it was made, so two processes that build it at once write the same bytes. Byte order is the machine's;
 * an index of another byte order has another magic and is rebuilt.
 *
 * The writer streams: records go to the file itself, names and tables to unlinked files beside it that are appended at
 * the end. Its memory does not grow with the samples. Not thread-safe; everything else here is pure or reads only. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INDEX_PAGE = 4096, INDEX_PAGE_HEAD = 16, INDEX_RECORDS = 127, INDEX_VERSION = 1 };
enum { INDEX_NAME_MAX = 4000 }; /* bytes of a member's name or of a relative path */

struct index_page_head {
	uint32_t crc;      /* CRC-32 (zlib) of the page's other 4092 bytes */
	uint32_t kind;     /* 'H', 'R', 'N', 'T' */
	uint64_t number;   /* this page's number, see above: a misplaced page does not check */
};

struct index_record {
	uint64_t offset;      /* of the image's bytes in the shard */
	uint32_t size;
	int32_t label;
	uint64_t name_page;   /* among the name pages, from 0: dataset_locate_name says where that is */
	uint16_t name_offset; /* in the page, at least INDEX_PAGE_HEAD */
	uint16_t name_size;   /* without a terminating zero */
	uint8_t format;       /* enum sample_format */
	uint8_t reserved[3];  /* zero */
};

_Static_assert(sizeof(struct index_page_head) == INDEX_PAGE_HEAD, "index page head");
_Static_assert(sizeof(struct index_record) == 32, "index record");
_Static_assert(INDEX_PAGE_HEAD + INDEX_RECORDS * sizeof(struct index_record) <= INDEX_PAGE, "records fit a page");

/* Checks page `number` as read from disk and takes record `slot` out of it. 0 or -EIO with a fault. Pure. */
int index_page_record(const uint8_t page[INDEX_PAGE], uint64_t number, uint32_t slot, struct index_record *ret,
	struct fault *fault);

/* Checks a name page and copies the record's name, zero-terminated. `room` of 4096 always suffices. 0 or -EIO. Pure. */
int index_page_name(const uint8_t page[INDEX_PAGE], const struct index_record *record, char *buffer, size_t room,
	struct fault *fault);

/* Reads exactly `size` bytes at `offset`, through short reads and EINTR. 0; -EIO at the end of the file; -errno. */
int index_read(int fd, uint64_t offset, void *buffer, size_t size, struct fault *fault);

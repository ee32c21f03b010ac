/* lmdb: walks the keys and values of an LMDB database (data.mdb), in the order of its keys.
 *
 * liblmdb is not used. It maps the file and trusts it: as its documentation says, a database that
 * is damaged or was cut off may crash the program that opens it, and there are no checksums; and it
 * writes a lock file beside the data. This reader takes the format from liblmdb 0.9's mdb.c, reads
 * pages with pread, and checks each number before it uses it.
 *
 *   page 0, page 1   a struct MDB_meta each; the one of the later transaction counts
 *   the main tree    a B+tree of branch and leaf pages; a page begins with its own number
 *   a leaf's node    key, and value; or the first of the pages that hold a longer value
 *
 * Read: 64-bit databases of little-endian machines, with pages of 512 bytes to 64 KiB, whose main
 * tree has one value for each key. Refused with a sentence: databases of 32-bit or big-endian
 * machines, named databases, several values for a key (MDB_DUPSORT).
 *
 * The walk ends: keys must ascend from node to node, a tree has at most LMDB_DEPTH levels, no page
 * of it is empty, not more pages are visited than the file has, and the values have not more bytes
 * than the file. It reads each leaf page once, and a branch page once
 * for each page below it. Memory: a page, and two keys. Blocks; one thread. */
#pragma once

#include "base/fault.h"
#include "dataset/blob.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	LMDB_HEAD = 24, /* bytes of a file that lmdb_looks needs */
	LMDB_DEPTH = 32,
	LMDB_PAGE_MAX = 64 << 10,
};

struct lmdb {
	const struct blob *blob; /* borrowed */
	const char *path; /* borrowed; for faults */
	uint64_t size; /* of the file */
	uint32_t page; /* bytes of one */
	uint64_t last; /* number of the last page in use */
	uint16_t flags; /* of the main tree */
	uint16_t depth;
	uint64_t root, entries;
	/* The walk: the page on each level, and its next node. */
	struct lmdb_level {
		uint64_t page;
		uint32_t next, count;
	} level[LMDB_DEPTH];
	uint32_t levels; /* 0: it has not begun, or has ended */
	uint64_t visited, seen; /* pages and entries */
	uint64_t values; /* bytes of the values seen */
	uint64_t loaded; /* the page in `bytes`; UINT64_MAX: none */
	uint8_t *bytes;
	uint8_t *key; /* of the entry before */
	uint32_t key_size;
};

struct lmdb_entry {
	const uint8_t *key; /* until the next lmdb_next */
	size_t key_size;
	uint64_t node; /* byte of the file where its node is */
	uint64_t offset; /* of the value in the file */
	uint32_t size; /* of the value */
};

/* Whether a file with these first bytes is an LMDB database, of any machine. Pure. */
bool lmdb_looks(const uint8_t *head, size_t size);

/* Reads and checks the two meta pages. 0; -EINVAL with "PATH: byte N: ..."; -ENOMEM; -errno. Call
 * lmdb_deinit in all cases. */
int lmdb_init(struct lmdb *lmdb, const struct blob *blob, const char *path, uint64_t size,
	struct fault *fault);
void lmdb_deinit(struct lmdb *lmdb);

/* 1 and the next entry, whose value is within the file; 0 after the last one; -EINVAL; -errno. */
int lmdb_next(struct lmdb *lmdb, struct lmdb_entry *ret, struct fault *fault);

/* Whether keys are numbers (MDB_INTEGERKEY): 4 or 8 bytes, little-endian. */
bool lmdb_integers(const struct lmdb *lmdb);

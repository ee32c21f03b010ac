/* lmdb: see lmdb.h. The names in capitals are mdb.c's. */
#include "dataset/container/archives/lmdb.h"

#include "base/util.h"
#include "base/whole.h"
#include "dataset/container/archives/archives.h"

#include <errno.h>
#include <string.h>

#define MDB_MAGIC UINT32_C(0xbeefc0de)
#define P_INVALID UINT64_MAX

enum {
	MDB_DATA_VERSION = 1,
	PAGEHDRSZ = 16,
	META_SIZE = PAGEHDRSZ + 136, /* MDB_meta */
	NODESIZE = 8,
	P_BRANCH = 0x01,
	P_LEAF = 0x02,
	P_OVERFLOW = 0x04,
	P_META = 0x08,
	P_KINDS = 0x6f, /* those above, P_LEAF2 and P_SUBP */
	F_BIGDATA = 0x01,
	F_SUBDATA = 0x02,
	F_DUPDATA = 0x04,
	MDB_REVERSEKEY = 0x02,
	MDB_DUPSORT = 0x04,
	MDB_INTEGERKEY = 0x08,
	PAGE_LEAST = 512,
};

static const char damaged[] =
	"the database is damaged or was cut off; copy it again from where it came from (mdb_copy)";

/* "PATH: byte N: WHAT: ADVICE". */
static int fault_at(const struct lmdb *lmdb, uint64_t at, const char *what, const char *advice,
	struct fault *fault)
{
	return fault_set(fault, -EINVAL, "%s: byte %llu: %s: %s", lmdb->path,
		(unsigned long long)at, what, advice);
}

static int bytes_read(
	const struct lmdb *lmdb, uint64_t at, void *buffer, size_t size, struct fault *fault)
{
	if (at > lmdb->size || size > lmdb->size - at)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: expected %zu bytes of an LMDB database, but the file ends "
			"at "
			"byte %llu: %s",
			lmdb->path, (unsigned long long)at, size, (unsigned long long)lmdb->size,
			damaged);
	const ssize_t n = blob_read(lmdb->blob, buffer, size, at);
	if (n < 0)
		return fault_set(fault, (int)n, "%s cannot be read at byte %llu: %s", lmdb->path,
			(unsigned long long)at, blob_error((int)n));
	if ((size_t)n < size)
		return fault_at(
			lmdb, at + (uint64_t)n, "the file has become shorter", damaged, fault);
	return 0;
}

static bool magic_at(const uint8_t *head, size_t size, size_t at)
{
	return size >= at + 4 && little_32(head + at) == MDB_MAGIC;
}

static bool magic_reversed_at(const uint8_t *head, size_t size, size_t at)
{
	return size >= at + 4 && little_32(head + at) == __builtin_bswap32(MDB_MAGIC);
}

/* On 32-bit machines the page's header has four bytes less. */
bool lmdb_looks(const uint8_t *head, size_t size)
{
	return magic_at(head, size, 16) || magic_at(head, size, 12) ||
	       magic_reversed_at(head, size, 16) || magic_reversed_at(head, size, 12);
}

/* What a meta page says. */
struct meta {
	uint32_t page;
	uint64_t transaction, last;
	uint16_t flags, depth;
	uint64_t root, entries;
};

static int meta_read(const struct lmdb *lmdb, uint64_t at, struct meta *ret, struct fault *fault)
{
	static const char foreign[] =
		"dump it there (mdb_dump) and load it on this machine (mdb_load)";
	uint8_t bytes[META_SIZE];
	int rc = bytes_read(lmdb, at, bytes, sizeof bytes, fault);
	if (rc < 0)
		return rc;
	if (magic_reversed_at(bytes, sizeof bytes, 16) ||
		magic_reversed_at(bytes, sizeof bytes, 12))
		return fault_at(lmdb, at, "this LMDB database was written on a big-endian machine",
			foreign, fault);
	if (magic_at(bytes, sizeof bytes, 12))
		return fault_at(lmdb, at, "this LMDB database was written on a 32-bit machine",
			foreign, fault);
	if (!magic_at(bytes, sizeof bytes, 16) || !(little_16(bytes + 10) & P_META))
		return fault_at(
			lmdb, at, "expected a meta page of an LMDB database", damaged, fault);
	if (little_32(bytes + 20) != MDB_DATA_VERSION)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: this LMDB database has version %u of the format, but only "
			"version %d is read: dump it (mdb_dump) and load it with LMDB 0.9 "
			"(mdb_load)",
			lmdb->path, (unsigned long long)at + 20, little_32(bytes + 20),
			MDB_DATA_VERSION);
	const uint8_t *tree = bytes + 88; /* mm_dbs[MAIN_DBI] */
	*ret = (struct meta){
		.page = little_32(bytes + 40), /* mm_dbs[FREE_DBI].md_pad is the size of a page */
		.flags = little_16(tree + 4),
		.depth = little_16(tree + 6),
		.entries = little_64(tree + 32),
		.root = little_64(tree + 40),
		.last = little_64(bytes + 136),
		.transaction = little_64(bytes + 144)};
	if (ret->page < PAGE_LEAST || ret->page > LMDB_PAGE_MAX || ret->page & (ret->page - 1))
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: the pages of this LMDB database are said to have %u bytes: "
			"%s",
			lmdb->path, (unsigned long long)at + 40, ret->page, damaged);
	return 0;
}

static int meta_take(struct lmdb *lmdb, const struct meta *meta, struct fault *fault)
{
	lmdb->last = meta->last;
	lmdb->flags = meta->flags;
	lmdb->depth = meta->depth;
	lmdb->root = meta->root;
	lmdb->entries = meta->entries;
	if (meta->flags & MDB_DUPSORT)
		return fault_at(lmdb, 0,
			"the LMDB database has several values for a key (MDB_DUPSORT)",
			"write one value for each key", fault);
	if (meta->last < 1 || meta->last > (UINT64_MAX >> 1) / LMDB_PAGE_MAX ||
		(meta->root == P_INVALID ? meta->entries != 0 : meta->depth == 0) ||
		meta->depth > LMDB_DEPTH)
		return fault_at(lmdb, 0,
			"the meta pages of this LMDB database contradict themselves", damaged,
			fault);
	return 0;
}

int lmdb_init(struct lmdb *lmdb, const struct blob *blob, const char *path, uint64_t size,
	struct fault *fault)
{
	struct meta first, second = {0};
	*lmdb = (struct lmdb){.blob = blob, .path = path, .size = size, .loaded = P_INVALID};
	int rc = meta_read(lmdb, 0, &first, fault);
	if (rc == 0)
		rc = meta_read(lmdb, first.page, &second, fault);
	if (rc == 0 && first.page != second.page)
		rc = fault_at(lmdb, first.page, "the two meta pages name pages of different sizes",
			damaged, fault);
	if (rc < 0)
		return rc;
	lmdb->page = first.page;
	lmdb->bytes = malloc(lmdb->page);
	lmdb->key = malloc(lmdb->page);
	if (!lmdb->bytes || !lmdb->key)
		return fault_set(fault, -ENOMEM, "no memory to index %s", path);
	return meta_take(lmdb, second.transaction > first.transaction ? &second : &first, fault);
}

void lmdb_deinit(struct lmdb *lmdb)
{
	free(lmdb->bytes);
	free(lmdb->key);
	lmdb->bytes = lmdb->key = NULL;
}

bool lmdb_integers(const struct lmdb *lmdb)
{
	return lmdb->flags & MDB_INTEGERKEY;
}

static int fault_page(const struct lmdb *lmdb, uint64_t page, const char *what, struct fault *fault)
{
	return fault_at(lmdb, page * lmdb->page, what, damaged, fault);
}

static int page_load(struct lmdb *lmdb, uint64_t page, struct fault *fault)
{
	if (lmdb->loaded == page)
		return 0;
	lmdb->loaded = P_INVALID;
	int rc = bytes_read(lmdb, page * lmdb->page, lmdb->bytes, lmdb->page, fault);
	lmdb->loaded = rc < 0 ? P_INVALID : page;
	return rc;
}

/* Goes down to page `page`, which `from` (a byte of the file) names. */
static int level_enter(struct lmdb *lmdb, uint64_t page, uint64_t from, struct fault *fault)
{
	if (page < 2 || page > lmdb->last)
		return fault_at(lmdb, from,
			"the tree of this LMDB database names a page that does not exist", damaged,
			fault);
	if (lmdb->visited++ > UTIL_MIN(lmdb->last, lmdb->size / lmdb->page))
		return fault_page(
			lmdb, page, "the tree of this LMDB database leads in a circle", fault);
	int rc = page_load(lmdb, page, fault);
	if (rc < 0)
		return rc;
	const uint8_t *bytes = lmdb->bytes;
	const unsigned kind = lmdb->levels + 1u == lmdb->depth ? P_LEAF : P_BRANCH;
	const uint32_t lower = little_16(bytes + 12), upper = little_16(bytes + 14);
	if (little_64(bytes) != page || (little_16(bytes + 10) & P_KINDS) != kind)
		return fault_page(lmdb, page,
			kind == P_LEAF ? "expected a leaf page of the tree"
				       : "expected a branch page of the tree",
			fault);
	/* Pages of 64 KiB have an upper bound that does not fit 16 bits. */
	if (lower < PAGEHDRSZ || lower % 2 || (upper ? upper : 1u << 16) < lower ||
		upper > lmdb->page || lower > lmdb->page)
		return fault_page(lmdb, page, "the page's list of nodes is beyond the page", fault);
	/* liblmdb frees a page that has become empty. */
	if (lower == PAGEHDRSZ)
		return fault_page(lmdb, page, "a page of the tree has no nodes", fault);
	lmdb->level[lmdb->levels++] =
		(struct lmdb_level){.page = page, .count = (lower - PAGEHDRSZ) / 2};
	return 0;
}

/* Points *ret to the header of the current page's node `number`, whose key is within the page. */
static int node_find(struct lmdb *lmdb, const struct lmdb_level *level, uint32_t number,
	const uint8_t **ret, struct fault *fault)
{
	const uint32_t at = little_16(lmdb->bytes + PAGEHDRSZ + 2 * number);
	if (at < PAGEHDRSZ + 2 * level->count || at > lmdb->page - NODESIZE ||
		little_16(lmdb->bytes + at + 6) > lmdb->page - NODESIZE - at)
		return fault_page(lmdb, level->page, "a node is beyond its page", fault);
	*ret = lmdb->bytes + at;
	return 0;
}

static uint64_t node_byte(const struct lmdb *lmdb, const uint8_t *node)
{
	return lmdb->loaded * lmdb->page + (uint64_t)(node - lmdb->bytes);
}

/* As mdb_cmp_memn, mdb_cmp_memnr and mdb_cmp_int. */
static int key_compare(
	const struct lmdb *lmdb, const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
	const size_t both = UTIL_MIN(a_size, b_size);
	const bool backward = lmdb->flags & (MDB_REVERSEKEY | MDB_INTEGERKEY);
	int order = backward ? 0 : memcmp(a, b, both);
	for (size_t i = 1; backward && !order && i <= both; i++)
		order = a[a_size - i] - b[b_size - i];
	return order ? order : (a_size > b_size) - (a_size < b_size);
}

/* Keys ascend strictly, so no page can be met twice. */
static int key_check(struct lmdb *lmdb, const uint8_t *node, const uint8_t *key, size_t size,
	struct fault *fault)
{
	if (lmdb->seen && key_compare(lmdb, key, size, lmdb->key, lmdb->key_size) <= 0)
		return fault_at(lmdb, node_byte(lmdb, node),
			"a key does not come after the one before it", damaged, fault);
	memcpy(lmdb->key, key, size);
	lmdb->key_size = (uint32_t)size;
	return 0;
}

/* Finds a value that has pages of its own, at `value`: the number of the first. */
static int overflow_find(struct lmdb *lmdb, const uint8_t *node, const uint8_t *value,
	struct lmdb_entry *entry, struct fault *fault)
{
	const uint64_t page = little_64(value), from = node_byte(lmdb, node);
	uint8_t head[PAGEHDRSZ];
	if (page < 2 || page > lmdb->last)
		return fault_at(
			lmdb, from, "a value is in a page that does not exist", damaged, fault);
	const uint64_t at = page * lmdb->page;
	int rc = bytes_read(lmdb, at, head, sizeof head, fault);
	if (rc < 0)
		return rc;
	const uint64_t pages = little_32(head + 12);
	if (little_64(head) != page || (little_16(head + 10) & P_KINDS) != P_OVERFLOW)
		return fault_at(lmdb, at, "expected the pages of a value", damaged, fault);
	if (pages > lmdb->last - page + 1 || (uint64_t)entry->size + PAGEHDRSZ > pages * lmdb->page)
		return fault_at(lmdb, at, "a value is longer than its pages", damaged, fault);
	entry->offset = at + PAGEHDRSZ;
	if (entry->offset > lmdb->size || entry->size > lmdb->size - entry->offset)
		return fault_at(lmdb, at, "a value ends after the file", damaged, fault);
	return 0;
}

static int leaf_take(
	struct lmdb *lmdb, struct lmdb_level *level, struct lmdb_entry *ret, struct fault *fault)
{
	const uint8_t *node;
	int rc = node_find(lmdb, level, level->next, &node, fault);
	if (rc < 0)
		return rc;
	level->next++;
	const uint16_t flags = little_16(node + 4);
	const size_t key = little_16(node + 6);
	const size_t room = lmdb->page - (size_t)(node - lmdb->bytes) - NODESIZE - key;
	const uint8_t *value = node + NODESIZE + key;
	*ret = (struct lmdb_entry){.key = node + NODESIZE,
		.key_size = key,
		.node = node_byte(lmdb, node),
		.size = little_32(node)};
	if (flags & (F_SUBDATA | F_DUPDATA))
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: the LMDB database holds a named database (%.*s): only the "
			"main one is read; copy its keys and values into a database of their own",
			lmdb->path, (unsigned long long)ret->node, (int)UTIL_MIN(key, (size_t)80),
			(const char *)ret->key);
	if ((flags & F_BIGDATA) ? room < 8 : room < ret->size)
		return fault_at(lmdb, ret->node, "a value is beyond its page", damaged, fault);
	rc = key_check(lmdb, node, ret->key, key, fault);
	if (rc < 0)
		return rc;
	ret->offset = ret->node + NODESIZE + key;
	if (flags & F_BIGDATA)
		rc = overflow_find(lmdb, node, value, ret, fault);
	/* Keys that share a value would have it read once for each of them. */
	lmdb->values += ret->size;
	if (rc == 0 && lmdb->values > lmdb->size)
		return fault_at(lmdb, ret->node,
			"the values up to this one have more bytes than the file", damaged, fault);
	lmdb->seen++;
	return rc < 0 ? rc : 1;
}

/* Goes down from the branch page on top of the stack to its next page. */
static int branch_take(struct lmdb *lmdb, struct lmdb_level *level, struct fault *fault)
{
	const uint8_t *node;
	int rc = page_load(lmdb, level->page, fault);
	if (rc == 0)
		rc = node_find(lmdb, level, level->next, &node, fault);
	if (rc < 0)
		return rc;
	level->next++;
	const uint64_t page = little_32(node) | (uint64_t)little_16(node + 4) << 32;
	return level_enter(lmdb, page, node_byte(lmdb, node), fault);
}

static int walk_end(const struct lmdb *lmdb, struct fault *fault)
{
	if (lmdb->seen == lmdb->entries)
		return 0;
	return fault_set(fault, -EINVAL,
		"%s: byte 0: this LMDB database is said to have %llu keys, but has %llu: %s",
		lmdb->path, (unsigned long long)lmdb->entries, (unsigned long long)lmdb->seen,
		damaged);
}

int lmdb_next(struct lmdb *lmdb, struct lmdb_entry *ret, struct fault *fault)
{
	int rc = 0;
	if (lmdb->visited == 0 && lmdb->root != P_INVALID)
		rc = level_enter(lmdb, lmdb->root, 0, fault);
	while (rc == 0 && lmdb->levels) {
		struct lmdb_level *level = &lmdb->level[lmdb->levels - 1];
		if (level->next == level->count)
			lmdb->levels--;
		else if (lmdb->levels == lmdb->depth)
			return leaf_take(lmdb, level, ret, fault);
		else
			rc = branch_take(lmdb, level, fault);
	}
	return rc < 0 ? rc : walk_end(lmdb, fault);
}

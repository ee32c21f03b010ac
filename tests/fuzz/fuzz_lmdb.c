/* fuzz_lmdb: LMDB databases made of choices, true, with numbers that lie, spoiled or cut, and any
 * bytes.
 *
 * A true one has one to three levels of pages of 512 to 2048 bytes, images and Datums, in nodes and
 * in pages of their own. Expected: a true database is indexed, with its keys in their order, its
 * bytes and its labels. Any other file is indexed, and every sample that is listed is within the
 * file and can be read or is damaged, with keys that differ; or it is refused with a sentence that
 * names it. */
#include "fuzz/drive.h"
#include "fuzz/number.h"
#include "fuzz/recipe.h"
#include "fuzz/shard.h"

#include "base/util.h"

#include <stdbool.h>
#include <string.h>

enum {
	INPUT_ROOM = 4096,
	FILE_ROOM = 512 << 10,
	PAIRS = 160,
	VALUE_ROOM = 6000,
	PAGE_HEAD = 16,
	BRANCH = 1,
	LEAF = 2,
	OVERFLOW = 4,
	META = 8,
};

/* The first byte. */
enum {
	HOW_RAW = 1, /* the others are the file, after two meta pages of 512 bytes */
	HOW_LIE = 2,
	HOW_SPOIL = 4,
	HOW_CUT = 8,
	HOW_UNLABELLED = 16,
};

struct pair {
	char key[64];
	uint32_t size, image_at, image_size; /* of the value, and the image in it */
	int32_t label;
	uint8_t value[VALUE_ROOM];
};

/* The page that is being filled: nodes grow down from its end. */
struct filling {
	uint8_t *at;
	uint32_t count, low;
};

static struct {
	struct recipe recipe;
	bool lies, datums;
	uint32_t page, last;
	uint32_t count;
	struct pair pair[PAIRS];
	size_t size;
	uint8_t bytes[FILE_ROOM];
} made;

/* ---- writing ---- */

static void put(uint8_t *at, uint64_t value, unsigned size)
{
	static const uint64_t lies[] = {0, 1, 2, 3, 4, 8, 16, 100, 511, 512, 0xffff, 0x10000,
		0xffffffff, UINT64_C(1) << 40, INT64_MAX, UINT64_MAX, UINT64_MAX - 1};
	if (made.lies)
		value = recipe_lie(&made.recipe, 253, value, lies, UTIL_COUNT(lies));
	(void)number_little(at, value, size);
}

static uint8_t *page_new(unsigned kind, uint32_t *ret_number)
{
	want(made.size + made.page <= FILE_ROOM, "the made database is too large");
	uint8_t *at = made.bytes + made.size;
	memset(at, 0, made.page);
	*ret_number = (uint32_t)(made.size / made.page);
	made.size += made.page;
	made.last = *ret_number;
	put(at, *ret_number, 8);
	put(at + 10, kind, 2);
	return at;
}

static bool node_fits(const struct filling *filling, size_t size)
{
	return PAGE_HEAD + 2 * (filling->count + 1) + size + size % 2 <= filling->low;
}

/* The place of a new node; its pointer is written. */
static uint8_t *node_new(struct filling *filling, size_t size)
{
	filling->low -= (uint32_t)(size + size % 2);
	put(filling->at + PAGE_HEAD + 2 * filling->count++, filling->low, 2);
	put(filling->at + 12, PAGE_HEAD + 2 * filling->count, 2);
	put(filling->at + 14, filling->low, 2);
	return filling->at + filling->low;
}

static struct filling filling_new(unsigned kind, uint32_t *ret_number)
{
	struct filling filling = {.at = page_new(kind, ret_number), .low = made.page};
	put(filling.at + 12, PAGE_HEAD, 2);
	put(filling.at + 14, made.page, 2);
	return filling;
}

/* The value's own pages; returns the number of the first. */
static uint32_t overflow_make(const struct pair *pair)
{
	const uint32_t pages = (PAGE_HEAD + pair->size + made.page - 1) / made.page;
	uint32_t first, other;
	uint8_t *at = page_new(OVERFLOW, &first);
	for (uint32_t i = 1; i < pages; i++)
		(void)page_new(OVERFLOW, &other);
	put(at + 12, pages, 4);
	memcpy(at + PAGE_HEAD, pair->value, pair->size);
	return first;
}

static void leaf_node(struct filling *leaf, const struct pair *pair, uint32_t own)
{
	const size_t key = strlen(pair->key), value = own ? 8 : pair->size;
	uint8_t *node = node_new(leaf, 8 + key + value);
	put(node, pair->size, 4);
	put(node + 4, own ? 1 : 0, 2);
	put(node + 6, key, 2);
	memcpy(node + 8, pair->key, key);
	if (own)
		put(node + 8 + key, own, 8);
	else
		memcpy(node + 8 + key, pair->value, pair->size);
}

/* The pages of one level, with the first key of each. */
struct row {
	uint32_t count, page[PAIRS], first[PAIRS];
};

static void leaves_make(struct row *ret)
{
	struct filling leaf = {0};
	for (uint32_t i = 0; i < made.count; i++) {
		const struct pair *pair = &made.pair[i];
		const bool long_value = pair->size > made.page / 4;
		const uint32_t own = long_value ? overflow_make(pair) : 0;
		const size_t node = 8 + strlen(pair->key) + (own ? 8 : pair->size);
		if (!leaf.at || !node_fits(&leaf, node)) {
			ret->first[ret->count] = i;
			leaf = filling_new(LEAF, &ret->page[ret->count++]);
		}
		leaf_node(&leaf, pair, own);
	}
}

static void branches_make(const struct row *below, struct row *ret)
{
	struct filling branch = {0};
	for (uint32_t i = 0; i < below->count; i++) {
		const char *key = made.pair[below->first[i]].key;
		if (!branch.at || !node_fits(&branch, 8 + strlen(key))) {
			ret->first[ret->count] = below->first[i];
			branch = filling_new(BRANCH, &ret->page[ret->count++]);
			key = ""; /* the first key of a branch page is not stored */
		}
		uint8_t *node = node_new(&branch, 8 + strlen(key));
		put(node, below->page[i], 4);
		put(node + 4, 0, 2);
		put(node + 6, strlen(key), 2);
		memcpy(node + 8, key, strlen(key));
	}
}

static void meta_make(
	uint8_t *at, uint32_t number, uint32_t root, uint32_t depth, uint64_t transaction)
{
	put(at, number, 8);
	put(at + 10, META, 2);
	put(at + 16, 0xbeefc0de, 4);
	put(at + 20, 1, 4);
	put(at + 40, made.page, 4);
	put(at + 92, 0, 2);
	put(at + 94, depth, 2);
	put(at + 120, made.count, 8);
	put(at + 128, made.count ? root : UINT64_MAX, 8);
	put(at + 136, made.last, 8);
	put(at + 144, transaction, 8);
}

/* ---- keys and values ---- */

static void value_make(struct pair *pair, uint32_t i)
{
	const uint8_t how = recipe_byte(&made.recipe);
	const uint32_t image = how < 200 ? 16 + how / 2u : 16 + how * 20u;
	uint8_t *at = pair->value;
	size_t size = 0;
	pair->label = made.datums ? (int32_t)(how * 5000) : -1;
	if (made.datums) {
		at[size++] = 4 << 3 | 2;
		size += number_varint(at + size, image);
	}
	pair->image_at = (uint32_t)size;
	pair->image_size = image;
	for (uint32_t j = 0; j < image; j++)
		at[size++] = (uint8_t)(i * 7 + j);
	memcpy(at + pair->image_at, "\xff\xd8\xff", 3);
	if (made.datums) {
		at[size++] = 5 << 3;
		size += number_varint(at + size, (uint64_t)pair->label);
		at[size++] = 7 << 3;
		at[size++] = 1;
	}
	pair->size = (uint32_t)size;
}

static void make(uint8_t how)
{
	const uint8_t shape = recipe_byte(&made.recipe), count = recipe_byte(&made.recipe);
	struct row rows[4] = {{.count = 0}};
	uint32_t depth = 0;
	made.lies = how & HOW_LIE;
	made.page = 512u << shape % 3;
	made.datums = shape & 8;
	made.count = count % PAIRS;
	made.size = 2 * (size_t)made.page;
	memset(made.bytes, 0, made.size);
	made.last = 1;
	for (uint32_t i = 0; i < made.count; i++) {
		struct pair *pair = &made.pair[i];
		const int pad = shape & 16 ? 40 : recipe_byte(&made.recipe) % 16;
		(void)snprintf(pair->key, sizeof pair->key, "%03u/%.*s", i, pad,
			"key-key-key-key-key-key-key-key-key-key-");
		value_make(pair, i);
	}
	if (made.count) {
		leaves_make(&rows[depth++]);
		while (rows[depth - 1].count > 1 && depth < 4) {
			branches_make(&rows[depth - 1], &rows[depth]);
			depth++;
		}
	}
	const uint32_t root = depth ? rows[depth - 1].page[0] : 0;
	const bool second = shape & 32;
	meta_make(made.bytes, 0, root, depth, second ? 4 : 6);
	meta_make(made.bytes + made.page, 1, root, depth, 5);
}

static void make_raw(void)
{
	static uint8_t rest[INPUT_ROOM];
	const size_t size = recipe_copy(&made.recipe, rest, sizeof rest);
	struct recipe none = {NULL, 0, 0};
	made.recipe = none;
	make(0);
	made.page = 512;
	made.count = 3;
	made.last = (uint32_t)(1 + size / 512);
	meta_make(made.bytes, 0, 2, 1, 1);
	meta_make(made.bytes + made.page, 1, 2, 1, 2);
	memcpy(made.bytes + 1024, rest, size);
	made.size = 1024 + size;
}

/* ---- expectations ---- */

static void on_sample(const struct shard *shard, const struct shard_sample *sample)
{
	const struct pair *pair = &made.pair[sample->number];
	const bool labelled = shard->asked != DATASET_LABELS_NONE;
	if (!shard->sound)
		return;
	want(!strcmp(sample->name, pair->key), "a sample with another key, or out of order");
	want(sample->record.label == (labelled ? pair->label : -1), "a sample with another label");
	want(sample->record.size == pair->image_size, "a sample of another size");
	want(!memcmp(sample->bytes, pair->value + pair->image_at, pair->image_size),
		"a sample with other bytes");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0 || size > INPUT_ROOM)
		return 0;
	const uint8_t how = data[0];
	made.recipe = (struct recipe){data, size, 1};
	if (how & HOW_RAW)
		make_raw();
	else
		make(how);
	if (how & HOW_SPOIL)
		recipe_spoil(&made.recipe, made.bytes, made.size, 3);
	if (how & HOW_CUT)
		made.size -= recipe_number(&made.recipe, 3) % made.size;
	struct shard shard = {.container = &container_lmdb,
		.name = "fuzz.mdb",
		.bytes = made.bytes,
		.size = made.size,
		.asked = how & HOW_UNLABELLED ? DATASET_LABELS_NONE : DATASET_LABELS_AUTO,
		.sound = !(how & (HOW_RAW | HOW_LIE | HOW_SPOIL | HOW_CUT)),
		.count = made.count,
		.damaged = true,
		.sample = on_sample};
	(void)shard_check(&shard);
	want(shard.head.samples <= made.size / 8, "more samples than the file has room for");
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static size_t compose(uint8_t *input, size_t room, struct random *random)
{
	size_t size = 1 + draw(random, one_in(random, 8) ? 1200 : 200);
	(void)room;
	(void)drive_noise(input, size, random);
	input[0] &= one_in(random, 16) ? 0xff : (uint8_t)~HOW_RAW;
	if (one_in(random, 2))
		input[0] &= (uint8_t) ~(HOW_SPOIL | HOW_CUT);
	return size;
}

const struct drive fuzz_drive = {"fuzz_lmdb", INPUT_ROOM, compose, shard_end};
#endif

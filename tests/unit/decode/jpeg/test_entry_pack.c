/* Packs of entry points: unpacking gives what was packed, within the room; damage of every bit,
 * other files and other versions are noticed. */
#include "unit/decode/images.h"

#include "decode/jpeg/entry_pack.h"
#include "decode/jpeg/feed.h"
#include "decode/jpeg/lane.h"

#include <errno.h>

enum { ROOM = ENTRY_PACK_MOST };

struct course {
	struct parse parse;
	uint8_t *data;
	size_t size;
	struct entry_point points[ENTRY_PACK_POINTS], out[ENTRY_PACK_POINTS];
	uint8_t pack[ROOM + ENTRY_PACK_SLACK];
	uint32_t count, random;
};

static uint32_t draw(struct course *c, uint32_t below)
{
	c->random = c->random * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)c->random * below >> 32);
}

/* The headers of a file of so many MCUs, and entry points that it could have. */
static struct course *course_new(uint32_t across, uint32_t down, uint32_t bits, uint32_t seed)
{
	struct course *c = calloc(1, sizeof(*c));
	assert_non_null(c);
	c->random = seed;
	c->parse = (struct parse){.mcus_across = across,
		.mcus_down = down,
		.components = 3,
		.scan = 600 + draw(c, 9)};
	c->count = entry_point_count(&c->parse, entry_pack_interval(&c->parse));
	assert_in_range(c->count, 1, ENTRY_PACK_POINTS);
	c->points[0].bit = c->parse.scan * 8;
	for (uint32_t i = 0; i + 1 < c->count; i++) {
		uint32_t step = 64 + draw(c, 2 * bits);
		c->points[i + 1].bit = c->points[i].bit + step;
		c->points[i].stuffed = (uint16_t)draw(c, draw(c, 30) ? 3 : step / 16);
		for (int k = 0; k < BLOCKS_COMPONENTS; k++)
			c->points[i + 1].dc[k] = (int16_t)((int)draw(c, 4097) - 2048);
	}
	c->size = c->points[c->count - 1].bit / 8 + 40;
	c->data = malloc(c->size);
	assert_non_null(c->data);
	for (size_t i = 0; i < c->size; i++)
		c->data[i] = (uint8_t)draw(c, 256);
	return c;
}

static void course_free(struct course *c)
{
	free(c->data);
	free(c);
}

static enum entry_pack_found unpack(
	struct course *c, size_t bytes, uint32_t *ret_count, uint32_t *ret_interval)
{
	return entry_pack_unpack(&c->parse, c->data, c->size, checksum_c, c->pack, bytes, c->out,
		ret_count, ret_interval);
}

/* Packs into `room` bytes, unpacks, and compares with every n-th entry point. Returns the bytes; 0
 * for a pack of none. */
static size_t there_and_back(struct course *c, size_t room)
{
	static struct entry_point scratch[ENTRY_PACK_POINTS];
	uint32_t count = 0, interval = 0;
	memcpy(scratch, c->points, sizeof(scratch));
	memset(c->pack, 0xee, sizeof(c->pack));
	size_t bytes = entry_pack_pack(c->data, c->size, checksum_c, scratch, c->count,
		entry_pack_interval(&c->parse), c->pack, room);
	assert_in_range(bytes, ENTRY_PACK_HEAD, room);
	for (size_t i = room + ENTRY_PACK_SLACK; i < sizeof(c->pack); i++)
		assert_int_equal(c->pack[i], 0xee);
	enum entry_pack_found found = unpack(c, room, &count, &interval);
	if (found == ENTRY_PACK_NONE)
		return 0;
	assert_int_equal(found, ENTRY_PACK_FOUND);
	uint32_t step = interval / entry_pack_interval(&c->parse);
	assert_int_equal(count, (c->count + step - 1) / step);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t stuffed = 0;
		for (uint32_t k = i * step; k < UTIL_MIN((i + 1) * step, c->count); k++)
			stuffed += c->points[k].stuffed;
		assert_int_equal(c->out[i].bit, c->points[i * step].bit);
		assert_int_equal(c->out[i].stuffed, i + 1 < count ? stuffed : 0);
		assert_memory_equal(c->out[i].dc, c->points[i * step].dc, sizeof(c->out[i].dc));
	}
	return bytes;
}

static void test_there_and_back(void **state)
{
	(void)state;
	static const uint32_t sides[][2] = {{1, 9}, {3, 3}, {4, 4}, {16, 16}, {47, 62}, {63, 31},
		{128, 128}, {129, 128}, {700, 500}};
	for (size_t i = 0; i < UTIL_COUNT(sides) * 4; i++) {
		const uint32_t *side = sides[i / 4];
		struct course *c = course_new(side[0], side[1], i % 2 ? 2600 : 60000, (uint32_t)i);
		size_t most = there_and_back(c, ROOM), last = most;
		assert_true(most > 0);
		for (size_t room = ROOM; room >= ENTRY_PACK_HEAD; room = room * 7 / 8) {
			size_t bytes = there_and_back(c, room);
			assert_true(bytes <= last);
			last = bytes;
		}
		assert_int_equal(last, 0);
		course_free(c);
	}
}

/* The first ones alone, as many as are known. */
static void test_first_ones(void **state)
{
	(void)state;
	for (uint32_t seed = 0; seed < 3; seed++) {
		struct course *c = course_new(47, 62, 2600, seed);
		size_t most = there_and_back(c, ROOM);
		for (uint32_t all = c->count; c->count > 1; c->count -= 1 + c->count / 20) {
			size_t bytes = there_and_back(c, ROOM);
			assert_in_range(bytes, ENTRY_PACK_HEAD + 1, most);
			(void)there_and_back(c, ENTRY_PACK_HEAD + (bytes - ENTRY_PACK_HEAD) / 2);
			assert_true(c->count == all || bytes < most);
		}
		course_free(c);
	}
}

static void test_none(void **state)
{
	(void)state;
	struct course *c = course_new(20, 20, 2600, 5);
	uint32_t count, interval;
	memset(c->pack, 0, sizeof(c->pack));
	for (size_t bytes = 0; bytes < 100; bytes++)
		assert_int_equal(unpack(c, bytes, &count, &interval), ENTRY_PACK_EMPTY);
	assert_int_equal(entry_pack_pack(c->data, c->size, checksum_c, c->points, 0,
				 ENTRY_PACK_INTERVAL, c->pack, ENTRY_PACK_HEAD - 1),
		0);
	assert_int_equal(entry_pack_pack(c->data, c->size, checksum_c, c->points, 0,
				 ENTRY_PACK_INTERVAL, c->pack, ROOM),
		ENTRY_PACK_HEAD);
	assert_int_equal(unpack(c, ENTRY_PACK_HEAD, &count, &interval), ENTRY_PACK_NONE);
	c->data[c->size - 1] ^= 1;
	assert_int_equal(unpack(c, ENTRY_PACK_HEAD, &count, &interval), ENTRY_PACK_FOREIGN);
	course_free(c);
}

/* More zeros between two entry points than can be stored: a pack of none, not a wrong one. */
static void test_many_zeros(void **state)
{
	(void)state;
	struct course *c = course_new(20, 20, 2000000, 5);
	for (uint32_t i = 0; i + 1 < c->count; i++)
		c->points[i].stuffed = 40000, c->points[i + 1].bit = c->points[i].bit + 1000000;
	uint32_t count, interval;
	free(c->data);
	c->size = c->points[c->count - 1].bit / 8 + 40;
	c->data = calloc(1, c->size);
	assert_non_null(c->data);
	assert_true(there_and_back(c, ROOM) > 0);
	(void)entry_pack_pack(c->data, c->size, checksum_c, c->points, c->count,
		entry_pack_interval(&c->parse), c->pack, ENTRY_PACK_HEAD + 60);
	assert_int_equal(unpack(c, ROOM, &count, &interval), ENTRY_PACK_NONE);
	course_free(c);
}

static void test_every_bit(void **state)
{
	(void)state;
	struct course *c = course_new(30, 20, 2600, 7);
	uint32_t count, interval;
	size_t bytes = there_and_back(c, ROOM);
	for (size_t bit = 0; bit < bytes * 8; bit++) {
		c->pack[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(unpack(c, ROOM, &count, &interval), ENTRY_PACK_FOREIGN);
		c->pack[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (size_t cut = 0; cut < bytes; cut++)
		assert_int_equal(unpack(c, cut, &count, &interval),
			cut ? ENTRY_PACK_FOREIGN : ENTRY_PACK_EMPTY);
	for (size_t at = 0; at < c->size; at += 97) {
		c->data[at] ^= 0x10;
		assert_int_equal(unpack(c, ROOM, &count, &interval), ENTRY_PACK_FOREIGN);
		c->data[at] ^= 0x10;
	}
	c->size--;
	assert_int_equal(unpack(c, ROOM, &count, &interval), ENTRY_PACK_FOREIGN);
	c->size++;
	c->parse.mcus_across--;
	assert_int_equal(unpack(c, ROOM, &count, &interval), ENTRY_PACK_FOREIGN);
	c->parse.mcus_across++;
	assert_int_equal(unpack(c, ROOM, &count, &interval), ENTRY_PACK_FOUND);
	course_free(c);
}

/* All functions give the library's value. */
static void test_checksums(void **state)
{
	(void)state;
	struct course *c = course_new(40, 30, 2600, 12);
	const struct lanes *lanes;
	for (unsigned i = 0; (lanes = lanes_at(i)); i++)
		for (size_t size = 0; size < c->size; size += 1 + size / 5)
			assert_int_equal(lanes->checksum(c->data + size % 3, size - size % 3),
				checksum_c(c->data + size % 3, size - size % 3));
	course_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_checksums),
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_first_ones),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_many_zeros),
		cmocka_unit_test(test_every_bit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* unpacking: samples in a worker's block, given back in any order; beyond it, under a permit that
 * is only tried, and then in a file. Bytes that do not unpack are an outcome and leave nothing
 * behind. */
#include "unit/source_fixture.h"

#include "base/util.h"
#include "fetch/fetch.h"
#include "fuzz/random.h"
#include "packed_shard.h"
#include "stream/unpacking.h"

#include <errno.h>

enum { LIVE = 32, MOST = 40 << 10, BLOCK = 256 << 10 };

static uint8_t plain[1 << 20], stored[(1 << 20) + 4096];
static struct fault fault;

static void plain_fill(void)
{
	struct random random = {1};
	for (size_t i = 0; i < sizeof plain; i++)
		plain[i] = (uint8_t)random_64(&random);
}

static struct packed pack(uint32_t size)
{
	return (struct packed){.method = PACKED_SNAPPY,
		.stored = packed_shard_pack(PACKED_SNAPPY, plain, size, stored, sizeof stored),
		.whole = size};
}

static void check(const struct unpacked *unpacked, uint32_t from, uint32_t size)
{
	volatile uint8_t sink = 0;
	assert_memory_equal(unpacked->data, plain + from, size);
	for (uint32_t i = 0; i < UNPACKING_SLACK; i++)
		sink = sink ^ unpacked->data[size + i];
}

/* Two workers with samples of random sizes, which live as long as they like. */
static void test_block(void **state)
{
	struct unpacking *unpacking;
	struct unpacked live[2][LIVE] = {{{0}}};
	uint32_t from[2][LIVE], size[2][LIVE];
	struct permit pool;
	const struct spill spill = {*state};
	const struct raster_beyond beyond = {&pool, &spill};
	struct random random = {2};
	unsigned inside = 0, beyonds = 0;
	plain_fill();
	permit_init(&pool, 8 << 20);
	const struct packed packed = pack(sizeof plain);
	assert_int_equal(unpacking_new(2, BLOCK, &unpacking), 0);
	for (int i = 0; i < 3000; i++) {
		const unsigned worker = draw(&random, 2), which = draw(&random, LIVE);
		struct unpacked *one = &live[worker][which];
		if (one->data) {
			check(one, from[worker][which], size[worker][which]);
			unpacking_give_back(unpacking, one);
			assert_null(one->data);
			continue;
		}
		struct packed slice = packed;
		slice.inner = from[worker][which] = draw(&random, 100000);
		size[worker][which] = draw(&random, MOST);
		assert_int_equal(unpacking_run(unpacking, worker, &beyond, &slice,
					 size[worker][which], stored, one, &fault),
			0);
		*(one->inside ? &inside : &beyonds) += 1;
	}
	assert_true(inside > 300 && beyonds > 300);
	for (unsigned i = 0; i < 2 * LIVE; i++) {
		if (live[i / LIVE][i % LIVE].data)
			check(&live[i / LIVE][i % LIVE], from[i / LIVE][i % LIVE],
				size[i / LIVE][i % LIVE]);
		unpacking_give_back(unpacking, &live[i / LIVE][i % LIVE]);
	}
	assert_int_equal(pool.used, 0);
	unpacking_free(unpacking);
	permit_deinit(&pool);
}

/* All of the pool is taken: nobody waits for it, and the sample goes to a file. */
static void test_never_waits(void **state)
{
	struct unpacking *unpacking;
	struct unpacked one = {0};
	struct permit pool;
	char *folder = fixture_path(*state, "cache");
	const struct spill spill = {folder}, nowhere = {"/proc/none"};
	plain_fill();
	const struct packed packed = pack(sizeof plain);
	permit_init(&pool, 4 << 20);
	assert_int_equal(permit_try(&pool, 4 << 20), 0);
	assert_int_equal(unpacking_new(1, 0, &unpacking), 0);
	const struct raster_beyond beyond = {&pool, &spill}, full = {&pool, &nowhere};
	assert_int_equal(
		unpacking_run(unpacking, 0, &beyond, &packed, sizeof plain, stored, &one, &fault),
		0);
	check(&one, 0, sizeof plain);
	assert_int_equal(pool.used, 4 << 20);
	unpacking_give_back(unpacking, &one);
	assert_true(unpacking_run(
			    unpacking, 0, &full, &packed, sizeof plain, stored, &one, &fault) < 0);
	assert_non_null(strstr(fault.text, "/proc/none"));
	assert_null(one.data);
	permit_release(&pool, 4 << 20);
	unpacking_free(unpacking);
	permit_deinit(&pool);
}

static void test_damaged(void **state)
{
	struct unpacking *unpacking;
	struct unpacked one = {0};
	const struct raster_beyond beyond = {NULL, NULL};
	uint8_t field[100];
	plain_fill();
	struct packed packed = pack(5000);
	packed.checked = 1;
	packed.crc = 1;
	assert_int_equal(unpacking_new(1, BLOCK, &unpacking), 0);
	assert_int_equal(unpacking_run(unpacking, 0, &beyond, &packed, 5000, stored, &one, &fault),
		FETCH_E_UNPACK);
	assert_non_null(strstr(fault.text, "checksum"));
	assert_null(one.data);
	/* Of a field that is cut, the checksum is not known. */
	assert_int_equal(
		unpacking_field(unpacking, 0, &packed, 100, true, stored, field, &fault), 0);
	assert_memory_equal(field, plain, 100);
	packed.whole = 4999;
	assert_int_equal(unpacking_field(unpacking, 0, &packed, 100, true, stored, field, &fault),
		FETCH_E_UNPACK);
	assert_non_null(strstr(fault.text, "bomb"));
	unpacking_free(unpacking);
	unpacking_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_block, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_never_waits, fixture_setup, fixture_teardown),
		cmocka_unit_test(test_damaged),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

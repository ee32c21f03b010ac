/* Memory for decoded images: from the block, under a permit, from a temporary file; waiting; a
 * folder that cannot be written; planar rows. */
#include "stream/raster.h"

#include "pixel/pixel.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { OWN = 4096, POOL = 1 << 20, MORE = 256 << 10, MOST = 3 << 20 };

/* Writes all bytes and reads them back. */
static void use(uint8_t *memory, size_t bytes, uint8_t value)
{
	assert_int_equal((uintptr_t)memory % RASTER_ALIGN, 0);
	memset(memory, value, bytes);
	assert_int_equal(memory[0], value);
	assert_int_equal(memory[bytes - 1], value);
}

static void test_where_memory_comes_from(void **state)
{
	(void)state;
	char folder[] = "/tmp/penstock-raster-XXXXXX";
	struct permit pool;
	struct raster raster;
	uint8_t *memory;
	assert_non_null(mkdtemp(folder));
	const struct spill spill = {folder};
	const struct raster_beyond beyond = {&pool, &spill};
	permit_init(&pool, POOL);
	assert_int_equal(raster_init(&raster, OWN), 0);
	assert_int_equal(raster_bytes(OWN), OWN);
	assert_int_equal(raster_take(&raster, &beyond, OWN, true, &memory), 0);
	assert_ptr_equal(memory, raster.block);
	use(memory, OWN, 1);
	assert_int_equal(pool.used, 0);
	/* Taking gives back what was taken before. */
	assert_int_equal(raster_take(&raster, &beyond, OWN + 1, true, &memory), 0);
	assert_int_equal(pool.used, OWN + RASTER_ALIGN);
	use(memory, OWN + 1, 2);
	assert_int_equal(raster_take(&raster, &beyond, MOST, true, &memory), 0);
	assert_int_equal(pool.used, 0);
	assert_true(raster.file >= 0);
	use(memory, MOST, 3);
	struct permit_stats stats;
	permit_stats_read(&pool, &stats);
	assert_int_equal(stats.largest, MOST);
	raster_give_back(&raster);
	raster_give_back(&raster);
	assert_int_equal(raster.file, -1);
	raster_deinit(&raster);
	assert_int_equal(rmdir(folder), 0); /* the file has no name */
	permit_deinit(&pool);
}

static void test_without_waiting(void **state)
{
	(void)state;
	char folder[] = "/tmp/penstock-raster-XXXXXX";
	struct permit pool;
	struct raster raster;
	uint8_t *memory;
	assert_non_null(mkdtemp(folder));
	const struct spill spill = {folder};
	const struct raster_beyond beyond = {&pool, &spill};
	permit_init(&pool, POOL);
	assert_int_equal(raster_init(&raster, 0), 0);
	assert_int_equal(permit_acquire(&pool, POOL), 0);
	assert_int_equal(raster_take(&raster, &beyond, MORE, false, &memory), 0);
	assert_true(raster.file >= 0);
	use(memory, MORE, 4);
	permit_release(&pool, POOL);
	assert_int_equal(raster_take(&raster, &beyond, MORE, false, &memory), 0);
	assert_int_equal(raster.file, -1);
	assert_int_equal(pool.used, MORE);
	raster_deinit(&raster);
	permit_deinit(&pool);
	assert_int_equal(rmdir(folder), 0);
}

static void test_nowhere(void **state)
{
	(void)state;
	struct permit pool;
	struct raster raster;
	uint8_t *memory = NULL;
	char text[RASTER_TEXT];
	const struct spill spill = {"/proc/penstock"};
	const struct raster_beyond beyond = {&pool, &spill}, unlimited = {NULL, NULL},
				   none = {&pool, NULL};
	permit_init(&pool, POOL);
	assert_int_equal(raster_init(&raster, OWN), 0);
	int result = raster_take(&raster, &beyond, MOST, true, &memory);
	assert_true(result < 0 && result != -ENOMEM);
	assert_null(memory);
	assert_string_equal(raster_text(&beyond, MOST, -ENOSPC, text),
		"the decoded image needs 3.0 MiB, more than the memory budget has for large "
		"images; "
		"it goes to a temporary file in /proc/penstock, which fails: No space left on "
		"device; make room there, set cache_dir to a folder on a disk with room, or raise "
		"memory");
	assert_int_equal(raster_take(&raster, &none, MOST, true, &memory), -ENOMEM);
	assert_int_equal(raster_take(&raster, &unlimited, MOST, true, &memory), 0);
	use(memory, MOST, 5);
	raster_deinit(&raster);
	permit_deinit(&pool);
}

static void test_rows(void **state)
{
	(void)state;
	enum { WIDTH = 70, HEIGHT = 3 };
	uint8_t row[3][WIDTH];
	const uint8_t *got[3];
	struct raster_rows rows;
	struct raster raster;
	uint8_t *memory;
	const struct raster_beyond beyond = {NULL, NULL};
	assert_int_equal(raster_init(&raster, 0), 0);
	uint64_t bytes = raster_rows_bytes(WIDTH, HEIGHT);
	assert_int_equal(raster_take(&raster, &beyond, bytes, true, &memory), 0);
	memset(memory, 0, bytes);
	raster_rows_init(&rows, memory, WIDTH, HEIGHT);
	for (unsigned y = 0; y < HEIGHT; y++) {
		for (unsigned i = 0; i < 3 * WIDTH; i++)
			row[i / WIDTH][i % WIDTH] = (uint8_t)(100 * (i / WIDTH) + i % WIDTH + y);
		raster_rows_add(&rows, (const uint8_t *const[]){row[0], row[1], row[2]});
	}
	for (unsigned y = 0; y < HEIGHT; y++) {
		raster_rows_get(&rows, 5, y, got);
		for (unsigned plane = 0; plane < 3; plane++) {
			assert_int_equal(got[plane][0], (uint8_t)(100 * plane + 5 + y));
			assert_int_equal(got[plane][WIDTH - 6], (uint8_t)(100 * plane + 69 + y));
			assert_true(got[plane] + WIDTH - 5 + PIXEL_ROW_SLACK <= memory + bytes);
		}
	}
	raster_deinit(&raster);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_where_memory_comes_from),
		cmocka_unit_test(test_without_waiting),
		cmocka_unit_test(test_nowhere),
		cmocka_unit_test(test_rows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

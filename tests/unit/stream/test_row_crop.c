/* RandomCrop as a stream's sizing: rows made one by one, together, and again from their record;
 * images that are too small for it. */
#include "unit/decode/images.h"

#include "stream/row.h"

enum {
	SIDE = 40,
	SIZE = 32,
	BYTES = SIZE * SIZE * 3,
	ROWS = 12,
	ROOM = 64 * 64 * 3,
};

static const struct jpeg_kind kind = {.width = SIDE, .height = SIDE, .components = 3};

struct many {
	struct row_job jobs[ROWS];
	unsigned next, done;
};

static struct row_job *many_next(void *context)
{
	struct many *many = context;
	return many->next < ROWS ? &many->jobs[many->next++] : NULL;
}

static void many_done(void *context, struct row_job *job)
{
	(void)job;
	((struct many *)context)->done++;
}

static struct row_maker maker_new(void)
{
	struct row_maker maker;
	struct fault fault = {""};
	struct decode_limits limits = decode_limits_default();
	assert_int_equal(row_maker_init(&maker, &limits, 64, &fault), 0);
	return maker;
}

static void make_together(struct row_maker *maker, const struct pixel_recipe *recipe,
	struct bytes jpeg, struct many *many, uint8_t *rows)
{
	*many = (struct many){.next = 0};
	for (unsigned i = 0; i < ROWS; i++)
		many->jobs[i] = (struct row_job){.data = jpeg.data,
			.size = jpeg.size,
			.recipe = recipe,
			.key = {.seed = 4, .position = i, .view = i % 2},
			.out = rows + (size_t)i * ROOM};
	row_make_many(
		maker, &(struct row_source){.next = many_next, .done = many_done, .context = many});
	assert_int_equal(many->done, ROWS);
}

static void test_same_rows(void **state)
{
	static uint8_t rows[ROWS][ROOM], row[ROOM];
	static struct many many;
	const struct pixel_recipe recipe = {.kind = PIXEL_CROP,
		.size = pixel_square(SIZE),
		.random_window = true,
		.flip = 0.5,
		.padding = {
			.left = 9, .top = 9, .right = 9, .bottom = 9, .mode = PIXEL_PAD_REFLECT}};
	struct row_maker maker = maker_new();
	struct bytes jpeg = make_jpeg(&kind);
	(void)state;
	make_together(&maker, &recipe, jpeg, &many, rows[0]);
	for (unsigned i = 0; i < ROWS; i++) {
		const struct row_job *job = &many.jobs[i];
		struct slots_record record = {0};
		assert_int_equal(job->outcome, DECODE_OK);
		assert_int_equal(row_make(&maker, jpeg.data, jpeg.size, &recipe, &job->key, NULL,
					 row, &record),
			DECODE_OK);
		assert_memory_equal(row, rows[i], BYTES);
		assert_true(record.crop_w == SIDE && record.crop_h == SIDE);
		memset(row, 0, BYTES);
		assert_int_equal(row_make_again(&maker, jpeg.data, jpeg.size, &recipe, &record,
					 &job->key, NULL, row),
			DECODE_OK);
		assert_memory_equal(row, rows[i], BYTES);
		if (i)
			assert_memory_not_equal(rows[i], rows[0], BYTES);
	}
	row_maker_deinit(&maker);
	free(jpeg.data);
}

static void test_too_small(void **state)
{
	static uint8_t rows[ROWS][ROOM], row[ROOM];
	static struct many many;
	struct pixel_recipe recipe = {.kind = PIXEL_CROP,
		.size = pixel_square(SIDE + 2),
		.random_window = true,
		.padding = {.left = 2}};
	struct row_maker maker = maker_new();
	struct pixel_key key = {0};
	struct slots_record record = {0};
	struct bytes jpeg = make_jpeg(&kind);
	(void)state;
	assert_int_equal(row_make(&maker, jpeg.data, jpeg.size, &recipe, &key, NULL, row, &record),
		DECODE_E_SMALL);
	assert_string_equal(decode_outcome_name(DECODE_E_SMALL), "too-small");
	assert_string_equal(decoder_message(maker.decoder),
		"the image has 40 x 40 pixels, too few even with padding for a RandomCrop of 42 x "
		"42: resize before it, or set pad_if_needed");
	make_together(&maker, &recipe, jpeg, &many, rows[0]);
	for (unsigned i = 0; i < ROWS; i++)
		assert_int_equal(many.jobs[i].outcome, DECODE_E_SMALL);
	recipe.padding.top = 2;
	assert_int_equal(row_make(&maker, jpeg.data, jpeg.size, &recipe, &key, NULL, row, &record),
		DECODE_OK);
	recipe.padding.top = 0;
	recipe.padding.if_needed = true;
	assert_int_equal(row_make(&maker, jpeg.data, jpeg.size, &recipe, &key, NULL, row, &record),
		DECODE_OK);
	row_maker_deinit(&maker);
	free(jpeg.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_rows),
		cmocka_unit_test(test_too_small),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Decoding in chunks by every driver, against the same scan in order: samplings, crops, entry
 * points that come out of it, one block a chunk, many images in flight beside images in order,
 * damaged data. tests/fuzz/fuzz_chunks.c does the same with files made to get out of step. */
#include "unit/decode/images.h"

#include "unit/decode/jpeg/chunked.h"

static uint32_t seed = 17;

static uint32_t random_below(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

static const struct lanes *driver_at(unsigned i)
{
	return i ? lanes_at(i - 1) : &lanes_ref;
}

static struct file make_file(const struct jpeg_kind *kind)
{
	struct bytes jpeg = make_jpeg(kind);
	return (struct file){jpeg.data, jpeg.size};
}

static const struct jpeg_kind kinds[] = {
	{.width = 100, .height = 75, .components = 1},
	{.width = 101, .height = 77, .components = 3, .h = 1, .v = 1, .quality = 100},
	{.width = 130, .height = 61, .components = 3, .h = 2, .v = 1},
	{.width = 199, .height = 199, .components = 3, .h = 2, .v = 2, .optimized = true},
	{.width = 64, .height = 120, .components = 3, .h = 1, .v = 2, .quality = 20},
	{.width = 150, .height = 70, .components = 3, .h = 4, .v = 2, .quality = 97},
	{.width = 300, .height = 220, .components = 3, .h = 1, .v = 1, .noise = true},
	{.width = 8, .height = 8, .components = 3, .h = 1, .v = 1},
	{.width = 1, .height = 1, .components = 1},
};

static struct decode_region random_crop(const struct parse *p)
{
	struct decode_region r = {.x0 = random_below(p->width), .y0 = random_below(p->height)};
	r.x1 = r.x0 + 1 + random_below(p->width - r.x0);
	r.y1 = r.y0 + 1 + random_below(p->height - r.y0);
	return r;
}

/* The whole image with its entry points. Returns whether it was settled. */
static bool check_whole(struct file file, const struct lanes *lanes, uint32_t count,
	uint32_t interval, const struct entry_point *wanted, uint32_t points_count)
{
	struct subject s;
	assert_int_equal(subject_init(&s, file, lanes, NULL, 0, true), 0);
	int16_t *whole = want(malloc(image_coefficients(&s.parse) * sizeof(*whole)));
	assert_int_equal(libjpeg_coefficients(file, &s.parse, whole), 0);
	struct chunked c = chunked_init(&s, count, count % 3 ? 0 : count % 7 + 1, true);
	struct entry_point *points = want(calloc(points_count, sizeof(*points)));
	subject_records(&s, points, interval);
	bool settled = chunked_decode(&s, &c, lanes);
	if (settled) {
		assert_int_equal(s.image.outcome, 0);
		assert_int_equal(subject_differs(&s, whole), 0);
		assert_true(entry_point_settle(file.bytes, file.size, points, 0, points_count));
		assert_memory_equal(points, wanted, points_count * sizeof(*points));
	}
	free(points);
	free(whole);
	chunked_deinit(&c);
	subject_deinit(&s);
	return settled;
}

static bool check_crop(struct file file, const struct lanes *lanes, uint32_t count)
{
	struct subject s;
	struct parse parse;
	assert_int_equal(parse_read_single(file.bytes, file.size, &parse), 0);
	struct decode_region crop = random_crop(&parse);
	assert_int_equal(subject_init(&s, file, lanes, &crop, 0, false), 0);
	int16_t *whole = want(malloc(image_coefficients(&parse) * sizeof(*whole)));
	assert_int_equal(libjpeg_coefficients(file, &parse, whole), 0);
	struct chunked c = chunked_init(&s, count, 0, false);
	bool settled = chunked_decode(&s, &c, lanes);
	if (settled)
		assert_int_equal(subject_differs(&s, whole), 0);
	free(whole);
	chunked_deinit(&c);
	subject_deinit(&s);
	return settled;
}

static void test_equal(void **state)
{
	(void)state;
	unsigned settled = 0, checks = 0;
	for (size_t k = 0; k < UTIL_COUNT(kinds); k++) {
		struct file file = make_file(&kinds[k]);
		uint32_t interval = 1 + random_below(9), points_count;
		struct entry_point *points =
			subject_record(file, &lanes_ref, interval, &points_count);
		assert_non_null(points);
		const uint32_t counts[] = {1, 2, 3, 9, 30, 100, 500};
		for (unsigned i = 0; driver_at(i); i++)
			for (size_t n = 0; n < UTIL_COUNT(counts); n++) {
				uint32_t bits = 8 * (uint32_t)(file.size / 2);
				uint32_t count = UTIL_MIN(counts[n], bits / 64);
				settled += check_whole(
					file, driver_at(i), count, interval, points, points_count);
				settled += check_crop(file, driver_at(i), count);
				checks += 2;
			}
		free(points);
		free(file.bytes);
	}
	assert_true(settled * 10 > checks * 9);
}

/* One chunk is the whole scan in order: never astray. */
static void test_one(void **state)
{
	(void)state;
	for (size_t k = 0; k < UTIL_COUNT(kinds); k++) {
		struct file file = make_file(&kinds[k]);
		for (unsigned i = 0; driver_at(i); i++)
			assert_true(check_crop(file, driver_at(i), 1));
		free(file.bytes);
	}
}

struct flight {
	struct subject *subjects;
	size_t given, count, done;
};

static struct feed_image *flight_more(void *context)
{
	struct flight *flight = context;
	return flight->given < flight->count ? &flight->subjects[flight->given++].image : NULL;
}

static void flight_done(void *context, struct feed_image *image)
{
	struct flight *flight = context;
	(void)image;
	flight->done++;
}

/* Changes a byte of the unstuffed scan. */
static void damage(struct subject *s)
{
	s->bytes[random_below(s->segments[0].bytes)] ^= (uint8_t)(1 << random_below(8));
}

/* Images in chunks beside images in order, one in four damaged: each as it would be alone. */
static void test_flight(void **state)
{
	(void)state;
	enum { IMAGES = 60 };
	for (unsigned i = 0; driver_at(i); i++) {
		struct flight flight = {.count = IMAGES};
		struct file files[IMAGES];
		static struct chunked chunked[IMAGES];
		static struct subject alone[IMAGES];
		flight.subjects = want(calloc(IMAGES, sizeof(struct subject)));
		for (int n = 0; n < IMAGES; n++) {
			struct subject *s = &flight.subjects[n], *a = &alone[n];
			files[n] = make_file(&kinds[random_below(UTIL_COUNT(kinds))]);
			struct parse parse;
			assert_int_equal(
				parse_read_single(files[n].bytes, files[n].size, &parse), 0);
			struct decode_region crop = random_crop(&parse);
			assert_int_equal(
				subject_init(s, files[n], driver_at(i), &crop, 0, false), 0);
			assert_int_equal(subject_init(a, files[n], &lanes_ref, &crop, 0, false), 0);
			if (n % 4 == 3) {
				damage(s);
				memcpy(a->bytes, s->bytes, s->segments[0].bytes);
			}
			(void)feed_decode_one(&a->image, &lanes_ref);
			if (n % 3)
				chunked[n] = chunked_init(s, 1 + random_below(20), 0, false);
			if (n % 3)
				s->image.chunks = &chunked[n].plan;
		}
		struct feed feed = {.more = flight_more, .done = flight_done, .context = &flight};
		feed_decode(&feed, chunked_lanes(driver_at(i)));
		assert_int_equal(flight.done, IMAGES);
		for (int n = 0; n < IMAGES; n++) {
			struct subject *s = &flight.subjects[n];
			if (!s->image.astray)
				assert_int_equal(!s->image.outcome, !alone[n].image.outcome);
			if (!s->image.outcome)
				assert_true(chunked_same(s, &alone[n]));
			if (n % 3)
				chunked_deinit(&chunked[n]);
			subject_deinit(&alone[n]);
			subject_deinit(s);
			free(files[n].bytes);
		}
		free(flight.subjects);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal),
		cmocka_unit_test(test_one),
		cmocka_unit_test(test_flight),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

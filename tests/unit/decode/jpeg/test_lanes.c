/* Every driver against libjpeg's coefficients and against the reference: samplings, restart
 * markers, crops entered at entry points, bands, images in flight together; damaged data, where
 * drivers must agree on what fails, and a failing lane must not affect the others; guard pages
 * around all memory. */
#include "unit/decode/images.h"

#include "unit/decode/jpeg/coefficients.h"
#include "unit/decode/jpeg/guarded.h"

#include <errno.h>

static uint32_t seed = 11;

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
	{.width = 99, .height = 99, .components = 3, .h = 2, .v = 2, .optimized = true},
	{.width = 64, .height = 120, .components = 3, .h = 1, .v = 2, .quality = 20},
	{.width = 200, .height = 33, .components = 3, .h = 4, .v = 1},
	{.width = 150, .height = 70, .components = 3, .h = 4, .v = 2, .quality = 97},
	{.width = 8, .height = 8, .components = 3, .h = 1, .v = 1},
	{.width = 1, .height = 1, .components = 1},
	{.width = 180, .height = 90, .components = 3, .h = 2, .v = 2, .restart_rows = 1},
	{.width = 90,
		.height = 180,
		.components = 3,
		.h = 1,
		.v = 1,
		.restart_rows = 2,
		.optimized = true,
		.quality = 95},
	{.width = 300, .height = 50, .components = 1, .restart_rows = 1},
};

static int16_t *libjpeg_of(struct file file, const struct parse *parse)
{
	int16_t *to = want(malloc(image_coefficients(parse) * sizeof(*to)));
	assert_int_equal(libjpeg_coefficients(file, parse, to), 0);
	return to;
}

/* The whole image by every driver; frees the file. */
static void check_whole(struct file file, uint32_t piece)
{
	for (unsigned i = 0; driver_at(i); i++) {
		struct subject s;
		assert_int_equal(subject_init(&s, file, driver_at(i), NULL, piece, true), 0);
		int16_t *whole = libjpeg_of(file, &s.parse);
		assert_int_equal(feed_decode_one(&s.image, driver_at(i)), 0);
		assert_int_equal(subject_differs(&s, whole), 0);
		free(whole);
		subject_deinit(&s);
	}
	free(file.bytes);
}

static void test_whole(void **state)
{
	(void)state;
	for (size_t k = 0; k < UTIL_COUNT(kinds); k++)
		check_whole(make_file(&kinds[k]), k % 3 * 5);
}

/* The longest blocks that exist, full of large values; and full ones of small values, of which one
 * look-up has several, so that a look-up may have more than fits the block. */
static void test_extreme(void **state)
{
	(void)state;
	struct jpeg_compress_struct cinfo;
	struct jpeg_error_mgr errors;
	unsigned char *out = NULL;
	unsigned long size = 0;
	cinfo.err = jpeg_std_error(&errors);
	jpeg_create_compress(&cinfo);
	jpeg_mem_dest(&cinfo, &out, &size);
	cinfo.image_width = cinfo.image_height = 160;
	cinfo.input_components = 1;
	cinfo.in_color_space = JCS_GRAYSCALE;
	jpeg_set_defaults(&cinfo);
	jvirt_barray_ptr array =
		cinfo.mem->request_virt_barray((j_common_ptr)&cinfo, JPOOL_IMAGE, TRUE, 20, 20, 20);
	jpeg_write_coefficients(&cinfo, &array);
	JBLOCKARRAY rows = cinfo.mem->access_virt_barray((j_common_ptr)&cinfo, array, 0, 20, TRUE);
	for (int y = 0; y < 20; y++)
		for (int x = 0; x < 20; x++)
			for (int i = 0; i < 64; i++) {
				unsigned dense = (unsigned)(x % 5);
				int most = y % 2 ? 1 + x % 7 : 1023;
				int value = (int)random_below(2 * (unsigned)most + 1) - most;
				rows[y][x][i] =
					(JCOEF)(dense && random_below(dense * dense) ? 0 : value);
			}
	jpeg_finish_compress(&cinfo);
	jpeg_destroy_compress(&cinfo);
	struct bytes jpeg = bytes_copy(out, size);
	free(out);
	check_whole((struct file){jpeg.data, jpeg.size}, 0);
}

/* Records entry points of a file, which must succeed. */
static struct entry_point *take_entry_points(
	struct file file, const struct lanes *lanes, uint32_t interval, uint32_t *ret_count)
{
	struct entry_point *points = subject_record(file, lanes, interval, ret_count);
	assert_non_null(points);
	return points;
}

static struct decode_region random_crop(const struct parse *p)
{
	struct decode_region r = {.x0 = random_below(p->width), .y0 = random_below(p->height)};
	r.x1 = r.x0 + 1 + random_below(p->width - r.x0);
	r.y1 = r.y0 + 1 + random_below(p->height - r.y0);
	return r;
}

static void test_entry_points(void **state)
{
	(void)state;
	static const uint32_t intervals[] = {1, 2, 8, 13};
	for (size_t k = 0; k < UTIL_COUNT(kinds); k++) {
		if (kinds[k].restart_rows)
			continue;
		struct file file = make_file(&kinds[k]);
		for (unsigned i = 0; driver_at(i); i++) {
			uint32_t interval = intervals[(i + k) % UTIL_COUNT(intervals)], count,
				 again;
			struct entry_point *points =
				take_entry_points(file, driver_at(i), interval, &count);
			struct entry_point *same =
				take_entry_points(file, &lanes_ref, interval, &again);
			assert_int_equal(count, again);
			assert_memory_equal(points, same, count * sizeof(*points));
			free(same);
			for (int round = 0; round < 5; round++) {
				struct subject s;
				assert_int_equal(
					subject_init(&s, file, driver_at(i), NULL, 0, true), 0);
				int16_t *whole = libjpeg_of(file, &s.parse);
				assert_int_equal(subject_enter(&s, driver_at(i), points, count,
							 interval, random_crop(&s.parse)),
					0);
				assert_int_equal(feed_decode_one(&s.image, driver_at(i)), 0);
				assert_int_equal(subject_differs(&s, whole), 0);
				free(whole);
				subject_deinit(&s);
			}
			free(points);
		}
		free(file.bytes);
	}
}

/* Entry points that do not fit the file: a wrong block is always reported. */
static void test_false_entry_points(void **state)
{
	(void)state;
	enum { INTERVAL = 4 };
	struct file file = make_file(&kinds[3]);
	uint32_t count, dropped = 0;
	struct entry_point *points = take_entry_points(file, &lanes_ref, INTERVAL, &count);
	for (int round = 0; round < 400; round++) {
		const struct lanes *lanes = driver_at((unsigned)round % 2);
		struct entry_point *bent = want(malloc(count * sizeof(*bent)));
		memcpy(bent, points, count * sizeof(*bent));
		struct entry_point *at = &bent[random_below(count)];
		switch (random_below(4)) {
		case 0:
			at->bit += 1 + random_below(70);
			break;
		case 1:
			at->bit -= 1 + random_below(70);
			break;
		case 2:
			at->bit = (uint64_t)random_below(1 << 20) << random_below(40);
			break;
		default:
			at->dc[random_below(3)] ^= (int16_t)(1 << random_below(10));
		}
		struct subject s;
		assert_int_equal(subject_init(&s, file, lanes, NULL, 0, true), 0);
		struct decode_region all = {0, 0, s.parse.width, s.parse.height};
		int reason = subject_enter(&s, lanes, bent, count, INTERVAL, all);
		if (!reason)
			reason = feed_decode_one(&s.image, lanes);
		int16_t *whole = libjpeg_of(file, &s.parse);
		dropped += reason != 0;
		/* No run checks the first entry point's place and predictions. */
		if (!reason && at != bent)
			assert_int_equal(subject_differs(&s, whole), 0);
		free(whole);
		subject_deinit(&s);
		free(bent);
	}
	assert_true(dropped > 300);
	free(points);
	free(file.bytes);
}

static void test_bands(void **state)
{
	(void)state;
	for (size_t k = 0; k < UTIL_COUNT(kinds); k++) {
		struct file file = make_file(&kinds[k]);
		for (unsigned i = 0; driver_at(i); i++) {
			struct subject s;
			assert_int_equal(subject_init(&s, file, driver_at(i), NULL, 0, true), 0);
			int16_t *whole = libjpeg_of(file, &s.parse);
			struct blocks crop = s.band;
			struct mcu_plan_request request = s.request;
			for (uint32_t y = 0; y < crop.rows; y++) {
				s.band = crop;
				s.band.mcu_y0 += y;
				s.band.rows = 1;
				assert_int_equal(mcu_plan_runs(&s.parse, &s.band, &request, s.runs,
							 mcu_plan_runs_most(&s.parse, &crop,
								 &s.request, crop.rows),
							 s.where, &s.image.run_count, &s.blocks),
					0);
				s.image.cursor = 0;
				assert_int_equal(feed_decode_one(&s.image, driver_at(i)), 0);
				for (unsigned c = 0; c < s.band.components; c++) {
					struct blocks_component *b = &s.band.component[c];
					b->y0 = y * b->v;
					b->y1 = UTIL_MIN(b->y1, (y + 1) * b->v);
				}
				assert_int_equal(subject_differs(&s, whole), 0);
				const struct mcu_plan_run *last = &s.runs[s.image.run_count - 1];
				request.resume = last->mcu + last->mcus;
			}
			free(whole);
			subject_deinit(&s);
		}
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
	size_t number =
		(size_t)((struct subject *)((char *)image - offsetof(struct subject, image)) -
			 flight->subjects);
	assert_in_range(number, 0, flight->count - 1);
	flight->done++;
}

/* Cuts a piece out of the scan, or changes a byte of it. */
static void damage(struct file *file, size_t scan)
{
	size_t at = scan + random_below((uint32_t)(file->size - scan - 2));
	switch (random_below(4)) {
	case 0:
		memmove(file->bytes + at, file->bytes + at + 1, file->size - at - 1);
		file->size--;
		break;
	case 1:
		file->bytes[at] = 0xff;
		file->bytes[at + 1] = (uint8_t)(0xd0 + random_below(10));
		break;
	default:
		file->bytes[at] ^= (uint8_t)(1 << random_below(8));
	}
}

static void test_flight(void **state)
{
	(void)state;
	enum { IMAGES = 100 };
	for (unsigned i = 0; driver_at(i); i++) {
		struct flight flight = {.count = IMAGES};
		struct file files[IMAGES];
		flight.subjects = want(calloc(IMAGES, sizeof(struct subject)));
		for (int n = 0; n < IMAGES; n++) {
			struct subject *s = &flight.subjects[n];
			files[n] = make_file(&kinds[random_below(UTIL_COUNT(kinds))]);
			struct parse parse;
			assert_int_equal(
				parse_read_single(files[n].bytes, files[n].size, &parse), 0);
			struct decode_region crop = random_crop(&parse);
			if (n % 4 == 3)
				damage(&files[n], parse.scan);
			(void)subject_init(s, files[n], driver_at(i), n % 3 ? &crop : NULL,
				random_below(3) * 7, false);
			if (s->reason) /* restart markers damaged */
				s->image.segment_count = 0;
			if (!s->runs)
				assert_int_equal(subject_plan(s, crop), 0);
		}
		struct feed feed = {.more = flight_more, .done = flight_done, .context = &flight};
		feed_decode(&feed, driver_at(i));
		assert_int_equal(flight.done, IMAGES);
		for (int n = 0; n < IMAGES; n++) {
			struct subject *s = &flight.subjects[n];
			if (n % 4 != 3) {
				int16_t *whole = libjpeg_of(files[n], &s->parse);
				assert_int_equal(s->image.outcome, 0);
				assert_int_equal(subject_differs(s, whole), 0);
				free(whole);
			}
			subject_deinit(s);
			free(files[n].bytes);
		}
		free(flight.subjects);
	}
}

/* A decoder whose memory suffices for one image at first, and for all after the second one. */
struct narrow {
	struct flight flight;
	struct feed feed;
	size_t most; /* in flight at a time */
};

static struct feed_image *narrow_more(void *context)
{
	struct narrow *narrow = context;
	const struct flight *flight = &narrow->flight;
	size_t flying = flight->given - flight->done;
	if (flight->done < 2 && flying)
		return NULL;
	struct feed_image *image = flight_more(&narrow->flight);
	if (image)
		narrow->most = UTIL_MAX(narrow->most, flying + 1);
	return image;
}

static void narrow_done(void *context, struct feed_image *image)
{
	struct narrow *narrow = context;
	flight_done(&narrow->flight, image);
	narrow->feed.dry = false;
}

/* A lane that was refused is asked for again while others work: it does not stay idle until the
 * last image. */
static void test_asks_again(void **state)
{
	(void)state;
	enum { IMAGES = 70 };
	for (unsigned i = 0; driver_at(i); i++) {
		struct narrow narrow = {.flight = {.count = IMAGES},
			.feed = {.more = narrow_more, .done = narrow_done, .context = &narrow}};
		struct file file = make_file(&kinds[3]);
		struct subject *subjects = want(calloc(IMAGES, sizeof(struct subject)));
		narrow.flight.subjects = subjects;
		for (int n = 0; n < IMAGES; n++)
			assert_int_equal(
				subject_init(&subjects[n], file, driver_at(i), NULL, 0, false), 0);
		feed_decode(&narrow.feed, driver_at(i));
		assert_int_equal(narrow.flight.done, IMAGES);
		assert_int_equal(narrow.most, driver_at(i)->width);
		for (int n = 0; n < IMAGES; n++) {
			assert_int_equal(subjects[n].image.outcome, 0);
			subject_deinit(&subjects[n]);
		}
		free(subjects);
		free(file.bytes);
	}
}

/* Collects the outcome of each run, without a feed that would give up the image. */
struct collect {
	const struct subject *subject;
	size_t next;
	struct lane *ended; /* by run */
};

static bool collect_next(void *context, struct lane *lane)
{
	struct collect *collect = context;
	const struct subject *s = collect->subject;
	if (lane->owner)
		collect->ended[lane->run] = *lane;
	if (collect->next == s->image.run_count)
		return false;
	const struct mcu_plan_run *run = &s->runs[collect->next];
	const struct unstuff_segment *segment = &s->segments[run->entry];
	*lane = (struct lane){
		.huffman = &s->huffman,
		.bytes = s->bytes + segment->start,
		.bits = (uint64_t)segment->bytes * 8,
		.blocks = s->coefficients + (size_t)run->block * BLOCKS_SIZE,
		.mcus = run->mcus,
		.ends = LANE_ENDS,
		.owner = collect,
		.run = collect->next++,
	};
	return true;
}

static struct lane *collect_runs(const struct subject *s, const struct lanes *lanes)
{
	struct collect collect = {.subject = s};
	collect.ended = want(calloc(s->image.run_count, sizeof(struct lane)));
	memset(s->coefficients, 0x55, s->blocks * BLOCKS_SIZE * sizeof(int16_t));
	lanes->decode(collect_next, &collect);
	return collect.ended;
}

static void compare_runs(const struct subject *a, const struct lane *of_a, const struct subject *b,
	const struct lane *of_b, size_t *failures)
{
	for (size_t i = 0; i < a->image.run_count; i++) {
		assert_int_equal(of_a[i].outcome == 0, of_b[i].outcome == 0);
		*failures += of_a[i].outcome != 0;
		if (of_a[i].outcome)
			continue;
		assert_int_equal(of_a[i].bit, of_b[i].bit);
		assert_memory_equal(of_a[i].dc, of_b[i].dc, sizeof(of_a[i].dc));
		size_t at = (size_t)a->runs[i].block * BLOCKS_SIZE;
		size_t size = (size_t)a->runs[i].mcus * a->parse.in_mcu * BLOCKS_SIZE;
		assert_memory_equal(
			a->coefficients + at, b->coefficients + at, size * sizeof(int16_t));
	}
}

/* Segments of a file with restart markers, some of them damaged after unstuffing: drivers agree on
 * which fail, and decode the others completely. */
static void test_siblings(void **state)
{
	(void)state;
	size_t failures = 0, runs = 0;
	for (int round = 0; round < 120; round++) {
		struct jpeg_kind kind = {.width = 8 + random_below(80),
			.height = 300,
			.components = random_below(2) ? 3 : 1,
			.h = 1 + (int)random_below(2),
			.v = 1 + (int)random_below(2),
			.restart_rows = 1,
			.quality = 30 + (int)random_below(70)};
		struct file file = make_file(&kind);
		struct subject ref, s;
		assert_int_equal(subject_init(&ref, file, &lanes_ref, NULL, 0, true), 0);
		unsigned damages = random_below(12);
		uint32_t at[12];
		uint8_t change[12];
		for (unsigned d = 0; d < damages; d++) {
			at[d] = random_below((uint32_t)ref.found.bytes);
			change[d] = (uint8_t)(1 + random_below(255));
			ref.bytes[at[d]] ^= change[d];
		}
		struct lane *of_ref = collect_runs(&ref, &lanes_ref);
		for (unsigned i = 1; driver_at(i); i++) {
			assert_int_equal(subject_init(&s, file, driver_at(i), NULL, 0, true), 0);
			for (unsigned d = 0; d < damages; d++)
				s.bytes[at[d]] ^= change[d];
			struct lane *of_s = collect_runs(&s, driver_at(i));
			compare_runs(&ref, of_ref, &s, of_s, &failures);
			runs += s.image.run_count;
			free(of_s);
			subject_deinit(&s);
		}
		free(of_ref);
		subject_deinit(&ref);
		free(file.bytes);
	}
	assert_true(failures > 100 && failures < runs / 2);
}

/* Moves all memory that a subject's lanes read and write next to guard pages. */
struct fence {
	struct guarded bytes, tables, blocks;
};

static struct fence fence_in(struct subject *s, const struct lanes *lanes, int at_end)
{
	size_t tables = huffman_tables_bytes(&s->parse, lanes->kind);
	size_t blocks = s->blocks * BLOCKS_SIZE * sizeof(int16_t);
	struct fence f = {
		guarded_new(s->found.bytes + LANE_SLACK, at_end),
		guarded_new(tables, at_end),
		guarded_new(blocks, at_end),
	};
	memcpy(f.bytes.bytes, s->bytes, s->found.bytes);
	memset(f.bytes.bytes + s->found.bytes, (int)random_below(256), LANE_SLACK);
	if (tables)
		memcpy(f.tables.bytes, s->tables, tables);
	s->image.bytes = f.bytes.bytes;
	s->huffman.tables = (const uint32_t *)f.tables.bytes;
	s->image.coefficients = (int16_t *)f.blocks.bytes;
	return f;
}

static void test_guarded(void **state)
{
	(void)state;
	for (int round = 0; round < 600; round++) {
		struct file file = make_file(&kinds[random_below(UTIL_COUNT(kinds))]);
		struct parse parse;
		assert_int_equal(parse_read_single(file.bytes, file.size, &parse), 0);
		struct decode_region crop = random_crop(&parse);
		for (int damages = round % 4; damages > 0; damages--)
			damage(&file, parse.scan);
		if (random_below(3) == 0)
			file.size -= random_below((uint32_t)(file.size - parse.scan));
		int wanted = -1;
		for (unsigned i = 0; driver_at(i); i++) {
			struct subject s;
			int reason = subject_init(&s, file, driver_at(i), &crop, 0, false);
			if (!reason) {
				struct fence f = fence_in(&s, driver_at(i), round % 2);
				reason = feed_decode_one(&s.image, driver_at(i));
				guarded_free(&f.bytes);
				guarded_free(&f.tables);
				guarded_free(&f.blocks);
			}
			assert_true(wanted < 0 || !wanted == !reason);
			wanted = reason;
			subject_deinit(&s);
		}
		free(file.bytes);
	}
}

/* Any bytes: random, ones, zeros, with random codes. */
static void test_noise(void **state)
{
	(void)state;
	struct file file = make_file(&kinds[6]);
	for (int round = 0; round < 300; round++) {
		struct subject ref, s;
		assert_int_equal(subject_init(&ref, file, &lanes_ref, NULL, 0, true), 0);
		unsigned mask = 1u << random_below(8), base = round % 3 ? 0 : 0xff;
		for (size_t i = 0; i < ref.found.bytes; i++)
			ref.bytes[i] =
				(uint8_t)(base ^ (random_below(4) ? 0 : random_below(256) & mask));
		int wanted = feed_decode_one(&ref.image, &lanes_ref);
		for (unsigned i = 1; driver_at(i); i++) {
			assert_int_equal(subject_init(&s, file, driver_at(i), NULL, 0, true), 0);
			memcpy(s.bytes, ref.bytes, ref.found.bytes);
			struct fence f = fence_in(&s, driver_at(i), round % 2);
			assert_int_equal(!feed_decode_one(&s.image, driver_at(i)), !wanted);
			guarded_free(&f.bytes);
			guarded_free(&f.tables);
			guarded_free(&f.blocks);
			subject_deinit(&s);
		}
		subject_deinit(&ref);
	}
	free(file.bytes);
}

static void test_choice(void **state)
{
	(void)state;
	const struct lanes *lanes = NULL;
	struct fault fault;
	assert_int_equal(setenv("PENSTOCK_KERNELS", "fastest", 1), 0);
	assert_int_equal(lanes_choose(&lanes, &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "fastest"));
	for (unsigned i = 0; lanes_at(i); i++) {
		assert_int_equal(setenv("PENSTOCK_KERNELS", lanes_at(i)->name, 1), 0);
		assert_int_equal(lanes_choose(&lanes, &fault), 0);
		assert_ptr_equal(lanes, lanes_at(i));
	}
	assert_int_equal(unsetenv("PENSTOCK_KERNELS"), 0);
	lanes = NULL;
	assert_int_equal(lanes_choose(&lanes, &fault), 0);
	assert_non_null(lanes);
	assert_ptr_equal(lanes_for(lanes, 1000), lanes);
	assert_true(lanes_for(lanes, 1)->width <= 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_extreme),
		cmocka_unit_test(test_entry_points),
		cmocka_unit_test(test_false_entry_points),
		cmocka_unit_test(test_bands),
		cmocka_unit_test(test_flight),
		cmocka_unit_test(test_asks_again),
		cmocka_unit_test(test_siblings),
		cmocka_unit_test(test_guarded),
		cmocka_unit_test(test_noise),
		cmocka_unit_test(test_choice),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

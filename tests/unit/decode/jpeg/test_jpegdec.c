/* Penstock's decoder against libjpeg-turbo, both through decode.h: the same pixels or the same
 * refusal, whatever the region, the order, the other images in flight, and the faults. */
#include "unit/decode/images.h"
#include "unit/sparse.h"

#include "decode/jpeg/entry_pack.h"

#include <dirent.h>
#include <errno.h>
#include <zlib.h>

/* An image of a stream, and its result. */
struct item {
	struct decode_job job;
	struct bytes bytes;
	struct decode_info info; /* by libjpeg-turbo; all 0 where it refuses the image */
	struct decode_region region;
	uint8_t shrink;
	unsigned begun, done; /* how often */
	uint32_t rows;
	uLong crc, wanted_crc;
	int wanted;
	uint8_t *pack; /* entry points kept for it */
	size_t pack_bytes;
};

struct course {
	struct decoder *own, *library;
	struct item *items;
	size_t count, given;
	struct item *now; /* the image whose rows are delivered */
	uint32_t random;
	unsigned stepped[STEPBACKS];
	unsigned late; /* stepped back after rows had come */
	bool pauses; /* `next` sometimes returns NULL although more images will come */
	bool keeps; /* keeps entry points */
	bool sealed; /* kept entry points stay as they are */
	bool whole; /* decodes whole images, no regions */
	bool first; /* decodes the first pixel */
	unsigned used, made, dropped;
	unsigned anew; /* of those made, without any that were kept */
	unsigned drops; /* of rows */
	unsigned in_order; /* went astray in chunks */
};

static uint32_t draw(struct course *course, uint32_t below)
{
	course->random = course->random * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)course->random * below >> 32);
}

static void course_begin(struct course *course)
{
	*course = (struct course){
		.random = 1, .library = make_decoder_by("libjpeg"), .own = make_decoder_by("own")};
}

static void course_end(struct course *course)
{
	for (size_t i = 0; i < course->count; i++) {
		free(course->items[i].bytes.data);
		free(course->items[i].pack);
	}
	free(course->items);
	decoder_free(course->own);
	decoder_free(course->library);
}

static struct item *course_add(struct course *course, struct bytes bytes)
{
	course->items = realloc(course->items, (course->count + 1) * sizeof(*course->items));
	assert_non_null(course->items);
	struct item *item = &course->items[course->count++];
	*item = (struct item){.bytes = bytes};
	return item;
}

/* Draws a region, sometimes the whole image, and what libjpeg-turbo makes of it. */
static void item_draw(struct course *course, struct item *item)
{
	struct decode_info *info = &item->info;
	item->begun = item->done = item->rows = 0;
	item->crc = item->wanted_crc = crc32(0, NULL, 0);
	item->shrink = 0;
	item->wanted = decoder_begin(course->library, item->bytes.data, item->bytes.size, info);
	if (item->wanted)
		return;
	decoder_abort(course->library);
	if (!course->whole && info->format == DECODE_JPEG && draw(course, 2))
		item->shrink = (uint8_t)(1 + draw(course, DECODE_SHRINK_MAX));
	uint32_t width = decode_shrunk(info->width, item->shrink);
	uint32_t height = decode_shrunk(info->height, item->shrink);
	struct decode_region *r = &item->region;
	*r = (struct decode_region){0, 0, width, height};
	if (course->first) {
		item->shrink = 0;
		*r = (struct decode_region){0, 0, 1, 1};
	} else if (!course->whole && draw(course, 4)) {
		r->x0 = draw(course, width);
		r->y0 = draw(course, height);
		r->x1 = r->x0 + 1 + draw(course, width - r->x0);
		r->y1 = r->y0 + 1 + draw(course, height - r->y0);
	}
	struct result result = decode_smaller(course->library, item->bytes, item->shrink, r, false);
	item->wanted = result.outcome;
	if (!result.outcome)
		item->wanted_crc =
			crc32(item->wanted_crc, result.rgb, (uInt)(result.width * 3 * result.rows));
	result_free(&result);
}

/* About the room that the daemon has for an image. */
static size_t pack_room(const struct item *item)
{
	return 256 + item->bytes.size / 48;
}

static struct decode_job *next(void *context)
{
	struct course *course = context;
	if (course->given == course->count || (course->pauses && draw(course, 9) == 0))
		return NULL;
	struct item *item = &course->items[course->given++];
	item->job = (struct decode_job){.data = item->bytes.data, .size = item->bytes.size};
	if (course->keeps)
		item->job.entry_point_room = pack_room(item);
	return &item->job;
}

static struct item *item_of(struct decode_job *job)
{
	return (struct item *)(void *)((char *)job - offsetof(struct item, job));
}

static void header(void *context, struct decode_job *job, const struct decode_info *info)
{
	(void)context;
	struct item *item = item_of(job);
	assert_int_equal(info->width, item->info.width);
	assert_int_equal(info->height, item->info.height);
	job->region = item->region;
	job->shrink = item->shrink;
}

static void start(void *context, struct decode_job *job)
{
	struct course *course = context;
	course->now = item_of(job);
	course->now->begun++;
	course->now->rows = 0;
	course->now->crc = crc32(0, NULL, 0);
}

static void row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct course *course = context;
	struct item *item = course->now;
	size_t width = item->region.x1 - item->region.x0;
	uint8_t *woven = malloc(3 * width);
	assert_non_null(woven);
	decode_weave(woven, rgb, width);
	item->crc = crc32(item->crc, woven, (uInt)(3 * width));
	item->rows++;
	free(woven);
}

static void done(void *context, struct decode_job *job)
{
	struct course *course = context;
	struct item *item = item_of(job);
	item->done++;
	course->stepped[job->stepback]++;
	course->late += job->stepback && job->delivered;
	course->in_order += job->in_order;
	course->used += (job->entry_points & DECODE_ENTRY_POINTS_USED) != 0;
	course->made += (job->entry_points & DECODE_ENTRY_POINTS_MADE) != 0;
	course->anew +=
		(job->entry_points & (DECODE_ENTRY_POINTS_MADE | DECODE_ENTRY_POINTS_USED)) ==
		DECODE_ENTRY_POINTS_MADE;
	course->dropped += (job->entry_points & DECODE_ENTRY_POINTS_DROPPED) != 0;
	/* Only one of them may notice a fault after the region. */
	if (job->outcome)
		assert_int_equal(job->outcome, item->wanted);
	if (job->outcome || item->wanted)
		return;
	/* Once more if a part of it went astray. */
	assert_in_range(
		item->begun, 1, (job->stepback || job->entry_points ? 3 : 1) + job->in_order);
	assert_int_equal(item->rows, item->region.y1 - item->region.y0);
	assert_int_equal(item->crc, item->wanted_crc);
}

static size_t recall(void *context, struct decode_job *job, uint8_t *to, size_t room)
{
	(void)context;
	const struct item *item = item_of(job);
	assert_true(room >= 256 && room <= ENTRY_PACK_MOST);
	size_t bytes = UTIL_MIN(item->pack_bytes, room);
	if (bytes)
		memcpy(to, item->pack, bytes);
	return bytes;
}

static bool keeps(void *context, struct decode_job *job)
{
	struct course *course = context;
	assert_true(job->entry_point_room > 0);
	return !course->sealed;
}

static bool keep(void *context, struct decode_job *job, const uint8_t *pack, size_t size)
{
	struct course *course = context;
	struct item *item = item_of(job);
	assert_false(course->sealed);
	assert_in_range(size, 1, pack_room(item));
	free(item->pack);
	item->pack = calloc(1, size + ENTRY_PACK_SLACK);
	assert_non_null(item->pack);
	memcpy(item->pack, pack, size);
	item->pack_bytes = size;
	return true;
}

static void drop(void *context)
{
	struct course *course = context;
	course->now = NULL;
	course->drops++;
}

/* Decodes all items in a new order. */
static void course_run(struct course *course)
{
	const struct decode_stream stream = {
		next, header, start, row, done, course, recall, keeps, keep, drop};
	for (size_t i = course->count; i > 1; i--) {
		size_t other = draw(course, (uint32_t)i);
		struct item swapped = course->items[i - 1];
		course->items[i - 1] = course->items[other];
		course->items[other] = swapped;
	}
	for (size_t i = 0; i < course->count; i++)
		item_draw(course, &course->items[i]);
	course->given = 0;
	while (course->given < course->count)
		decoder_run(course->own, &stream);
	for (size_t i = 0; i < course->count; i++)
		assert_int_equal(course->items[i].done, 1);
}

/* Decodes the same images one by one, through decoder_begin and decoder_rows. */
static void course_singles(struct course *course)
{
	for (size_t i = 0; i < course->count; i++) {
		struct item *item = &course->items[i];
		item_draw(course, item);
		bool has_region = item->region.x1 > 0;
		struct result result = decode_smaller(course->own, item->bytes, item->shrink,
			has_region ? &item->region : NULL, false);
		if (result.outcome)
			assert_int_equal(result.outcome, item->wanted);
		else if (!item->wanted)
			assert_int_equal(crc32(crc32(0, NULL, 0), result.rgb,
						 (uInt)(result.width * 3 * result.rows)),
				item->wanted_crc);
		result_free(&result);
	}
}

static unsigned stepped(const struct course *course)
{
	unsigned sum = 0;
	for (unsigned reason = 1; reason < STEPBACKS; reason++)
		sum += course->stepped[reason];
	return sum;
}

/* A gray image of one value: all blocks but the first have the same few bits. */
static struct bytes make_same_blocks(unsigned width, unsigned height)
{
	struct jpeg_compress_struct cinfo;
	struct jpeg_error_mgr errors;
	unsigned char *out = NULL;
	unsigned long size = 0;
	cinfo.err = jpeg_std_error(&errors);
	jpeg_create_compress(&cinfo);
	jpeg_mem_dest(&cinfo, &out, &size);
	cinfo.image_width = width;
	cinfo.image_height = height;
	cinfo.input_components = 1;
	cinfo.in_color_space = JCS_GRAYSCALE;
	jpeg_set_defaults(&cinfo);
	jpeg_start_compress(&cinfo, TRUE);
	uint8_t *row = calloc(width, 1);
	assert_non_null(row);
	while (cinfo.next_scanline < cinfo.image_height)
		jpeg_write_scanlines(&cinfo, &row, 1);
	free(row);
	jpeg_finish_compress(&cinfo);
	jpeg_destroy_compress(&cinfo);
	struct bytes copy = bytes_copy(out, size);
	free(out);
	return copy;
}

/* False, with a message, where the folder is missing. */
static bool add_folder(struct course *course, const char *folder, unsigned most)
{
	static uint8_t buffer[4 << 20];
	DIR *dir = opendir(folder);
	if (!dir) {
		print_message("skipped: no %s\n", folder);
		return false;
	}
	for (struct dirent *entry; course->count < most && (entry = readdir(dir));) {
		char path[4096];
		(void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		cleanup(close_file) FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "rb");
		if (!file)
			continue;
		size_t size = fread(buffer, 1, sizeof(buffer), file);
		(void)course_add(course, bytes_copy(buffer, size));
	}
	(void)closedir(dir);
	return true;
}

static void test_photographs(void **state)
{
	(void)state;
	struct course course;
	course_begin(&course);
	if (!add_folder(&course, PENSTOCK_PHOTOGRAPHS, 20 + 100 / sparse())) {
		course_end(&course);
		skip();
		return;
	}
	unsigned made = 0, used = 0;
	for (int i = 0; i < 6; i++) {
		course.pauses = i > 0;
		course.keeps = i > 1; /* some are made in the third and fourth round */
		course.whole = i == 4; /* all others in the fifth */
		made = course.made, used = course.used;
		course_run(&course);
	}
	assert_true(stepped(&course) * 1000 < 6 * course.count);
	assert_int_equal(course.made, made);
	assert_true((course.used - used) * 2 > course.count);
	course_singles(&course);
	course_end(&course);
}

static void test_corpus(void **state)
{
	(void)state;
	struct course course;
	course_begin(&course);
	if (!add_folder(&course, PENSTOCK_SHARED "/corpus/jpeg", UINT32_MAX)) {
		course_end(&course);
		skip();
		return;
	}
	course.pauses = true;
	for (int i = 0; i < 5; i++) {
		course.keeps = i > 2;
		course_run(&course);
	}
	course_singles(&course);
	assert_true(course.stepped[0] > 0 && stepped(&course) > 0);
	course_end(&course);
}

/* Small images of every sampling, with and without restart markers, and kinds that step back. */
static void test_kinds(void **state)
{
	(void)state;
	static const uint8_t samplings[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {4, 2}};
	struct course course;
	course_begin(&course);
	for (size_t i = 0; i < UTIL_COUNT(samplings) * 24; i++) {
		const uint8_t *hv = samplings[i % UTIL_COUNT(samplings)];
		struct jpeg_kind kind = {.width = 1 + draw(&course, 90),
			.height = 1 + draw(&course, 90),
			.components = draw(&course, 5) ? 3 : 1,
			.h = hv[0],
			.v = hv[1],
			.optimized = draw(&course, 2),
			.progressive = draw(&course, 4) == 0,
			.restart_rows = draw(&course, 3)};
		kind.arithmetic = !kind.optimized && draw(&course, 8) == 0;
		(void)course_add(&course, make_jpeg(&kind));
	}
	for (int i = 0; i < 12; i++) {
		course.pauses = i > 0;
		course_run(&course);
	}
	assert_true(course.stepped[STEPBACK_KIND] > 0);
	course_singles(&course);
	course_end(&course);
}

/* Images that are large enough for chunks, sound and damaged, with every set of kernels; some in
 * which all blocks have the same bits, so that chunks never get in step. */
static void test_chunks(void **state)
{
	(void)state;
	static const struct jpeg_kind large[] = {
		{.width = 500, .height = 400, .components = 3, .h = 2, .v = 2, .quality = 92},
		{.width = 333, .height = 470, .components = 3, .h = 1, .v = 1, .quality = 97},
		{.width = 640, .height = 300, .components = 3, .h = 2, .v = 1, .optimized = true},
		{.width = 800, .height = 600, .components = 1},
		{.width = 300, .height = 200, .components = 3, .h = 1, .v = 1, .noise = true},
		{.width = 500, .height = 400, .components = 3, .h = 2, .v = 2, .restart_rows = 3},
	};
	static const char *const kernels[] = {"c", "avx2", "avx512", "neon"};
	for (size_t k = 0; k < UTIL_COUNT(kernels); k++) {
		struct course course;
		struct decoder *decoder;
		struct decode_limits limits = decode_limits_default();
		struct fault fault;
		assert_int_equal(setenv("PENSTOCK_KERNELS", kernels[k], 1), 0);
		if (decoder_new(&limits, &decoder, &fault)) {
			assert_int_equal(unsetenv("PENSTOCK_KERNELS"), 0);
			continue; /* this processor does not have them */
		}
		decoder_free(decoder);
		course_begin(&course);
		for (size_t i = 0; i < 2 * UTIL_COUNT(large); i++) {
			struct bytes jpeg = make_jpeg(&large[i % UTIL_COUNT(large)]);
			if (i % 4 == 3)
				jpeg.data[jpeg.size / 2 + i] ^= (uint8_t)(1 << i % 8);
			(void)course_add(&course, jpeg);
		}
		(void)course_add(&course, make_same_blocks(1600, 1500));
		for (int i = 0; i < 3; i++) {
			course.pauses = i > 0;
			course.keeps = i > 0;
			course_run(&course);
		}
		course_singles(&course);
		course_end(&course);
		assert_int_equal(unsetenv("PENSTOCK_KERNELS"), 0);
	}
}

/* An image that does not fit and never gets in step is soon decoded in order: each of its parts
 * would have a few rows. */
static void test_parts_never_in_step(void **state)
{
	(void)state;
	struct course course;
	struct decoder *decoder;
	struct decode_limits limits = decode_limits_default();
	struct fault fault;
	assert_int_equal(setenv("PENSTOCK_KERNELS", "avx512", 1), 0);
	if (decoder_new(&limits, &decoder, &fault)) {
		assert_int_equal(unsetenv("PENSTOCK_KERNELS"), 0);
		skip(); /* this processor has no driver for chunks */
	}
	decoder_free(decoder);
	course_begin(&course);
	course.whole = true;
	(void)course_add(&course, make_same_blocks(8000, 7000));
	course_run(&course);
	assert_int_equal(stepped(&course), 0);
	assert_int_equal(course.in_order, 1);
	course_end(&course);
	assert_int_equal(unsetenv("PENSTOCK_KERNELS"), 0);
}

/* Images that fit only in bands, between small ones; one of them too wide for the ring. */
static void test_large(void **state)
{
	(void)state;
	static const struct jpeg_kind kinds[] = {
		{.width = 1500, .height = 1300, .components = 3, .h = 1, .v = 1},
		{.width = 1500, .height = 1300, .components = 3, .h = 2, .v = 2, .restart_rows = 1},
		{.width = 2200, .height = 2000, .components = 1},
		{.width = 40000, .height = 40, .components = 3, .h = 2, .v = 1},
		{.width = 60, .height = 3000, .components = 3, .h = 1, .v = 2},
		{.width = 90, .height = 70, .components = 3, .h = 2, .v = 2},
		{.width = 90, .height = 70, .components = 3, .h = 2, .v = 2},
	};
	struct course course;
	course_begin(&course);
	for (size_t i = 0; i < UTIL_COUNT(kinds); i++)
		(void)course_add(&course, make_jpeg(&kinds[i]));
	for (int i = 0; i < 4; i++)
		course_run(&course);
	assert_true(course.stepped[0] > course.stepped[STEPBACK_SIZE]);
	assert_int_equal(stepped(&course), course.stepped[STEPBACK_SIZE]);
	course_singles(&course);
	course_end(&course);
}

/* For files that are larger than its memory the decoder borrows memory where there is enough, and
 * they have entry points like any other. Otherwise the libraries decode them. */
static void test_larger_than_scratch(void **state)
{
	(void)state;
	static const struct jpeg_kind kinds[] = {
		{.width = 3600, .height = 3400, .components = 3, .h = 1, .v = 1, .quality = 100},
		{.width = 3600,
			.height = 3400,
			.components = 3,
			.h = 2,
			.v = 2,
			.quality = 100,
			.restart_rows = 1},
		{.width = 300, .height = 200, .components = 3, .h = 2, .v = 2},
	};
	struct course course;
	course_begin(&course);
	course.keeps = true;
	for (size_t i = 0; i < UTIL_COUNT(kinds); i++)
		(void)course_add(&course, make_jpeg(&kinds[i]));
	assert_true(course.items[0].bytes.size > 9 << 20);
	assert_true(course.items[1].bytes.size > 9 << 20);
	for (int i = 0; i < 6; i++)
		course_run(&course);
	assert_int_equal(stepped(&course), 0);
	assert_int_equal(course.used + course.anew, 2 * 6);
	assert_in_range(course.made, 2, 2 * 6 - 1);
	struct permit little;
	struct decode_limits limits = decode_limits_default();
	struct fault fault;
	permit_init(&little, 1 << 20);
	limits.large = &little;
	decoder_free(course.own);
	assert_int_equal(decoder_new(&limits, &course.own, &fault), 0);
	for (size_t i = 0; i < course.count; i++)
		course.items[i].pack_bytes = 0;
	course_run(&course);
	assert_int_equal(course.stepped[STEPBACK_SIZE], 2);
	course_end(&course);
	permit_deinit(&little);
}

/* Files of several scans whose coefficients are larger than the scratch, between small ones: in
 * borrowed memory. libjpeg-turbo decodes them where the pool never has enough. */
static void test_large_scans(void **state)
{
	(void)state;
	static const struct jpeg_kind kinds[] = {
		{.width = 2000,
			.height = 1500,
			.components = 3,
			.h = 1,
			.v = 1,
			.progressive = true},
		{.width = 300, .height = 200, .components = 3, .h = 2, .v = 2},
		{.width = 310, .height = 170, .components = 3, .h = 2, .v = 1, .progressive = true},
	};
	enum { ROUNDS = 4 };
	struct course course;
	struct permit pool;
	struct decode_limits limits = decode_limits_default();
	struct fault fault;
	const struct spill spill = {.folder = "/tmp"};
	course_begin(&course);
	course.whole = true;
	for (size_t i = 0; i < ROUNDS * UTIL_COUNT(kinds); i++)
		(void)course_add(&course, make_jpeg(&kinds[i % UTIL_COUNT(kinds)]));
	course_run(&course);
	assert_int_equal(stepped(&course), 0);
	limits.large = &pool;
	limits.spill = &spill;
	permit_init(&pool, 4 << 20);
	decoder_free(course.own);
	assert_int_equal(decoder_new(&limits, &course.own, &fault), 0);
	course_run(&course);
	assert_int_equal(course.stepped[STEPBACK_SIZE], ROUNDS);
	course_end(&course);
	permit_deinit(&pool);
}

/* Bytes are changed and cut: the pixels are libjpeg-turbo's, also where it takes over in the middle
 * of an image. */
static void test_faults(void **state)
{
	(void)state;
	static const struct jpeg_kind kinds[] = {
		{.width = 200, .height = 150, .components = 3, .h = 2, .v = 2},
		{.width = 200, .height = 150, .components = 3, .h = 1, .v = 1, .restart_rows = 1},
		{.width = 200, .height = 150, .components = 1},
		{.width = 1300, .height = 1200, .components = 3, .h = 1, .v = 1},
	};
	struct course course;
	course_begin(&course);
	for (unsigned i = 0; i < 240; i++) {
		struct bytes bytes = make_jpeg(&kinds[i % 16 ? i % 3 : 3]);
		for (unsigned faults = 1 + draw(&course, 3); faults; faults--) {
			size_t at = 2 + draw(&course, (uint32_t)bytes.size - 2);
			if (i % 16 == 0)
				at = bytes.size - bytes.size / 3 + draw(&course, 1000);
			bytes.data[at] ^= (uint8_t)(1 + draw(&course, 255));
		}
		if (draw(&course, 8) == 0)
			bytes.size -= draw(&course, (uint32_t)bytes.size / 2);
		struct bytes cut = bytes_copy(bytes.data, bytes.size);
		free(bytes.data);
		(void)course_add(&course, cut);
	}
	for (int i = 0; i < 8; i++) {
		course.pauses = i > 0;
		course.keeps = i > 3;
		course_run(&course);
	}
	assert_true(course.late > 0);
	/* Before the libraries begin, which may wait for memory. */
	assert_true(course.drops >= course.late);
	assert_true(course.stepped[STEPBACK_CODE] + course.stepped[STEPBACK_RUN] > 0);
	course_singles(&course);
	course_end(&course);
}

/* The same pixels when entry points are made, when they are used, and when decoding goes on after
 * the last one. In each round a file's are used or made anew; when all of it has been decoded, they
 * are complete. */
static void test_entry_points(void **state)
{
	(void)state;
	static const struct jpeg_kind kinds[] = {
		{.width = 300, .height = 200, .components = 3, .h = 2, .v = 2},
		{.width = 300, .height = 200, .components = 3, .h = 1, .v = 1, .optimized = true},
		{.width = 300, .height = 200, .components = 3, .h = 2, .v = 1, .restart_rows = 1},
		{.width = 97, .height = 300, .components = 1},
		{.width = 20, .height = 16, .components = 3, .h = 1, .v = 2},
		{.width = 300, .height = 200, .components = 3, .h = 1, .v = 1, .progressive = true},
		{.width = 1500, .height = 1300, .components = 3, .h = 1, .v = 1},
		{.width = 2200, .height = 2000, .components = 1},
	};
	/* Of these kinds; images of the first four; of all images. */
	enum { MAKING = 6, SMALL = 20, EACH = MAKING - 1 + SMALL * 3 / 4 };
	struct course course;
	course_begin(&course);
	course.keeps = true;
	for (size_t i = 0; i < UTIL_COUNT(kinds) + SMALL; i++)
		(void)course_add(&course, make_jpeg(&kinds[i < UTIL_COUNT(kinds) ? i : i % 4]));
	unsigned rounds = 1;
	course_run(&course);
	assert_int_equal(course.used, 0);
	/* None are kept of a crop in the first rows. */
	assert_in_range(course.made, EACH / 2, EACH);
	for (; rounds < 12; rounds++) {
		course.pauses = rounds > 2;
		course_run(&course);
		assert_in_range(course.used + course.anew, rounds * EACH, (rounds + 1) * EACH);
	}
	assert_true(course.used > course.anew && course.made > course.anew + EACH / 2);
	course.whole = true;
	course_run(&course);
	course.whole = false;
	unsigned made = course.made, used = course.used;
	for (rounds = 1; rounds < 6; rounds++) {
		course_run(&course);
		assert_int_equal(course.used, used + rounds * EACH);
	}
	assert_int_equal(course.made, made);
	assert_int_equal(course.dropped, 0);
	course_end(&course);
}

/* Where no entry points can be kept none are made: those that exist are used, and other files are
 * decoded only as far as needed. */
static void test_sealed(void **state)
{
	(void)state;
	static const struct jpeg_kind kind = {
		.width = 300, .height = 200, .components = 3, .h = 2, .v = 2};
	enum { COUNT = 8 };
	struct course course;
	course_begin(&course);
	course.keeps = course.sealed = true;
	for (int i = 0; i < COUNT; i++)
		(void)course_add(&course, make_jpeg(&kind));
	course_run(&course);
	assert_int_equal(course.made + course.used + course.dropped, 0);
	course.sealed = false;
	course_run(&course);
	assert_int_equal(course.made, COUNT);
	course.sealed = true;
	for (int i = 0; i < COUNT / 2; i++)
		course.items[i].pack[ENTRY_PACK_HEAD] ^= 1;
	course_run(&course);
	assert_int_equal(course.used, COUNT / 2);
	assert_int_equal(course.dropped, COUNT / 2);
	assert_int_equal(course.made, COUNT);
	course_end(&course);
}

/* A pack that does not fit its file is cleared where the crop needs too few MCUs for a new one;
 * otherwise it would be dropped again in each round. One that fits stays. */
static void test_too_few(void **state)
{
	(void)state;
	static const struct jpeg_kind kind = {
		.width = 32, .height = 32, .components = 3, .h = 1, .v = 1};
	static const uint8_t zeros[ENTRY_PACK_HEAD];
	struct course course;
	course_begin(&course);
	course.keeps = course.whole = true;
	struct item *item = course_add(&course, make_jpeg(&kind));
	course_run(&course);
	assert_int_equal(course.made, 1);
	course.whole = false;
	course.first = true;
	course_run(&course);
	assert_int_equal(course.used, 1);
	item->pack[0] ^= 1;
	for (int i = 0; i < 3; i++)
		course_run(&course);
	assert_int_equal(course.dropped, 1);
	assert_int_equal(course.made, 1);
	assert_int_equal(item->pack_bytes, sizeof(zeros));
	assert_memory_equal(item->pack, zeros, sizeof(zeros));
	course.first = false;
	course.whole = true;
	course_run(&course);
	course_run(&course);
	assert_int_equal(course.made, 2);
	assert_int_equal(course.used, 2);
	course_end(&course);
}

static void pack_damage(struct course *course, struct item *item)
{
	const struct item *other = &course->items[draw(course, (uint32_t)course->count)];
	switch (draw(course, 5)) {
	case 0:
		item->pack_bytes = draw(course, (uint32_t)item->pack_bytes);
		break;
	case 1: /* another's */
		if (other->pack_bytes && other->pack_bytes <= item->pack_bytes) {
			memcpy(item->pack, other->pack, other->pack_bytes);
			item->pack_bytes = other->pack_bytes;
		}
		break;
	case 2: /* another file of the same size at its place */
		item->bytes.data[item->bytes.size / 2 + draw(course, 99)] ^= 1;
		break;
	case 3:
		for (size_t i = 0; i < item->pack_bytes; i++)
			item->pack[i] = (uint8_t)draw(course, 256);
		break;
	default:
		item->pack[draw(course, (uint32_t)item->pack_bytes)] ^=
			(uint8_t)(1 << draw(course, 8));
	}
}

/* Whatever is kept, the result is libjpeg-turbo's pixels or its refusal. */
static void test_damaged_packs(void **state)
{
	(void)state;
	static const struct jpeg_kind kinds[] = {
		{.width = 300, .height = 200, .components = 3, .h = 2, .v = 2},
		{.width = 260, .height = 180, .components = 3, .h = 1, .v = 1},
		{.width = 97, .height = 300, .components = 1},
	};
	struct course course;
	course_begin(&course);
	course.keeps = true;
	for (unsigned i = 0; i < 30; i++)
		(void)course_add(&course, make_jpeg(&kinds[i % UTIL_COUNT(kinds)]));
	course_run(&course);
	for (unsigned round = 0; round < 12; round++) {
		for (size_t i = 0; i < course.count; i++)
			if (course.items[i].pack_bytes && draw(&course, 2))
				pack_damage(&course, &course.items[i]);
		course_run(&course);
	}
	assert_true(course.dropped > 100 && course.used > 10);
	assert_int_equal(course.stepped[STEPBACK_ENTRY_POINT], 0);
	course_end(&course);
}

/* Entry points in a sound pack that are wrong: they are made again, and do not count as a fallback.
 * All of them are noticed where all runs end at one. */
static void test_false_packs(void **state)
{
	(void)state;
	static const struct jpeg_kind kind = {
		.width = 300, .height = 200, .components = 3, .h = 2, .v = 2};
	static struct entry_point points[ENTRY_PACK_POINTS];
	struct course course;
	uint32_t count, interval;
	struct parse parse;
	course_begin(&course);
	course.keeps = course.whole = true;
	struct item *item = course_add(&course, make_jpeg(&kind));
	course_run(&course);
	assert_int_equal(parse_read_single(item->bytes.data, item->bytes.size, &parse), 0);
	for (unsigned round = 0; round < 300; round++) {
		uint8_t pack[1 << 14] = {0};
		memcpy(pack, item->pack, item->pack_bytes);
		assert_int_equal(
			entry_pack_unpack(&parse, item->bytes.data, item->bytes.size, checksum_c,
				pack, item->pack_bytes, points, &count, &interval),
			ENTRY_PACK_FOUND);
		struct entry_point *at = &points[1 + draw(&course, count - 1)];
		switch (draw(&course, 3)) {
		case 0:
			at->bit ^= 1 + draw(&course, 15);
			break;
		case 1:
			at[-1].stuffed ^= 1;
			break;
		default:
			at->dc[draw(&course, 3)] ^= 1;
		}
		item->pack_bytes = entry_pack_pack(item->bytes.data, item->bytes.size, checksum_c,
			points, count, interval, item->pack, item->pack_bytes);
		course_run(&course);
	}
	assert_int_equal(stepped(&course), 0);
	assert_true(course.dropped > 100);
	assert_int_equal(course.made, 1 + course.dropped);
	course_end(&course);
}

static void test_environment(void **state)
{
	(void)state;
	struct decode_limits limits = decode_limits_default();
	struct decoder *decoder = NULL;
	struct fault fault;
	assert_int_equal(setenv("PENSTOCK_DECODER", "mine", 1), 0);
	assert_int_equal(decoder_new(&limits, &decoder, &fault), -EINVAL);
	assert_null(decoder);
	assert_non_null(strstr(fault.text, "PENSTOCK_DECODER=mine"));
	assert_int_equal(setenv("PENSTOCK_DECODER", "auto", 1), 0);
	assert_int_equal(decoder_new(&limits, &decoder, &fault), 0);
	decoder_free(decoder);
	assert_int_equal(unsetenv("PENSTOCK_DECODER"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_chunks),
		cmocka_unit_test(test_parts_never_in_step),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_larger_than_scratch),
		cmocka_unit_test(test_large_scans),
		cmocka_unit_test(test_entry_points),
		cmocka_unit_test(test_sealed),
		cmocka_unit_test(test_too_few),
		cmocka_unit_test(test_damaged_packs),
		cmocka_unit_test(test_false_packs),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_corpus),
		cmocka_unit_test(test_photographs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

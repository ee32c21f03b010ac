/* planes: pixels of regions against libjpeg-turbo's full decode, byte for byte, with every table of
 * kernels that this processor runs. */
#include "unit/decode/jpeg/planes_images.h"
#include "unit/sparse.h"

#include "decode/jpeg/kernels/planes_kernels.h"

#include <glob.h>
#include <stdlib.h>
#include <unistd.h>

/* Sampling factors of the three components. */
struct sampling {
	uint8_t h[3], v[3];
};

static const struct sampling samplings[] = {
	{{1, 1, 1}, {1, 1, 1}}, /* 4:4:4 */
	{{2, 1, 1}, {1, 1, 1}}, /* 4:2:2 */
	{{2, 1, 1}, {2, 1, 1}}, /* 4:2:0 */
	{{1, 1, 1}, {2, 1, 1}}, /* 4:4:0 */
	{{4, 1, 1}, {1, 1, 1}}, /* 4:1:1 */
	{{4, 1, 1}, {2, 1, 1}}, /* 4:1:0 */
	{{1, 1, 1}, {4, 1, 1}},
	{{2, 1, 1}, {4, 1, 1}},
	{{2, 2, 1}, {2, 1, 2}}, /* chroma sampled each in its own way */
	{{2, 1, 2}, {1, 1, 1}},
	{{1, 2, 1}, {1, 2, 1}}, /* luma is the coarse one */
	{{1, 2, 2}, {2, 1, 1}},
	{{1, 2, 4}, {2, 1, 1}}, /* h2v2 over a wider MCU */
	{{2, 1, 1}, {1, 2, 4}}, /* and over two sample rows per row group */
	{{2, 2, 2}, {1, 1, 1}}, /* 4:4:4 in disguise */
	{{3, 1, 1}, {1, 1, 1}},
	{{3, 1, 3}, {1, 1, 1}},
};

static struct planes *planes_of(const char *kernels)
{
	struct planes *planes;
	struct fault fault;
	assert_int_equal(setenv("PENSTOCK_KERNELS", kernels, 1), 0);
	assert_int_equal(planes_new(&planes, &fault), 0);
	return planes;
}

/* A row of an image with noise, steps and ramps. */
static void picture(uint8_t *row, uint32_t bytes, uint32_t y, uint32_t *random)
{
	for (uint32_t i = 0; i < bytes; i++) {
		uint32_t noise = random_next(random);
		row[i] = (uint8_t)(y % 16 < 8 ? noise : i / 9 * 37 + y * 5 + noise % 16);
	}
}

struct made {
	unsigned char *data;
	unsigned long size;
};

static struct made make(uint32_t width, uint32_t height, J_COLOR_SPACE space,
	const struct sampling *sampling, int quality, uint32_t *random)
{
	struct jpeg_compress_struct cinfo;
	struct jpeg_error_mgr errors;
	struct made made = {NULL, 0};
	cinfo.err = jpeg_std_error(&errors);
	jpeg_create_compress(&cinfo);
	jpeg_mem_dest(&cinfo, &made.data, &made.size);
	cinfo.image_width = width;
	cinfo.image_height = height;
	cinfo.input_components = space == JCS_GRAYSCALE ? 1 : 3;
	cinfo.in_color_space = space == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
	jpeg_set_defaults(&cinfo);
	jpeg_set_colorspace(&cinfo, space);
	jpeg_set_quality(&cinfo, quality, TRUE);
	for (int c = 0; c < cinfo.num_components; c++) {
		cinfo.comp_info[c].h_samp_factor = sampling->h[c];
		cinfo.comp_info[c].v_samp_factor = sampling->v[c];
	}
	jpeg_start_compress(&cinfo, TRUE);
	uint8_t *row = malloc((size_t)width * 3);
	assert_non_null(row);
	while (cinfo.next_scanline < height) {
		picture(row, width * (uint32_t)cinfo.input_components, cinfo.next_scanline, random);
		(void)jpeg_write_scanlines(&cinfo, &row, 1);
	}
	free(row);
	jpeg_finish_compress(&cinfo);
	jpeg_destroy_compress(&cinfo);
	return made;
}

struct check {
	const struct image *c;
	struct decode_region region;
	uint32_t y;
	uint64_t wrong;
};

static void check_row(void *context, const uint8_t *const planar[DECODE_PLANES])
{
	struct check *check = context;
	const struct decode_region *r = &check->region;
	size_t width = r->x1 - r->x0;
	uint8_t *rgb = malloc(3 * width);
	assert_non_null(rgb);
	decode_weave(rgb, planar, width);
	const struct planes_frame *frame = &check->c->frame;
	size_t pitch = decode_shrunk(frame->width, frame->shrink);
	const uint8_t *want = check->c->rgb + (check->y * pitch + r->x0) * 3;
	check->wrong += memcmp(rgb, want, 3 * width) != 0;
	check->y++;
	free(rgb);
}

/* 0 where the region's rows equal libjpeg-turbo's, an enum stepback, or -1. */
static int region_compare(
	struct planes *planes, const struct image *c, struct decode_region region, uint32_t *random)
{
	struct planes_mcus mcus;
	bool one_by_one = random_next(random) & 1;
	int rc = planes_begin(planes, &c->frame, region, &mcus);
	if (rc)
		return rc;
	assert_true(mcus.x1 <= c->blocks.columns && mcus.y1 <= c->blocks.rows);
	struct check check = {.c = c, .region = region, .y = region.y0};
	for (uint32_t y = mcus.y0; y < mcus.y1; y++) {
		rc = planes_blocks(planes, y, &c->blocks);
		if (rc)
			return rc;
		while (one_by_one && planes_ready(planes)) {
			const uint8_t *rgb[DECODE_PLANES];
			planes_row(planes, rgb);
			check_row(&check, rgb);
		}
		planes_rows(planes, check_row, &check);
	}
	return check.wrong == 0 && check.y == region.y1 ? 0 : -1;
}

static struct decode_region random_region(const struct planes_frame *frame, uint32_t *random)
{
	struct decode_region r;
	uint32_t width = decode_shrunk(frame->width, frame->shrink);
	uint32_t height = decode_shrunk(frame->height, frame->shrink);
	r.x0 = random_below(random, width);
	r.y0 = random_below(random, height);
	r.x1 = r.x0 + 1 + random_below(random, width - r.x0);
	r.y1 = r.y0 + 1 + random_below(random, height - r.y0);
	return r;
}

/* Compares the whole image, then random regions. 0, or the first enum stepback. */
static int image_compare(
	struct planes *planes, const struct image *c, unsigned regions, uint32_t *random)
{
	struct decode_region region = {0, 0, decode_shrunk(c->frame.width, c->frame.shrink),
		decode_shrunk(c->frame.height, c->frame.shrink)};
	for (unsigned i = 0; i <= regions; i++) {
		int rc = region_compare(planes, c, region, random);
		if (rc > 0)
			return rc;
		if (rc < 0)
			fail_msg("%u x %u at 1/%u, factors %ux%u %ux%u %ux%u, region %u,%u to "
				 "%u,%u: other pixels than libjpeg-turbo",
				c->frame.width, c->frame.height, 1u << c->frame.shrink,
				c->frame.component[0].h, c->frame.component[0].v,
				c->frame.component[1].h, c->frame.component[1].v,
				c->frame.component[2].h, c->frame.component[2].v, region.x0,
				region.y0, region.x1, region.y1);
		region = random_region(&c->frame, random);
	}
	return 0;
}

/* The same for an image that must be taken. */
static void image_check(
	struct planes *planes, const struct image *c, unsigned regions, uint32_t *random)
{
	assert_int_equal(image_compare(planes, c, regions, random), 0);
}

static void geometry(struct planes *planes, uint32_t width, uint32_t height, J_COLOR_SPACE space,
	const struct sampling *sampling, uint32_t *random)
{
	int quality = 5 + (int)((width * 7 + height * 3) % 95);
	struct made made = make(width, height, space, sampling, quality, random);
	for (unsigned shrink = 0; shrink <= DECODE_SHRINK_MAX; shrink++) {
		struct image c;
		assert_true(image_read(made.data, made.size, (uint8_t)shrink, true, &c));
		image_check(planes, &c, 3, random);
		image_free(&c);
	}
	free(made.data);
}

/* All sizes up to 40 x 40; the C table, which is slow, sees every fifth. */
static void geometries(J_COLOR_SPACE space, const struct sampling *sampling)
{
	uint32_t random = 0x9e3779b9u + (uint32_t)space;
	for (unsigned k = 0; planes_kernels_at(k); k++) {
		struct planes *planes = planes_of(planes_kernels_at(k)->name);
		uint32_t step = (k ? 1 : 5) * sparse(), at = 0;
		for (uint32_t height = 1; height <= 40; height++)
			for (uint32_t width = 1; width <= 40; width++)
				if (at++ % step == 0)
					geometry(planes, width, height, space, sampling, &random);
		planes_free(planes);
	}
}

static void ycc_of_every_small_size(void **state)
{
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(samplings); i++)
		geometries(JCS_YCbCr, &samplings[i]);
}

static void gray_of_every_small_size(void **state)
{
	(void)state;
	geometries(JCS_GRAYSCALE, &samplings[0]);
	geometries(JCS_GRAYSCALE, &samplings[2]);
}

static void rgb_of_every_small_size(void **state)
{
	(void)state;
	geometries(JCS_RGB, &samplings[0]);
	geometries(JCS_RGB, &samplings[2]);
}

static void wide_rows(void **state)
{
	(void)state;
	uint32_t random = 77;
	static const uint32_t widths[] = {255, 256, 257, 509, 1023, 1025, 4095, 16001};
	for (unsigned k = 0; planes_kernels_at(k); k++) {
		struct planes *planes = planes_of(planes_kernels_at(k)->name);
		for (size_t i = 0; i < UTIL_COUNT(widths); i++)
			for (size_t s = 0; s < 6; s++)
				geometry(planes, widths[i], 35, JCS_YCbCr, &samplings[s], &random);
		geometry(planes, 65500, 17, JCS_GRAYSCALE, &samplings[0], &random);
		planes_free(planes);
	}
}

/* All tables, the fast ones more often. All tables must step back for the same reason. */
static int file_check(struct planes *const *planes, unsigned tables, struct image *c, size_t turn,
	uint32_t *random)
{
	int rc = image_compare(planes[tables - 1], c, 3, random);
	assert_int_equal(image_compare(planes[turn % 5 ? 1 % tables : 0], c, 3, random), rc);
	return rc;
}

struct files {
	uint64_t equal, left;
};

static struct files files(const char *pattern)
{
	glob_t found;
	struct files files = {0, 0};
	if (glob(pattern, 0, NULL, &found) != 0)
		return files;
	struct planes *planes[8];
	unsigned tables = 0;
	for (; planes_kernels_at(tables); tables++)
		planes[tables] = planes_of(planes_kernels_at(tables)->name);
	uint32_t random = 4711;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		struct image c;
		size_t size;
		uint8_t *data = read_file(found.gl_pathv[i], &size);
		if (data && image_read(data, size, 0, true, &c)) {
			if (!c.tame || file_check(planes, tables, &c, i, &random))
				files.left++;
			else
				files.equal++;
			image_free(&c);
		}
		free(data);
	}
	for (unsigned k = 0; k < tables; k++)
		planes_free(planes[k]);
	globfree(&found);
	return files;
}

static void photographs(void **state)
{
	(void)state;
	struct files found = files(PENSTOCK_PHOTOGRAPHS "/*.JPEG");
	print_message("%llu files equal, %llu left to libjpeg-turbo\n",
		(unsigned long long)found.equal, (unsigned long long)found.left);
	if (found.equal + found.left == 0)
		skip();
	assert_true(1000 * found.left <= found.equal);
}

/* Broken and odd files too, if libjpeg-turbo decodes them. */
static void files_of_the_corpus(void **state)
{
	(void)state;
	struct files found = files(PENSTOCK_SHARED "/corpus/jpeg/*.jp*g");
	print_message("%llu files equal, %llu left to libjpeg-turbo\n",
		(unsigned long long)found.equal, (unsigned long long)found.left);
	if (found.equal + found.left == 0)
		skip();
	assert_true(found.equal > found.left);
}

/* A frame that planes_begin must refuse with this outcome. */
static void refused(struct planes *planes, const struct planes_frame *frame, int outcome)
{
	struct planes_mcus mcus = {1, 2, 3, 4};
	struct decode_region all = {0, 0, frame->width, frame->height};
	assert_int_equal(planes_begin(planes, frame, all, &mcus), outcome);
	assert_int_equal(mcus.x0, 1);
}

static void refusals(void **state)
{
	(void)state;
	uint8_t quant[64] = {1};
	struct planes *planes = planes_of("c");
	struct planes_frame frame = {.width = 100, .height = 80, .color = PLANES_YCC};
	for (int c = 0; c < 3; c++)
		frame.component[c] = (struct planes_component){1, 1, quant};
	frame.component[0].h = 3;
	frame.component[1].h = 2;
	refused(planes, &frame, STEPBACK_COMPONENTS);
	frame.component[1].h = 0;
	refused(planes, &frame, STEPBACK_COMPONENTS);
	frame.component[0].h = 5;
	frame.component[1].h = 1;
	refused(planes, &frame, STEPBACK_COMPONENTS);
	frame.component[0].h = 1;
	frame.width = 65535;
	refused(planes, &frame, STEPBACK_SIZE);
	frame.color = PLANES_GRAY;
	struct planes_mcus mcus;
	struct decode_region most = {0, 0, 65535, 80};
	assert_int_equal(planes_begin(planes, &frame, most, &mcus), 0);
	planes_free(planes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gray_of_every_small_size),
		cmocka_unit_test(rgb_of_every_small_size),
		cmocka_unit_test(ycc_of_every_small_size),
		cmocka_unit_test(wide_rows),
		cmocka_unit_test(photographs),
		cmocka_unit_test(files_of_the_corpus),
		cmocka_unit_test(refusals),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

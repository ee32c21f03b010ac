/* Images that need more memory than the pool ever has: the same pixels and the same outcomes as
 * with unlimited memory, whatever the pool has; and what happens where the folder is full, cannot
 * be written, or gives back other bytes. */
#include "images.h"

#include "base/store.h"
#include "base/whole.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char folder[] = "/tmp/penstock-spill-XXXXXX";
static char deeper[sizeof(folder) + 8];
static const struct spill spill = {.folder = deeper};

/* From less than any image needs at least, which is then the file's memory, to nearly enough. */
static const uint64_t pools[] = {4 << 10, 1 << 20, 3 << 20, 7 << 20};

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	(void)snprintf(deeper, sizeof(deeper), "%s/cache", folder);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	/* No file was left: the folders are empty. */
	return rmdir(deeper) || rmdir(folder);
}

static struct decoder *small_decoder(struct permit *pool, uint64_t bytes, const struct spill *to)
{
	struct decode_limits limits = decode_limits_default();
	permit_init(pool, bytes);
	limits.large = pool;
	limits.spill = to;
	limits.whole = true;
	return make_decoder(&limits);
}

/* Decodes with each pool. The image must be spilled with at least one of them. */
static void check(const char *what, struct bytes image, const struct decode_region *region)
{
	struct decode_limits all = decode_limits_default();
	all.whole = true;
	struct decoder *unlimited = make_decoder(&all);
	struct result expected = decode_bytes(unlimited, image, region, region == NULL);
	unsigned spilled = 0;
	for (size_t i = 0; i < UTIL_COUNT(pools); i++) {
		struct permit pool;
		struct decoder *decoder = small_decoder(&pool, pools[i], &spill);
		struct result result = decode_bytes(decoder, image, region, region == NULL);
		if (result.outcome != expected.outcome)
			print_error("%s, pool %zu: %s\n", what, i, result.message);
		assert_same(&result, &expected);
		assert_int_equal(pool.used, 0);
		assert_true(pool.peak <= pool.total);
		spilled += pool.peak == pool.total;
		result_free(&result);
		decoder_free(decoder);
		permit_deinit(&pool);
	}
	assert_true(spilled > 0);
	result_free(&expected);
	decoder_free(unlimited);
}

static void test_jpeg(void **state)
{
	(void)state;
	static const struct jpeg_kind kinds[] = {
		{.width = 1999,
			.height = 1203,
			.components = 3,
			.h = 2,
			.v = 2,
			.progressive = true},
		{.width = 1203,
			.height = 999,
			.components = 3,
			.h = 1,
			.v = 1,
			.progressive = true},
		{.width = 801,
			.height = 1403,
			.components = 3,
			.h = 1,
			.v = 2,
			.progressive = true},
		{.width = 900,
			.height = 1001,
			.components = 4,
			.h = 2,
			.v = 2,
			.progressive = true},
		{.width = 1999, .height = 1801, .components = 1, .progressive = true},
		{.width = 1000,
			.height = 900,
			.components = 3,
			.h = 2,
			.v = 2,
			.progressive = true,
			.arithmetic = true},
		{.width = 17001,
			.height = 90,
			.components = 3,
			.h = 2,
			.v = 2,
			.progressive = true},
		{.width = 90,
			.height = 15001,
			.components = 3,
			.h = 4,
			.v = 1,
			.progressive = true},
		{.width = 1200, .height = 900, .components = 1, .scans = 40, .progressive = true},
		/* A single scan needs no coefficients; but rows wider than the pool. */
		{.width = 60001, .height = 40, .components = 3, .h = 2, .v = 2},
	};
	for (size_t i = 0; i < UTIL_COUNT(kinds); i++) {
		char what[32];
		struct bytes image = make_jpeg(&kinds[i]);
		struct decode_region region = {
			3, kinds[i].height / 3, kinds[i].width - 5, kinds[i].height / 2};
		(void)snprintf(what, sizeof(what), "JPEG %zu", i);
		check(what, image, NULL);
		if (i % 3 == 0)
			check(what, image, &region);
		free(image.data);
	}
}

/* Files without their last scans are smoothed across blocks, for which libjpeg looks at five rows
 * of MCUs together; files that end in a scan are refused. */
static void test_jpeg_cut(void **state)
{
	(void)state;
	struct jpeg_kind kind = {.width = 1999,
		.height = 1203,
		.components = 3,
		.h = 2,
		.v = 2,
		.progressive = true};
	struct bytes image = make_jpeg(&kind);
	unsigned scan = 0;
	for (size_t i = 0; i + 1 < image.size; i++)
		if (image.data[i] == 0xff && image.data[i + 1] == 0xda && ++scan % 4 == 2) {
			struct bytes part = bytes_copy(image.data, i + 2);
			part.data[i + 1] = 0xd9;
			check("JPEG without its last scans", part, NULL);
			part.size = i - 100;
			check("JPEG that ends in a scan", part, NULL);
			free(part.data);
		}
	assert_true(scan >= 8);
	free(image.data);
}

static void test_png(void **state)
{
	(void)state;
	static const int colors[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_RGB,
		PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB_ALPHA};
	static const uint32_t sides[][2] = {{2003, 1101}, {1101, 2003}, {71, 65000}, {60001, 60}};
	for (size_t i = 0; i < UTIL_COUNT(colors); i++)
		for (int depth = 8; depth <= 16; depth += 8) {
			const uint32_t *side = sides[(i + (unsigned)depth / 8) % UTIL_COUNT(sides)];
			struct bytes image = make_png(side[0], side[1], colors[i], depth, true);
			struct decode_region region = {1, side[1] / 4, side[0] - 1, side[1] / 3};
			check("PNG", image, NULL);
			if (depth == 8)
				check("PNG", image, &region);
			image.size /= 2;
			if (depth == 16)
				check("half a PNG", image, NULL);
			free(image.data);
		}
}

/* A file that is mapped decodes as one in memory does. */
static void test_mapped(void **state)
{
	(void)state;
	struct jpeg_kind kind = {.width = 1500,
		.height = 1203,
		.components = 3,
		.progressive = true,
		.noise = true,
		.quality = 95};
	struct bytes images[] = {make_jpeg(&kind), {NULL, 0}, {NULL, 0}};
	kind.progressive = false;
	images[1] = make_jpeg(&kind);
	images[2] = make_png(1500, 1001, PNG_COLOR_TYPE_RGB, 16, false);
	for (size_t i = 0; i < UTIL_COUNT(images); i++) {
		struct decode_limits limits = decode_limits_default();
		struct decoder *decoder = make_decoder(&limits);
		struct result expected = decode_bytes(decoder, images[i], NULL, false);
		decoder_free(decoder);
		int fd = spill_open(&spill);
		assert_true(fd >= 0);
		assert_int_equal(whole_write(fd, images[i].data, images[i].size, 0), 0);
		struct bytes mapped = {NULL, images[i].size};
		assert_int_equal(spill_map(fd, mapped.size, SLACK, &mapped.data), 0);
		(void)close(fd);
		limits.mapped = true;
		limits.whole = true;
		decoder = make_decoder(&limits);
		struct result result = decode_bytes(decoder, mapped, NULL, false);
		assert_same(&result, &expected);
		spill_unmap(mapped.data, mapped.size, SLACK);
		result_free(&result);
		result_free(&expected);
		decoder_free(decoder);
		free(images[i].data);
	}
}

/* Decodes a progressive JPEG and an interlaced PNG that must fail, and returns their code. */
static int fails(const struct spill *to, uint64_t bytes, decode_row_fn *row, const char *text)
{
	struct jpeg_kind kind = {.width = 1999,
		.height = 1203,
		.components = 3,
		.h = 2,
		.v = 2,
		.progressive = true};
	struct bytes images[] = {
		make_jpeg(&kind), make_png(2003, 1101, PNG_COLOR_TYPE_RGB, 16, true)};
	int code = 0;
	for (size_t i = 0; i < UTIL_COUNT(images); i++) {
		struct permit pool;
		struct decoder *decoder = small_decoder(&pool, bytes, to);
		struct decode_info info;
		assert_int_equal(
			decoder_begin(decoder, images[i].data, images[i].size, &info), DECODE_OK);
		struct decode_region all = {0, 0, info.width, info.height};
		int outcome = decoder_rows(decoder, all, false, row, NULL);
		assert_true(outcome < 0 && (code == 0 || outcome == code));
		code = outcome;
		const char *message = decoder_message(decoder);
		if (!strstr(message, text))
			print_error("%s\n", message);
		assert_non_null(strstr(message, text));
		assert_non_null(strstr(message, to->folder));
		assert_non_null(strstr(message, "set cache_dir"));
		assert_int_equal(pool.used, 0);
		/* The decoder can go on. */
		struct bytes png = make_png(20, 20, PNG_COLOR_TYPE_RGB, 8, false);
		struct result result = decode_bytes(decoder, png, NULL, true);
		assert_int_equal(result.outcome, DECODE_OK);
		result_free(&result);
		free(png.data);
		decoder_free(decoder);
		permit_deinit(&pool);
		free(images[i].data);
	}
	return code;
}

static void no_row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	(void)context, (void)rgb;
}

static void test_no_folder(void **state)
{
	(void)state;
	const struct spill nowhere = {.folder = "/proc/nowhere/else"};
	assert_int_equal(fails(&nowhere, 1 << 20, no_row, "No such file"), -ENOENT);
	const struct spill file = {.folder = "/dev/null"};
	assert_int_equal(fails(&file, 1 << 20, no_row, "Not a directory"), -ENOTDIR);
}

/* RLIMIT_FSIZE stands for a disk that is full. */
static void test_full(void **state)
{
	(void)state;
	struct rlimit before, small;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = before;
	small.rlim_cur = 2 << 20;
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	int spilled = fails(&spill, 1 << 20, no_row, "File too large");
	small.rlim_cur = 64 << 10;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	/* The pool has less than the least that the images need. */
	int memory = fails(&spill, 4 << 10, no_row, "File too large");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	(void)signal(SIGXFSZ, SIG_DFL);
	assert_int_equal(spilled, -EFBIG);
	assert_int_equal(memory, -EFBIG);
}

/* Overwrites what was spilled, once the first row has come. */
static void spoil(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	(void)context, (void)rgb;
	DIR *dir = opendir("/proc/self/fd");
	assert_non_null(dir);
	for (const struct dirent *entry; (entry = readdir(dir));) {
		struct stat st;
		int fd = atoi(entry->d_name);
		if (fd <= 2 || fd == dirfd(dir) || fstat(fd, &st) || !S_ISREG(st.st_mode) ||
			st.st_nlink != 0 || st.st_size < (1 << 20))
			continue;
		static const uint8_t zeros[4096];
		for (off_t at = 0; at < st.st_size; at += (off_t)sizeof(zeros))
			assert_int_equal(whole_write(fd, zeros, sizeof(zeros), (uint64_t)at), 0);
	}
	(void)closedir(dir);
}

static void test_other_bytes(void **state)
{
	(void)state;
	assert_int_equal(fails(&spill, 3 << 20, spoil, "Input/output error"), -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_jpeg),
		cmocka_unit_test(test_jpeg_cut),
		cmocka_unit_test(test_png),
		cmocka_unit_test(test_mapped),
		cmocka_unit_test(test_no_folder),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_other_bytes),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

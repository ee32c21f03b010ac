/* Rows: regions against whole images, one decoder over good and bad files, files cut anywhere. */
#include "images.h"

#include <dirent.h>

enum { KINDS = 16 };

/* One of each kind, small. */
static size_t make_all(struct bytes ret[KINDS])
{
	static const struct jpeg_kind kinds[] = {
		{.width = 83, .height = 61, .components = 3, .h = 2, .v = 2},
		{.width = 83, .height = 61, .components = 3, .h = 2, .v = 1, .restart_rows = 1},
		{.width = 83, .height = 61, .components = 3, .h = 1, .v = 2},
		{.width = 83, .height = 61, .components = 3, .optimized = true},
		{.width = 83, .height = 61, .components = 3, .h = 4, .v = 1},
		{.width = 83, .height = 61, .components = 1},
		{.width = 83, .height = 61, .components = 4},
		{.width = 83, .height = 61, .components = 3, .h = 2, .v = 2, .progressive = true},
		{.width = 83, .height = 61, .components = 4, .progressive = true},
		{.width = 83, .height = 61, .components = 3, .arithmetic = true},
		{.width = 1, .height = 1, .components = 3},
	};
	size_t count = 0;
	for (; count < UTIL_COUNT(kinds); count++)
		ret[count] = make_jpeg(&kinds[count]);
	ret[count++] = make_png(83, 61, PNG_COLOR_TYPE_RGB, 8, false);
	ret[count++] = make_png(83, 61, PNG_COLOR_TYPE_RGB_ALPHA, 16, false);
	ret[count++] = make_png(83, 61, PNG_COLOR_TYPE_GRAY_ALPHA, 8, true);
	ret[count++] = make_png(83, 61, PNG_COLOR_TYPE_RGB, 8, true);
	ret[count++] = make_png(83, 61, PNG_COLOR_TYPE_GRAY, 16, true);
	assert_int_equal(count, KINDS);
	return count;
}

static uint32_t draw(uint32_t *seed, uint32_t below)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)(*seed) * below >> 32);
}

static void check_regions(
	struct decoder *decoder, struct bytes image, unsigned regions, uint32_t *seed)
{
	struct result whole = decode_bytes(decoder, image, NULL, true);
	assert_int_equal(whole.outcome, DECODE_OK);
	for (unsigned i = 0; i < regions; i++) {
		struct decode_region r;
		r.x0 = draw(seed, whole.info.width);
		r.y0 = draw(seed, whole.info.height);
		r.x1 = r.x0 + 1 + draw(seed, whole.info.width - r.x0);
		r.y1 = r.y0 + 1 + draw(seed, whole.info.height - r.y0);
		struct result part = decode_bytes(decoder, image, &r, i % 2);
		assert_int_equal(part.outcome, DECODE_OK);
		for (uint32_t y = r.y0; y < r.y1; y++)
			assert_memory_equal(part.rgb + (y - r.y0) * part.width * 3,
				whole.rgb + ((size_t)y * whole.width + r.x0) * 3, part.width * 3);
		result_free(&part);
	}
	result_free(&whole);
}

static void test_regions(void **state)
{
	(void)state;
	struct bytes images[KINDS];
	struct decoder *decoder = make_decoder(NULL);
	uint32_t seed = 7;
	for (size_t i = 0, count = make_all(images); i < count; i++) {
		check_regions(decoder, images[i], 40, &seed);
		free(images[i].data);
	}
	decoder_free(decoder);
}

/* The result is the pixels that were encoded, as Pillow reads them. */
static void test_png_pixels(void **state)
{
	(void)state;
	static const struct {
		int color, depth;
	} kinds[] = {{PNG_COLOR_TYPE_RGB, 8}, {PNG_COLOR_TYPE_RGB, 16},
		{PNG_COLOR_TYPE_RGB_ALPHA, 8}, {PNG_COLOR_TYPE_RGB_ALPHA, 16},
		{PNG_COLOR_TYPE_GRAY, 8}, {PNG_COLOR_TYPE_GRAY_ALPHA, 8},
		{PNG_COLOR_TYPE_GRAY_ALPHA, 16}, {PNG_COLOR_TYPE_GRAY, 16}};
	struct decoder *decoder = make_decoder(NULL);
	for (size_t i = 0; i < UTIL_COUNT(kinds) * 2; i++) {
		int color = kinds[i / 2].color, depth = kinds[i / 2].depth;
		struct bytes png = make_png(37, 29, color, depth, i % 2);
		struct result result = decode_bytes(decoder, png, NULL, true);
		assert_int_equal(result.outcome, DECODE_OK);
		for (uint32_t y = 0; y < 29; y++)
			for (uint32_t x = 0; x < 37; x++)
				for (int c = 0; c < 3; c++) {
					uint8_t sample = image_sample(
						x, y, color & PNG_COLOR_MASK_COLOR ? c : 0);
					/* Gray of 16 bits is clipped, not scaled; the lower byte is
					 * 0 here. */
					if (color == PNG_COLOR_TYPE_GRAY && depth == 16)
						sample = sample ? 255 : 0;
					assert_int_equal(
						result.rgb[(y * 37 + x) * 3 + (uint32_t)c], sample);
				}
		result_free(&result);
		free(png.data);
	}
	decoder_free(decoder);
}

/* With Adobe's inversion, ink c and black k of a CMYK file give k - (255 - c) k / 255. */
static void test_cmyk_pixels(void **state)
{
	(void)state;
	struct jpeg_kind kind = {.width = 33, .height = 20, .components = 4, .quality = 100};
	struct bytes jpeg = make_jpeg(&kind);
	struct decoder *decoder = make_decoder(NULL);
	struct result result = decode_bytes(decoder, jpeg, NULL, true);
	assert_int_equal(result.outcome, DECODE_OK);
	unsigned far = 0;
	for (uint32_t y = 0; y < 20; y++)
		for (uint32_t x = 0; x < 33; x++)
			for (int c = 0; c < 3; c++) {
				int k = image_sample(x, y, 3), ink = image_sample(x, y, c);
				int want = k - (255 - ink) * k / 255,
				    got = result.rgb[(y * 33 + x) * 3 + (uint32_t)c];
				far += abs(want - got) > 6;
			}
	assert_true(far < 33 * 20 / 20);
	result_free(&result);
	free(jpeg.data);
	decoder_free(decoder);
}

/* Each file gives the same result after any other file. */
static void test_reuse(void **state)
{
	(void)state;
	struct bytes images[KINDS * 2];
	size_t count = make_all(images);
	for (size_t i = 0; i < count;
		i++) { /* each also broken: cut, and with its middle overwritten */
		images[count + i] =
			bytes_copy(images[i].data, i % 2 ? images[i].size : images[i].size * 2 / 3);
		memset(images[count + i].data + images[i].size / 2, 0x7f, i % 2 ? 40 : 1);
	}
	struct decoder *used = make_decoder(NULL);
	uint32_t seed = 3;
	for (int i = 0; i < 400; i++) {
		struct bytes image = images[draw(&seed, (uint32_t)count * 2)];
		bool to_end = draw(&seed, 2);
		struct decoder *fresh = make_decoder(NULL);
		struct result a = decode_bytes(used, image, NULL, to_end),
			      b = decode_bytes(fresh, image, NULL, to_end);
		assert_same(&a, &b);
		result_free(&a);
		result_free(&b);
		decoder_free(fresh);
		if (draw(&seed, 4) == 0) { /* an image begun and left */
			struct decode_info info;
			(void)decoder_begin(used, image.data, image.size, &info);
			if (draw(&seed, 2))
				decoder_abort(used);
		}
	}
	decoder_free(used);
	for (size_t i = 0; i < count * 2; i++)
		free(images[i].data);
}

/* Takes segments with this marker out of the header. */
static struct bytes without(struct bytes jpeg, uint8_t marker)
{
	struct bytes copy = bytes_copy(jpeg.data, jpeg.size);
	for (size_t at = 2; at + 4 < copy.size && copy.data[at + 1] != 0xda;) {
		size_t length = 2 + (size_t)(copy.data[at + 2] << 8 | copy.data[at + 3]);
		if (copy.data[at + 1] != marker) {
			at += length;
			continue;
		}
		memmove(copy.data + at, copy.data + at + length, copy.size - at - length + SLACK);
		copy.size -= length;
	}
	return copy;
}

/* libjpeg keeps tables from file to file where an application lets it: a file without tables must
 * not use them. */
static void test_tables_are_forgotten(void **state)
{
	(void)state;
	struct jpeg_kind kind = {
		.width = 64, .height = 64, .components = 3, .optimized = true, .quality = 30};
	struct bytes whole = make_jpeg(&kind);
	struct bytes bare[] = {without(whole, 0xdb), without(whole, 0xc4)};
	for (size_t i = 0; i < UTIL_COUNT(bare); i++) {
		assert_true(bare[i].size < whole.size);
		struct decoder *fresh = make_decoder(NULL), *used = make_decoder(NULL);
		struct result first = decode_bytes(used, whole, NULL, true);
		assert_int_equal(first.outcome, DECODE_OK);
		struct result a = decode_bytes(fresh, bare[i], NULL, true),
			      b = decode_bytes(used, bare[i], NULL, true);
		assert_same(&a, &b);
		if (i == 0)
			assert_int_equal(a.outcome, DECODE_E_CORRUPT);
		result_free(&first);
		result_free(&a);
		result_free(&b);
		decoder_free(fresh);
		decoder_free(used);
		free(bare[i].data);
	}
	free(whole.data);
}

/* Cut at every 64th byte and around the ends: never a crash, the same outcome whatever bytes follow
 * the data, and never DECODE_OK when rows are missing. */
static void test_cut(void **state)
{
	(void)state;
	struct bytes images[KINDS];
	struct decoder *decoder = make_decoder(NULL);
	for (size_t i = 0, count = make_all(images); i < count; i++) {
		struct bytes image = images[i];
		for (size_t size = 0; size < image.size;
			size += size < 64 || size + 64 > image.size ? 1 : 64) {
			struct bytes a = bytes_copy(image.data, size),
				     b = bytes_copy(image.data, size);
			memset(b.data + size, size % 2 ? 0xd9 : 0, SLACK);
			struct result ra = decode_bytes(decoder, a, NULL, size % 2);
			struct result rb = decode_bytes(decoder, b, NULL, size % 2);
			assert_same(&ra, &rb);
			if (size < image.size / 2)
				assert_int_not_equal(ra.outcome, DECODE_OK);
			if (size < 3)
				assert_int_equal(ra.outcome, DECODE_E_NOT_IMAGE);
			result_free(&ra);
			result_free(&rb);
			free(a.data);
			free(b.data);
		}
		free(image.data);
	}
	decoder_free(decoder);
}

/* The data after the region does not matter unless `to_end` is set. */
static void test_to_end(void **state)
{
	(void)state;
	struct jpeg_kind kind = {.width = 64, .height = 256, .components = 3};
	struct bytes jpeg = make_jpeg(&kind), png = make_png(64, 256, PNG_COLOR_TYPE_RGB, 8, false);
	jpeg.size = jpeg.size * 3 / 4;
	png.size = png.size * 3 / 4;
	struct decoder *decoder = make_decoder(NULL);
	struct decode_region top = {3, 5, 60, 40};
	for (int i = 0; i < 2; i++) {
		struct result result = decode_bytes(decoder, i ? png : jpeg, &top, false);
		assert_int_equal(result.outcome, DECODE_OK);
		result_free(&result);
		result = decode_bytes(decoder, i ? png : jpeg, &top, true);
		assert_int_equal(result.outcome, DECODE_E_TRUNCATED);
		result_free(&result);
	}
	decoder_free(decoder);
	free(jpeg.data);
	free(png.data);
}

/* Arithmetic decoding cannot suspend: it ends where Pillow's first 64 KiB end. */
static void test_arithmetic_window(void **state)
{
	(void)state;
	struct jpeg_kind kind = {
		.width = 700, .height = 700, .components = 3, .arithmetic = true, .quality = 95};
	struct bytes jpeg = make_jpeg(&kind);
	assert_true(jpeg.size > 65536 * 2);
	struct decoder *decoder = make_decoder(NULL);
	struct decode_region top = {0, 0, 700, 8};
	struct result result = decode_bytes(decoder, jpeg, &top, false);
	assert_int_equal(result.outcome, DECODE_OK);
	result_free(&result);
	result = decode_bytes(decoder, jpeg, NULL, false);
	assert_int_equal(result.outcome, DECODE_E_CORRUPT);
	result_free(&result);
	decoder_free(decoder);
	free(jpeg.data);
}

/* Every file of the corpus of odd files, for the sanitizers, in one decoder; other tests compare
 * the results with Pillow's. */
static void test_corpus(void **state)
{
	(void)state;
	const char *folder = PENSTOCK_SHARED "/corpus/jpeg";
	DIR *dir = opendir(folder);
	if (!dir) {
		print_message("skipped: no %s\n", folder);
		skip();
		return;
	}
	struct decoder *decoder = make_decoder(NULL);
	static uint8_t buffer[4 << 20];
	unsigned files = 0;
	for (struct dirent *entry; (entry = readdir(dir));) {
		char path[4096];
		(void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		cleanup(close_file) FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "rb");
		if (!file)
			continue;
		struct bytes image = bytes_copy(buffer, fread(buffer, 1, sizeof(buffer), file));
		for (int to_end = 0; to_end < 2; to_end++) {
			struct result result = decode_bytes(decoder, image, NULL, to_end);
			result_free(&result);
		}
		free(image.data);
		files++;
	}
	(void)closedir(dir);
	decoder_free(decoder);
	assert_true(files > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_regions),
		cmocka_unit_test(test_png_pixels),
		cmocka_unit_test(test_cmyk_pixels),
		cmocka_unit_test(test_reuse),
		cmocka_unit_test(test_tables_are_forgotten),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_to_end),
		cmocka_unit_test(test_arithmetic_window),
		cmocka_unit_test(test_corpus),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

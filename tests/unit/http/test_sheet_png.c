/* The contact sheet: libpng reads back its pixels and its text. */
#include "http/page.h"
#include "http/sheet_png.h"
#include "proto/slots.h"

#include <errno.h>
#include <png.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct reader {
	const uint8_t *bytes;
	size_t size, at;
};

struct seen { /* an image that was read back; rgb and text are malloc'ed */
	uint32_t width, height;
	uint8_t *rgb;
	char *text;
};

static void reader_read(png_structp png, png_bytep data, size_t size)
{
	struct reader *reader = png_get_io_ptr(png);
	if (reader->size - reader->at < size)
		png_error(png, "cut");
	memcpy(data, reader->bytes + reader->at, size);
	reader->at += size;
}

static void reader_rows(png_structp png, png_infop info, struct seen *seen)
{
	png_textp text;
	assert_int_equal(png_get_text(png, info, &text, NULL), 1);
	assert_string_equal(text->key, HTTP_SHEET_KEYWORD);
	assert_int_equal(text->compression, PNG_ITXT_COMPRESSION_NONE);
	seen->text = strdup(text->text);
	seen->width = png_get_image_width(png, info);
	seen->height = png_get_image_height(png, info);
	assert_int_equal(png_get_rowbytes(png, info), seen->width * 3);
	seen->rgb = malloc((size_t)seen->width * seen->height * 3);
	for (uint32_t y = 0; y < seen->height; y++)
		png_read_row(png, seen->rgb + (size_t)y * seen->width * 3, NULL);
	png_read_end(png, NULL);
}

static struct seen read_back(const struct http_sheet *sheet)
{
	uint8_t *bytes;
	size_t size;
	struct seen seen = {0};
	assert_int_equal(http_sheet_png(sheet, &bytes, &size), 0);
	struct reader reader = {bytes, size, 0};
	png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
	png_infop info = png_create_info_struct(png);
	if (setjmp(png_jmpbuf(png)))
		fail_msg("libpng does not read what libpng wrote");
	png_set_read_fn(png, &reader, reader_read);
	png_read_info(png, info);
	reader_rows(png, info, &seen);
	assert_int_equal(reader.at, size);
	png_destroy_read_struct(&png, &info, NULL);
	free(bytes);
	return seen;
}

static void seen_free(struct seen *seen)
{
	free(seen->rgb);
	free(seen->text);
}

static struct http_sheet *made(uint32_t rows, uint32_t height, uint32_t width)
{
	struct http_sheet *sheet = http_sheet_new(rows, height, width);
	assert_non_null(sheet);
	for (size_t i = 0; i < (size_t)rows * height * width * 3; i++)
		sheet->pixels[i] = (uint8_t)(i * 7 + i / 251);
	return sheet;
}

/* Each pixel of each cell is the row's, and cells without a row are gray. */
static void check_cells(const struct http_sheet *sheet, const struct seen *seen, uint32_t columns)
{
	for (uint32_t y = 0; y < seen->height; y++)
		for (uint32_t x = 0; x < seen->width * 3; x++) {
			uint32_t bytes = sheet->width * 3;
			uint32_t row = y / sheet->height * columns + x / bytes;
			uint8_t wanted = 0x80;
			if (row < sheet->rows)
				wanted = sheet->pixels[((size_t)row * sheet->height +
							       y % sheet->height) *
							       bytes +
						       x % bytes];
			if (seen->rgb[(size_t)y * seen->width * 3 + x] != wanted)
				fail_msg("row %u, line %u, byte %u", row, y, x);
		}
}

static void test_grid(void **state)
{
	static const struct {
		uint32_t rows, columns, lines;
	} cases[] = {{1, 1, 1}, {2, 2, 1}, {3, 2, 2}, {4, 2, 2}, {5, 3, 2}, {7, 3, 3}, {9, 3, 3},
		{12, 4, 3}, {13, 4, 4}, {35, 6, 6}, {36, 6, 6}};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct http_sheet *sheet = made(cases[i].rows, 5, 7);
		struct seen seen = read_back(sheet);
		assert_int_equal(http_sheet_columns(sheet), cases[i].columns);
		assert_int_equal(seen.width, cases[i].columns * 7);
		assert_int_equal(seen.height, cases[i].lines * 5);
		check_cells(sheet, &seen, cases[i].columns);
		seen_free(&seen);
		free(sheet);
	}
}

static void test_one_pixel(void **state)
{
	(void)state;
	struct http_sheet *sheet = made(1, 1, 1);
	struct seen seen = read_back(sheet);
	assert_int_equal(seen.width, 1);
	assert_memory_equal(seen.rgb, sheet->pixels, 3);
	seen_free(&seen);
	free(sheet);
}

/* The largest sheet that the loop copies, filled with noise, which compresses worst. */
static void test_large(void **state)
{
	(void)state;
	struct http_sheet *sheet = http_sheet_new(HTTP_SHEET_ROWS, 197, 197);
	assert_non_null(sheet);
	uint32_t noise = 1;
	for (size_t i = 0; i < (size_t)HTTP_SHEET_ROWS * 197 * 197 * 3; i++) {
		noise = noise * 1664525 + 1013904223;
		sheet->pixels[i] = (uint8_t)(noise >> 24);
	}
	struct seen seen = read_back(sheet);
	check_cells(sheet, &seen, 6);
	seen_free(&seen);
	free(sheet);
}

static void test_text(void **state)
{
	(void)state;
	struct http_sheet *sheet = made(2, 3, 4);
	sheet->stream = 3;
	sheet->epoch = UINT64_MAX;
	sheet->batch = 17;
	sheet->batch_rows = 64;
	sheet->step = 2;
	sheet->row[0] = (struct http_sheet_row){4711, -1, 0, ""};
	sheet->row[1] = (struct http_sheet_row){UINT64_MAX, 3,
		SLOTS_FLIPPED | SLOTS_FLIPPED_VERTICALLY | SLOTS_SUBSTITUTED | SLOTS_PADDED |
			SLOTS_INVALID | 1u << 31,
		"<img src=x onerror=\"alert(1)\">\n\xff"};
	static const char wanted[] =
		"{\"stream\":3,\"epoch\":18446744073709551615,\"batch\":17,\"batch_rows\":64,"
		"\"rows\":2,\"columns\":2,\"width\":4,\"height\":3,\"step\":2,\"images\":["
		"{\"index\":4711,\"label\":-1,\"class\":\"\",\"flags\":[]},"
		"{\"index\":18446744073709551615,\"label\":3,"
		"\"class\":\"<img src=x onerror=\\\"alert(1)\\\">\\n\xef\xbf\xbd\","
		"\"flags\":[\"flipped\",\"flipped "
		"vertically\",\"substituted\",\"padded\",\"invalid\"]}]}";
	char *text = http_sheet_json(sheet), squeezed[sizeof wanted] = "";
	size_t n = 0;
	assert_non_null(text);
	/* jsontext decides about spaces between tokens, so the comparison ignores spaces, also
	 * those of the class name. */
	for (const char *at = text; *at && n + 1 < sizeof squeezed; at++)
		if (*at != ' ')
			squeezed[n++] = *at;
	char expected[sizeof wanted] = "";
	n = 0;
	for (const char *at = wanted; *at; at++)
		if (*at != ' ')
			expected[n++] = *at;
	assert_string_equal(squeezed, expected);
	struct seen seen = read_back(sheet);
	assert_string_equal(seen.text, text);
	seen_free(&seen);
	free(text);
	free(sheet);
}

static void test_refused(void **state)
{
	(void)state;
	uint8_t *png = NULL;
	size_t size = 0;
	struct http_sheet *sheet = http_sheet_new(0, 4, 4);
	assert_non_null(sheet);
	assert_int_equal(http_sheet_png(sheet, &png, &size), -EINVAL);
	sheet->rows = 1;
	sheet->width = 1u << 31;
	assert_int_equal(http_sheet_png(sheet, &png, &size), -EINVAL);
	sheet->width = 4;
	sheet->height = 0;
	assert_int_equal(http_sheet_png(sheet, &png, &size), -EINVAL);
	free(sheet);
	assert_null(png);
	assert_null(http_sheet_new(HTTP_SHEET_ROWS + 1, 1, 1));
	assert_null(http_sheet_new(HTTP_SHEET_ROWS, UINT32_MAX, UINT32_MAX));
}

static void test_page(void **state)
{
	(void)state;
	assert_int_equal(strlen(http_page_html), http_page_html_size);
	assert_memory_equal(http_page_html, "<!doctype html>", 15);
	assert_null(strstr(http_page_html, "@style@"));
	assert_null(strstr(http_page_html, "@script@"));
	assert_non_null(strstr(http_page_html, "\"use strict\";"));
	/* The page loads nothing from other servers and makes no markup from strings. */
	assert_null(strstr(http_page_html, "://"));
	assert_null(strstr(http_page_html, "innerHTML"));
	assert_non_null(strstr(http_page_csp, "default-src 'none'; script-src 'sha256-"));
	assert_null(strchr(http_page_csp, '\n'));
	assert_null(strstr(http_page_csp, "unsafe"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_grid),
		cmocka_unit_test(test_one_pixel), cmocka_unit_test(test_large),
		cmocka_unit_test(test_text), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_page)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* sheet_png: see sheet_png.h. */
#include "http/sheet_png.h"

#include "base/util.h"
#include "proto/jsontext.h"
#include "proto/slots.h"
#include "proto/text.h"

#include <errno.h>
#include <png.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
	SHEET_CHANNELS = 3,
	SHEET_EMPTY = 0x80, /* gray, for cells of the grid without a row */
	SHEET_LEVEL = 1, /* zlib's fastest: a browser waits, and the way is short */
};

struct http_sheet *http_sheet_new(uint32_t rows, uint32_t height, uint32_t width)
{
	size_t pixels, bytes;
	if (rows > HTTP_SHEET_ROWS || __builtin_mul_overflow((size_t)height, width, &pixels) ||
		__builtin_mul_overflow(pixels, (size_t)rows * SHEET_CHANNELS, &bytes) ||
		__builtin_add_overflow(bytes, sizeof(struct http_sheet), &bytes))
		return NULL;
	struct http_sheet *sheet = malloc(bytes);
	if (!sheet)
		return NULL;
	*sheet = (struct http_sheet){.rows = rows,
		.height = height,
		.width = width,
		.step = 1,
		.pixels = (uint8_t *)(sheet + 1)};
	return sheet;
}

uint32_t http_sheet_columns(const struct http_sheet *sheet)
{
	uint32_t columns = 0;
	while (columns * columns < sheet->rows)
		columns++;
	return columns;
}

/* ---- text ---- */

static void sheet_flags(struct jsontext *json, uint32_t flags)
{
	static const struct {
		uint32_t flag;
		const char *name;
	} names[] = {{SLOTS_FLIPPED, "flipped"}, {SLOTS_FLIPPED_VERTICALLY, "flipped vertically"},
		{SLOTS_SUBSTITUTED, "substituted"}, {SLOTS_PADDED, "padded"},
		{SLOTS_INVALID, "invalid"}};
	jsontext_array(json, "flags");
	for (size_t i = 0; i < UTIL_COUNT(names); i++)
		if (flags & names[i].flag)
			jsontext_string(json, NULL, names[i].name);
	jsontext_end(json);
}

char *http_sheet_json(const struct http_sheet *sheet)
{
	struct jsontext json = {0};
	jsontext_object(&json, NULL);
	jsontext_u64(&json, "stream", sheet->stream);
	jsontext_u64(&json, "epoch", sheet->epoch);
	jsontext_u64(&json, "batch", sheet->batch);
	jsontext_u64(&json, "batch_rows", sheet->batch_rows);
	jsontext_u64(&json, "rows", sheet->rows);
	jsontext_u64(&json, "columns", http_sheet_columns(sheet));
	jsontext_u64(&json, "width", sheet->width);
	jsontext_u64(&json, "height", sheet->height);
	jsontext_u64(&json, "step", sheet->step);
	jsontext_array(&json, "images");
	for (uint32_t i = 0; i < sheet->rows; i++) {
		const struct http_sheet_row *row = &sheet->row[i];
		jsontext_object(&json, NULL);
		jsontext_u64(&json, "index", row->index);
		jsontext_i64(&json, "label", row->label);
		jsontext_string(&json, "class", row->class_name);
		sheet_flags(&json, row->flags);
		jsontext_end(&json);
	}
	jsontext_end(&json);
	jsontext_end(&json);
	return json.text.bytes;
}

/* ---- picture ---- */

/* Everything that must survive a longjmp out of libpng. */
struct sheet_writer {
	uint32_t columns, lines; /* of the grid */
	struct text png;
	uint8_t *line;
	char *text;
};

static void sheet_fail(png_structp png, png_const_charp message)
{
	(void)message;
	png_longjmp(png, 1);
}

static void sheet_warn(png_structp png, png_const_charp message)
{
	(void)png;
	(void)message;
}

static void sheet_write(png_structp png, png_bytep data, size_t size)
{
	struct sheet_writer *writer = png_get_io_ptr(png);
	text_put_bytes(&writer->png, data, size);
	if (writer->png.failed)
		png_error(png, "no memory");
}

static void sheet_flush(png_structp png)
{
	(void)png;
}

/* Makes one line of pixels across a row of the grid. */
static void sheet_line(const struct http_sheet *sheet, struct sheet_writer *writer, uint32_t y)
{
	size_t bytes = (size_t)sheet->width * SHEET_CHANNELS;
	uint32_t first = y / sheet->height * writer->columns;
	for (uint32_t x = 0; x < writer->columns; x++) {
		size_t line = (size_t)(first + x) * sheet->height + y % sheet->height;
		if (first + x < sheet->rows)
			memcpy(writer->line + x * bytes, sheet->pixels + line * bytes, bytes);
		else
			memset(writer->line + x * bytes, SHEET_EMPTY, bytes);
	}
}

static int sheet_draw(png_structp png, png_infop info, const struct http_sheet *sheet,
	struct sheet_writer *writer)
{
	char keyword[] = HTTP_SHEET_KEYWORD, none[] = "";
	png_text text = {.compression = PNG_ITXT_COMPRESSION_NONE,
		.key = keyword,
		.text = writer->text,
		.itxt_length = strlen(writer->text),
		.lang = none,
		.lang_key = none};
	if (setjmp(png_jmpbuf(png)))
		return writer->png.failed ? -ENOMEM : -EINVAL;
	png_set_write_fn(png, writer, sheet_write, sheet_flush);
	png_set_compression_level(png, SHEET_LEVEL);
	png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_SUB);
	png_set_IHDR(png, info, writer->columns * sheet->width, writer->lines * sheet->height, 8,
		PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
		PNG_FILTER_TYPE_DEFAULT);
	png_set_text(png, info, &text, 1);
	png_write_info(png, info);
	for (uint32_t y = 0; y < writer->lines * sheet->height; y++) {
		sheet_line(sheet, writer, y);
		png_write_row(png, writer->line);
	}
	png_write_end(png, info);
	return 0;
}

static int sheet_make(const struct http_sheet *sheet, struct sheet_writer *writer)
{
	png_structp png =
		png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, sheet_fail, sheet_warn);
	png_infop info = png ? png_create_info_struct(png) : NULL;
	int result = info ? sheet_draw(png, info, sheet, writer) : -ENOMEM;
	png_destroy_write_struct(&png, &info);
	return result;
}

int http_sheet_png(const struct http_sheet *sheet, uint8_t **ret_png, size_t *ret_bytes)
{
	uint32_t columns = http_sheet_columns(sheet);
	/* libpng's own limits are low enough that nothing here overflows. */
	if (!sheet->rows || !sheet->height || !sheet->width ||
		sheet->width > PNG_USER_WIDTH_MAX / columns ||
		sheet->height > PNG_USER_HEIGHT_MAX / columns)
		return -EINVAL;
	struct sheet_writer writer = {.columns = columns,
		.lines = (sheet->rows + columns - 1) / columns,
		.text = http_sheet_json(sheet),
		.line = malloc((size_t)columns * sheet->width * SHEET_CHANNELS)};
	int result = writer.text && writer.line ? sheet_make(sheet, &writer) : -ENOMEM;
	free(writer.text);
	free(writer.line);
	if (result) {
		text_free(&writer.png);
		return result;
	}
	*ret_bytes = writer.png.size;
	*ret_png = (uint8_t *)text_take(&writer.png);
	return 0;
}

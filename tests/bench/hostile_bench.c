/* What hostile files cost (hostile.h): CPU seconds of one decode by the decoder as it is, and by
 * only libjpeg-turbo, with the outcome.
 *
 *     hostile_bench [KIND WIDTH HEIGHT SCANS]...
 *
 * Without operands: a set of the worst at 16 megapixels. PNG is written as `png`. */
#include "bench/hostile.h"

#include "decode/decode.h"

#include "base/clock.h"
#include "base/util.h"

#include <png.h>
#include <stdio.h>

struct row {
	const char *kind;
	unsigned width, height, scans;
};

static void drop_row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	(void)rgb;
	++*(uint32_t *)context;
}

static void measure(const char *which, const struct row *row, const struct hostile *file)
{
	struct decode_limits limits = decode_limits_default();
	struct decoder *decoder;
	struct decode_info info;
	struct fault fault;
	(void)setenv("PENSTOCK_DECODER", strcmp(which, "own") == 0 ? "own" : "libjpeg", 1);
	if (decoder_new(&limits, &decoder, &fault)) {
		(void)fprintf(stderr, "hostile_bench: %s\n", fault.text);
		exit(1);
	}
	uint64_t start = clock_thread_cpu_ns();
	uint32_t rows = 0;
	int outcome = decoder_begin(decoder, file->bytes, file->size, &info);
	if (!outcome)
		outcome =
			decoder_rows(decoder, (struct decode_region){0, 0, info.width, info.height},
				false, drop_row, &rows);
	double seconds = (double)(clock_thread_cpu_ns() - start) / 1e9;
	(void)printf("| %-10s | %5u x %5u | %4u | %7.1f | %-7s | %6.2f | %s |\n", row->kind,
		row->width, row->height, row->scans, (double)file->size / 1e6, which, seconds,
		outcome ? decoder_message(decoder) : "ok");
	(void)fflush(stdout);
	decoder_free(decoder);
}

static void png_append(png_structp png, png_bytep data, size_t size)
{
	hostile_text(png_get_io_ptr(png), data, size);
}

static void png_flushed(png_structp png)
{
	(void)png;
}

/* The most bytes per pixel and the slowest filter, interlaced, out of a file of next to nothing. */
static struct hostile png_bomb(unsigned width, unsigned height)
{
	enum { PIXEL_BYTES = 8 };
	struct hostile h = {0};
	png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
	png_infop info = png_create_info_struct(png);
	png_set_write_fn(png, &h, png_append, png_flushed);
	png_set_IHDR(png, info, width, height, 16, PNG_COLOR_TYPE_RGB_ALPHA, PNG_INTERLACE_ADAM7,
		PNG_COMPRESSION_TYPE_BASE, PNG_FILTER_TYPE_BASE);
	png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_PAETH);
	png_write_info(png, info);
	uint8_t *row = calloc(width, PIXEL_BYTES);
	for (int pass = 0; row && pass < png_set_interlace_handling(png); pass++)
		for (unsigned y = 0; y < height; y++) {
			memset(row, (int)y, (size_t)width * PIXEL_BYTES);
			png_write_row(png, row);
		}
	free(row);
	png_write_end(png, info);
	png_destroy_write_struct(&png, &info);
	return h;
}

static void bench_png(const struct row *row)
{
	struct hostile file = png_bomb(row->width, row->height);
	memset(file.bytes + file.size, 0, 64);
	measure("libpng", row, &file);
	free(file.bytes);
}

static void bench(const struct row *row)
{
	if (strcmp(row->kind, "png") == 0) {
		bench_png(row);
		return;
	}
	for (unsigned kind = 0; kind < HOSTILE_KINDS; kind++) {
		if (strcmp(row->kind, hostile_names[kind]) != 0)
			continue;
		struct hostile file =
			hostile_make((enum hostile_kind)kind, row->width, row->height, row->scans);
		memset(file.bytes + file.size, 0, 64);
		measure("own", row, &file);
		measure("libjpeg", row, &file);
		free(file.bytes);
		return;
	}
	(void)fprintf(stderr, "hostile_bench: %s: no such kind\n", row->kind);
	exit(2);
}

int main(int argc, char **argv)
{
	static const struct row worst[] = {
		{"empty", 4000, 4000, 490},
		{"empty", 4000, 4000, 13},
		{"empty", 65500, 244, 13},
		{"empty", 640, 640, 490},
		{"refine", 4000, 4000, 11},
		{"refine", 4000, 4000, 13},
		{"dense", 4000, 4000, 13},
		{"components", 4000, 4000, 3},
		{"baseline", 4000, 4000, 1},
		{"late", 4000, 4000, 1},
		{"restart", 4000, 4000, 1},
		{"odd", 4000, 4000, 1},
		{"late", 65500, 244, 1},
		{"late", 1100, 1000, 1},
		{"png", 4000, 4000, 1},
	};
	(void)printf("| kind | pixels | scans | MB | decoder | CPU s | outcome "
		     "|\n|---|---|---|---|---|---|---|\n");
	if (argc == 1)
		for (size_t i = 0; i < UTIL_COUNT(worst); i++)
			bench(&worst[i]);
	for (int i = 1; i + 3 < argc; i += 4)
		bench(&(struct row){argv[i], (unsigned)atoi(argv[i + 1]),
			(unsigned)atoi(argv[i + 2]), (unsigned)atoi(argv[i + 3])});
	return 0;
}

/* pixel_bench: time of only the pixel stage, per crop and per source pixel, for each variant of
 * the kernels (PENSTOCK_KERNELS=NAME picks one).
 *
 * usage: pixel_bench [SECONDS_PER_LINE [GEOMETRY]]
 *
 * GEOMETRY: only geometries whose names contain this.
 *
 * The first geometry is the average crop of ImageNet, the second a mix drawn as training draws.
 * It prints the best of several rounds, because other programs share the machine. */
#include "base/ticks.h"
#include "base/util.h"
#include "pixel/kernels.h"
#include "pixel/pixel.h"

#include <string.h>

enum { CROPS = 64, ROW_PIXELS = 8192, ROWS = 16 };

struct geometry {
	const char *name;
	uint32_t src_w, src_h;
	enum pixel_recipe_kind kind;
	bool drawn; /* by the recipe; else the whole source is the crop */
};

static const struct geometry geometries[] = {
	{"average crop, 350 x 270", 350, 270, PIXEL_RESIZED_CROP, false},
	{"drawn from 500 x 375", 500, 375, PIXEL_RESIZED_CROP, true},
	{"drawn from 375 x 500", 375, 500, PIXEL_RESIZED_CROP, true},
	{"evaluation of 500 x 375", 500, 375, PIXEL_RESIZE, true},
	{"enlarging 100 x 80", 100, 80, PIXEL_RESIZED_CROP, false},
	{"vertical first, 230 x 450", 230, 450, PIXEL_RESIZED_CROP, false},
	{"shrinking 1600 x 1200", 1600, 1200, PIXEL_RESIZED_CROP, false},
	{"shrinking 4000 x 3000", 4000, 3000, PIXEL_RESIZED_CROP, false},
	{"shrinking 5000 x 3000", 5000, 3000, PIXEL_RESIZED_CROP, false},
};

struct total {
	uint64_t ns, crops, pixels;
};

static void plan_make(const struct geometry *g, const struct pixel_recipe *recipe, unsigned crop,
	struct pixel_plan *plan)
{
	struct pixel_key key = {.seed = 1, .position = crop};
	if (g->drawn)
		pixel_plan_make(recipe, &key, g->src_w, g->src_h, plan);
	else
		pixel_plan_from_crop(
			recipe, 0, 0, g->src_w, g->src_h, crop & 1, g->src_w, g->src_h, plan);
}

static struct total round_run(struct pixel_sink *sink, const struct geometry *g, uint8_t *rows,
	uint8_t *out, unsigned crops)
{
	struct pixel_recipe recipe = g->kind == PIXEL_RESIZE
					     ? pixel_recipe_eval(pixel_square(224))
					     : pixel_recipe_train(pixel_square(224));
	struct total total = {.crops = crops};
	uint64_t start = clock_ns();
	for (unsigned i = 0; i < crops; i++) {
		struct pixel_plan plan;
		struct pixel_region region;
		plan_make(g, &recipe, i, &plan);
		pixel_sink_begin(sink, &recipe, &plan, out, &region);
		for (uint32_t y = region.y0; y < region.y1; y++) {
			const uint8_t *row = rows + (size_t)(y % ROWS) * 3 * ROW_PIXELS;
			const uint8_t *const rgb[] = {
				row, row + ROW_PIXELS, row + 2 * (size_t)ROW_PIXELS};
			pixel_sink_row(sink, rgb);
		}
		pixel_sink_end(sink);
		total.pixels += (uint64_t)(region.x1 - region.x0) * (region.y1 - region.y0);
	}
	total.ns = clock_ns() - start;
	return total;
}

static void geometry_run(struct pixel_sink *sink, const char *variant, const struct geometry *g,
	uint8_t *rows, double seconds, double rate)
{
	static uint8_t out[224 * 224 * 3];
	unsigned crops = g->drawn ? CROPS : 4;
	struct total best = round_run(sink, g, rows, out, crops);
	for (uint64_t end = clock_ns() + (uint64_t)(seconds * 1e9); clock_ns() < end;) {
		struct total total = round_run(sink, g, rows, out, crops);
		if (total.ns < best.ns)
			best = total;
	}
	printf("%-12s%-34s%10.1f us per crop%8.2f ticks per source pixel\n", variant, g->name,
		(double)best.ns / (double)best.crops * 1e-3,
		(double)best.ns * rate / (double)best.pixels);
}

static int variant_run(const char *name, uint8_t *rows, double seconds, const char *wanted)
{
	double rate = ticks_per_ns();
	struct fault fault = {""};
	struct pixel_sink *sink = NULL;
	(void)setenv("PENSTOCK_KERNELS", name, 1);
	if (pixel_sink_new(224, &sink, &fault) < 0) {
		(void)fprintf(stderr, "pixel_bench: %s\n", fault.text);
		return 1;
	}
	for (unsigned i = 0; i < UTIL_COUNT(geometries); i++)
		if (!wanted || strstr(geometries[i].name, wanted))
			geometry_run(sink, name, &geometries[i], rows, seconds, rate);
	pixel_sink_free(sink);
	return 0;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? strtod(argv[1], NULL) : 0.2;
	const char *wanted = argc > 2 ? argv[2] : NULL;
	const char *forced = getenv("PENSTOCK_KERNELS");
	cleanup(free_ptr) uint8_t *rows = malloc((size_t)ROWS * ROW_PIXELS * 3 + PIXEL_ROW_SLACK);
	if (!rows)
		return 1;
	uint32_t state = 1;
	for (size_t i = 0; i < (size_t)ROWS * ROW_PIXELS * 3; i++)
		rows[i] = (uint8_t)((state = state * 1664525 + 1013904223) >> 24);
	if (forced && *forced)
		return variant_run(forced, rows, seconds, wanted);
	int rc = 0;
	for (unsigned i = 0; kernels_at(i) && rc == 0; i++)
		rc = variant_run(kernels_at(i)->name, rows, seconds, wanted);
	return rc;
}

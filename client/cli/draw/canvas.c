/* canvas: see canvas.h. */
#include "client/cli/draw/canvas.h"

#include "base/util.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CANVAS_TEXT = 4096 };

int canvas_init(struct canvas *canvas, int width, int height, uint32_t color)
{
	*canvas = (struct canvas){.width = width,
		.height = height,
		.rgb = malloc((size_t)width * (size_t)height * 3)};
	if (!canvas->rgb)
		return -ENOMEM;
	canvas_fill(canvas, (struct canvas_box){0, 0, width, height}, color);
	return 0;
}

void canvas_deinit(struct canvas *canvas)
{
	free(canvas->rgb);
	*canvas = (struct canvas){0};
}

static uint8_t *canvas_at(const struct canvas *canvas, int x, int y)
{
	return canvas->rgb + ((size_t)y * (size_t)canvas->width + (size_t)x) * 3;
}

static struct canvas_box canvas_clip(const struct canvas *canvas, struct canvas_box box)
{
	int x1 = UTIL_MIN(box.x + box.w, canvas->width),
	    y1 = UTIL_MIN(box.y + box.h, canvas->height);
	box.x = UTIL_MAX(box.x, 0);
	box.y = UTIL_MAX(box.y, 0);
	box.w = UTIL_MAX(x1 - box.x, 0);
	box.h = UTIL_MAX(y1 - box.y, 0);
	return box;
}

void canvas_fill(struct canvas *canvas, struct canvas_box box, uint32_t color)
{
	box = canvas_clip(canvas, box);
	for (int y = box.y; y < box.y + box.h; y++)
		for (int x = box.x; x < box.x + box.w; x++) {
			uint8_t *p = canvas_at(canvas, x, y);
			p[0] = (uint8_t)(color >> 16);
			p[1] = (uint8_t)(color >> 8);
			p[2] = (uint8_t)color;
		}
}

void canvas_frame(struct canvas *canvas, struct canvas_box box, int thick, uint32_t color)
{
	int across = UTIL_MIN(thick, box.w), down = UTIL_MIN(thick, box.h);
	canvas_fill(canvas, (struct canvas_box){box.x, box.y, box.w, down}, color);
	canvas_fill(canvas, (struct canvas_box){box.x, box.y + box.h - down, box.w, down}, color);
	canvas_fill(canvas, (struct canvas_box){box.x, box.y, across, box.h}, color);
	canvas_fill(
		canvas, (struct canvas_box){box.x + box.w - across, box.y, across, box.h}, color);
}

void canvas_dim(
	struct canvas *canvas, struct canvas_box outer, struct canvas_box inner, int percent)
{
	outer = canvas_clip(canvas, outer);
	for (int y = outer.y; y < outer.y + outer.h; y++)
		for (int x = outer.x; x < outer.x + outer.w; x++) {
			bool inside = x >= inner.x && x < inner.x + inner.w && y >= inner.y &&
				      y < inner.y + inner.h;
			uint8_t *p = canvas_at(canvas, x, y);
			for (int c = 0; c < 3 && !inside; c++)
				p[c] = (uint8_t)(p[c] * percent / 100);
		}
}

/* The distance of (x, y) from the line. */
static double canvas_distance(const double line[4], double x, double y)
{
	double dx = line[2] - line[0], dy = line[3] - line[1], length = dx * dx + dy * dy;
	double along = length > 0 ? ((x - line[0]) * dx + (y - line[1]) * dy) / length : 0;
	along = UTIL_MIN(UTIL_MAX(along, 0.0), 1.0);
	return hypot(x - line[0] - along * dx, y - line[1] - along * dy);
}

static void canvas_blend(uint8_t *p, uint32_t color, double share)
{
	const uint8_t to[3] = {(uint8_t)(color >> 16), (uint8_t)(color >> 8), (uint8_t)color};
	for (int c = 0; c < 3; c++)
		p[c] = (uint8_t)lround(p[c] + (to[c] - p[c]) * share);
}

void canvas_stroke(struct canvas *canvas, const double line[4], double thick, uint32_t color)
{
	double reach = thick / 2 + 1;
	int x = (int)floor(UTIL_MIN(line[0], line[2]) - reach),
	    y = (int)floor(UTIL_MIN(line[1], line[3]) - reach);
	struct canvas_box box = canvas_clip(
		canvas, (struct canvas_box){x, y, (int)ceil(UTIL_MAX(line[0], line[2]) + reach) - x,
				(int)ceil(UTIL_MAX(line[1], line[3]) + reach) - y});
	for (int row = box.y; row < box.y + box.h; row++)
		for (int column = box.x; column < box.x + box.w; column++) {
			double share =
				thick / 2 + 0.5 - canvas_distance(line, column + 0.5, row + 0.5);
			if (share > 0)
				canvas_blend(canvas_at(canvas, column, row), color,
					UTIL_MIN(share, 1.0));
		}
}

/* The average over area = {x0, y0, x1, y1}; a fraction of a pixel counts by its share. */
static void canvas_average(const uint8_t *rgb, int w, int h, const double area[4], uint8_t out[3])
{
	double sum[3] = {0}, weight = 0;
	int last_y = UTIL_MIN((int)area[3] + 1, h), last_x = UTIL_MIN((int)area[2] + 1, w);
	for (int y = (int)area[1]; y < last_y; y++) {
		double fy = UTIL_MIN(area[3], y + 1.0) - UTIL_MAX(area[1], (double)y);
		for (int x = (int)area[0]; x < last_x; x++) {
			double share =
				fy * (UTIL_MIN(area[2], x + 1.0) - UTIL_MAX(area[0], (double)x));
			const uint8_t *p = rgb + ((size_t)y * (size_t)w + (size_t)x) * 3;
			for (int c = 0; c < 3; c++)
				sum[c] += share * p[c];
			weight += share;
		}
	}
	for (int c = 0; c < 3; c++)
		out[c] = weight > 0 ? (uint8_t)lround(sum[c] / weight) : 0;
}

struct canvas_box canvas_fit(struct canvas_box box, int w, int h)
{
	const bool wide = (int64_t)w * box.h >= (int64_t)h * box.w;
	const int across = wide ? box.w : (int)((int64_t)box.h * w / h),
		  down = wide ? (int)((int64_t)box.w * h / w) : box.h;
	const struct canvas_box fit = {.w = UTIL_MAX(across, 1), .h = UTIL_MAX(down, 1)};
	return (struct canvas_box){
		box.x + (box.w - fit.w) / 2, box.y + (box.h - fit.h) / 2, fit.w, fit.h};
}

void canvas_image(struct canvas *canvas, struct canvas_box box, const uint8_t *rgb, int w, int h)
{
	struct canvas_box seen = canvas_clip(canvas, box);
	double sx = (double)w / box.w, sy = (double)h / box.h;
	for (int y = seen.y; y < seen.y + seen.h; y++)
		for (int x = seen.x; x < seen.x + seen.w; x++) {
			const double area[4] = {(x - box.x) * sx, (y - box.y) * sy,
				(x - box.x + 1) * sx, (y - box.y + 1) * sy};
			canvas_average(rgb, w, h, area, canvas_at(canvas, x, y));
		}
}

/* Pixel (column, row) of a glyph whose origin is at (x, y), turned or not, counts from it to the
 * right and down. */
static void canvas_glyph(struct canvas *canvas, int x, int y, const struct font_glyph *glyph,
	bool turned, uint32_t color)
{
	uint8_t pixels[FONT_PIXELS];
	font_pixels(glyph, pixels);
	for (int i = 0; i < glyph->width * glyph->height; i++) {
		int across = glyph->left + i % glyph->width, down = i / glyph->width - glyph->top;
		int column = turned ? x + down : x + across, row = turned ? y - across : y + down;
		if (pixels[i] && column >= 0 && column < canvas->width && row >= 0 &&
			row < canvas->height)
			canvas_blend(canvas_at(canvas, column, row), color, pixels[i] / 255.0);
	}
}

int canvas_letters(struct canvas *canvas, int x, int y, enum font_face face, bool turned,
	uint32_t color, const char *text)
{
	int along = 0;
	for (const struct font_glyph *glyph; (glyph = font_next(face, &text));) {
		canvas_glyph(canvas, turned ? x : x + along, turned ? y - along : y, glyph, turned,
			color);
		along += glyph->advance;
	}
	return along;
}

int canvas_text(struct canvas *canvas, int x, int y, enum font_face face, int width, uint32_t color,
	const char *text)
{
	char fitting[CANVAS_TEXT];
	font_fit(face, text, width, FONT_CUT_END, fitting, sizeof fitting);
	return canvas_letters(canvas, x, y + font_of(face)->ascent, face, false, color, fitting);
}

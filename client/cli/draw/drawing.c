/* drawing: see drawing.h. In pixels the letters are those of font.h, in the nearest of its
 * sizes. */
#include "client/cli/draw/drawing.h"

#include "base/array.h"
#include "base/util.h"
#include "client/cli/draw/font.h"
#include "client/cli/draw/markup.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum drawing_kind { DRAWING_PATH, DRAWING_MARK, DRAWING_TEXT };

struct drawing_item {
	enum drawing_kind kind;
	enum drawing_color color;
	struct drawing_at *at; /* the points of a path; the one of a mark */
	size_t count;
	double thick; /* of a path; the radius of a mark */
	enum drawing_shape shape;
	bool valued;
	double x, y;
	struct drawing_text text;
	char *words; /* a text; the title of a mark */
};

static const struct {
	const char *name;
	uint32_t rgb;
} drawing_colors[DRAWING_COLORS] = {
	[DRAWING_PAPER] = {"paper", 0xffffff},
	[DRAWING_INK] = {"ink", 0x1c2126},
	[DRAWING_MUTED] = {"muted", 0x59636e},
	[DRAWING_GRID] = {"grid", 0xdde2e8},
	[DRAWING_FIRST] = {"1", 0x1f63b5},
	[DRAWING_FIRST + 1] = {"2", 0xc8590c},
	[DRAWING_FIRST + 2] = {"3", 0x177a51},
	[DRAWING_FIRST + 3] = {"4", 0x9a3a94},
	[DRAWING_FIRST + 4] = {"5", 0x8a6900},
	[DRAWING_FIRST + 5] = {"6", 0xb8303a},
	[DRAWING_FIRST + 6] = {"7", 0x0b7c91},
	[DRAWING_FIRST + 7] = {"8", 0x5b5f66},
};

void drawing_init(struct drawing *drawing, double width, double height, const char *title)
{
	*drawing = (struct drawing){.width = width, .height = height, .title = title};
}

void drawing_deinit(struct drawing *drawing)
{
	for (size_t i = 0; i < drawing->count; i++) {
		free(drawing->item[i].at);
		free(drawing->item[i].words);
	}
	free(drawing->item);
	*drawing = (struct drawing){0};
}

/* A new item; NULL if memory runs out. */
static struct drawing_item *drawing_add(struct drawing *drawing, enum drawing_kind kind,
	const struct drawing_at *at, size_t count, const char *words)
{
	struct drawing_item *item =
		array_grown(drawing->item, drawing->count, &drawing->room, sizeof *item);
	struct drawing_at *kept = calloc(count + 1, sizeof *kept);
	char *text = strdup(words);
	drawing->item = item ? item : drawing->item;
	if (!item || !kept || !text) {
		free(kept);
		free(text);
		drawing->failed = true;
		return NULL;
	}
	if (count)
		memcpy(kept, at, count * sizeof *at);
	item += drawing->count++;
	*item = (struct drawing_item){.kind = kind, .at = kept, .count = count, .words = text};
	return item;
}

void drawing_path(struct drawing *drawing, const struct drawing_at *at, size_t count, double thick,
	enum drawing_color color)
{
	struct drawing_item *item = drawing_add(drawing, DRAWING_PATH, at, count, "");
	if (!item)
		return;
	item->thick = thick;
	item->color = color;
}

void drawing_line(struct drawing *drawing, struct drawing_at from, struct drawing_at to,
	double thick, enum drawing_color color)
{
	const struct drawing_at ends[] = {from, to};
	drawing_path(drawing, ends, 2, thick, color);
}

void drawing_mark(struct drawing *drawing, struct drawing_at at, double radius,
	enum drawing_shape shape, enum drawing_color color, const struct drawing_value *value)
{
	struct drawing_item *item =
		drawing_add(drawing, DRAWING_MARK, &at, 1, value ? value->title : "");
	if (!item)
		return;
	item->thick = radius;
	item->shape = shape;
	item->color = color;
	item->valued = value;
	item->x = value ? value->x : 0;
	item->y = value ? value->y : 0;
}

void drawing_write(struct drawing *drawing, const struct drawing_text *text, const char *words)
{
	struct drawing_item *item = drawing_add(drawing, DRAWING_TEXT, NULL, 0, words);
	if (!item)
		return;
	item->text = *text;
	item->color = text->color;
}

double drawing_width(const char *words, double size)
{
	enum font_face face = FONT_TITLE;
	return font_width(face, words) * size / font_of(face)->size;
}

/* The corners of a mark; 0 for a disc. */
static size_t drawing_corners(const struct drawing_item *item, struct drawing_at ret[4])
{
	static const struct {
		size_t count;
		struct drawing_at at[4];
	} shapes[DRAWING_SHAPES] = {
		[DRAWING_SQUARE] = {4, {{-0.9, -0.9}, {0.9, -0.9}, {0.9, 0.9}, {-0.9, 0.9}}},
		[DRAWING_TRIANGLE] = {3, {{0, -1.2}, {1.1, 0.8}, {-1.1, 0.8}}},
		[DRAWING_DIAMOND] = {4, {{0, -1.3}, {1.3, 0}, {0, 1.3}, {-1.3, 0}}},
	};
	for (size_t i = 0; i < shapes[item->shape].count; i++)
		ret[i] = (struct drawing_at){
			item->at[0].x + shapes[item->shape].at[i].x * item->thick,
			item->at[0].y + shapes[item->shape].at[i].y * item->thick};
	return shapes[item->shape].count;
}

/* ---- SVG ---- */

static void drawing_svg_color(
	FILE *file, const char *property, enum drawing_color color, bool themed)
{
	if (themed)
		(void)fprintf(file, " style=\"%s:var(--drawing-%s)\"", property,
			drawing_colors[color].name);
	else
		(void)fprintf(file, " %s=\"#%06x\"", property, drawing_colors[color].rgb);
}

static void drawing_svg_points(FILE *file, const struct drawing_at *at, size_t count)
{
	(void)fprintf(file, " points=\"");
	for (size_t i = 0; i < count; i++)
		(void)fprintf(file, "%s%.2f,%.2f", i ? " " : "", at[i].x, at[i].y);
	(void)fprintf(file, "\"");
}

static void drawing_svg_mark(FILE *file, const struct drawing_item *item, bool themed)
{
	struct drawing_at corner[4];
	size_t corners = drawing_corners(item, corner);
	(void)fprintf(file, corners ? "<polygon" : "<circle");
	if (corners)
		drawing_svg_points(file, corner, corners);
	else
		(void)fprintf(file, " cx=\"%.2f\" cy=\"%.2f\" r=\"%.2f\"", item->at[0].x,
			item->at[0].y, item->thick);
	drawing_svg_color(file, "fill", item->color, themed);
	if (item->valued)
		(void)fprintf(file, " data-x=\"%.10g\" data-y=\"%.10g\"", item->x, item->y);
	(void)fprintf(file, "><title>");
	markup_text(file, item->words);
	(void)fprintf(file, corners ? "</title></polygon>\n" : "</title></circle>\n");
}

static void drawing_svg_text(FILE *file, const struct drawing_item *item, bool themed)
{
	static const char *const anchors[] = {"start", "middle", "end"};
	const struct drawing_text *text = &item->text;
	(void)fprintf(file, "<text x=\"%.2f\" y=\"%.2f\" font-size=\"%.1f\" text-anchor=\"%s\"",
		text->at.x, text->at.y, text->size, anchors[text->anchor]);
	if (text->bold)
		(void)fprintf(file, " font-weight=\"600\"");
	if (text->turned)
		(void)fprintf(file, " transform=\"rotate(-90 %.2f %.2f)\"", text->at.x, text->at.y);
	drawing_svg_color(file, "fill", item->color, themed);
	(void)fprintf(file, ">");
	markup_text(file, item->words);
	(void)fprintf(file, "</text>\n");
}

static void drawing_svg_item(FILE *file, const struct drawing_item *item, bool themed)
{
	switch (item->kind) {
	case DRAWING_PATH:
		(void)fprintf(file,
			"<polyline fill=\"none\" stroke-width=\"%.2f\" stroke-linecap=\"round\" "
			"stroke-linejoin=\"round\"",
			item->thick);
		drawing_svg_points(file, item->at, item->count);
		drawing_svg_color(file, "stroke", item->color, themed);
		(void)fprintf(file, "/>\n");
		break;
	case DRAWING_MARK:
		drawing_svg_mark(file, item, themed);
		break;
	case DRAWING_TEXT:
		drawing_svg_text(file, item, themed);
		break;
	}
}

int drawing_svg(const struct drawing *drawing, bool themed, FILE *file)
{
	if (drawing->failed)
		return -ENOMEM;
	(void)fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\"",
		drawing->width, drawing->height);
	if (!themed)
		(void)fprintf(
			file, " width=\"%.0f\" height=\"%.0f\"", drawing->width, drawing->height);
	(void)fprintf(file, " role=\"img\" font-family=\"system-ui, 'DejaVu Sans', Arial, "
			    "sans-serif\">\n<title>");
	markup_text(file, drawing->title);
	(void)fprintf(file, "</title>\n<rect width=\"100%%\" height=\"100%%\"");
	drawing_svg_color(file, "fill", DRAWING_PAPER, themed);
	(void)fprintf(file, "/>\n");
	for (size_t i = 0; i < drawing->count; i++)
		drawing_svg_item(file, &drawing->item[i], themed);
	(void)fprintf(file, "</svg>\n");
	return 0;
}

/* ---- pixels ---- */

struct drawing_pen {
	struct canvas *canvas;
	double scale;
	uint32_t rgb;
};

static void drawing_stroke(
	const struct drawing_pen *pen, struct drawing_at from, struct drawing_at to, double thick)
{
	canvas_stroke(pen->canvas,
		(const double[4]){from.x * pen->scale, from.y * pen->scale, to.x * pen->scale,
			to.y * pen->scale},
		thick * pen->scale, pen->rgb);
}

/* Fills row by row from edge to edge, with strokes that overlap so that no gap shows. */
static void drawing_polygon(
	const struct drawing_pen *pen, const struct drawing_at *at, size_t count)
{
	double step = 1 / pen->scale, top = at[0].y, bottom = at[0].y;
	for (size_t i = 1; i < count; i++) {
		top = UTIL_MIN(top, at[i].y);
		bottom = UTIL_MAX(bottom, at[i].y);
	}
	for (int row = 0; top + row * step <= bottom; row++) {
		double y = top + row * step;
		double left = INFINITY, right = -INFINITY;
		for (size_t i = 0; i < count; i++) {
			struct drawing_at a = at[i], b = at[(i + 1) % count];
			if ((a.y <= y) == (b.y <= y))
				continue;
			double x = a.x + (b.x - a.x) * (y - a.y) / (b.y - a.y);
			left = UTIL_MIN(left, x);
			right = UTIL_MAX(right, x);
		}
		if (left <= right)
			drawing_stroke(pen, (struct drawing_at){left, y},
				(struct drawing_at){right, y}, 1.6 * step);
	}
}

static void drawing_pixel_mark(const struct drawing_pen *pen, const struct drawing_item *item)
{
	struct drawing_at corner[4];
	size_t corners = drawing_corners(item, corner);
	if (corners)
		drawing_polygon(pen, corner, corners);
	else
		drawing_stroke(pen, item->at[0], item->at[0], 2 * item->thick);
}

static void drawing_pixel_text(const struct drawing_pen *pen, const struct drawing_item *item)
{
	const struct drawing_text *text = &item->text;
	enum font_face face = font_nearest(text->size * pen->scale, text->bold);
	int shift = font_width(face, item->words) * (int)text->anchor / 2;
	int x = (int)lround(text->at.x * pen->scale), y = (int)lround(text->at.y * pen->scale);
	(void)canvas_letters(pen->canvas, text->turned ? x : x - shift,
		text->turned ? y + shift : y, face, text->turned, pen->rgb, item->words);
}

static void drawing_pixel_item(const struct drawing_pen *pen, const struct drawing_item *item)
{
	switch (item->kind) {
	case DRAWING_PATH:
		for (size_t i = 1; i < item->count; i++)
			drawing_stroke(pen, item->at[i - 1], item->at[i], item->thick);
		break;
	case DRAWING_MARK:
		drawing_pixel_mark(pen, item);
		break;
	case DRAWING_TEXT:
		drawing_pixel_text(pen, item);
		break;
	}
}

int drawing_pixels(const struct drawing *drawing, double scale, struct canvas *ret)
{
	int r = drawing->failed ? -ENOMEM
				: canvas_init(ret, (int)lround(drawing->width * scale),
					  (int)lround(drawing->height * scale),
					  drawing_colors[DRAWING_PAPER].rgb);
	if (r < 0)
		return r;
	for (size_t i = 0; i < drawing->count; i++) {
		struct drawing_pen pen = {.canvas = ret,
			.scale = scale,
			.rgb = drawing_colors[drawing->item[i].color].rgb};
		drawing_pixel_item(&pen, &drawing->item[i]);
	}
	return 0;
}

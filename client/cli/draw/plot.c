/* plot: see plot.h. */
#include "client/cli/draw/plot.h"

#include "base/util.h"
#include "client/cli/draw/picture.h"
#include "client/cli/output.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
	PLOT_MARGIN = 24,
	/* The letters, half of FONT_HEAD and FONT_TITLE (PLOT_SCALE). */
	PLOT_TITLE = 20,
	PLOT_SMALL = 14, /* ticks, legend and labels */
	PLOT_TOP = 86, /* where the plot area begins */
	PLOT_HEIGHT = 350, /* of the plot area */
	PLOT_BELOW = 70,
	PLOT_LEGEND_LINE = 24,
	PLOT_COLORS = DRAWING_COLORS - DRAWING_FIRST,
	PLOT_TICKS = 64,
};

/* One axis: maps values to places. */
struct plot_axis {
	double low, high; /* the values at its ends */
	double from, to; /* their places */
	bool logarithmic;
	double tick[PLOT_TICKS];
	size_t ticks;
};

struct plot_frame {
	const struct plot *plot;
	struct drawing *drawing;
	struct plot_axis x, y;
};

static double plot_place(const struct plot_axis *axis, double value)
{
	double low = axis->low, high = axis->high;
	if (axis->logarithmic) {
		low = log2(low);
		high = log2(high);
		value = log2(value);
	}
	return axis->from + (value - low) / (high - low) * (axis->to - axis->from);
}

/* 1, 2 or 5 times a power of ten, so that about `count` of them make up `range`. */
static double plot_step(double range, int count)
{
	double raw = range / count, power = pow(10, floor(log10(raw))), part = raw / power;
	return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

/* An axis from `low` to `high`, or with `to_tick` to the next round number, and its ticks. */
static void plot_round(struct plot_axis *axis, double low, double high, bool to_tick)
{
	enum { PLOT_PARTS = 6 };
	high = high > low ? high : low + 1;
	double step = plot_step(high - low, PLOT_PARTS);
	axis->low = low;
	axis->high = to_tick ? ceil(high / step - 1e-9) * step : high;
	double first = ceil(low / step - 1e-9) + 0.0; /* no negative zero */
	while (axis->ticks < PLOT_TICKS &&
		(first + (double)axis->ticks) * step <= axis->high + step * 1e-6) {
		axis->tick[axis->ticks] = (first + (double)axis->ticks) * step;
		axis->ticks++;
	}
}

static void plot_add_tick(struct plot_axis *axis, double value)
{
	size_t at = 0;
	while (at < axis->ticks && axis->tick[at] < value)
		at++;
	if (axis->ticks == PLOT_TICKS || (at < axis->ticks && axis->tick[at] == value))
		return;
	memmove(&axis->tick[at + 1], &axis->tick[at], (axis->ticks - at) * sizeof *axis->tick);
	axis->tick[at] = value;
	axis->ticks++;
}

/* An axis with a tick at each x of any series, and room on both sides. */
static void plot_values(const struct plot *plot, struct plot_axis *axis)
{
	for (size_t i = 0; i < plot->count; i++)
		for (size_t j = 0; j < plot->series[i].count; j++)
			plot_add_tick(axis, plot->series[i].point[j].x);
	double low = axis->ticks ? axis->tick[0] : 0,
	       high = axis->ticks ? axis->tick[axis->ticks - 1] : 1;
	axis->logarithmic = plot->logarithmic && low > 0 && high > low;
	double room = high > low ? (high - low) * 0.06 : 1, ratio = pow(high / low, 0.06);
	axis->low = axis->logarithmic ? low / ratio : low - room;
	axis->high = axis->logarithmic ? high * ratio : high + room;
}

static void plot_range(const struct plot *plot, struct plot_frame *frame)
{
	double most = 0, x_low = INFINITY, x_high = -INFINITY;
	for (size_t i = 0; i < plot->count; i++)
		for (size_t j = 0; j < plot->series[i].count; j++) {
			const struct plot_point *point = &plot->series[i].point[j];
			most = UTIL_MAX(most, UTIL_MAX(point->y, point->most));
			x_low = UTIL_MIN(x_low, point->x);
			x_high = UTIL_MAX(x_high, point->x);
		}
	plot_round(&frame->y, 0, most, true);
	if (plot->marks)
		plot_values(plot, &frame->x);
	else
		plot_round(&frame->x, UTIL_MIN(x_low, 0.0), UTIL_MAX(x_high, plot->x_most), false);
}

/* 1,234 or 0.25, with the decimals that the step needs. */
static void plot_number(double value, double step, char *buffer, size_t room)
{
	int decimals = step < 1 ? (int)ceil(-log10(step) - 1e-9) : 0;
	char plain[48];
	int n = snprintf(plain, sizeof plain, "%.*f", decimals, value);
	int whole = (int)strcspn(plain, "."), first = plain[0] == '-';
	size_t at = 0;
	for (int i = 0; i < n && at + 2 < room; i++) {
		if (i > first && i < whole && (whole - i) % 3 == 0)
			buffer[at++] = ',';
		buffer[at++] = plain[i];
	}
	buffer[at] = 0;
}

/* The smallest step between two ticks. */
static double plot_least_step(const struct plot_axis *axis)
{
	double step = axis->ticks > 1 ? INFINITY : fabs(axis->tick[0]);
	for (size_t i = 1; i < axis->ticks; i++)
		step = UTIL_MIN(step, axis->tick[i] - axis->tick[i - 1]);
	return step > 0 ? step : 1;
}

/* Small letters at (x, y): a tick, a label, a name in the legend. */
static void plot_words(const struct plot_frame *frame, struct drawing_at at,
	enum drawing_anchor anchor, enum drawing_color color, const char *words)
{
	const struct drawing_text text = {
		.at = at, .size = PLOT_SMALL, .anchor = anchor, .color = color};
	drawing_write(frame->drawing, &text, words);
}

static void plot_axis_y(struct plot_frame *frame)
{
	double step = plot_least_step(&frame->y);
	for (size_t i = 0; i < frame->y.ticks; i++) {
		char words[32];
		double y = plot_place(&frame->y, frame->y.tick[i]);
		plot_number(frame->y.tick[i], step, words, sizeof words);
		drawing_line(frame->drawing, (struct drawing_at){frame->x.from, y},
			(struct drawing_at){frame->x.to, y}, 1, i ? DRAWING_GRID : DRAWING_MUTED);
		plot_words(frame, (struct drawing_at){frame->x.from - 10, y + 5}, DRAWING_END,
			DRAWING_MUTED, words);
	}
	drawing_write(frame->drawing,
		&(struct drawing_text){
			.at = {PLOT_MARGIN + PLOT_SMALL, (frame->y.from + frame->y.to) / 2},
			.size = PLOT_SMALL,
			.anchor = DRAWING_MIDDLE,
			.turned = true,
			.color = DRAWING_INK},
		frame->plot->y_label);
}

/* A tick whose label would touch the previous label gets none. */
static void plot_axis_x(struct plot_frame *frame)
{
	double taken = -INFINITY, step = plot_least_step(&frame->x);
	for (size_t i = 0; i < frame->x.ticks; i++) {
		char words[32];
		double x = plot_place(&frame->x, frame->x.tick[i]);
		/* With marks, the values are whole numbers, however close they are. */
		plot_number(frame->x.tick[i], frame->plot->marks ? 1 : step, words, sizeof words);
		double half = drawing_width(words, PLOT_SMALL) / 2;
		drawing_line(frame->drawing, (struct drawing_at){x, frame->y.from},
			(struct drawing_at){x, frame->y.from + 5}, 1, DRAWING_MUTED);
		if (x - half < taken)
			continue;
		taken = x + half + PLOT_SMALL / 2.0;
		plot_words(frame, (struct drawing_at){x, frame->y.from + 22}, DRAWING_MIDDLE,
			DRAWING_MUTED, words);
	}
	plot_words(frame,
		(struct drawing_at){(frame->x.from + frame->x.to) / 2, frame->y.from + 50},
		DRAWING_MIDDLE, DRAWING_INK, frame->plot->x_label);
}

static enum drawing_color plot_color(size_t series)
{
	return (enum drawing_color)(DRAWING_FIRST + series % PLOT_COLORS);
}

static void plot_point(struct plot_frame *frame, size_t number, const struct plot_point *point)
{
	enum { PLOT_TITLE_ROOM = 160 };
	const struct plot_series *series = &frame->plot->series[number];
	double x = plot_place(&frame->x, point->x);
	char title[PLOT_TITLE_ROOM];
	(void)snprintf(title, sizeof title, "%s%s%.10g: %.10g (%.10g to %.10g)", series->name,
		*series->name ? ", " : "", point->x, point->y, point->least, point->most);
	double least = plot_place(&frame->y, point->least),
	       most = plot_place(&frame->y, point->most);
	if (point->most > point->least) {
		drawing_line(frame->drawing, (struct drawing_at){x, least},
			(struct drawing_at){x, most}, 1.5, plot_color(number));
		for (int end = 0; end < 2; end++)
			drawing_line(frame->drawing, (struct drawing_at){x - 4, end ? most : least},
				(struct drawing_at){x + 4, end ? most : least}, 1.5,
				plot_color(number));
	}
	drawing_mark(frame->drawing, (struct drawing_at){x, plot_place(&frame->y, point->y)}, 4.5,
		(enum drawing_shape)(number % DRAWING_SHAPES), plot_color(number),
		&(struct drawing_value){.x = point->x, .y = point->y, .title = title});
}

static void plot_line(struct plot_frame *frame, size_t number)
{
	const struct plot_series *series = &frame->plot->series[number];
	cleanup(free_ptr) struct drawing_at *at = calloc(series->count + 1, sizeof *at);
	if (!at) {
		frame->drawing->failed = true;
		return;
	}
	for (size_t i = 0; i < series->count; i++)
		at[i] = (struct drawing_at){plot_place(&frame->x, series->point[i].x),
			plot_place(&frame->y, series->point[i].y)};
	if (series->count > 1)
		drawing_path(frame->drawing, at, series->count, 2, plot_color(number));
	bool marks = frame->plot->marks || series->count == 1;
	for (size_t i = 0; marks && i < series->count; i++)
		plot_point(frame, number, &series->point[i]);
}

static void plot_legend(struct plot_frame *frame)
{
	for (size_t i = 0; i < frame->plot->count; i++) {
		double x = frame->x.to + 20, y = frame->y.to + 10 + (double)i * PLOT_LEGEND_LINE;
		drawing_line(frame->drawing, (struct drawing_at){x, y},
			(struct drawing_at){x + 22, y}, 2, plot_color(i));
		if (frame->plot->marks)
			drawing_mark(frame->drawing, (struct drawing_at){x + 11, y}, 4.5,
				(enum drawing_shape)(i % DRAWING_SHAPES), plot_color(i), NULL);
		plot_words(frame, (struct drawing_at){x + 30, y + 5}, DRAWING_START, DRAWING_INK,
			frame->plot->series[i].name);
	}
}

/* The width of the legend on the right; 0 for one series, which the title names. */
static double plot_legend_width(const struct plot *plot)
{
	double widest = 0;
	for (size_t i = 0; i < plot->count && plot->count > 1; i++)
		widest = UTIL_MAX(widest, drawing_width(plot->series[i].name, PLOT_SMALL));
	return plot->count > 1 ? widest + 50 : 0;
}

/* Writes as much of `words` as fits. */
static void plot_head(struct drawing *drawing, const struct drawing_text *text, const char *words)
{
	enum { PLOT_HEAD = 512 };
	char cut[PLOT_HEAD];
	enum font_face face = text->bold ? FONT_HEAD : FONT_TITLE;
	double room = PLOT_WIDTH - 2 * PLOT_MARGIN;
	font_fit(face, words, (int)(room * font_of(face)->size / text->size), FONT_CUT_END, cut,
		sizeof cut);
	drawing_write(drawing, text, cut);
}

void plot_draw(const struct plot *plot, struct drawing *ret)
{
	double legend = plot_legend_width(plot), height = PLOT_HEIGHT;
	if (plot->count > 1)
		height = UTIL_MAX(height, (double)plot->count * PLOT_LEGEND_LINE);
	drawing_init(ret, PLOT_WIDTH, PLOT_TOP + height + PLOT_BELOW, plot->title);
	struct plot_frame frame = {.plot = plot, .drawing = ret};
	plot_range(plot, &frame);
	frame.x.from = PLOT_MARGIN + 90;
	frame.x.to = PLOT_WIDTH - PLOT_MARGIN - legend;
	frame.y.from = PLOT_TOP + height;
	frame.y.to = PLOT_TOP;
	plot_head(ret,
		&(struct drawing_text){.at = {PLOT_MARGIN, 36},
			.size = PLOT_TITLE,
			.bold = true,
			.color = DRAWING_INK},
		plot->title);
	plot_head(ret,
		&(struct drawing_text){
			.at = {PLOT_MARGIN, 60}, .size = PLOT_SMALL, .color = DRAWING_MUTED},
		plot->subtitle);
	plot_axis_y(&frame);
	plot_axis_x(&frame);
	for (size_t i = 0; i < plot->count; i++)
		plot_line(&frame, i);
	if (plot->count > 1)
		plot_legend(&frame);
}

int plot_format(const char *path, enum plot_format *ret, struct fault *fault)
{
	static const char *const ends[] = {[PLOT_SVG] = ".svg", [PLOT_PNG] = ".png"};
	size_t size = strlen(path);
	for (size_t i = 0; i < UTIL_COUNT(ends); i++)
		if (size > 4 && strcasecmp(path + size - 4, ends[i]) == 0) {
			*ret = (enum plot_format)i;
			return 0;
		}
	return fault_set(
		fault, -EINVAL, "a plot is written as .svg or .png; \"%s\" ends in neither", path);
}

static int plot_put_svg(FILE *file, const char *name, const void *context, struct fault *fault)
{
	int r = drawing_svg(context, false, file);
	return r < 0 ? fault_set(fault, r, "cannot write %s: out of memory", name) : 0;
}

static int plot_put_png(FILE *file, const char *name, const void *context, struct fault *fault)
{
	enum { PLOT_SCALE = 2 };
	struct canvas canvas;
	int r = drawing_pixels(context, PLOT_SCALE, &canvas);
	if (r < 0)
		return fault_set(fault, r, "cannot write %s: out of memory", name);
	struct picture picture = {(uint32_t)canvas.width, (uint32_t)canvas.height, canvas.rgb};
	r = picture_put(file, name, PICTURE_PNG, &picture, fault);
	canvas_deinit(&canvas);
	return r;
}

int plot_save(const struct plot *plot, const char *path, struct fault *fault)
{
	enum plot_format format = PLOT_SVG;
	int r = plot_format(path, &format, fault);
	if (r < 0)
		return r;
	struct drawing drawing;
	plot_draw(plot, &drawing);
	r = output_write(
		path, true, format == PLOT_SVG ? plot_put_svg : plot_put_png, &drawing, fault);
	drawing_deinit(&drawing);
	return r;
}

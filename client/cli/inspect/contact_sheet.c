/* contact_sheet: see contact_sheet.h. */
#include "client/cli/inspect/contact_sheet.h"

#include "base/util.h"
#include "client/cli/catalog.h"
#include "client/cli/draw/thumb.h"
#include "client/cli/inspect/sheet_style.h"
#include "decode/decode.h"
#include "pixel/pixel.h"
#include "proto/philox.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
	SHEET_BELOW = 6, /* pixels between an image and its first line of letters */
	SHEET_LINES = 3, /* the class, the file, the number and what was done */
};

struct sheet_pen {
	const struct contact_sheet *sheet;
	struct canvas *canvas;
	struct decoder *decoder;
	struct catalog_bytes bytes;
	struct thumb thumb;
	struct contact_sheet_blank blank;
	char name
		[512]; /* the last part of the loaded sample's path, as much as fits under a cell */
};

static int sheet_cell_width(const struct contact_sheet *sheet)
{
	return 2 * (int)sheet->tile + SHEET_GAP;
}

/* Returns 1. */
static int sheet_leave_blank(struct sheet_pen *pen, uint64_t number, const char *why)
{
	if (!pen->blank.rows++) {
		pen->blank.sample = number;
		(void)fault_set(&pen->blank.why, -EIO, "%s", why);
	}
	return 1;
}

/* Makes a thumbnail of a sample's source in `pen->thumb`. 0; 1 if it is broken; or a negative
 * errno. */
static int sheet_load(struct sheet_pen *pen, uint64_t number, struct fault *fault)
{
	const struct concat *parts = pen->sheet->parts;
	struct sample sample;
	/* The dataset may have changed since the daemon opened it. */
	if (number >= concat_samples(parts))
		return fault_set(fault, -ESTALE,
			"there is no sample %" PRIu64 " any more: the dataset has %" PRIu64, number,
			concat_samples(parts));
	struct sampler_pick pick = concat_find(parts, number);
	int r = catalog_read(parts->dataset[pick.part], pick.number, &pen->bytes, &sample, fault);
	if (r < 0)
		return r;
	const char *slash = strrchr(sample.name, '/');
	font_fit(FONT_TEXT, slash ? slash + 1 : sample.name, sheet_cell_width(pen->sheet),
		FONT_CUT_MIDDLE, pen->name, sizeof pen->name);
	if (r > 0)
		return sheet_leave_blank(pen, number, fault->text);
	r = thumb_make(&pen->thumb, pen->decoder, pen->bytes.data, sample.size);
	if (r < 0)
		return fault_set(fault, r, "not enough memory to decode a source");
	return r > 0 ? sheet_leave_blank(pen, number, decoder_message(pen->decoder)) : 0;
}

/* The group of a row, and the row's number among the group's images. */
static const struct contact_sheet_group *sheet_group(
	const struct contact_sheet *sheet, uint32_t row, uint32_t *ret_at)
{
	const struct contact_sheet_group *group = sheet->group;
	uint32_t view = row % sheet->info->views;
	for (; view >= group->views && group + 1 < sheet->group + sheet->groups; group++)
		view -= group->views;
	*ret_at = row / sheet->info->views * group->views + view;
	return group;
}

/* The part of the source that the row shows, in source pixels: the crop, or what a center crop or a
 * random crop leaves. */
static void sheet_visible(
	const struct contact_sheet *sheet, const struct penstock_sample *s, double ret_box[4])
{
	uint32_t at;
	const struct pixel_recipe *recipe = &sheet_group(sheet, s->view, &at)->recipe;
	struct pixel_plan plan;
	pixel_plan_from_crop(recipe, s->crop_x, s->crop_y, s->crop_w, s->crop_h, false, s->src_w,
		s->src_h, &plan);
	struct pixel_key key = {.seed = philox_salted(sheet->info->seed, sheet->info->salt),
		.position = s->position,
		.epoch = (uint32_t)sheet->batch->epoch,
		.view = s->view};
	pixel_plan_place(recipe, &key, &plan);
	double sx = (double)plan.crop_w / plan.resize_w, sy = (double)plan.crop_h / plan.resize_h;
	ret_box[0] = plan.crop_x + plan.window_x * sx;
	ret_box[1] = plan.crop_y + plan.window_y * sy;
	ret_box[2] = plan.window_w * sx;
	ret_box[3] = plan.window_h * sy;
}

static void sheet_draw_source(struct sheet_pen *pen, const struct penstock_sample *s, int x, int y)
{
	const struct thumb *thumb = &pen->thumb;
	int tile = (int)pen->sheet->tile;
	struct canvas_box box = {
		x + (tile - thumb->w) / 2, y + (tile - thumb->h) / 2, thumb->w, thumb->h};
	canvas_image(pen->canvas, box, thumb->rgb, thumb->w, thumb->h);
	double visible[4], sx = (double)thumb->w / s->src_w, sy = (double)thumb->h / s->src_h;
	sheet_visible(pen->sheet, s, visible);
	struct canvas_box crop = {
		.x = box.x + (int)(visible[0] * sx + 0.5),
		.y = box.y + (int)(visible[1] * sy + 0.5),
		.w = UTIL_MAX((int)(visible[2] * sx + 0.5), 1),
		.h = UTIL_MAX((int)(visible[3] * sy + 0.5), 1),
	};
	canvas_dim(pen->canvas, box, crop, 45);
	/* A dark line inside the bright one keeps it visible on bright images. */
	canvas_frame(pen->canvas, crop, 3, SHEET_INK);
	canvas_frame(pen->canvas, crop, 2, SHEET_CROP);
}

static void sheet_draw_row(const struct sheet_pen *pen, unsigned row, int x, int y)
{
	const struct contact_sheet *sheet = pen->sheet;
	const struct penstock_sample *s = &sheet->batch->samples[row];
	uint32_t at;
	const struct contact_sheet_group *group = sheet_group(sheet, row, &at);
	const int tile = (int)sheet->tile, width = (int)group->width, height = (int)group->height;
	const struct canvas_box box =
		canvas_fit((struct canvas_box){x, y, tile, tile}, width, height);
	const uint8_t *pixels = group->images + (size_t)at * group->height * group->width * 3;
	canvas_image(pen->canvas, box, pixels, width, height);
	if (s->flags & (PENSTOCK_INVALID | PENSTOCK_SUBSTITUTED))
		canvas_frame(pen->canvas, box, 3,
			s->flags & PENSTOCK_INVALID ? SHEET_RED : SHEET_ORANGE);
}

static void sheet_class(const struct sheet_pen *pen, int64_t label, char *out, size_t room)
{
	const struct dataset *dataset =
		pen->sheet->parts->dataset[0]; /* all its datasets have the same classes */
	if (label < 0)
		(void)snprintf(out, room, "no label");
	else if (label < dataset_classes(dataset))
		(void)snprintf(out, room, "%s", dataset_class_name(dataset, (uint32_t)label));
	else
		(void)snprintf(out, room, "label %" PRId64, label);
}

/* One of the float labels of a sample: a class that it has, or a number. */
static int sheet_value(const struct dataset *dataset, uint32_t i, float value, const char *comma,
	char *out, size_t room)
{
	if (dataset_label_type(dataset) == LABEL_TYPE_FLOAT)
		return snprintf(out, room, "%s%g", comma, (double)value);
	if (value <= 0)
		return 0;
	if (i < dataset_classes(dataset))
		return snprintf(out, room, "%s%s", comma, dataset_class_name(dataset, i));
	return snprintf(out, room, "%s%" PRIu32, comma, i);
}

static void sheet_values(const struct sheet_pen *pen, unsigned row, char *out, size_t room)
{
	const struct contact_sheet *sheet = pen->sheet;
	const struct dataset *dataset = sheet->parts->dataset[0];
	uint32_t width = sheet->info->label_width;
	const float *value =
		sheet->batch->label_values + (size_t)(row / sheet->info->views) * width;
	size_t at = 0;
	for (uint32_t i = 0; i < width && at < room; i++)
		at += (size_t)sheet_value(
			dataset, i, value[i], at ? ", " : "", out + at, room - at);
	if (!at)
		(void)snprintf(out, room, "no label");
}

/* The classes of a sample that has several. */
static void sheet_classes(const struct sheet_pen *pen, unsigned row, char *out, size_t room)
{
	const struct contact_sheet *sheet = pen->sheet;
	const uint32_t width = sheet->info->label_width;
	const int64_t *label = sheet->batch->labels + (size_t)(row / sheet->info->views) * width;
	size_t at = 0;
	for (uint32_t i = 0; i < width && at + 4 < room; i++) {
		if (i)
			at += (size_t)snprintf(out + at, room - at, ", ");
		sheet_class(pen, label[i], out + at, room - at);
		at += strlen(out + at);
	}
}

/* "#12 flipped": a sample's number and what was done to it. */
static void sheet_marks(
	const struct sheet_pen *pen, const struct penstock_sample *s, int x, int y, int width)
{
	static const struct {
		uint32_t flag, color;
		const char *word;
	} marks[] = {{PENSTOCK_INVALID, SHEET_RED, " broken"},
		{PENSTOCK_SUBSTITUTED, SHEET_ORANGE, " substitute"},
		{PENSTOCK_FLIPPED, SHEET_GRAY, " flipped"},
		{PENSTOCK_FLIPPED_VERTICALLY, SHEET_GRAY, " upside down"}};
	char number[48];
	(void)snprintf(number, sizeof number, "#%" PRIu64, s->index);
	int at = canvas_text(pen->canvas, x, y, FONT_TEXT, width, SHEET_GRAY, number);
	for (size_t i = 0; i < UTIL_COUNT(marks); i++)
		if (s->flags & marks[i].flag)
			at += canvas_text(pen->canvas, x + at, y, FONT_TEXT, width - at,
				marks[i].color, marks[i].word);
}

static void sheet_caption(const struct sheet_pen *pen, unsigned row, int x, int y, int width)
{
	const struct penstock_sample *s = &pen->sheet->batch->samples[row];
	char class[256];
	if (pen->sheet->batch->label_values)
		sheet_values(pen, row, class, sizeof class);
	else if (pen->sheet->info->label_width > 1)
		sheet_classes(pen, row, class, sizeof class);
	else
		sheet_class(pen, s->label, class, sizeof class);
	(void)canvas_text(pen->canvas, x, y, FONT_TEXT, width, SHEET_INK, class);
	(void)canvas_text(pen->canvas, x, y + SHEET_LINE, FONT_TEXT, width, SHEET_GRAY, pen->name);
	sheet_marks(pen, s, x, y + 2 * SHEET_LINE, width);
}

static int sheet_cell_height(const struct contact_sheet *sheet)
{
	return (int)sheet->tile + SHEET_BELOW + SHEET_LINES * SHEET_LINE;
}

static int sheet_cell(struct sheet_pen *pen, unsigned row, struct fault *fault)
{
	const struct contact_sheet *sheet = pen->sheet;
	const struct penstock_sample *s = &sheet->batch->samples[row];
	int tile = (int)sheet->tile, width = sheet_cell_width(sheet);
	int x = SHEET_MARGIN + (int)(row % sheet->columns) * (width + SHEET_GUTTER);
	int y = SHEET_MARGIN + SHEET_HEAD +
		(int)(row / sheet->columns) * (sheet_cell_height(sheet) + SHEET_GUTTER);
	canvas_fill(pen->canvas, (struct canvas_box){x, y, tile, tile}, SHEET_EMPTY);
	int r = sheet_load(pen, s->index, fault);
	if (r < 0)
		return r;
	/* The record of a broken sample holds no sizes. */
	if (r == 0 && s->src_w && s->src_h)
		sheet_draw_source(pen, s, x, y);
	sheet_draw_row(pen, row, x + tile + SHEET_GAP, y);
	canvas_frame(
		pen->canvas, (struct canvas_box){x - 1, y - 1, tile + 2, tile + 2}, 1, SHEET_EDGE);
	sheet_caption(pen, row, x, y + tile + SHEET_BELOW, width);
	return 0;
}

static int sheet_cells(struct sheet_pen *pen, struct fault *fault)
{
	const struct contact_sheet *sheet = pen->sheet;
	int r = 0;
	sheet_head(pen->canvas, sheet->title, sheet->subtitle);
	for (unsigned row = 0; row < sheet->rows && r == 0; row++)
		r = sheet_cell(pen, row, fault);
	return r;
}

int contact_sheet_draw(const struct contact_sheet *sheet, struct canvas *ret_canvas,
	struct contact_sheet_blank *ret_blank, struct fault *fault)
{
	unsigned columns = UTIL_MIN(sheet->columns, sheet->rows),
		 lines = (sheet->rows + sheet->columns - 1) / sheet->columns;
	int width = 2 * SHEET_MARGIN + (int)columns * (sheet_cell_width(sheet) + SHEET_GUTTER) -
		    SHEET_GUTTER;
	int height = 2 * SHEET_MARGIN + SHEET_HEAD +
		     (int)lines * (sheet_cell_height(sheet) + SHEET_GUTTER) - SHEET_GUTTER;
	struct canvas canvas;
	struct decode_limits limits = decode_limits_default();
	struct sheet_pen pen = {.sheet = sheet, .canvas = &canvas};
	/* The stream has judged the images, by limits of its own. */
	limits.pixels = UINT64_MAX;
	if (canvas_init(&canvas, width, height, SHEET_PAPER) < 0)
		return fault_set(fault, -ENOMEM,
			"not enough memory for an image of %d x %d pixels; draw fewer --rows",
			width, height);
	int r = thumb_init(&pen.thumb, sheet->tile) == 0
			? decoder_new(&limits, &pen.decoder, fault)
			: fault_set(fault, -ENOMEM, "not enough memory for a thumbnail");
	if (r == 0)
		r = sheet_cells(&pen, fault);
	decoder_free(pen.decoder);
	catalog_bytes_free(&pen.bytes);
	thumb_deinit(&pen.thumb);
	if (r < 0)
		canvas_deinit(&canvas);
	else
		*ret_canvas = canvas;
	*ret_blank = pen.blank;
	return r;
}

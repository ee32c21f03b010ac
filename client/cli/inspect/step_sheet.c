/* step_sheet: see step_sheet.h.
 *
 * The image after a step is what the recipe that ends with this step makes: the kinds of steps
 * identify draws, so leaving off later steps changes nothing before them. Where the steps decide
 * the size (PIXEL_WHOLE), there is no head, and each image has a size of its own. */
#include "client/cli/inspect/step_sheet.h"

#include "augment/augment.h"
#include "augment/erase.h"
#include "base/util.h"
#include "client/cli/draw/thumb.h"
#include "client/cli/inspect/sheet_style.h"
#include "proto/slots.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	STEP_SHEET_NAMES = 270, /* pixels of the column of descriptions */
	STEP_SHEET_LINES = 4, /* lines of small letters under an image */
	STEP_SHEET_GAP = SHEET_GUTTER / 2,
};

/* The recipe up to and including a step that is not nested. */
struct step_sheet_stage {
	struct step_recipe recipe;
	struct augmenter *augmenter; /* or, without a head, */
	struct sequence *sequence;
};

struct step_sheet_pen {
	const struct step_sheet *trace;
	struct canvas *canvas;
	struct row_maker maker;
	struct thumb thumb;
	struct step_sheet_stage *stage; /* NULL, or for each step that is not nested */
	unsigned stages;
	struct step_plan *plan; /* of the stage before, and of this stage */
	uint8_t *picture, *head; /* height x width x 3 */
};

/* ---- one cell ---- */

static bool step_sheet_is_whole(const struct step_sheet *trace)
{
	return trace->head.kind == PIXEL_WHOLE;
}

/* The lines before those of the stages: the source, and the head. */
static unsigned step_sheet_first_line(const struct step_sheet *trace)
{
	return step_sheet_is_whole(trace) ? 1 : 2;
}

static int step_sheet_line_height(const struct step_sheet *trace)
{
	return (int)trace->tile + 4 + STEP_SHEET_LINES * SHEET_SMALL_LINE + STEP_SHEET_GAP;
}

/* The bytes of the text's first words that fit into `width` pixels; at least one word. */
static size_t step_sheet_words(const char *text, int width)
{
	char line[STEP_SHEET_TEXT];
	size_t fitting = 0;
	for (size_t at = strcspn(text, " ");; at += 1 + strcspn(text + at + 1, " ")) {
		(void)snprintf(line, sizeof line, "%.*s", (int)at, text);
		if (fitting && font_width(FONT_SMALL, line) > width)
			return fitting;
		fitting = at;
		if (!text[at])
			return fitting;
	}
}

/* Draws small letters, broken at blanks into at most `lines` lines. */
static void step_sheet_text(
	struct canvas *canvas, struct canvas_box box, int lines, const char *text)
{
	for (int i = 0; i < lines && *text; i++, box.y += SHEET_SMALL_LINE) {
		char line[STEP_SHEET_TEXT];
		size_t cut = i + 1 < lines ? step_sheet_words(text, box.w) : strlen(text);
		(void)snprintf(line, sizeof line, "%.*s", (int)cut, text);
		(void)canvas_text(canvas, box.x, box.y, FONT_SMALL, box.w, SHEET_GRAY, line);
		text += cut;
		text += strspn(text, " ");
	}
}

static struct canvas_box step_sheet_box(
	const struct step_sheet_pen *pen, unsigned line, unsigned column)
{
	int tile = (int)pen->trace->tile;
	return (struct canvas_box){
		SHEET_MARGIN + STEP_SHEET_NAMES + (int)column * (tile + STEP_SHEET_GAP),
		SHEET_MARGIN + SHEET_HEAD + (int)line * step_sheet_line_height(pen->trace), tile,
		tile};
}

static void step_sheet_cell(struct step_sheet_pen *pen, unsigned line, unsigned column,
	struct pixel_size size, const uint8_t *rgb, const char *caption)
{
	struct canvas_box box = step_sheet_box(pen, line, column);
	canvas_image(pen->canvas, canvas_fit(box, (int)size.width, (int)size.height), rgb,
		(int)size.width, (int)size.height);
	box.y += box.h + 4;
	step_sheet_text(pen->canvas, box, STEP_SHEET_LINES, caption);
}

/* Describes the ops of `plan` from number `from` on, as far as there is room. */
static void step_sheet_caption(
	const struct step_plan *plan, uint32_t from, char *buffer, size_t room)
{
	size_t at = 0;
	*buffer = 0;
	for (uint32_t i = from; i < plan->count && at < room; i++) {
		char op[64];
		op_text(&plan->op[i], op, sizeof op);
		at += (size_t)snprintf(buffer + at, room - at, "%s%s", i > from ? ", " : "", op);
	}
}

static void step_sheet_source(
	struct step_sheet_pen *pen, unsigned column, const struct slots_record *record)
{
	const struct thumb *thumb = &pen->thumb;
	struct canvas_box cell = step_sheet_box(pen, 0, column);
	struct canvas_box box = {cell.x + (cell.w - thumb->w) / 2, cell.y + (cell.h - thumb->h) / 2,
		thumb->w, thumb->h};
	double sx = (double)thumb->w / record->src_w, sy = (double)thumb->h / record->src_h;
	struct canvas_box crop = {
		box.x + (int)(record->crop_x * sx + 0.5),
		box.y + (int)(record->crop_y * sy + 0.5),
		UTIL_MAX((int)(record->crop_w * sx + 0.5), 1),
		UTIL_MAX((int)(record->crop_h * sy + 0.5), 1),
	};
	canvas_fill(pen->canvas, cell, SHEET_EMPTY);
	canvas_image(pen->canvas, box, thumb->rgb, thumb->w, thumb->h);
	canvas_dim(pen->canvas, box, crop, 45);
	canvas_frame(pen->canvas, crop, 3, SHEET_INK);
	canvas_frame(pen->canvas, crop, 2, SHEET_CROP);
}

/* ---- one draw ---- */

static int step_sheet_head(struct step_sheet_pen *pen, unsigned column, struct fault *fault)
{
	const struct step_sheet *trace = pen->trace;
	struct slots_record record = {0};
	char caption[STEP_SHEET_TEXT];
	int r = row_make(&pen->maker, trace->data, trace->size, &trace->head, &trace->key[column],
		NULL, pen->head, &record);
	if (r < 0)
		return fault_set(fault, r, "not enough memory to decode the image");
	if (r > 0) {
		(void)fault_set(fault, 0, "%s: %s", decode_outcome_name((enum decode_outcome)r),
			decoder_message(pen->maker.decoder));
		return 1;
	}
	(void)snprintf(caption, sizeof caption, "%u,%u %ux%u%s%s", record.crop_x, record.crop_y,
		record.crop_w, record.crop_h, record.flags & SLOTS_FLIPPED ? " flipped" : "",
		record.flags & SLOTS_FLIPPED_VERTICALLY ? " upside down" : "");
	step_sheet_source(pen, column, &record);
	step_sheet_cell(pen, 1, column, trace->head.size, pen->head, caption);
	return 0;
}

static void step_sheet_erase(struct step_sheet_pen *pen, const struct step_plan *plan,
	const struct pixel_key *key, struct pixel_size size)
{
	const struct erase_row row = {
		.type = SLOTS_U8, .layout = SLOTS_NHWC, .width = size.width, .height = size.height};
	for (uint32_t i = 0; i < plan->count; i++)
		if (plan->op[i].kind == OP_ERASE)
			op_erase(&plan->op[i], &row, key, pen->picture);
}

static void step_sheet_step(
	struct step_sheet_pen *pen, unsigned stage, unsigned column, uint32_t *before)
{
	const struct step_sheet *trace = pen->trace;
	const struct pixel_size size = trace->head.size;
	struct step_plan *plan = pen->plan;
	char caption[STEP_SHEET_TEXT];
	step_plan(&pen->stage[stage].recipe, &trace->key[column], size.width, size.height, plan);
	memcpy(augmenter_image(pen->stage[stage].augmenter), pen->head,
		(size_t)size.height * size.width * 3);
	augmenter_run(pen->stage[stage].augmenter, plan, size.width, size.height, pen->picture);
	step_sheet_erase(pen, plan, &trace->key[column], size);
	step_sheet_caption(plan, *before, caption, sizeof caption);
	*before = plan->count;
	step_sheet_cell(pen, stage + step_sheet_first_line(trace), column, size, pen->picture,
		*caption ? caption : "-");
}

/* ---- one draw of a list without a head ---- */

static int step_sheet_refuse(const char *text, int outcome, struct fault *fault)
{
	if (outcome < 0)
		return fault_set(fault, outcome, "%s",
			*text ? text : "not enough memory to decode the image");
	(void)fault_set(
		fault, 0, "%s: %s", decode_outcome_name((enum decode_outcome)outcome), text);
	return 1;
}

static int step_sheet_decode(struct step_sheet_pen *pen, struct sequence *sequence,
	const struct pixel_key *key, struct fault *fault)
{
	struct row_maker *maker = &pen->maker;
	const struct sequence_tools tools = {
		maker->decoder, maker->sink, maker->max_side, &maker->beyond};
	struct decode_info info;
	struct pixel_region region;
	int r = decoder_begin(maker->decoder, pen->trace->data, pen->trace->size, &info);
	if (r != DECODE_OK)
		return step_sheet_refuse(decoder_message(maker->decoder), r, fault);
	const struct pixel_size source = {info.height, info.width};
	sequence_start(sequence, &tools, key, source, false, NULL, &region);
	const struct pixel_size size = sequence_size(sequence);
	uint8_t *picture = realloc(pen->picture, (size_t)size.height * size.width * 3);
	if (!picture) {
		decoder_abort(maker->decoder);
		return fault_set(fault, -ENOMEM, "not enough memory for the images");
	}
	pen->picture = picture;
	sequence_start(sequence, &tools, key, source, false, picture, &region);
	const struct decode_region wanted = {region.x0, region.y0, region.x1, region.y1};
	r = decoder_rows(maker->decoder, wanted, false, sequence_row, sequence);
	if (r != DECODE_OK) {
		sequence_abort(sequence);
		return step_sheet_refuse(decoder_message(maker->decoder), r, fault);
	}
	r = sequence_end(sequence);
	return r == DECODE_OK ? 0 : step_sheet_refuse(sequence_text(sequence), r, fault);
}

static int step_sheet_whole_step(struct step_sheet_pen *pen, unsigned stage, unsigned column,
	uint32_t *before, struct fault *fault)
{
	struct sequence *sequence = pen->stage[stage].sequence;
	const struct pixel_key *key = &pen->trace->key[column];
	char caption[STEP_SHEET_TEXT];
	int r = step_sheet_decode(pen, sequence, key, fault);
	if (r != 0)
		return r;
	const struct step_plan *plan = sequence_ops(sequence);
	step_sheet_erase(pen, plan, key, plan->size);
	step_sheet_caption(plan, *before, caption, sizeof caption);
	*before = plan->count;
	step_sheet_cell(pen, stage + step_sheet_first_line(pen->trace), column, plan->size,
		pen->picture, *caption ? caption : "-");
	return 0;
}

static int step_sheet_whole_column(struct step_sheet_pen *pen, unsigned column, struct fault *fault)
{
	struct decode_info info;
	uint32_t before = 0;
	int r = decoder_begin(pen->maker.decoder, pen->trace->data, pen->trace->size, &info);
	if (r != DECODE_OK)
		return step_sheet_refuse(decoder_message(pen->maker.decoder), r, fault);
	decoder_abort(pen->maker.decoder);
	const struct slots_record record = {.crop_w = info.width,
		.crop_h = info.height,
		.src_w = info.width,
		.src_h = info.height};
	step_sheet_source(pen, column, &record);
	for (unsigned i = 0; i < pen->stages && r == 0; i++)
		r = step_sheet_whole_step(pen, i, column, &before, fault);
	return r;
}

static int step_sheet_column(struct step_sheet_pen *pen, unsigned column, struct fault *fault)
{
	uint32_t before = 0;
	if (step_sheet_is_whole(pen->trace))
		return step_sheet_whole_column(pen, column, fault);
	int r = step_sheet_head(pen, column, fault);
	for (unsigned i = 0; i < pen->stages && r == 0; i++)
		step_sheet_step(pen, i, column, &before);
	return r;
}

/* ---- the whole sheet ---- */

static void step_sheet_name(struct step_sheet_pen *pen, unsigned line, const char *name)
{
	struct canvas_box box = step_sheet_box(pen, line, 0);
	char first[STEP_SHEET_TEXT];
	size_t n = strcspn(name, " ");
	box.x = SHEET_MARGIN;
	box.w = STEP_SHEET_NAMES - 10;
	(void)snprintf(first, sizeof first, "%.*s", (int)n, name);
	(void)canvas_text(pen->canvas, box.x, box.y, FONT_TEXT, box.w, SHEET_INK, first);
	box.y += SHEET_LINE;
	step_sheet_text(pen->canvas, box, (box.h - SHEET_LINE) / SHEET_SMALL_LINE,
		name + n + strspn(name + n, " "));
}

static void step_sheet_names(struct step_sheet_pen *pen)
{
	const struct step_sheet *trace = pen->trace;
	sheet_head(pen->canvas, trace->title, trace->subtitle);
	step_sheet_name(pen, 0, "source");
	if (!step_sheet_is_whole(trace))
		step_sheet_name(pen, 1, trace->head_name);
	for (unsigned i = 0; i < pen->stages; i++)
		step_sheet_name(pen, i + step_sheet_first_line(trace), trace->step_name[i]);
}

/* Makes one stage per step that is not nested. */
static int step_sheet_stages(struct step_sheet_pen *pen, struct fault *fault)
{
	const struct step_recipe *steps = pen->trace->steps;
	pen->stage = calloc(UTIL_MAX(steps->count, 1u), sizeof *pen->stage);
	if (!pen->stage)
		return fault_set(fault, -ENOMEM, "not enough memory for an image of each step");
	for (uint32_t i = 0; i < steps->count; i += 1 + steps->step[i].inside) {
		struct step_sheet_stage *stage = &pen->stage[pen->stages++];
		stage->recipe = *steps;
		stage->recipe.count = i + 1 + steps->step[i].inside;
		int r = step_sheet_is_whole(pen->trace)
				? sequence_new(&stage->recipe, &stage->sequence, fault)
				: augmenter_new(&stage->recipe, pixel_longer(pen->trace->head.size),
					  &stage->augmenter, fault);
		if (r < 0)
			return r;
	}
	return 0;
}

static int step_sheet_prepare(struct step_sheet_pen *pen, struct fault *fault)
{
	const struct step_sheet *trace = pen->trace;
	struct decode_limits limits = decode_limits_default();
	size_t bytes = (size_t)trace->head.size.height * trace->head.size.width * 3;
	/* The stream has judged the images, by limits of its own. */
	limits.pixels = UINT64_MAX;
	pen->plan = malloc(sizeof *pen->plan);
	pen->picture = malloc(bytes);
	pen->head = malloc(bytes);
	if (!pen->plan || !pen->picture || !pen->head || thumb_init(&pen->thumb, trace->tile) < 0)
		return fault_set(fault, -ENOMEM, "not enough memory for the images");
	int r = row_maker_init(&pen->maker, &limits, pixel_longer(trace->head.size), fault);
	return r < 0 ? r : step_sheet_stages(pen, fault);
}

static void step_sheet_finish(struct step_sheet_pen *pen)
{
	for (unsigned i = 0; i < pen->stages; i++) {
		augmenter_free(pen->stage[i].augmenter);
		sequence_free(pen->stage[i].sequence);
	}
	row_maker_deinit(&pen->maker);
	thumb_deinit(&pen->thumb);
	free(pen->stage);
	free(pen->plan);
	free(pen->picture);
	free(pen->head);
}

static int step_sheet_canvas(
	const struct step_sheet_pen *pen, struct canvas *canvas, struct fault *fault)
{
	const struct step_sheet *trace = pen->trace;
	int tile = (int)trace->tile, lines = (int)(pen->stages + step_sheet_first_line(trace)),
	    draws = (int)trace->draws;
	int width = 2 * SHEET_MARGIN + STEP_SHEET_NAMES + draws * (tile + STEP_SHEET_GAP) -
		    STEP_SHEET_GAP;
	int height = 2 * SHEET_MARGIN + SHEET_HEAD + lines * step_sheet_line_height(trace);
	if (canvas_init(canvas, width, height, SHEET_PAPER) < 0)
		return fault_set(fault, -ENOMEM,
			"not enough memory for an image of %d x %d pixels; draw fewer --draws",
			width, height);
	return 0;
}

static int step_sheet_fill(struct step_sheet_pen *pen, struct canvas *canvas, struct fault *fault)
{
	const struct step_sheet *trace = pen->trace;
	int r = thumb_make(&pen->thumb, pen->maker.decoder, trace->data, trace->size);
	if (r > 0)
		(void)fault_set(fault, 0, "%s", decoder_message(pen->maker.decoder));
	if (r != 0)
		return r > 0 ? r : fault_set(fault, r, "not enough memory to decode the image");
	r = step_sheet_canvas(pen, canvas, fault);
	if (r < 0)
		return r;
	pen->canvas = canvas;
	step_sheet_names(pen);
	for (unsigned i = 0; i < trace->draws && r == 0; i++)
		r = step_sheet_column(pen, i, fault);
	if (r != 0)
		canvas_deinit(canvas);
	return r;
}

int step_sheet_draw(const struct step_sheet *trace, struct canvas *ret_canvas, struct fault *fault)
{
	struct step_sheet_pen pen = {.trace = trace};
	int r = step_sheet_prepare(&pen, fault);
	if (r == 0)
		r = step_sheet_fill(&pen, ret_canvas, fault);
	step_sheet_finish(&pen);
	return r;
}

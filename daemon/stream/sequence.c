/* sequence: see sequence.h. Runs on workers, or in the threads of the command. */
#include "stream/sequence.h"

#include "augment/augment.h"
#include "augment/kernels/kernels.h"
#include "base/util.h"
#include "definition/transforms/transforms.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEQUENCE_PIXEL = 3, SEQUENCE_TEXT = 512 };

/* What is done to one sample. */
struct sequence_course {
	struct step_plan plan;
	struct pixel_size source;
	bool resizes; /* the sink does the first op */
	uint32_t first; /* of the ops that are done in memory */
	struct pixel_region region;
	struct pixel_size size; /* of the image before them */
	struct pixel_recipe head; /* for the sink */
	struct pixel_plan head_plan;
};

struct sequence {
	const struct step_recipe *recipe;
	const struct augment_kernels *kernels;
	struct raster raster;
	/* For any sample: the decoder asks for regions while rows of another image arrive. */
	struct sequence_course draft;
	/* The sample, from sequence_start on. */
	struct sequence_course course;
	struct sequence_tools tools;
	uint8_t *out;
	uint8_t *image; /* where the image before the ops in memory is; NULL: no row has arrived */
	struct augment_room room;
	uint32_t rows;
	int error;
	char text[SEQUENCE_TEXT];
};

uint64_t sequence_bytes(void)
{
	return sizeof(struct sequence) + raster_bytes(RASTER_OWN);
}

int sequence_new(const struct step_recipe *recipe, struct sequence **ret, struct fault *fault)
{
	const struct augment_kernels *kernels;
	int result = augment_kernels_choose(&kernels, fault);
	if (result < 0)
		return result;
	struct sequence *sequence = calloc(1, sizeof *sequence);
	if (!sequence || raster_init(&sequence->raster, RASTER_OWN)) {
		free(sequence);
		return fault_set(fault, -ENOMEM, "no memory for decoding whole images");
	}
	sequence->recipe = recipe;
	sequence->kernels = kernels;
	*ret = sequence;
	return 0;
}

void sequence_free(struct sequence *sequence)
{
	if (!sequence)
		return;
	raster_deinit(&sequence->raster);
	free(sequence);
}

/* ---- the plan ---- */

/* Whether ops are left that are not OP_ERASE. */
static bool sequence_has_ops(const struct sequence_course *course)
{
	return course->first < course->plan.count &&
	       course->plan.op[course->first].kind != OP_ERASE;
}

static void sequence_region_box(
	struct sequence_course *course, uint32_t x, uint32_t y, uint32_t w, uint32_t h)
{
	course->region = (struct pixel_region){x, y, x + w, y + h};
	course->size = (struct pixel_size){h, w};
}

/* A first crop: the decoder leaves out the rest. */
static void sequence_head_window(struct sequence_course *course, const struct op *op)
{
	const struct pad_axis *x = &op->axis[0], *y = &op->axis[1];
	if (!pad_is_inside(x) || !pad_is_inside(y))
		return;
	sequence_region_box(course, x->place - x->before - x->more, y->place - y->before - y->more,
		x->window, y->window);
	course->first = 1;
}

/* A first resize, which the sink does. */
static void sequence_head_resize(struct sequence_course *course, const struct op *op, bool fast)
{
	struct pixel_plan *plan = &course->head_plan;
	course->head = (struct pixel_recipe){
		.kind = PIXEL_CROP, .size = {op->height, op->width}, .filter = op->filter};
	*plan = (struct pixel_plan){.crop_x = op->box.x,
		.crop_y = op->box.y,
		.crop_w = op->box.w,
		.crop_h = op->box.h,
		.filter = op->filter,
		.resize_w = op->width,
		.resize_h = op->height,
		.window_w = op->width,
		.window_h = op->height};
	if (fast)
		pixel_plan_shrink(plan);
	pixel_plan_region(plan, &course->region);
	course->size = course->head.size;
	course->resizes = true;
	course->first = 1;
}

static void sequence_plan_course(const struct sequence *sequence,
	const struct sequence_tools *tools, const struct pixel_key *key, struct pixel_size size,
	bool fast, struct sequence_course *course)
{
	struct step_plan *plan = &course->plan;
	const struct op *op = plan->op;
	course->source = size;
	course->first = 0;
	course->resizes = false;
	course->head_plan.shrink = 0;
	sequence_region_box(course, 0, 0, size.width, size.height);
	step_plan(sequence->recipe, key, size.width, size.height, plan);
	if (plan->refusal)
		sequence_region_box(course, 0, 0, 1, 1);
	else if (plan->count && op->kind == OP_WINDOW)
		sequence_head_window(course, op);
	else if (plan->count && op->kind == OP_RESIZE && op->width <= tools->max_side &&
		 op->height <= tools->max_side)
		sequence_head_resize(course, op, fast);
}

void sequence_plan(struct sequence *sequence, const struct sequence_tools *tools,
	const struct pixel_key *key, struct pixel_size size, bool fast, struct pixel_region *ret,
	uint8_t *ret_shrink)
{
	sequence_plan_course(sequence, tools, key, size, fast, &sequence->draft);
	*ret = sequence->draft.region;
	*ret_shrink = sequence->draft.head_plan.shrink;
}

/* ---- the rows ---- */

void sequence_start(struct sequence *sequence, const struct sequence_tools *tools,
	const struct pixel_key *key, struct pixel_size size, bool fast, uint8_t *out,
	struct pixel_region *ret)
{
	const struct sequence_course *course = &sequence->course;
	sequence_abort(sequence);
	sequence_plan_course(sequence, tools, key, size, fast, &sequence->course);
	sequence->tools = *tools;
	sequence->out = out;
	sequence->image = NULL;
	sequence->rows = 0;
	sequence->error = 0;
	*ret = course->region;
	if (course->resizes)
		pixel_sink_begin(tools->sink, &course->head, &course->head_plan, out, ret);
}

/* Gets memory when the first row is here: raster.h says why not before. */
static int sequence_take(struct sequence *sequence)
{
	const struct sequence_tools *tools = &sequence->tools;
	sequence->image = sequence->out;
	if (sequence_has_ops(&sequence->course)) {
		augment_room(&sequence->course.plan, sequence->course.first, sequence->course.size,
			&sequence->room);
		bool wait = !decoder_borrows(tools->decoder);
		int result = raster_take(&sequence->raster, tools->beyond, sequence->room.bytes,
			wait, &sequence->image);
		if (result)
			return result;
	}
	if (sequence->course.resizes)
		pixel_sink_place(tools->sink, sequence->image);
	return 0;
}

void sequence_row(void *sequence, const uint8_t *const rgb[DECODE_PLANES])
{
	struct sequence *own = sequence;
	if (own->error || own->course.plan.refusal)
		return;
	if (!own->image)
		own->error = sequence_take(own);
	if (own->error)
		return;
	if (own->course.resizes) {
		pixel_sink_row(own->tools.sink, rgb);
		return;
	}
	size_t row = (size_t)SEQUENCE_PIXEL * own->course.size.width;
	pixel_sink_weave(
		own->tools.sink, own->image + row * own->rows++, rgb, own->course.size.width);
}

/* ---- the end ---- */

static int sequence_refused(struct sequence *sequence)
{
	const struct step_plan *plan = &sequence->course.plan;
	const char *name = transforms_name(plan->refused);
	if (plan->refusal == STEP_E_SMALL) {
		(void)snprintf(sequence->text, sizeof sequence->text,
			"the image of %" PRIu32 " x %" PRIu32 " pixels has %" PRIu32 " x %" PRIu32
			" before %s, too few for it: resize before it, or set pad_if_needed of "
			"RandomCrop",
			sequence->course.source.width, sequence->course.source.height,
			plan->at.width, plan->at.height, name);
		return DECODE_E_SMALL;
	}
	(void)snprintf(sequence->text, sizeof sequence->text,
		"%s would make the image of %" PRIu32 " x %" PRIu32 " pixels, which has %" PRIu32
		" x %" PRIu32 " then, larger than %d a side or than max_image_pixels",
		name, sequence->course.source.width, sequence->course.source.height, plan->at.width,
		plan->at.height, OP_SIDE_MAX);
	return DECODE_E_PIXELS;
}

int sequence_end(struct sequence *sequence)
{
	const struct sequence_tools *tools = &sequence->tools;
	if (sequence->course.plan.refusal)
		return sequence_refused(sequence);
	if (sequence->error) {
		int error = sequence->error;
		char text[RASTER_TEXT];
		(void)snprintf(sequence->text, sizeof sequence->text, "%s",
			raster_text(tools->beyond, sequence->room.bytes, error, text));
		sequence_abort(sequence);
		return error;
	}
	assert(sequence->image);
	if (sequence->course.resizes)
		pixel_sink_end(tools->sink);
	if (sequence_has_ops(&sequence->course))
		augment_run(sequence->kernels, tools->sink, &sequence->course.plan,
			sequence->course.first, sequence->course.size, &sequence->room,
			sequence->image, sequence->out);
	sequence_abort(sequence);
	return DECODE_OK;
}

void sequence_abort(struct sequence *sequence)
{
	raster_give_back(&sequence->raster);
	sequence->image = NULL;
}

const char *sequence_text(const struct sequence *sequence)
{
	return sequence->text;
}

const struct step_plan *sequence_ops(const struct sequence *sequence)
{
	return &sequence->course.plan;
}

struct pixel_size sequence_size(const struct sequence *sequence)
{
	return sequence->course.plan.size;
}

/* op: see op.h. Pure. */
#include "augment/op.h"

#include "base/util.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static const char *const op_names[OP_KINDS] = {
	[OP_FLIP_HORIZONTAL] = "horizontal flip",
	[OP_FLIP_VERTICAL] = "vertical flip",
	[OP_BRIGHTNESS] = "brightness",
	[OP_CONTRAST] = "contrast",
	[OP_SATURATION] = "saturation",
	[OP_HUE] = "hue",
	[OP_GRAYSCALE] = "grayscale",
	[OP_INVERT] = "invert",
	[OP_POSTERIZE] = "posterize",
	[OP_SOLARIZE] = "solarize",
	[OP_EQUALIZE] = "equalize",
	[OP_AUTOCONTRAST] = "autocontrast",
	[OP_SHARPNESS] = "sharpness",
	[OP_BLUR] = "blur",
	[OP_PILLOW_BLUR] = "Pillow's blur",
	[OP_AFFINE] = "affine",
	[OP_PERSPECTIVE] = "perspective",
	[OP_ROTATE_QUARTERS] = "rotate by quarters",
	[OP_ERASE] = "erase",
	[OP_AUGMIX] = "AugMix",
	[OP_CHAIN] = "chain",
	[OP_TIMM_MIX] = "AugMix of timm",
	[OP_TIMM_BLEND] = "AugMix of timm, blended",
	[OP_SOLARIZE_ADD] = "solarize add",
	[OP_WINDOW] = "window",
	[OP_RESIZE] = "resize",
};

bool op_mixes(enum op_kind kind)
{
	return kind == OP_AUGMIX || kind == OP_TIMM_MIX || kind == OP_TIMM_BLEND;
}

struct pixel_size op_size(const struct op *op, struct pixel_size size)
{
	return op->width ? (struct pixel_size){op->height, op->width} : size;
}

uint32_t op_length(const struct op *ops)
{
	uint32_t length = 1;
	for (uint32_t c = 0; op_mixes(ops->kind) && c < ops->chains; c++) {
		assert(ops[length].kind == OP_CHAIN);
		length += 1 + ops[length].length;
	}
	return length;
}

static bool op_has_amount(enum op_kind kind)
{
	switch (kind) {
	case OP_BRIGHTNESS:
	case OP_CONTRAST:
	case OP_SATURATION:
	case OP_HUE:
	case OP_POSTERIZE:
	case OP_SOLARIZE:
	case OP_SHARPNESS:
	case OP_PILLOW_BLUR:
	case OP_ROTATE_QUARTERS:
	case OP_CHAIN:
	case OP_SOLARIZE_ADD:
		return true;
	default:
		return false;
	}
}

/* Describes what the matrix does to the image; it maps the output to the source. */
static void op_text_affine(const struct op *op, char *buffer, size_t room)
{
	const double *m = op->matrix, degree = 57.29577951308232;
	bool level = m[3] == 0 && m[4] == 1, upright = m[0] == 1 && m[1] == 0;
	double length = hypot(m[0], m[1]);
	if (level && upright)
		(void)snprintf(buffer, room, "shift %.3g %.3g", 0 - m[2], 0 - m[5]);
	else if (level && m[0] == 1)
		(void)snprintf(buffer, room, "shear x %.3g", -m[1]);
	else if (upright && m[4] == 1)
		(void)snprintf(buffer, room, "shear y %.3g", -m[3]);
	else if (fabs(m[0] - m[4]) + fabs(m[1] + m[3]) < 1e-9 && fabs(length - 1) < 1e-9)
		(void)snprintf(buffer, room, "rotate %.3g", degree * atan2(m[3], m[0]));
	else
		(void)snprintf(buffer, room, "%s", op_names[op->kind]);
}

/* Describes the place of a window in the image, and the size. */
static void op_text_window(const struct op *op, char *buffer, size_t room)
{
	const struct pad_axis *x = &op->axis[0], *y = &op->axis[1];
	(void)snprintf(buffer, room, "%s %" PRId64 ",%" PRId64 " %" PRIu32 "x%" PRIu32,
		pad_is_inside(x) && pad_is_inside(y) ? "crop" : "pad",
		(int64_t)x->place - x->before - x->more, (int64_t)y->place - y->before - y->more,
		op->width, op->height);
}

static void op_text_resize(const struct op *op, char *buffer, size_t room)
{
	(void)snprintf(buffer, room,
		"%" PRIu32 ",%" PRIu32 " %" PRIu32 "x%" PRIu32 " to %" PRIu32 "x%" PRIu32,
		op->box.x, op->box.y, op->box.w, op->box.h, op->width, op->height);
}

void op_text(const struct op *op, char *buffer, size_t room)
{
	if (op->kind == OP_AFFINE) {
		op_text_affine(op, buffer, room);
		return;
	}
	if (op->kind == OP_WINDOW) {
		op_text_window(op, buffer, room);
		return;
	}
	if (op->kind == OP_RESIZE) {
		op_text_resize(op, buffer, room);
		return;
	}
	if (op_has_amount(op->kind))
		(void)snprintf(buffer, room, "%s %.3g", op_names[op->kind], op->amount);
	else if (op->kind == OP_ERASE)
		(void)snprintf(buffer, room, "%s %" PRIu32 ",%" PRIu32 " %" PRIu32 "x%" PRIu32,
			op_names[op->kind], op->box.x, op->box.y, op->box.w, op->box.h);
	else if (op->kind == OP_BLUR)
		(void)snprintf(buffer, room, "%s %.3g", op_names[op->kind], op->sigma[0]);
	else
		(void)snprintf(buffer, room, "%s", op_names[op->kind]);
}

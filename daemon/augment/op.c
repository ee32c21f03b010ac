/* op: see op.h. Pure. */
#include "augment/op.h"

#include "base/util.h"

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
};

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
		return true;
	default:
		return false;
	}
}

void op_text(const struct op *op, char *buffer, size_t room)
{
	if (op_has_amount(op->kind))
		(void)snprintf(buffer, room, "%s %.3g", op_names[op->kind], op->amount);
	else if (op->kind == OP_BLUR)
		(void)snprintf(buffer, room, "%s %.3g", op_names[op->kind], op->sigma[0]);
	else
		(void)snprintf(buffer, room, "%s", op_names[op->kind]);
}

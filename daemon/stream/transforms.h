/* transforms: what a stream does to each image, as a list of operations with torchvision's names,
 * parameters and defaults.
 *
 * transforms.c has the one table of operations: for each its parameters (type, range, default) and
 * which operations may stand before it. Reading, printing and comparing walk that table, so a new
 * operation is a line there, its parameters, and what transforms_pixels makes of it. Where a list
 * is wrong the refusal names file, line and column, the operation, the parameter, and what is
 * allowed.
 *
 * Pure functions over the caller's text; any thread. */
#pragma once

#include "augment/step.h"
#include "base/fault.h"
#include "base/yaml.h"
#include "pixel/pixel.h"
#include "proto/jsontext.h"

#include <stdbool.h>
#include <stdint.h>

/* Places in the table. */
enum transforms_kind {
	TRANSFORMS_RANDOM_RESIZED_CROP,
	TRANSFORMS_RESIZE,
	TRANSFORMS_CENTER_CROP,
	TRANSFORMS_RANDOM_HORIZONTAL_FLIP,
	TRANSFORMS_RANDOM_VERTICAL_FLIP,
	TRANSFORMS_KINDS,
};

/* One number or [height, width]; torchvision's Resize tells them apart. */
struct transforms_size {
	uint32_t side;
	bool both; /* written as two */
};

/* An operation: those of the fields that its table in transforms.c names. */
struct transforms_op {
	enum transforms_kind kind;
	struct transforms_size size;
	double scale[2], ratio[2]; /* least, most */
	double p;
	enum weights_filter interpolation;
	bool antialias; /* always true */
};

enum { TRANSFORMS_MAX = 16 };

struct transforms {
	uint32_t count; /* 0: not given */
	struct transforms_op op[TRANSFORMS_MAX];
};

/* A reader of struct yaml_key: `field` is a struct transforms, which is written on success alone.
 * The list makes images of one size, 1 .. 2,048 on a side. 0, -EINVAL. */
int transforms_read(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);

/* The same of a text by itself; `origin` is what messages call it. 0, -EINVAL, -ENOMEM. */
int transforms_parse(const char *text, size_t size, const char *origin, struct transforms *ret,
	struct fault *fault);

/* The list with every parameter spelled out. */
void transforms_json(struct jsontext *json, const char *key, const struct transforms *transforms);

/* "RandomResizedCrop 176, RandomHorizontalFlip": for people. What differs from the defaults follows
 * the name. Cut to the room. */
void transforms_text(const struct transforms *transforms, char *buffer, size_t room);

/* What it comes to, of a list that was read; `fast` is the caller's to set. */
struct pixel_recipe transforms_pixels(const struct transforms *transforms);

/* What is done to the images once they have their size; count 0: nothing, as of an empty list. */
void transforms_steps(const struct transforms *transforms, struct step_recipe *ret);

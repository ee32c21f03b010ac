/* transforms: what a stream does to each image, as a list of operations with torchvision's names,
 * parameters and defaults.
 *
 *   transforms.c          this door: lists of operations, their order, and what they come to
 *   transforms_table.c    the one table: operations, their parameters, ranges and defaults
 *   transforms_values.c   kinds of parameters: read, told apart and written
 *
 * The list begins with what gives images their size; what stands behind are steps (augment/step.h),
 * but for flips directly behind the sizing, which cost nothing there. An operation that holds
 * others (RandomApply, ...) is followed by them. Reading, printing and comparing walk the table, so
 * a new operation is a line there and its parameters. Where a list is wrong the refusal names file,
 * line and column, the operation, the parameter, and what is allowed.
 *
 * Pure functions over the caller's text; any thread, with 128 KiB of its stack. */
#pragma once

#include "augment/step.h"
#include "base/fault.h"
#include "base/yaml.h"
#include "pixel/pixel.h"
#include "proto/jsontext.h"

#include <stdbool.h>
#include <stdint.h>

/* Places in the table: what sizes, then the steps. */
enum transforms_kind {
	TRANSFORMS_RANDOM_RESIZED_CROP,
	TRANSFORMS_RESIZE,
	TRANSFORMS_CENTER_CROP,
	TRANSFORMS_RANDOM_CROP,
	TRANSFORMS_SIZINGS,
	TRANSFORMS_KINDS = TRANSFORMS_SIZINGS + STEP_KINDS,
};

/* Of a step. */
#define TRANSFORMS_STEP(step_kind) ((enum transforms_kind)(TRANSFORMS_SIZINGS + (step_kind)))

/* One number or [height, width]; torchvision's Resize tells them apart. */
struct transforms_size {
	uint32_t side;
	bool both; /* written as two */
};

/* An operation: those of the fields that its parameters in the table name. */
struct transforms_op {
	enum transforms_kind kind;
	struct transforms_size size;
	bool antialias; /* always true */
	bool expand; /* always false */
	uint32_t num_output_channels; /* always 3 */
	uint32_t padding[4]; /* left, top, right, bottom */
	bool pad_if_needed;
	enum pixel_padding_mode padding_mode;
	uint32_t within; /* how many stand directly within it; step.inside counts all */
	uint32_t chances; /* how many were written of RandomChoice's p; 0: all are as likely */
	/* What sizes has scale, ratio, interpolation and fill here too. `chances` as written. */
	struct step step;
};

enum {
	TRANSFORMS_MAX = STEP_MAX + 4, /* Resize, CenterCrop and two flips besides the steps */
	TRANSFORMS_SIDE_MAX = 2048,
	TRANSFORMS_DEPTH_MAX = 4, /* lists inside one another, below the outermost */
	TRANSFORMS_JSON_MAX = 24576, /* bytes that transforms_json writes at most */
};

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

/* The list with every parameter spelled out: reads back as the same. */
void transforms_json(struct jsontext *json, const char *key, const struct transforms *transforms);

/* "RandomResizedCrop 176, RandomApply 0.8 (ColorJitter, GaussianBlur 23)": for people. What differs
 * from the defaults follows the name. Cut to the room. */
void transforms_text(const struct transforms *transforms, char *buffer, size_t room);

/* What gives the images their size, and flips directly behind it; `fast` is the caller's to set. */
struct pixel_recipe transforms_pixels(const struct transforms *transforms);

/* What is done to the images once they have their size; count 0: nothing, as of an empty list. */
void transforms_steps(const struct transforms *transforms, struct step_recipe *ret);

/* Feeds the steps into a running hash; a list without any leaves it as it is. */
uint64_t transforms_hash(uint64_t h, const struct transforms *transforms);

/* How large images have to be at least for all steps: GaussianBlur's kernel reaches no further than
 * they are wide. 1: any. */
uint32_t transforms_least_side(const struct transforms *transforms);

/* Why RandomErasing's value cannot be written into rows of bytes; NULL: it can, or there is none.
 */
const char *transforms_byte_fault(const struct transforms *transforms);

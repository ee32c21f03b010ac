/* transforms: what a stream does to each image: a list of operations with torchvision's names,
 * parameters and defaults.
 *
 * The list begins with the operations that give images their size. Steps (augment/step.h) follow,
 * except for flips directly after the sizing, which cost nothing there. In the array, an operation
 * that contains others (RandomApply, ...) is followed by them. Reading, printing and comparing walk
 * one table (transforms_table.c), so a new operation is a line there and its parameters. A refusal
 * names file, line and column, the operation, the parameter, and what is allowed.
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

/* The operations in the order of the table: those that set the size, then the steps. */
enum transforms_kind {
	TRANSFORMS_RANDOM_RESIZED_CROP,
	TRANSFORMS_RESIZE,
	TRANSFORMS_CENTER_CROP,
	TRANSFORMS_RANDOM_CROP,
	TRANSFORMS_SIZINGS,
	TRANSFORMS_KINDS = TRANSFORMS_SIZINGS + STEP_KINDS,
};

/* The operation of a step. */
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
	uint32_t within; /* operations directly within it; step.inside counts all levels */
	uint32_t chances; /* how many numbers RandomChoice's p has; 0: all are equally likely */
	/* An operation that sets the size keeps scale, ratio, interpolation and fill here too. */
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

/* A reader of struct yaml_key: `field` is a struct transforms, which is written only on success. The
 * list must make images of one size, 1 .. 2,048 pixels wide and high. 0, -EINVAL. */
int transforms_read(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);

/* The same for a text of its own; `origin` is what messages call it. 0, -EINVAL, -ENOMEM. */
int transforms_parse(const char *text, size_t size, const char *origin, struct transforms *ret,
	struct fault *fault);

/* The list with every parameter spelled out: reads back as the same. */
void transforms_json(struct jsontext *json, const char *key, const struct transforms *transforms);

/* Writes "RandomResizedCrop 176, RandomApply 0.8 (ColorJitter, GaussianBlur 23)", for people: the
 * parameters that differ from the defaults follow the name. Cut to the room. */
void transforms_text(const struct transforms *transforms, char *buffer, size_t room);

/* The operations that give images their size, and flips directly after them. The caller sets `fast`.
 */
struct pixel_recipe transforms_pixels(const struct transforms *transforms);

/* The steps after the sizing; count 0: none, as in an empty list. */
void transforms_steps(const struct transforms *transforms, struct step_recipe *ret);

/* Adds the steps to a running hash; a list without steps leaves it unchanged. */
uint64_t transforms_hash(uint64_t h, const struct transforms *transforms);

/* The least size that all steps accept: GaussianBlur's kernel must not reach further than the image
 * is wide. 1: any size. */
uint32_t transforms_least_side(const struct transforms *transforms);

/* Why RandomErasing's value cannot be written into uint8 rows; NULL: it can, or the list has no
 * RandomErasing. */
const char *transforms_byte_fault(const struct transforms *transforms);

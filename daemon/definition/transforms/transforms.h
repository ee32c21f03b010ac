/* transforms: what a stream does to each image: a list of operations with torchvision's names,
 * parameters and defaults.
 *
 * Operations may have any order, as long as all images end with one size (transforms_sizes.h). Most
 * lists begin with the operations that give images their size, and no later one changes it. Then
 * the decoder delivers only what the crop needs, steps (augment/step.h) follow, and flips directly
 * after the sizing cost nothing. In all other lists every operation is a step, and images may have
 * to be decoded as a whole (transforms_whole).
 *
 * In the array, an operation that contains others (RandomApply, ...) is followed by them. The
 * functions that read, print and compare walk one table (transforms_table.c), so a new operation
 * needs only a line there and its parameters. A refusal names the file, line and column, the
 * operation, the parameter and the allowed values.
 *
 * A map of this folder:
 *   transforms.[ch]         the list: read, written, compared, and what it means for pixels
 *   transforms_sizes.[ch]   which sizes images have after each operation
 *   transforms_table.[ch]   the operations, their parameters, ranges and defaults
 *   transforms_values.c     the kinds of parameters: read, compared and written
 *   transforms_timm.[ch]    timm's strings for its policies
 *
 * Pure functions over the caller's text; any thread that has 256 KiB of stack. */
#pragma once

#include "augment/step.h"
#include "base/fault.h"
#include "base/text/yaml.h"
#include "pixel/pixel.h"
#include "proto/jsontext.h"

#include <stdbool.h>
#include <stdint.h>

/* The kinds of operations are those of steps. */
enum transforms_kind {
	TRANSFORMS_RANDOM_RESIZED_CROP = STEP_RANDOM_RESIZED_CROP,
	TRANSFORMS_RESIZE = STEP_RESIZE,
	TRANSFORMS_CENTER_CROP = STEP_CENTER_CROP,
	TRANSFORMS_RANDOM_CROP = STEP_RANDOM_CROP,
	TRANSFORMS_SIZINGS, /* the kinds before it can be the head of a list */
	TRANSFORMS_KINDS = STEP_KINDS,
};

/* The kind of operation for a kind of step. */
#define TRANSFORMS_STEP(step_kind) ((enum transforms_kind)(step_kind))

/* One number or [height, width], which mean different things to torchvision's Resize. */
struct transforms_size {
	struct pixel_size size; /* a square if it is written as one number */
	bool both; /* written as two numbers */
};

/* An operation uses only the fields that its parameters in the table name. */
struct transforms_op {
	enum transforms_kind kind;
	struct transforms_size size;
	bool antialias; /* always true */
	uint32_t num_output_channels; /* always 3 */
	uint32_t padding[4]; /* left, top, right, bottom */
	bool pad_if_needed;
	enum pixel_padding_mode padding_mode;
	uint32_t within; /* operations directly within it; step.inside counts all levels */
	uint32_t chances; /* number of values in RandomChoice's p; 0: all are equally likely */
	/* The other parameters. transforms_steps sets its size and padding from those above. */
	struct step step;
};

enum {
	TRANSFORMS_MAX = STEP_MAX + 4, /* the steps, plus Resize, CenterCrop and two flips */
	TRANSFORMS_SIDE_MAX = 4096,
	TRANSFORMS_DEPTH_MAX = 4, /* levels of nested lists below the outermost */
	TRANSFORMS_JSON_MAX = 24576, /* the most bytes that transforms_json writes */
};

struct transforms {
	uint32_t count; /* 0: not given */
	struct transforms_op op[TRANSFORMS_MAX];
};

/* A reader for struct yaml_key: `field` is a struct transforms, which is written only on success.
 * The list must make images of one size, 1 .. 4,096 pixels wide and high. 0, -EINVAL. */
int transforms_read(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);

/* The same for a text that is only a list. Messages call it `origin`. 0, -EINVAL or -ENOMEM. */
int transforms_parse(const char *text, size_t size, const char *origin, struct transforms *ret,
	struct fault *fault);

/* Writes the list with all parameters. Reading it back gives the same list. */
void transforms_json(struct jsontext *json, const char *key, const struct transforms *transforms);

/* Writes "RandomResizedCrop 176, RandomApply 0.8 (ColorJitter, GaussianBlur 23)", for people: the
 * parameters that differ from the defaults follow the name. Truncates to the room. */
void transforms_text(const struct transforms *transforms, char *buffer, size_t room);

/* "RandomCrop" */
const char *transforms_name(enum step_kind kind);

/* Whether all operations are steps, and images are decoded as a whole, except for what a first crop
 * leaves out. */
bool transforms_whole(const struct transforms *transforms);

/* The operations that give images their size, and flips directly after them. The caller sets
 * `fast`. */
struct pixel_recipe transforms_pixels(const struct transforms *transforms);

/* The steps after the sizing; count 0: none, as in an empty list. The caller sets `pixels`. */
void transforms_steps(const struct transforms *transforms, struct step_recipe *ret);

/* Adds the steps to a running hash; a list without steps leaves it unchanged. */
uint64_t transforms_hash(uint64_t h, const struct transforms *transforms);

/* The smallest size that all steps accept: half of GaussianBlur's kernel must be narrower than the
 * image. 1: any size. */
struct pixel_size transforms_least_size(const struct transforms *transforms);

/* The reason why uint8 rows cannot hold RandomErasing's value. NULL if they can, or if the list
 * has no RandomErasing. */
const char *transforms_byte_fault(const struct transforms *transforms);

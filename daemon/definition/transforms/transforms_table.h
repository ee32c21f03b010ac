/* transforms_table: the operations of transforms.h, and the kinds of parameters that they have.
 * Only for the files of transforms. */
#pragma once

#include "definition/transforms/transforms.h"

#include <stddef.h>

/* The allowed positions of an operation in a list. */
enum transforms_place {
	TRANSFORMS_ANYWHERE,
	TRANSFORMS_LAST, /* and only once, not within others */
};

struct transforms_rule {
	const char *name;
	const struct yaml_key *keys; /* fields of struct transforms_op */
	size_t key_count;
	enum transforms_place place;
	/* For a required first key: what is expected, and an example. NULL: the key is optional. */
	const char *first, *example;
	struct transforms_op defaults; /* torchvision's */
	/* The key that may be given in place of the first one, or beside it; 0: none. */
	size_t besides;
	/* The key that replaces the first one and excludes all keys before it; 0: none. */
	size_t instead;
};

extern const struct transforms_rule transforms_rules[TRANSFORMS_KINDS];

/* Readers of parameters, for yaml_key.read_as. The field is an array if the comment names more than
 * one value. Each value must be within the key's low .. high, or min .. max. */
typedef int transforms_reader(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault);

transforms_reader transforms_read_size; /* struct transforms_size, 1 .. max */
transforms_reader transforms_read_range; /* [least, most], the most above 0 */
transforms_reader transforms_read_factor; /* f: [max(0, 1 - f), 1 + f], or [least, most] */
transforms_reader transforms_read_hue; /* h: [-h, h], or [least, most] */
transforms_reader transforms_read_angle; /* d: [-d, d], or [least, most] */
transforms_reader transforms_read_shear; /* as angle; or [x least, x most, y least, y most] */
transforms_reader transforms_read_sigma; /* s: [s, s], or [least, most], above 0 */
transforms_reader
	transforms_read_radius; /* r: [r, r], or [least, most]; records that it was given */
transforms_reader transforms_read_pair; /* [x, y] */
transforms_reader transforms_read_center; /* [x, y]; records that it was given */
transforms_reader transforms_read_kernel; /* n or [width, height], odd */
transforms_reader transforms_read_padding; /* n, [x, y] or [left, top, right, bottom] */
transforms_reader transforms_read_fill; /* n or three, whole */
transforms_reader transforms_read_value; /* n, three or "random" */
transforms_reader transforms_read_depth; /* int32_t, -1 or min .. max */
transforms_reader transforms_read_warp_filter; /* enum weights_filter: three of them */
transforms_reader transforms_read_timm_filter; /* the same and "random" */
transforms_reader transforms_read_timm; /* a string of timm's: fields of the step */
transforms_reader transforms_read_translate; /* low .. high; below 0 if it was not given */
transforms_reader transforms_read_antialias; /* true */
transforms_reader transforms_read_longest; /* uint32_t, min .. max; 0: not given */
transforms_reader transforms_read_sizes; /* n or several of them; records how many */
transforms_reader transforms_read_channels; /* 3 */
transforms_reader transforms_read_chances; /* RandomChoice's p; records their number */
/* A list of operations: checks only that it is a list and not empty. transforms.c reads the
 * items. */
transforms_reader transforms_read_within;

/* The key "transforms" of an operation that contains others; NULL if it contains none. */
const struct yaml_key *transforms_within(const struct transforms_rule *rule);

enum { TRANSFORMS_VALUES = STEP_SAME_MAX };

/* Whether a parameter that excludes others was not given: nothing is printed or hashed for it. */
bool transforms_excluded(const struct yaml_key *key, const struct transforms_op *op);

/* The value of a parameter as numbers, by which two are compared. Returns the number of numbers. */
size_t transforms_values(
	const struct yaml_key *key, const struct transforms_op *op, double ret[TRANSFORMS_VALUES]);

/* The number of operations of the same kind before operation i. */
uint32_t transforms_same(const struct transforms *transforms, uint32_t i);

void transforms_apply_padding(const struct transforms_op *op, struct pixel_padding *ret);

/* The operation as a step. */
void transforms_step(const struct transforms *transforms, uint32_t i, struct step *ret);

/* Writes the value, if there is one. transforms.c writes the operations within. */
void transforms_value_json(
	struct jsontext *json, const struct yaml_key *key, const struct transforms_op *op);

/* Writes a blank and the value if it differs from the default; otherwise an empty text. */
void transforms_value_text(const struct yaml_key *key, const struct transforms_op *op,
	const struct transforms_op *plain, char *buffer, size_t room);

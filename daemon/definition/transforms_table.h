/* transforms_table: the operations of transforms.h, and the kinds of parameters they have. Between
 * the files of transforms alone. */
#pragma once

#include "definition/transforms.h"

#include <stddef.h>

/* Where an operation may stand. */
enum transforms_place {
	TRANSFORMS_FIRST, /* and only once */
	TRANSFORMS_FIRST_OR_BEHIND_RESIZE,
	TRANSFORMS_BEHIND, /* what sizes; also within others */
	TRANSFORMS_LAST,
};

struct transforms_rule {
	const char *name;
	const struct yaml_key *keys; /* fields of struct transforms_op */
	size_t key_count;
	enum transforms_place place;
	/* The first key has to be written: what is expected, and an example. NULL: it has not. */
	const char *first, *example;
	struct transforms_op defaults; /* torchvision's */
};

extern const struct transforms_rule transforms_rules[TRANSFORMS_KINDS];

/* "expected right after Resize, or first": for refusals. */
const char *transforms_place_text(enum transforms_place place);

/* Readers of parameters, for yaml_key.read_as; the field is an array where more than one value is
 * named. Ranges are the key's low .. high, or min .. max. */
typedef int transforms_reader(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault);

transforms_reader transforms_read_size; /* struct transforms_size, 1 .. max */
transforms_reader transforms_read_range; /* [least, most], the most above 0 */
transforms_reader transforms_read_factor; /* f: [max(0, 1 - f), 1 + f], or [least, most] */
transforms_reader transforms_read_hue; /* h: [-h, h], or [least, most] */
transforms_reader transforms_read_angle; /* d: [-d, d], or [least, most] */
transforms_reader transforms_read_shear; /* as angle, of x; or [x least, x most, y least, y most] */
transforms_reader transforms_read_sigma; /* s: [s, s], or [least, most], above 0 */
transforms_reader transforms_read_pair; /* [x, y] */
transforms_reader transforms_read_center; /* [x, y]; notes that there is one */
transforms_reader transforms_read_kernel; /* n or [width, height], odd */
transforms_reader transforms_read_padding; /* n, [x, y] or [left, top, right, bottom] */
transforms_reader transforms_read_fill; /* n or three, whole */
transforms_reader transforms_read_value; /* n, three or "random" */
transforms_reader transforms_read_depth; /* int32_t, -1 or min .. max */
transforms_reader transforms_read_warp_filter; /* enum weights_filter: three of them */
transforms_reader transforms_read_antialias; /* true */
transforms_reader transforms_read_expand; /* false */
transforms_reader transforms_read_channels; /* 3 */
transforms_reader transforms_read_chances; /* of RandomChoice; how many is noted */
/* Of operations: only that it is one, and not empty. transforms.c reads what is in it. */
transforms_reader transforms_read_within;

/* "transforms" of an operation that holds others; NULL: it holds none. */
const struct yaml_key *transforms_within(const struct transforms_rule *rule);

enum { TRANSFORMS_VALUES = STEP_SAME_MAX };

/* What a parameter comes to, as numbers: two are the same when these are. Returns how many. */
size_t transforms_values(
	const struct yaml_key *key, const struct transforms_op *op, double ret[TRANSFORMS_VALUES]);

/* Writes it, where there is a value; what is within is written by transforms.c. */
void transforms_value_json(
	struct jsontext *json, const struct yaml_key *key, const struct transforms_op *op);

/* With a blank before it where it is not as it is by default; otherwise nothing. */
void transforms_value_text(const struct yaml_key *key, const struct transforms_op *op,
	const struct transforms_op *plain, char *buffer, size_t room);

/* transforms_sizes: which sizes images can have after each operation of a list.
 *
 * All images of a batch have one size. So a list must end with one, whatever the size of the file
 * and whatever is drawn. This is decided when the list is read, from the least and the most that
 * each side can have: after RandomChoice, that of all its operations together; after RandomOrder,
 * that of all orders. Images in between may differ: a sample whose image becomes larger than
 * OP_SIDE_MAX a side or than max_image_pixels is broken. Pure functions. */
#pragma once

#include "definition/transforms/transforms.h"

/* Whole pixels; equal if every image has that size. */
struct transforms_sides {
	uint64_t least_width, most_width, least_height, most_height;
	uint32_t
		opener; /* the operation that leaves the size open; TRANSFORMS_MAX: none gave one */
};

/* The sizes before and after each operation. */
struct transforms_sizes {
	struct transforms_sides before[TRANSFORMS_MAX];
	struct transforms_sides last; /* after the list */
	uint32_t orders; /* 1 + the place of a RandomOrder of too many operations; 0: none */
};

enum { TRANSFORMS_ORDERS_MAX = 6 };

void transforms_find_sizes(const struct transforms *transforms, struct transforms_sizes *ret);

bool transforms_sides_are_one(const struct transforms_sides *sides);

/* Whether the operation, or one within it, can change the size of images. */
bool transforms_changes_size(const struct transforms *transforms, uint32_t i);

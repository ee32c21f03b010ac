/* column_choice: which columns of a container hold the image and the label (keys `image_column`,
 * `label_column` and `label_offset`).
 *
 * Parquet, MDS and LitData have columns; a TFRecord has the features of a tf.Example, and CIFAR-100
 * two lists of labels. Their index depends on this choice, so an index that was built for other
 * columns is another index (column_choice_hash). Plain data. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { COLUMN_NAME_MAX = 255 };

struct column_choice {
	char image[COLUMN_NAME_MAX + 1]; /* "": the container guesses, or refuses to */
	char label[COLUMN_NAME_MAX + 1]; /* the same */
	/* Added to each label that is one class: -1 for the TFRecords of ImageNet, whose classes
	 * begin with 1. */
	int32_t label_offset;
};

/* A hash that an index is known by; 0 if nothing was chosen. */
uint64_t column_choice_hash(const struct column_choice *choice);
bool column_choice_equal(const struct column_choice *a, const struct column_choice *b);

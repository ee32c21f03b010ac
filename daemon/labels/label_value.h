/* label_value: one sample's label as a .json or a manifest gives it.
 *
 *   integer, name             CLASS
 *   list of them              MULTI_HOT: no class twice; an empty list is a row of zeros
 *   number, list of numbers   FLOAT, if one has a fraction or if numbers were asked for
 *   integers and names        CLASSES, if asked for: in their order, a class may come twice
 *
 * Classes are 0 to 2^31-1, or below the number of `classes`; those of MULTI_HOT are below
 * LABEL_WIDTH_MAX. Numbers must be finite as float32. Pure. */
#pragma once

#include "base/fault.h"
#include "labels/label_classes.h"
#include "labels/label_rule.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* The number that fits after a name of one byte; fewer fit after longer names. */
enum { LABEL_VALUES_MAX = LABEL_NAME_ROOM / 4 - 1 };

struct label_found {
	enum label_type type;
	uint32_t count;
	int32_t first; /* the first class of the list; -1: none */
	union {
		uint32_t class[LABEL_VALUES_MAX]; /* MULTI_HOT: ascending after label_found_end */
		float number[LABEL_VALUES_MAX];
	};
};

/* Begins an empty label of a type other than AUTO. */
void label_found_begin(struct label_found *found, enum label_type type);

/* Each adds one value. 0, or -EINVAL with a fault. `classes` may have no names. */
int label_found_class(struct label_found *found, int64_t number,
	const struct label_classes *classes, struct fault *fault);
int label_found_name(struct label_found *found, const char *name, size_t size,
	const struct label_classes *classes, struct fault *fault);
int label_found_number(struct label_found *found, double number, struct fault *fault);

/* Sorts the classes of MULTI_HOT. 0, or -EINVAL with a fault if one of them appears twice, if a
 * CLASS does not have exactly one, or if CLASSES has none. */
int label_found_end(struct label_found *found, struct fault *fault);

/* Takes a JSON value as type `asked`; AUTO: the type of the value. 0, or -EINVAL with a fault that
 * begins with what was expected. */
int label_from_value(const json_t *value, enum label_type asked,
	const struct label_classes *classes, struct label_found *ret, struct fault *fault);

enum label_word {
	LABEL_WORD_NAME, /* none of the following */
	LABEL_WORD_INTEGER, /* only digits */
	LABEL_WORD_WHOLE, /* an integer with a sign */
	LABEL_WORD_FRACTION, /* a number with a point or an exponent; also nan and inf */
};

/* Classifies a word. */
enum label_word label_word(const char *text, size_t size);

/* The value of a zero-terminated word that is not a NAME; may be NaN or infinite. */
double label_word_number(const char *text);

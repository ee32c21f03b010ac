/* features: what Hugging Face's `datasets` notes about the columns of a file, in the footer's pair
 * "huggingface": a JSON text whose {"info": {"features": {...}}} gives each column's type, and for
 * a ClassLabel the names of the classes. Pure; memory is that of the JSON text, of which a value
 * may have 100 times its bytes: there are at most 2^20. */
#pragma once

#include "base/fault.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct features {
	json_t *root; /* NULL: the file has no notes */
	json_t *columns; /* borrowed from root; an object, or NULL */
};

/* `text` may be NULL. Notes that are not JSON, or have too many values, are a fault: -EINVAL.
 * -ENOMEM. */
int features_read(struct features *features, const char *text, size_t size, const char *path,
	struct fault *fault);
void features_deinit(struct features *features);

/* The type of a column: "Image", "ClassLabel", "Value"; NULL: unknown. */
const char *features_type(const struct features *features, const char *column);

/* The names of the classes of a column that is a ClassLabel or a list of them, as a JSON array of
 * strings; NULL: it has none. */
const json_t *features_classes(const struct features *features, const char *column);

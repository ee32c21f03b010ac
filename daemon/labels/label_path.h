/* label_path: a place in a JSON document, as `labels: {json: PATH}` writes it.
 *
 * Parts are separated by dots and lead from the document's root: in an object a part is a key, in a
 * list it is a number counted from 0. A dot or a backslash that belongs to a key is written with a
 * backslash before it: "boxes.0.category", "a\.b.c". Pure. */
#pragma once

#include "base/fault.h"

#include <jansson.h>
#include <stddef.h>

enum { LABEL_PATH_PARTS = 32, LABEL_PATH_TEXT = 4096 };

struct label_path {
	size_t parts;
	const char *part[LABEL_PATH_PARTS]; /* in `text`, zero-terminated */
	char text[LABEL_PATH_TEXT];
};

/* 0, or -EINVAL with a fault that says at which byte. `ret` must not be moved afterwards. */
int label_path_parse(const char *text, struct label_path *ret, struct fault *fault);

/* The value at that place, borrowed from `root`. NULL with a fault that says which part is missing;
 * a null counts as missing. */
const json_t *label_path_find(
	const struct label_path *path, const json_t *root, struct fault *fault);

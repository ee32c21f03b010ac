/* features: see features.h. */
#include "dataset/container/parquet/features.h"

#include "labels/label_json.h"

#include <errno.h>

enum { FEATURES_DEPTH = 8, FEATURES_PARTS = 1 << 20 };

int features_read(struct features *features, const char *text, size_t size, const char *path,
	struct fault *fault)
{
	*features = (struct features){0};
	if (!text)
		return 0;
	features->root = label_json(text, size, FEATURES_PARTS, fault);
	if (!features->root)
		return fault_prefix(fault, -EINVAL,
			"%s: the notes of `datasets` in its footer (key \"huggingface\")", path);
	json_t *columns = json_object_get(json_object_get(features->root, "info"), "features");
	features->columns = json_is_object(columns) ? columns : NULL;
	return 0;
}

void features_deinit(struct features *features)
{
	json_decref(features->root);
	*features = (struct features){0};
}

const char *features_type(const struct features *features, const char *column)
{
	return json_string_value(
		json_object_get(json_object_get(features->columns, column), "_type"));
}

const json_t *features_classes(const struct features *features, const char *column)
{
	const json_t *found = json_object_get(features->columns, column);
	const json_t *names = NULL;
	/* Sequence(ClassLabel) is {"feature": {...}, "_type": "Sequence"} or a list with one
	 * element. */
	for (int depth = 0; found && !names && depth < FEATURES_DEPTH; depth++) {
		names = json_object_get(found, "names");
		found = json_is_array(found) ? json_array_get(found, 0)
					     : json_object_get(found, "feature");
	}
	if (!json_is_array(names) || !json_array_size(names))
		return NULL;
	for (size_t i = 0; i < json_array_size(names); i++)
		if (!json_is_string(json_array_get(names, i)))
			return NULL;
	return names;
}

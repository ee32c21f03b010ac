/* label_path: see label_path.h. */
#include "labels/label_path.h"

#include "labels/label_json.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static int part_end(struct label_path *path, const char *text, size_t at, char **used, size_t size,
	struct fault *fault)
{
	if (size == 0)
		return fault_set(fault, -EINVAL,
			"\"%.100s\" has an empty part before byte %zu: write parts such as "
			"annotations.species.id, and \\. for a dot in a key",
			text, at + 1);
	if (path->parts == LABEL_PATH_PARTS)
		return fault_set(fault, -EINVAL, "\"%.100s\" has more than %d parts", text,
			LABEL_PATH_PARTS);
	path->part[path->parts++] = *used - size;
	*(*used)++ = 0;
	return 0;
}

int label_path_parse(const char *text, struct label_path *ret, struct fault *fault)
{
	char *used = ret->text;
	size_t size = 0, length = strlen(text);
	ret->parts = 0;
	if (length >= LABEL_PATH_TEXT)
		return fault_set(fault, -EINVAL, "the path has %zu bytes: expected at most %d",
			length, LABEL_PATH_TEXT - 1);
	for (size_t i = 0; i <= length; i++) {
		if (text[i] == '.' || i == length) {
			int rc = part_end(ret, text, i, &used, size, fault);
			if (rc < 0)
				return rc;
			size = 0;
			continue;
		}
		if (text[i] == '\\' && text[++i] != '.' && text[i] != '\\')
			return fault_set(fault, -EINVAL,
				"\"%.100s\" has a backslash before byte %zu: expected \\. or \\\\",
				text, i + 1);
		*used++ = text[i];
		size++;
	}
	return 0;
}

static bool part_index(const char *part, size_t *ret)
{
	size_t value = 0;
	for (const char *p = part; *p; p++) {
		if (*p < '0' || *p > '9' || value > 100000000)
			return false;
		value = value * 10 + (size_t)(*p - '0');
	}
	*ret = value;
	return true;
}

static int find_fault(
	const struct label_path *path, size_t i, const json_t *value, struct fault *fault)
{
	const char *within = i ? path->part[i - 1] : "the document";
	if (json_is_object(value))
		return fault_set(
			fault, -EINVAL, "has no \"%.100s\" in %.100s", path->part[i], within);
	if (json_is_array(value))
		return fault_set(fault, -EINVAL,
			"has no element %.100s in %.100s, a list of %zu (they count from 0)",
			path->part[i], within, json_array_size(value));
	return fault_set(fault, -EINVAL, "has %s as %.100s, which has no \"%.100s\"",
		label_json_type(value), within, path->part[i]);
}

const json_t *label_path_find(
	const struct label_path *path, const json_t *root, struct fault *fault)
{
	const json_t *value = root;
	for (size_t i = 0; i < path->parts; i++) {
		size_t index;
		const json_t *next = NULL;
		if (json_is_object(value))
			next = json_object_get(value, path->part[i]);
		else if (json_is_array(value) && part_index(path->part[i], &index))
			next = json_array_get(value, index);
		if (!next) {
			(void)find_fault(path, i, value, fault);
			return NULL;
		}
		value = next;
	}
	if (!json_is_null(value))
		return value;
	(void)fault_set(fault, -EINVAL, "has null as \"%.100s\"",
		path->parts ? path->part[path->parts - 1] : "");
	return NULL;
}

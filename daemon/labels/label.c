/* label: see label.h. */
#include "labels/label.h"

#include "base/util.h"
#include "labels/label_json.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <string.h>

enum { SHOWN = 24 }; /* bytes of the found text that a fault shows */

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static int fault_cls(const char *text, size_t size, struct fault *fault)
{
	char shown[SHOWN + 1];
	size_t n = UTIL_MIN(size, SHOWN);
	for (size_t i = 0; i < n; i++)
		shown[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
	shown[n] = 0;
	return fault_set(fault, -EINVAL, "expected an integer from 0 to %d, found \"%s\"%s",
		INT32_MAX, shown, size > SHOWN ? "..." : "");
}

int label_from_cls(const char *text, size_t size, int32_t *ret, struct fault *fault)
{
	const char *from = text, *end = text + size;
	while (from < end && is_blank(*from))
		from++;
	while (end > from && is_blank(end[-1]))
		end--;
	int64_t value = 0;
	for (const char *p = from; p < end; p++) {
		if (*p < '0' || *p > '9')
			return fault_cls(text, size, fault);
		value = value * 10 + (*p - '0');
		if (value > INT32_MAX)
			return fault_cls(text, size, fault);
	}
	if (from == end)
		return fault_cls(text, size, fault);
	*ret = (int32_t)value;
	return 0;
}

static int take_json(const json_t *root, int32_t *ret, struct fault *fault)
{
	const char *key = json_object_get(root, "label") ? "label" : "cls";
	const json_t *value = json_object_get(root, key);
	if (!value)
		return LABEL_E_NONE;
	if (label_json_odd(value))
		return fault_set(fault, -EINVAL,
			"expected an integer from 0 to %d under \"%s\", found %s", INT32_MAX, key,
			label_json_type(value));
	if (!json_is_integer(value))
		return fault_set(fault, -EINVAL, "expected an integer under \"%s\", found %s", key,
			label_json_type(value));
	json_int_t number = json_integer_value(value);
	if (number < 0 || number > INT32_MAX)
		return fault_set(fault, -EINVAL,
			"expected an integer from 0 to %d under \"%s\", found %lld", INT32_MAX, key,
			(long long)number);
	*ret = (int32_t)number;
	return 0;
}

int label_from_json(const char *text, size_t size, int32_t *ret, struct fault *fault)
{
	json_t *root = label_json(text, size, LABEL_JSON_PARTS, fault);
	if (!root)
		return -EINVAL;
	int rc = json_is_object(root) ? take_json(root, ret, fault) : LABEL_E_NONE;
	json_decref(root);
	return rc;
}

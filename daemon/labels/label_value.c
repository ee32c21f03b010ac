/* label_value: see label_value.h. */
#include "labels/label_value.h"

#include "base/util.h"
#include "labels/label_json.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <strings.h>

void label_found_begin(struct label_found *found, enum label_type type)
{
	found->type = type;
	found->count = 0;
	found->first = -1;
}

static int found_room(const struct label_found *found, struct fault *fault)
{
	return found->count < LABEL_VALUES_MAX
		       ? 0
		       : fault_set(
				 fault, -EINVAL, "a label has at most %d values", LABEL_VALUES_MAX);
}

int label_found_class(struct label_found *found, int64_t number,
	const struct label_classes *classes, struct fault *fault)
{
	int64_t most = found->type == LABEL_TYPE_MULTI_HOT ? LABEL_WIDTH_MAX - 1 : INT32_MAX;
	if (classes->count)
		most = UTIL_MIN(most, (int64_t)classes->count - 1);
	if (number < 0 || number > most)
		return fault_set(fault, -EINVAL, "expected a class from 0 to %lld, found %lld%s",
			(long long)most, (long long)number,
			classes->count ? " (the number of names in the file of classes)" : "");
	int rc = found_room(found, fault);
	if (rc < 0)
		return rc;
	if (found->count == 0)
		found->first = (int32_t)number;
	found->class[found->count++] = (uint32_t)number;
	return 0;
}

int label_found_name(struct label_found *found, const char *name, size_t size,
	const struct label_classes *classes, struct fault *fault)
{
	uint32_t number;
	if (!classes->count)
		return fault_set(fault, -EINVAL,
			"expected a number, found \"%.*s\": for names say classes: FILE, with one "
			"name on each line",
			(int)UTIL_MIN(size, (size_t)100), name);
	if (!classes_find(classes, name, size, &number))
		return fault_set(fault, -EINVAL, "\"%.*s\" is not one of the %u classes",
			(int)UTIL_MIN(size, (size_t)100), name, classes->count);
	return label_found_class(found, number, classes, fault);
}

int label_found_number(struct label_found *found, double number, struct fault *fault)
{
	float value = (float)number;
	if (!isfinite(value))
		return fault_set(fault, -EINVAL,
			"expected a number that float32 can hold, found %g: NaN and infinity are "
			"not labels",
			number);
	int rc = found_room(found, fault);
	if (rc == 0)
		found->number[found->count++] = value;
	return rc;
}

static int class_order(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

int label_found_end(struct label_found *found, struct fault *fault)
{
	if (found->type == LABEL_TYPE_CLASS && found->count != 1)
		return fault_set(fault, -EINVAL,
			"expected one class, found %u: for several say type: multi_hot, or type: "
			"classes if all samples have equally many",
			found->count);
	if (found->type == LABEL_TYPE_CLASSES && found->count == 0)
		return fault_set(fault, -EINVAL, "expected classes, found none");
	if (found->type == LABEL_TYPE_FLOAT && found->count == 0)
		return fault_set(fault, -EINVAL, "expected numbers, found none");
	if (found->type != LABEL_TYPE_MULTI_HOT)
		return 0;
	qsort(found->class, found->count, sizeof found->class[0], class_order);
	for (uint32_t i = 1; i < found->count; i++)
		if (found->class[i] == found->class[i - 1])
			return fault_set(fault, -EINVAL,
				"class %u appears twice: expected each class of a sample once (for "
				"a row of numbers say type: float)",
				found->class[i]);
	return 0;
}

static int fault_value(const json_t *value, enum label_type type, struct fault *fault)
{
	static const char *const expected[] = {
		[LABEL_TYPE_CLASS] = "an integer or the name of a class",
		[LABEL_TYPE_MULTI_HOT] = "integers or names of classes",
		[LABEL_TYPE_FLOAT] = "numbers",
		[LABEL_TYPE_CLASSES] = "integers or names of classes",
	};
	const char *advice = json_is_real(value) ? " (for numbers say type: float)" : "";
	if (label_json_odd(value))
		advice = type == LABEL_TYPE_FLOAT ? " (a label is a number that float32 can hold)"
						  : " (a class is an integer from 0 to 2^31-1)";
	return fault_set(fault, -EINVAL, "expected %s, found %s%s", expected[type],
		label_json_type(value), advice);
}

static int value_add(struct label_found *found, const json_t *value,
	const struct label_classes *classes, struct fault *fault)
{
	if (found->type == LABEL_TYPE_FLOAT)
		return json_is_number(value)
			       ? label_found_number(found, json_number_value(value), fault)
			       : fault_value(value, found->type, fault);
	if (json_is_integer(value))
		return label_found_class(found, json_integer_value(value), classes, fault);
	if (json_is_string(value) && !label_json_odd(value))
		return label_found_name(
			found, json_string_value(value), json_string_length(value), classes, fault);
	return fault_value(value, found->type, fault);
}

/* The type of a value if none was asked for. */
static enum label_type value_type(const json_t *value)
{
	if (!json_is_array(value))
		return json_is_real(value) ? LABEL_TYPE_FLOAT : LABEL_TYPE_CLASS;
	for (size_t i = 0; i < json_array_size(value); i++)
		if (json_is_real(json_array_get(value, i)))
			return LABEL_TYPE_FLOAT;
	return LABEL_TYPE_MULTI_HOT;
}

int label_from_value(const json_t *value, enum label_type asked,
	const struct label_classes *classes, struct label_found *ret, struct fault *fault)
{
	label_found_begin(ret, asked == LABEL_TYPE_AUTO ? value_type(value) : asked);
	int rc = 0;
	if (!json_is_array(value))
		rc = value_add(ret, value, classes, fault);
	else if (ret->type == LABEL_TYPE_CLASS)
		rc = fault_set(fault, -EINVAL,
			"expected one class, found an array: for several say type: multi_hot, or "
			"type: classes if all samples have equally many");
	else
		for (size_t i = 0; rc == 0 && i < json_array_size(value); i++)
			rc = value_add(ret, json_array_get(value, i), classes, fault);
	return rc < 0 ? rc : label_found_end(ret, fault);
}

static bool word_endless(const char *text, size_t size)
{
	static const char *const words[] = {"nan", "inf", "infinity"};
	for (size_t i = 0; i < UTIL_COUNT(words); i++)
		if (strlen(words[i]) == size && strncasecmp(text, words[i], size) == 0)
			return true;
	return false;
}

static size_t word_digits(const char *text, size_t size, size_t *at)
{
	size_t from = *at;
	while (*at < size && isdigit((unsigned char)text[*at]))
		(*at)++;
	return *at - from;
}

enum label_word label_word(const char *text, size_t size)
{
	size_t at = size && (text[0] == '-' || text[0] == '+');
	bool sign = at, point, exponent;
	if (word_endless(text + at, size - at))
		return LABEL_WORD_FRACTION;
	size_t digits = word_digits(text, size, &at);
	point = at < size && text[at] == '.';
	at += point;
	digits += point ? word_digits(text, size, &at) : 0;
	exponent = digits && at < size && (text[at] == 'e' || text[at] == 'E');
	if (exponent) {
		at++;
		at += at < size && (text[at] == '-' || text[at] == '+');
		digits = word_digits(text, size, &at);
	}
	if (!digits || at != size)
		return LABEL_WORD_NAME;
	if (point || exponent)
		return LABEL_WORD_FRACTION;
	return sign ? LABEL_WORD_WHOLE : LABEL_WORD_INTEGER;
}

double label_word_number(const char *text)
{
	return strtod(text, NULL);
}

/* label_json: see label_json.h. A text that jansson refuses is copied, with the values that it
 * refuses made into strings, and parsed again. Line ends stay where they are, so the line of an
 * error is the text's own. */
#include "labels/label_json.h"

#include "base/text/json.h"
#include "base/util.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
	ODD_SHOWN = 40, /* bytes of a number that are kept */
	ODD_GROWTH = 4, /* NaN, the shortest odd value, becomes "\u0000NaN" */
};

static const char odd_mark[] = "\\u0000"; /* in the copy; a zero byte in the value */

struct relaxed {
	const char *at, *end; /* what is left of the text */
	char *out; /* where the copy ends */
};

static void relaxed_copy(struct relaxed *relaxed, size_t size)
{
	memcpy(relaxed->out, relaxed->at, size);
	relaxed->out += size;
	relaxed->at += size;
}

static void relaxed_put(struct relaxed *relaxed, const char *text, size_t size)
{
	memcpy(relaxed->out, text, size);
	relaxed->out += size;
}

/* Writes `size` bytes of the text as an odd value. */
static void relaxed_odd(struct relaxed *relaxed, size_t size)
{
	relaxed_put(relaxed, "\"", 1);
	relaxed_put(relaxed, odd_mark, sizeof odd_mark - 1);
	relaxed_put(relaxed, relaxed->at, UTIL_MIN(size, (size_t)ODD_SHOWN));
	if (size > ODD_SHOWN)
		relaxed_put(relaxed, "...", 3);
	relaxed_put(relaxed, "\"", 1);
	relaxed->at += size;
}

static bool relaxed_has(const struct relaxed *relaxed, const char *word)
{
	size_t size = strlen(word);
	return (size_t)(relaxed->end - relaxed->at) >= size && !memcmp(relaxed->at, word, size);
}

/* The number of an escape \uXXXX at `at`; -1 if there is none. */
static long escape_at(const char *at, const char *end)
{
	if (end - at < 6 || at[0] != '\\' || at[1] != 'u')
		return -1;
	long value = 0;
	for (int i = 2; i < 6; i++) {
		const char *digits = "0123456789abcdef";
		const char *found =
			memchr(digits, at[i] >= 'A' && at[i] <= 'F' ? at[i] + 32 : at[i], 16);
		if (!found)
			return -1;
		value = value << 4 | (found - digits);
	}
	return value;
}

/* An escape within a string: half of a surrogate pair becomes U+FFFD. */
static void relaxed_escape(struct relaxed *relaxed)
{
	long one = escape_at(relaxed->at, relaxed->end);
	if (one < 0xd800 || one > 0xdfff) {
		relaxed_copy(relaxed, UTIL_MIN((size_t)2, (size_t)(relaxed->end - relaxed->at)));
		return;
	}
	long other = one < 0xdc00 ? escape_at(relaxed->at + 6, relaxed->end) : -1;
	if (other >= 0xdc00 && other <= 0xdfff) {
		relaxed_copy(relaxed, 12);
		return;
	}
	relaxed_put(relaxed, "\\ufffd", 6);
	relaxed->at += 6;
}

static void relaxed_string(struct relaxed *relaxed)
{
	relaxed_copy(relaxed, 1);
	while (relaxed->at < relaxed->end && *relaxed->at != '"') {
		if (*relaxed->at == '\\')
			relaxed_escape(relaxed);
		else
			relaxed_copy(relaxed, 1);
	}
	if (relaxed->at < relaxed->end)
		relaxed_copy(relaxed, 1);
}

/* Whether jansson could not hold the number, which is an integer or not. */
static bool number_is_odd(const char *text, size_t size, bool integer)
{
	char copy[400]; /* DBL_MAX has 309 digits */
	if (size >= sizeof copy)
		return true;
	memcpy(copy, text, size);
	copy[size] = 0;
	errno = 0;
	if (!integer)
		return isinf(strtod(copy, NULL));
	(void)strtoll(copy, NULL, 10);
	return errno == ERANGE;
}

static void relaxed_number(struct relaxed *relaxed)
{
	const char *at = relaxed->at;
	bool integer = true;
	while (at < relaxed->end && *at && strchr("0123456789+-.eE", *at)) {
		integer &= !strchr(".eE", *at);
		at++;
	}
	size_t size = (size_t)(at - relaxed->at);
	if (number_is_odd(relaxed->at, size, integer))
		relaxed_odd(relaxed, size);
	else
		relaxed_copy(relaxed, size);
}

static void relaxed_value(struct relaxed *relaxed)
{
	static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
	for (size_t i = 0; i < UTIL_COUNT(words); i++)
		if (relaxed_has(relaxed, words[i])) {
			relaxed_odd(relaxed, strlen(words[i]));
			return;
		}
	char c = *relaxed->at;
	if (c == '"')
		relaxed_string(relaxed);
	else if (c == '-' || (c >= '0' && c <= '9'))
		relaxed_number(relaxed);
	else
		relaxed_copy(relaxed, 1);
}

/* The copy, which the caller frees; NULL without memory. */
static char *relaxed_text(const char *text, size_t size, size_t *ret_size)
{
	char *copy = malloc(size * ODD_GROWTH + 1);
	if (!copy)
		return NULL;
	struct relaxed relaxed = {.at = text, .end = text + size, .out = copy};
	while (relaxed.at < relaxed.end)
		relaxed_value(&relaxed);
	*ret_size = (size_t)(relaxed.out - copy);
	return copy;
}

json_t *label_json(const char *text, size_t size, size_t parts, struct fault *fault)
{
	const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
	json_error_t error;
	if (size >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) {
		text += 3;
		size -= 3;
	}
	json_t *root = json_read(text, size, parts, flags, &error);
	if (root)
		return root;
	size_t relaxed_size = 0;
	cleanup(free_ptr) char *relaxed = relaxed_text(text, size, &relaxed_size);
	if (relaxed)
		root = json_read(relaxed, relaxed_size, parts, flags, &error);
	if (!root && json_lacked_memory(&error))
		(void)fault_set(fault, -ENOMEM, "cannot be read: %s", error.text);
	else if (!root)
		(void)fault_set(
			fault, -EINVAL, "is not JSON: %s in line %d", error.text, error.line);
	return root;
}

int label_json_odd(const json_t *value)
{
	return json_is_string(value) && json_string_length(value) > 0 &&
	       json_string_value(value)[0] == 0;
}

const char *label_json_type(const json_t *value)
{
	static const char *const names[] = {
		[JSON_OBJECT] = "an object",
		[JSON_ARRAY] = "an array",
		[JSON_STRING] = "a string",
		[JSON_INTEGER] = "an integer",
		[JSON_REAL] = "a fraction",
		[JSON_TRUE] = "true",
		[JSON_FALSE] = "false",
		[JSON_NULL] = "null",
	};
	return label_json_odd(value) ? json_string_value(value) + 1 : names[json_typeof(value)];
}

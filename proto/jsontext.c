/* jsontext: see jsontext.h. Numbers do not depend on the locale: a program that links libpenstock
 * may have chosen a locale whose decimal point is a comma. */
#include "proto/jsontext.h"

#include "proto/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	JSON_DECIMALS_MAX = 17,
	JSON_NUMBER = 400, /* the largest double has 309 digits before the point */
};

static void jsontext_fail(struct jsontext *json)
{
	text_free(&json->text);
	json->text.failed = true;
}

/* Whether a code point is better escaped: JSON forbids it; or YAML (which reads WIRE_OPEN) forbids
 * it or takes it for a line break; or it would control a terminal. */
static bool jsontext_is_awkward(int32_t point)
{
	return point < 0x20 || point == '"' || point == '\\' || (point >= 0x7f && point < 0xa0) ||
	       point == 0x2028 || point == 0x2029 || point == 0xfeff;
}

static void jsontext_put_escape(struct jsontext *json, int32_t point)
{
	static const char name[] = "\bb\ff\nn\rr\tt\"\"\\\\";
	for (const char *n = name; *n; n += 2) {
		if (n[0] == point) {
			text_put_bytes(&json->text, (const char[]){'\\', n[1]}, 2);
			return;
		}
	}
	text_print(&json->text, "\\u%04x", (unsigned)point);
}

static void jsontext_put_quoted(struct jsontext *json, const char *value)
{
	text_put(&json->text, "\"");
	while (*value) {
		const char *plain = value;
		size_t bytes = 0;
		int32_t point = 0;
		while (*value && (point = utf8_decode(value, &bytes)) >= 0 &&
			!jsontext_is_awkward(point))
			value += bytes;
		text_put_bytes(&json->text, plain, (size_t)(value - plain));
		if (!*value)
			break;
		if (point < 0)
			text_put(&json->text, "\xef\xbf\xbd");
		else
			jsontext_put_escape(json, point);
		value += bytes;
	}
	text_put(&json->text, "\"");
}

static void jsontext_begin(struct jsontext *json, const char *key)
{
	if (json->comma)
		text_put(&json->text, ",");
	if (key) {
		jsontext_put_quoted(json, key);
		text_put(&json->text, ":");
	}
	json->comma = true;
}

static void jsontext_value(struct jsontext *json, const char *key, const char *text)
{
	jsontext_begin(json, key);
	text_put(&json->text, text);
}

static void jsontext_open(struct jsontext *json, const char *key, char opener, char closer)
{
	jsontext_begin(json, key);
	if (json->depth == (int)sizeof json->closer) {
		jsontext_fail(json);
		return;
	}
	text_put_bytes(&json->text, &opener, 1);
	json->closer[json->depth++] = closer;
	json->comma = false;
}

void jsontext_object(struct jsontext *json, const char *key)
{
	jsontext_open(json, key, '{', '}');
}

void jsontext_array(struct jsontext *json, const char *key)
{
	jsontext_open(json, key, '[', ']');
}

void jsontext_end(struct jsontext *json)
{
	if (json->depth == 0) {
		jsontext_fail(json);
		return;
	}
	text_put_bytes(&json->text, &json->closer[--json->depth], 1);
	json->comma = true;
}

void jsontext_string(struct jsontext *json, const char *key, const char *value)
{
	if (!value) {
		jsontext_value(json, key, "null");
		return;
	}
	jsontext_begin(json, key);
	jsontext_put_quoted(json, value);
}

/* Puts a number as printf wrote it: bytes that are not a digit, a sign or an exponent are the
 * locale's decimal point. */
static void jsontext_localized(struct jsontext *json, const char *key, const char *text)
{
	char plain[JSON_NUMBER];
	size_t n = 0;
	for (const char *s = text; *s; s++) {
		bool kept = (*s >= '0' && *s <= '9') || *s == '-' || *s == '+' || *s == 'e';
		if (kept)
			plain[n++] = *s;
		else if (n && plain[n - 1] != '.')
			plain[n++] = '.';
	}
	plain[n] = '\0';
	jsontext_value(json, key, plain);
}

void jsontext_number(struct jsontext *json, const char *key, double value, int decimals)
{
	char text[JSON_NUMBER];
	if (!isfinite(value)) {
		jsontext_value(json, key, "null");
		return;
	}
	if (decimals < 0)
		decimals = 0;
	if (decimals > JSON_DECIMALS_MAX)
		decimals = JSON_DECIMALS_MAX;
	(void)snprintf(text, sizeof text, "%.*f", decimals, value);
	jsontext_localized(json, key, text);
}

void jsontext_shortest(struct jsontext *json, const char *key, double value)
{
	char text[JSON_NUMBER];
	if (!isfinite(value)) {
		jsontext_value(json, key, "null");
		return;
	}
	for (int digits = 6; digits <= 17; digits++) {
		(void)snprintf(text, sizeof text, "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	jsontext_localized(json, key, text);
}

void jsontext_u64(struct jsontext *json, const char *key, uint64_t value)
{
	char text[24];
	(void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
	jsontext_value(json, key, text);
}

void jsontext_i64(struct jsontext *json, const char *key, int64_t value)
{
	char text[24];
	(void)snprintf(text, sizeof text, "%lld", (long long)value);
	jsontext_value(json, key, text);
}

void jsontext_bool(struct jsontext *json, const char *key, bool value)
{
	jsontext_value(json, key, value ? "true" : "false");
}

void jsontext_raw(struct jsontext *json, const char *key, const char *text)
{
	jsontext_value(json, key, text ? text : "null");
}

void jsontext_free(struct jsontext *json)
{
	text_free(&json->text);
	*json = (struct jsontext){0};
}

/* jsontext: see jsontext.h.
 *
 * `comma` says that the value before this one, in the same bracket, is complete. Numbers do not
 * depend on the locale: a program that links libpenstock may have chosen one whose decimal point is
 * a comma.
 *
 * Thread: any; a struct jsontext belongs to one thread at a time. Allocates: not for the steady
 * state.
 */
#include "proto/jsontext.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	JSON_FIRST_ROOM = 256,
	JSON_DECIMALS_MAX = 17,
	JSON_NUMBER = 400
}; /* the largest double has 309 digits before the point */

static void jsontext_fail(struct jsontext *json)
{
	free(json->text);
	json->text = NULL;
	json->size = json->room = 0;
	json->failed = true;
}

static bool jsontext_reserve(struct jsontext *json, size_t more)
{
	if (json->failed)
		return false;
	if (more < json->room - json->size)
		return true;
	size_t room = json->room ? json->room : JSON_FIRST_ROOM;
	while (room - json->size <= more) {
		if (room > SIZE_MAX / 2) {
			jsontext_fail(json);
			return false;
		}
		room *= 2;
	}
	char *text = realloc(json->text, room);
	if (!text) {
		jsontext_fail(json);
		return false;
	}
	json->text = text;
	json->room = room;
	return true;
}

static void jsontext_put(struct jsontext *json, const char *bytes, size_t size)
{
	if (!jsontext_reserve(json, size))
		return;
	memcpy(json->text + json->size, bytes, size);
	json->size += size;
	json->text[json->size] = '\0';
}

/* Length of the well-formed UTF-8 sequence at `s`, 0 where there is none (Unicode 15, table 3-7).
 * Reads no further than the first byte that does not fit, and a string's zero never does. */
static size_t jsontext_utf8(const unsigned char *s)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t length;
	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf) {
		length = 2;
	} else if (s[0] >= 0xe0 && s[0] <= 0xef) {
		length = 3;
		low = s[0] == 0xe0 ? 0xa0 : low; /* shorter form exists */
		high = s[0] == 0xed ? 0x9f : high; /* surrogates */
	} else if (s[0] >= 0xf0 && s[0] <= 0xf4) {
		length = 4;
		low = s[0] == 0xf0 ? 0x90 : low;
		high = s[0] == 0xf4 ? 0x8f : high; /* beyond U+10FFFF */
	} else {
		return 0;
	}
	if (s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < length; i++) {
		if (s[i] < 0x80 || s[i] > 0xbf)
			return 0;
	}
	return length;
}

bool jsontext_is_utf8(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	for (size_t length; *s; s += length) {
		length = jsontext_utf8(s);
		if (length == 0)
			return false;
	}
	return true;
}

/* The code point at `s`, of `length` bytes, if it is better not written as it is: what JSON
 * forbids, and what YAML (which reads WIRE_OPEN) forbids or takes for a line break, and what would
 * steer a terminal. 0: write it. The quotes come here too. */
static unsigned jsontext_awkward(const unsigned char *s, size_t length)
{
	if (length == 1 && (s[0] < 0x20 || s[0] == '"' || s[0] == '\\' || s[0] == 0x7f))
		return s[0];
	if (length == 2 && s[0] == 0xc2 && s[1] < 0xa0)
		return s[1];
	if (length == 3 && s[0] == 0xe2 && s[1] == 0x80 && (s[2] == 0xa8 || s[2] == 0xa9))
		return 0x2000u + (s[2] & 0x3fu);
	if (length == 3 && s[0] == 0xef && s[1] == 0xbb && s[2] == 0xbf)
		return 0xfeff;
	return 0;
}

static void jsontext_put_escape(struct jsontext *json, unsigned point)
{
	static const char name[] = "\bb\ff\nn\rr\tt\"\"\\\\";
	char escape[8];
	for (const char *n = name; *n; n += 2) {
		if ((unsigned char)n[0] == point) {
			jsontext_put(json, (const char[]){'\\', n[1]}, 2);
			return;
		}
	}
	int n = snprintf(escape, sizeof escape, "\\u%04x", point);
	jsontext_put(json, escape, (size_t)n);
}

static void jsontext_put_quoted(struct jsontext *json, const char *value)
{
	const unsigned char *s = (const unsigned char *)value;
	jsontext_put(json, "\"", 1);
	while (*s) {
		const unsigned char *plain = s;
		size_t length = 1;
		unsigned point = 0;
		while (*s && (length = jsontext_utf8(s)) > 0 &&
			(point = jsontext_awkward(s, length)) == 0)
			s += length;
		if (s > plain)
			jsontext_put(json, (const char *)plain, (size_t)(s - plain));
		if (*s == '\0')
			break;
		if (length == 0)
			jsontext_put(json, "\xef\xbf\xbd", 3);
		else
			jsontext_put_escape(json, point);
		s += length ? length : 1;
	}
	jsontext_put(json, "\"", 1);
}

static void jsontext_begin(struct jsontext *json, const char *key)
{
	if (json->comma)
		jsontext_put(json, ",", 1);
	if (key) {
		jsontext_put_quoted(json, key);
		jsontext_put(json, ":", 1);
	}
	json->comma = true;
}

static void jsontext_value(struct jsontext *json, const char *key, const char *text)
{
	jsontext_begin(json, key);
	jsontext_put(json, text, strlen(text));
}

static void jsontext_open(struct jsontext *json, const char *key, char opener, char closer)
{
	jsontext_begin(json, key);
	if (json->depth == (int)sizeof json->closer) {
		jsontext_fail(json);
		return;
	}
	jsontext_put(json, &opener, 1);
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
	jsontext_put(json, &json->closer[--json->depth], 1);
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

/* A number as printf wrote it: what is neither digit, sign nor exponent is the locale's decimal
 * point, of one byte or several. */
static void jsontext_localised(struct jsontext *json, const char *key, const char *text)
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
	jsontext_localised(json, key, text);
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
	jsontext_localised(json, key, text);
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
	free(json->text);
	*json = (struct jsontext){0};
}

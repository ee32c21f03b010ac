/* json: see json.h.
 *
 * `comma` says that the value before this one, in the same bracket, is complete. Numbers do not
 * depend on the locale: a program that links libpenstock may have chosen one whose decimal point is
 * a comma.
 *
 * Thread: any; a struct json belongs to one thread at a time. Allocates: not for the steady state.
 */
#include "proto/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JSON_FIRST_ROOM = 256, JSON_DECIMALS_MAX = 17 };

static void json_fail(struct json *json)
{
	free(json->text);
	json->text = NULL;
	json->size = json->room = 0;
	json->failed = true;
}

static bool json_reserve(struct json *json, size_t more)
{
	if (json->failed)
		return false;
	if (more < json->room - json->size)
		return true;
	size_t room = json->room ? json->room : JSON_FIRST_ROOM;
	while (room - json->size <= more) {
		if (room > SIZE_MAX / 2) {
			json_fail(json);
			return false;
		}
		room *= 2;
	}
	char *text = realloc(json->text, room);
	if (!text) {
		json_fail(json);
		return false;
	}
	json->text = text;
	json->room = room;
	return true;
}

static void json_put(struct json *json, const char *bytes, size_t size)
{
	if (!json_reserve(json, size))
		return;
	memcpy(json->text + json->size, bytes, size);
	json->size += size;
	json->text[json->size] = '\0';
}

/* Length of the well-formed UTF-8 sequence at `s`, 0 where there is none (Unicode 15, table 3-7).
 * Reads no further than the first byte that does not fit, and a string's zero never does. */
static size_t json_utf8(const unsigned char *s)
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

/* The code point at `s`, of `length` bytes, if it is better not written as it is: what JSON
 * forbids, and what YAML (which reads WIRE_OPEN) forbids or takes for a line break, and what would
 * steer a terminal. 0: write it. The quotes come here too. */
static unsigned json_awkward(const unsigned char *s, size_t length)
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

static void json_put_escape(struct json *json, unsigned point)
{
	static const char name[] = "\bb\ff\nn\rr\tt\"\"\\\\";
	char escape[8];
	for (const char *n = name; *n; n += 2) {
		if ((unsigned char)n[0] == point) {
			json_put(json, (const char[]){'\\', n[1]}, 2);
			return;
		}
	}
	int n = snprintf(escape, sizeof escape, "\\u%04x", point);
	json_put(json, escape, (size_t)n);
}

static void json_put_quoted(struct json *json, const char *value)
{
	const unsigned char *s = (const unsigned char *)value;
	json_put(json, "\"", 1);
	while (*s) {
		const unsigned char *plain = s;
		size_t length = 1;
		unsigned point = 0;
		while (*s && (length = json_utf8(s)) > 0 && (point = json_awkward(s, length)) == 0)
			s += length;
		if (s > plain)
			json_put(json, (const char *)plain, (size_t)(s - plain));
		if (*s == '\0')
			break;
		if (length == 0)
			json_put(json, "\xef\xbf\xbd", 3);
		else
			json_put_escape(json, point);
		s += length ? length : 1;
	}
	json_put(json, "\"", 1);
}

static void json_begin(struct json *json, const char *key)
{
	if (json->comma)
		json_put(json, ",", 1);
	if (key) {
		json_put_quoted(json, key);
		json_put(json, ":", 1);
	}
	json->comma = true;
}

static void json_value(struct json *json, const char *key, const char *text)
{
	json_begin(json, key);
	json_put(json, text, strlen(text));
}

static void json_open(struct json *json, const char *key, char opener, char closer)
{
	json_begin(json, key);
	if (json->depth == (int)sizeof json->closer) {
		json_fail(json);
		return;
	}
	json_put(json, &opener, 1);
	json->closer[json->depth++] = closer;
	json->comma = false;
}

void json_object(struct json *json, const char *key)
{
	json_open(json, key, '{', '}');
}

void json_array(struct json *json, const char *key)
{
	json_open(json, key, '[', ']');
}

void json_end(struct json *json)
{
	if (json->depth == 0) {
		json_fail(json);
		return;
	}
	json_put(json, &json->closer[--json->depth], 1);
	json->comma = true;
}

void json_string(struct json *json, const char *key, const char *value)
{
	if (!value) {
		json_value(json, key, "null");
		return;
	}
	json_begin(json, key);
	json_put_quoted(json, value);
}

void json_number(struct json *json, const char *key, double value, int decimals)
{
	char text[400], plain[400]; /* the largest double has 309 digits before the point */
	if (!isfinite(value)) {
		json_value(json, key, "null");
		return;
	}
	if (decimals < 0)
		decimals = 0;
	if (decimals > JSON_DECIMALS_MAX)
		decimals = JSON_DECIMALS_MAX;
	(void)snprintf(text, sizeof text, "%.*f", decimals, value);
	/* What is neither digit nor sign is the locale's decimal point, of one byte or several. */
	size_t n = 0;
	for (const char *s = text; *s; s++) {
		bool digit = (*s >= '0' && *s <= '9') || *s == '-';
		if (digit)
			plain[n++] = *s;
		else if (n && plain[n - 1] != '.')
			plain[n++] = '.';
	}
	plain[n] = '\0';
	json_value(json, key, plain);
}

void json_u64(struct json *json, const char *key, uint64_t value)
{
	char text[24];
	(void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
	json_value(json, key, text);
}

void json_i64(struct json *json, const char *key, int64_t value)
{
	char text[24];
	(void)snprintf(text, sizeof text, "%lld", (long long)value);
	json_value(json, key, text);
}

void json_bool(struct json *json, const char *key, bool value)
{
	json_value(json, key, value ? "true" : "false");
}

void json_raw(struct json *json, const char *key, const char *text)
{
	json_value(json, key, text ? text : "null");
}

void json_free(struct json *json)
{
	free(json->text);
	*json = (struct json){0};
}

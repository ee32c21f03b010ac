/* open_json: see open_json.h.
 *
 * This module does not interpret the text: the daemon does. Thread: the caller of
 * penstock_stream_open. */
#include "client/lib/open_json.h"

#include "client/lib/error.h"
#include "proto/utf8.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char open_space[] = " \t\r\n";

enum { OPEN_DEPTH_MAX = 16 };

/* Returns the byte after the JSON string that begins here; NULL if the string has no end. */
static const char *open_skip_string(const char *at)
{
	for (at++; *at && *at != '"'; at++) {
		if ((unsigned char)*at < 0x20)
			return NULL;
		if (*at == '\\' && !*++at)
			return NULL;
	}
	return *at ? at + 1 : NULL;
}

/* Opens or closes a bracket. Returns whether it matches the open brackets. */
static bool open_bracket(char byte, char closers[OPEN_DEPTH_MAX], size_t *depth)
{
	if (byte == '[' || byte == '{') {
		if (*depth == OPEN_DEPTH_MAX)
			return false;
		closers[(*depth)++] = byte == '[' ? ']' : '}';
		return true;
	}
	return *depth && closers[--*depth] == byte;
}

/* Whether JSON allows this byte outside strings, whatever the locale. */
static bool open_is_json(char byte)
{
	bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
	bool digit = byte >= '0' && byte <= '9';
	return letter || digit || (byte && strchr("[]{}:,+-. \t\r\n", byte));
}

/* Returns the byte after the value that `text` begins with: an array or a mapping, as `opener`
 * says. NULL if there is no such value. Only JSON's characters are allowed, and brackets must
 * match, so that the value cannot end the mapping that it is written into, nor pass for more
 * than one value. The daemon judges its meaning. */
static const char *open_skip_value(const char *text, char opener)
{
	char closers[OPEN_DEPTH_MAX];
	size_t depth = 0;
	const char *at = text;
	if (*at != opener)
		return NULL;
	do {
		if (*at == '"') {
			at = open_skip_string(at);
			if (!at)
				return NULL;
			continue;
		}
		if (*at && strchr("[]{}", *at) && !open_bracket(*at, closers, &depth))
			return NULL;
		if (!open_is_json(*at))
			return NULL;
		at++;
	} while (depth);
	return at;
}

/* The working folder, escaped as in a JSON string; malloc'ed. */
static int open_front(const char *option, char **ret_front)
{
	char folder[PATH_MAX];
	struct jsontext text = {0};
	if (!getcwd(folder, sizeof folder))
		return error_set(-errno,
			"the working folder, to which the paths of options.%s are relative, "
			"cannot be found: %s",
			option, strerror(errno));
	if (!utf8_is_valid(folder))
		return error_set(-EINVAL,
			"the path %s (%s) is not UTF-8, but a request is: rename it, or name a "
			"symbolic link to it",
			folder, option);
	jsontext_array(&text, NULL);
	jsontext_string(&text, NULL, folder);
	jsontext_end(&text);
	/* Drop the brackets and quotes around it. */
	char *front =
		text.text.failed ? NULL : strndup(text.text.bytes + 2, strlen(text.text.bytes) - 4);
	jsontext_free(&text);
	if (!front)
		return error_set(-ENOMEM, "no memory for the request");
	*ret_front = front;
	return 0;
}

static bool open_is_path_key(const struct open_json *option, const char *key, size_t length)
{
	for (const char *const *path = option->paths; key && path && *path; path++) {
		if (strlen(*path) == length && strncmp(*path, key, length) == 0)
			return true;
	}
	return false;
}

bool open_is_url(const char *path)
{
	static const char *const schemes[] = {"s3://", "gs://", "hf://", "https://", "http://"};
	for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
		if (strncmp(path, schemes[i], strlen(schemes[i])) == 0)
			return true;
	return false;
}

/* `path` is the text between the quotes, as it is written. */
static bool open_is_relative(const char *path)
{
	return *path != '/' && strncmp(path, "\\/", 2) != 0 && !open_is_url(path);
}

static void open_put_path(FILE *out, const char *front, const char *path, size_t length)
{
	while (length >= 2 && path[0] == '.' && path[1] == '/') {
		for (path += 2, length -= 2; length && *path == '/'; length--)
			path++;
	}
	bool here = length == 0 || (length == 1 && *path == '.');
	(void)fprintf(out, "\"%s%s%.*s\"", front, here || !front[1] ? "" : "/",
		here ? 0 : (int)length, path);
}

/* The state of copying a value. */
struct open_copy {
	const struct open_json *option;
	FILE *out;
	char *front; /* NULL until it is needed */
	const char *key; /* of the next value, or NULL */
	size_t key_length;
};

/* Copies a string that is not a key: `length` bytes, quotes included. */
static int open_copy_text(struct open_copy *copy, const char *at, size_t length)
{
	if (!open_is_path_key(copy->option, copy->key, copy->key_length) ||
		!open_is_relative(at + 1)) {
		(void)fwrite(at, 1, length, copy->out);
		return 0;
	}
	int result = copy->front ? 0 : open_front(copy->option->option, &copy->front);
	if (result == 0)
		open_put_path(copy->out, copy->front, at + 1, length - 2);
	return result;
}

static int open_copy_string(struct open_copy *copy, const char *at, const char *behind)
{
	size_t length = (size_t)(behind - at);
	if (behind[strspn(behind, open_space)] != ':') {
		int result = open_copy_text(copy, at, length);
		copy->key = NULL;
		return result;
	}
	(void)fwrite(at, 1, length, copy->out);
	copy->key = at + 1;
	copy->key_length = length - 2;
	return 0;
}

/* Copies a value, which open_skip_value has checked, up to `end`. */
static int open_copy_value(struct open_copy *copy, const char *at, const char *end)
{
	int result = 0;
	while (at < end && result == 0) {
		const char *behind = *at == '"' ? open_skip_string(at) : at + 1;
		if (*at == '"')
			result = open_copy_string(copy, at, behind);
		else
			(void)fputc(*at, copy->out);
		if (*at != '"' && *at != ':' && !strchr(open_space, *at))
			copy->key = NULL;
		at = behind;
	}
	return result;
}

static int open_absolute(
	const struct open_json *option, const char *begin, const char *end, char **ret_text)
{
	size_t size = 0;
	struct open_copy copy = {.option = option, .out = open_memstream(ret_text, &size)};
	int result = copy.out ? open_copy_value(&copy, begin, end) : 0;
	if (!copy.out || fclose(copy.out) != 0)
		result = error_set(-ENOMEM, "no memory for the request");
	free(copy.front);
	return result;
}

int open_json_write(const struct open_json *option, const char *text, struct jsontext *json)
{
	const char *begin = text + strspn(text, open_space);
	const char *end = utf8_is_valid(begin) ? open_skip_value(begin, option->opener) : NULL;
	if (!end || end[strspn(end, open_space)])
		return error_set(-EINVAL, "options.%s is not a %s: expected %s", option->option,
			option->opener == '[' ? "list" : "mapping", option->expected);
	char *copy = NULL;
	int result = open_absolute(option, begin, end, &copy);
	if (result == 0)
		jsontext_raw(json, option->key, copy);
	free(copy);
	return result;
}

bool open_json_next(const char **at, struct open_member *ret)
{
	const char *key = *at + strspn(*at, " ,{"),
		   *end = *key == '"' ? open_skip_string(key) : NULL;
	if (!end)
		return false;
	*ret = (struct open_member){.key = key + 1, .key_size = (size_t)(end - key) - 2};
	ret->value = end + strspn(end, " :");
	if (*ret->value == '"')
		end = open_skip_string(ret->value);
	else if (*ret->value == '[' || *ret->value == '{')
		end = open_skip_value(ret->value, *ret->value);
	else
		end = ret->value + strcspn(ret->value, ",}");
	if (!end)
		return false;
	ret->value_size = (size_t)(end - ret->value);
	*at = end;
	return true;
}

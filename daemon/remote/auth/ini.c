/* ini: see ini.h. */
#include "remote/auth/ini.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* The text without blanks at both ends; changed. */
static char *trimmed(char *text)
{
	while (is_blank(*text))
		text++;
	size_t size = strlen(text);
	while (size && is_blank(text[size - 1]))
		text[--size] = 0;
	return text;
}

/* Cuts a comment that follows a blank. */
static void cut_comment(char *text)
{
	for (char *c = text; *c; c++)
		if ((*c == '#' || *c == ';') && (c == text || is_blank(c[-1]))) {
			*c = 0;
			return;
		}
}

struct reading {
	const char *path;
	unsigned line;
	char *section;
	ini_take_fn *take;
	void *context;
	struct fault *fault;
};

static int refuse(const struct reading *reading, const char *expected)
{
	return fault_set(reading->fault, -EINVAL, "%s:%u: expected %s", reading->path,
		reading->line, expected);
}

static int take_line(struct reading *reading, char *line)
{
	char *equals;
	if (line[0] == '#' || line[0] == ';' || !*trimmed(line))
		return 0;
	if (is_blank(line[0]))
		return reading->section ? 0 : refuse(reading, "[PROFILE] before an indented line");
	if (line[0] == '[') {
		char *end = strchr(line, ']');
		if (!end)
			return refuse(reading, "a ] after the name of the profile");
		*end = 0;
		reading->section = trimmed(line + 1);
		return *reading->section ? 0 : refuse(reading, "a name between [ and ]");
	}
	equals = strchr(line, '=');
	if (!equals)
		return refuse(reading, "[PROFILE] or KEY = VALUE");
	if (!reading->section)
		return refuse(reading, "[PROFILE] before the first KEY = VALUE");
	*equals = 0;
	char *key = trimmed(line);
	for (char *c = key; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	cut_comment(equals + 1);
	return reading->take(reading->context, reading->section, key, trimmed(equals + 1));
}

int ini_read(char *text, size_t size, const char *path, ini_take_fn *take, void *context,
	struct fault *fault)
{
	struct reading reading = {
		.path = path, .take = take, .context = context, .fault = fault, .line = 1};
	int rc = 0;
	if (memchr(text, 0, size))
		return fault_set(
			fault, -EINVAL, "%s: expected a text file, without zero bytes", path);
	if (!strncmp(text, "\xef\xbb\xbf", 3))
		text += 3;
	while (rc == 0 && *text) {
		char *end = strchr(text, '\n'), *next = end ? end + 1 : text + strlen(text);
		if (end)
			*end = 0;
		rc = take_line(&reading, text);
		text = next;
		reading.line++;
	}
	return rc;
}

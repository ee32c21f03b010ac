/* exposition: see exposition.h. Samples are the same in both texts: only lines that begin with #
 * change. Sources: OpenMetrics 1.0 (sections "Suffixes", "ABNF"), Prometheus' "Exposition formats".
 */
#include "http/exposition.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define EXPOSITION_TYPE "application/openmetrics-text"

/* A weight of nothing but zeros refuses what it belongs to: RFC 9110, 12.4.2. */
static bool exposition_refused(const char *range, size_t length)
{
	for (size_t i = 0; i + 2 < length; i++)
		if (range[i] == ';' && strspn(range + i + 1, " \t") + i + 2 < length) {
			const char *q = range + i + 1 + strspn(range + i + 1, " \t");
			size_t zeros = q[0] == 'q' && q[1] == '=' ? strspn(q + 2, "0.") : 0;
			if (zeros &&
				(q + 2 + zeros == range + length || strchr(" \t;", q[2 + zeros])))
				return true;
		}
	return false;
}

bool exposition_wants_openmetrics(const char *accept)
{
	while (accept && *accept) {
		accept += strspn(accept, " \t,");
		size_t length = strcspn(accept, ",");
		size_t type = strlen(EXPOSITION_TYPE);
		if (length >= type && strncasecmp(accept, EXPOSITION_TYPE, type) == 0 &&
			(length == type || strchr(" \t;", accept[type])) &&
			!exposition_refused(accept, length))
			return true;
		accept += length;
	}
	return false;
}

enum exposition_type { EXPOSITION_SAME, EXPOSITION_COUNTER, EXPOSITION_INFO, EXPOSITION_STATES };

static bool exposition_word(const char *word, size_t length, const char *expected)
{
	return strlen(expected) == length && memcmp(word, expected, length) == 0;
}

static enum exposition_type exposition_type_of(const char *word, size_t length)
{
	if (exposition_word(word, length, "counter"))
		return EXPOSITION_COUNTER;
	if (exposition_word(word, length, "info"))
		return EXPOSITION_INFO;
	return exposition_word(word, length, "stateset") ? EXPOSITION_STATES : EXPOSITION_SAME;
}

/* "# TYPE name type" or "# HELP name text", the line's end excluded. */
static void exposition_comment(
	FILE *out, const char *line, size_t length, enum exposition_type *type)
{
	static const char *const suffix[] = {[EXPOSITION_SAME] = "",
		[EXPOSITION_COUNTER] = "_total",
		[EXPOSITION_INFO] = "_info",
		[EXPOSITION_STATES] = ""};
	const char *name = line + 7, *end = line + length;
	const char *rest = memchr(name, ' ', (size_t)(end - name));
	if (!rest)
		return;
	bool is_type = strncmp(line, "# TYPE ", 7) == 0;
	if (is_type)
		*type = exposition_type_of(rest + 1, (size_t)(end - rest - 1));
	(void)fprintf(out, "%.*s%s", (int)(rest - line), line, suffix[*type]);
	if (is_type && *type >= EXPOSITION_INFO)
		(void)fprintf(out, " gauge\n");
	else
		(void)fprintf(out, "%.*s\n", (int)(end - rest), rest);
}

char *exposition_prometheus(const char *openmetrics)
{
	char *text = NULL;
	size_t size = 0;
	enum exposition_type type = EXPOSITION_SAME;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	while (*openmetrics) {
		size_t length = strcspn(openmetrics, "\n");
		size_t whole = length + (openmetrics[length] == '\n');
		if (openmetrics[0] != '#')
			(void)fwrite(openmetrics, 1, whole, out);
		else if (strncmp(openmetrics, "# TYPE ", 7) == 0 ||
			 strncmp(openmetrics, "# HELP ", 7) == 0)
			exposition_comment(out, openmetrics, length, &type);
		openmetrics += whole;
	}
	bool failed = ferror(out);
	if (fclose(out) || failed) {
		free(text);
		return NULL;
	}
	return text;
}

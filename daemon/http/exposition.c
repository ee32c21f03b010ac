/* exposition: see exposition.h. Samples are the same in both formats: only lines that begin with #
 * differ. Sources: OpenMetrics 1.0 (sections "Suffixes" and "ABNF"), and "Exposition formats" in
 * the documentation of Prometheus. */
#include "http/exposition.h"

#include "proto/text.h"

#include <string.h>
#include <strings.h>

#define EXPOSITION_TYPE "application/openmetrics-text"

/* Whether a media range is refused: by a weight that is all zeros (RFC 9110, 12.4.2). */
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

/* Converts "# TYPE name type" or "# HELP name text", without the end of the line. */
static void exposition_comment(
	struct text *out, const char *line, size_t length, enum exposition_type *type)
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
	text_put_bytes(out, line, (size_t)(rest - line));
	text_put(out, suffix[*type]);
	if (is_type && *type >= EXPOSITION_INFO)
		text_put(out, " gauge");
	else
		text_put_bytes(out, rest, (size_t)(end - rest));
	text_put(out, "\n");
}

char *exposition_prometheus(const char *openmetrics)
{
	struct text out = {0};
	enum exposition_type type = EXPOSITION_SAME;
	while (*openmetrics) {
		size_t length = strcspn(openmetrics, "\n");
		size_t whole = length + (openmetrics[length] == '\n');
		if (openmetrics[0] != '#')
			text_put_bytes(&out, openmetrics, whole);
		else if (strncmp(openmetrics, "# TYPE ", 7) == 0 ||
			 strncmp(openmetrics, "# HELP ", 7) == 0)
			exposition_comment(&out, openmetrics, length, &type);
		openmetrics += whole;
	}
	return text_take(&out);
}

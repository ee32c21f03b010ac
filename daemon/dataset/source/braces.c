/* braces: see braces.h. */
#include "dataset/source/braces.h"

#include "base/array.h"
#include "base/util.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

void source_paths_free(struct source_paths *paths)
{
	for (size_t i = 0; i < paths->count; i++)
		free(paths->path[i]);
	free(paths->path);
	*paths = (struct source_paths){0};
}

int source_paths_add(struct source_paths *paths, char *path, struct fault *fault)
{
	if (paths->count == SOURCE_PATHS_MAX) {
		free(path);
		return fault_set(fault, -E2BIG,
			"names more than %d files: check the ranges in braces", SOURCE_PATHS_MAX);
	}
	paths->bytes += path ? strlen(path) + 1 : 0;
	if (paths->bytes > SOURCE_PATHS_BYTES) {
		free(path);
		return fault_set(fault, -E2BIG,
			"names files whose paths have more than %d MiB together: check the ranges "
			"in braces, or use shorter paths",
			SOURCE_PATHS_BYTES >> 20);
	}
	char **grown =
		path ? array_grown(paths->path, paths->count, &paths->room, sizeof path) : NULL;
	if (!grown) {
		free(path);
		return fault_set(fault, -ENOMEM, "no memory for %zu paths", paths->count);
	}
	paths->path = grown;
	paths->path[paths->count++] = path;
	return 0;
}

/* One pair of braces: text[open] is '{', text[close] the matching '}'. */
struct pair {
	size_t open, close;
	bool list; /* has a comma between them */
};

/* A range {from..to} or {from..to..step} of whole numbers. */
struct range {
	int64_t from, to, step;
	int width; /* of zero-padded numbers, or else 0 */
};

/* Parses a number of up to 18 digits and moves *at past it. */
static bool number_take(const char **at, int64_t *ret, int *ret_width)
{
	const char *p = *at;
	bool minus = *p == '-';
	p += minus;
	int64_t value = 0;
	int digits = 0;
	for (; *p >= '0' && *p <= '9'; p++, digits++) {
		if (digits == 18)
			return false;
		value = value * 10 + (*p - '0');
	}
	if (digits == 0)
		return false;
	bool padded = digits > 1 && p[-digits] == '0';
	*ret_width = padded ? digits + minus : 0;
	*ret = minus ? -value : value;
	*at = p;
	return true;
}

static bool dots_take(const char **at)
{
	if ((*at)[0] != '.' || (*at)[1] != '.')
		return false;
	*at += 2;
	return true;
}

static bool range_parse(const char *text, const struct pair *pair, struct range *ret)
{
	const char *at = text + pair->open + 1;
	int width_from, width_to, width_step;
	struct range range = {.step = 1};
	if (!number_take(&at, &range.from, &width_from) || !dots_take(&at) ||
		!number_take(&at, &range.to, &width_to))
		return false;
	if (dots_take(&at) && !number_take(&at, &range.step, &width_step))
		return false;
	if (at != text + pair->close)
		return false;
	range.step = range.step < 0 ? -range.step : range.step;
	if (range.step == 0)
		range.step = 1;
	range.width = UTIL_MAX(width_from, width_to);
	*ret = range;
	return true;
}

/* Finds the first pair at or after `from` that expands to something; pairs within one that does not
 * may expand. One pass: a brace that is never closed must not make each later one cost a pass, too.
 * Its own frame, because its memory must not stay during the recursion. */
static __attribute__((noinline)) bool pair_next(const char *text, size_t from, struct pair *ret,
	struct range *ret_range, bool *ret_is_range)
{
	struct {
		uint16_t at;
		bool list;
	} open[SOURCE_TEXT_MAX];
	size_t depth = 0;
	bool found = false;
	for (size_t i = from; text[i]; i++) {
		if (text[i] == '{') {
			open[depth].at = (uint16_t)i;
			open[depth++].list = false;
		} else if (text[i] == ',' && depth) {
			open[depth - 1].list = true;
		} else if (text[i] == '}' && depth) {
			depth--;
			const struct pair pair = {open[depth].at, i, open[depth].list};
			struct range range;
			if (found && pair.open > ret->open)
				continue;
			const bool is_range = range_parse(text, &pair, &range);
			if (!pair.list && !is_range)
				continue;
			*ret = pair;
			*ret_range = range;
			*ret_is_range = is_range;
			found = true;
		}
	}
	return found;
}

static int braces_from(
	const char *text, size_t from, struct source_paths *paths, struct fault *fault);

/* Replaces the pair by `size` bytes of `middle` and continues `go_on` bytes after its beginning. */
static int pair_replace(const char *text, const struct pair *pair, const char *middle, size_t size,
	size_t go_on, struct source_paths *paths, struct fault *fault)
{
	size_t tail = strlen(text + pair->close + 1);
	size_t total = pair->open + size + tail;
	if (total > SOURCE_TEXT_MAX)
		return fault_set(fault, -ENAMETOOLONG,
			"names a path of %zu bytes: at most %d are allowed", total,
			SOURCE_TEXT_MAX);
	paths->expanded += total;
	if (paths->expanded > SOURCE_EXPANDED_BYTES)
		return fault_set(fault, -E2BIG,
			"takes more than %d MiB to expand: check the ranges and lists in braces",
			SOURCE_EXPANDED_BYTES >> 20);
	cleanup(free_ptr) char *whole = malloc(total + 1);
	if (!whole)
		return fault_set(fault, -ENOMEM, "no memory for a path");
	memcpy(whole, text, pair->open);
	memcpy(whole + pair->open, middle, size);
	memcpy(whole + pair->open + size, text + pair->close + 1, tail + 1);
	return braces_from(whole, pair->open + go_on, paths, fault);
}

static int range_expand(const char *text, const struct pair *pair, const struct range *range,
	struct source_paths *paths, struct fault *fault)
{
	uint64_t span = (uint64_t)(range->to > range->from ? range->to - range->from
							   : range->from - range->to);
	uint64_t count = span / (uint64_t)range->step + 1;
	if (count > SOURCE_PATHS_MAX)
		return fault_set(fault, -E2BIG,
			"names %llu files, but at most %d are allowed: check the range in braces",
			(unsigned long long)count, SOURCE_PATHS_MAX);
	int64_t step = range->to >= range->from ? range->step : -range->step;
	for (uint64_t i = 0; i < count; i++) {
		char number[32];
		int n = snprintf(number, sizeof number, "%0*lld", range->width,
			(long long)range->from + (long long)i * step);
		int rc = pair_replace(text, pair, number, (size_t)n, (size_t)n, paths, fault);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int list_expand(
	const char *text, const struct pair *pair, struct source_paths *paths, struct fault *fault)
{
	int depth = 0;
	size_t from = pair->open + 1;
	for (size_t i = from; i <= pair->close; i++) {
		depth += (text[i] == '{') - (text[i] == '}' && i < pair->close);
		if (depth > 0 || (text[i] != ',' && i < pair->close))
			continue;
		int rc = pair_replace(text, pair, text + from, i - from, 0, paths, fault);
		if (rc < 0)
			return rc;
		from = i + 1;
	}
	return 0;
}

/* Each pair that is replaced is a level of recursion: at most SOURCE_TEXT_MAX / 3, of small
 * frames. */
static int braces_from(
	const char *text, size_t from, struct source_paths *paths, struct fault *fault)
{
	struct pair pair;
	struct range range;
	bool is_range;
	if (!pair_next(text, from, &pair, &range, &is_range))
		return source_paths_add(paths, strdup(text), fault);
	return is_range ? range_expand(text, &pair, &range, paths, fault)
			: list_expand(text, &pair, paths, fault);
}

int source_braces(const char *spec, struct source_paths *paths, struct fault *fault)
{
	if (strlen(spec) > SOURCE_TEXT_MAX)
		return fault_set(fault, -ENAMETOOLONG, "has %zu bytes: at most %d are allowed",
			strlen(spec), SOURCE_TEXT_MAX);
	return braces_from(spec, 0, paths, fault);
}

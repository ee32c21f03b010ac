/* grid: see grid.h. */
#include "client/cli/bench/sweep/grid.h"

#include "base/nearest.h"
#include "base/util.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const grid_name[GRID_AXES] = {"threads", "batch-size", "image-size"};
const char *const grid_unit[GRID_AXES] = {
	"decoding threads", "samples per batch", "height and width of a row, px"};

/* As the options of the same names. */
static const uint64_t grid_most[GRID_AXES] = {1024, 65536, 4096};

/* Reads a number at *at, and moves *at after it. */
static int grid_number(enum grid_axis axis, const char **at, uint64_t *ret, struct fault *fault)
{
	char *end = (char *)*at;
	errno = 0;
	unsigned long long value = isdigit((unsigned char)**at) ? strtoull(*at, &end, 10) : 0;
	if (end == *at || errno || value < 1 || value > grid_most[axis]) {
		int size = (int)strcspn(*at, ",");
		return fault_set(fault, -EINVAL,
			"--sweep %s: expected whole numbers from 1 to %" PRIu64 ", got \"%.*s\"",
			grid_name[axis], grid_most[axis], UTIL_MIN(size, 40), *at);
	}
	*at = end;
	*ret = value;
	return 0;
}

static int grid_push(struct grid *grid, enum grid_axis axis, uint64_t value, struct fault *fault)
{
	size_t *count = &grid->count[axis];
	uint64_t last = *count ? grid->value[axis][*count - 1] : 0;
	if (value <= last)
		return fault_set(fault, -EINVAL,
			"--sweep %s: expected its values in rising order, each once: %" PRIu64
			" follows %" PRIu64,
			grid_name[axis], value, last);
	if (*count == GRID_VALUES)
		return fault_set(fault, -EINVAL,
			"--sweep %s has more than %d values; leave some out, or multiply: "
			"%s=1..64*2",
			grid_name[axis], GRID_VALUES, grid_name[axis]);
	grid->value[axis][(*count)++] = value;
	return 0;
}

/* Reads what follows a number and "..": the end of the range, and perhaps a factor. */
static int grid_range(struct grid *grid, enum grid_axis axis, uint64_t first, const char **at,
	struct fault *fault)
{
	uint64_t last, factor = 0;
	int r = grid_number(axis, at, &last, fault);
	if (r == 0 && **at == '*') {
		(*at)++;
		r = grid_number(axis, at, &factor, fault);
	}
	if (r < 0)
		return r;
	if (factor == 1)
		return fault_set(fault, -EINVAL,
			"--sweep %s: a range times 1 never ends; give *2 or more", grid_name[axis]);
	if (last < first)
		return fault_set(fault, -EINVAL,
			"--sweep %s: the range %" PRIu64 "..%" PRIu64 " runs backwards",
			grid_name[axis], first, last);
	for (uint64_t v = first; v <= last && r == 0; v = factor ? v * factor : v + 1)
		r = grid_push(grid, axis, v, fault);
	return r;
}

static int grid_list(struct grid *grid, enum grid_axis axis, const char *at, struct fault *fault)
{
	for (;;) {
		uint64_t first;
		int r = grid_number(axis, &at, &first, fault);
		if (r == 0 && strncmp(at, "..", 2) == 0) {
			at += 2;
			r = grid_range(grid, axis, first, &at, fault);
		} else if (r == 0) {
			r = grid_push(grid, axis, first, fault);
		}
		if (r < 0)
			return r;
		if (!*at)
			return 0;
		if (*at != ',')
			return fault_set(fault, -EINVAL,
				"--sweep %s: \"%.40s\" is neither a comma nor a range (1,2,4 or "
				"1..8 or 1..16*2)",
				grid_name[axis], at);
		at++;
	}
}

int grid_add(struct grid *grid, const char *text, struct fault *fault)
{
	size_t size = strcspn(text, "=");
	for (size_t i = 0; i < GRID_AXES; i++) {
		if (strlen(grid_name[i]) != size || strncmp(grid_name[i], text, size) != 0)
			continue;
		if (!text[size] || !text[size + 1])
			return fault_set(fault, -EINVAL,
				"--sweep %s: expected values: --sweep %s=1,2,4", grid_name[i],
				grid_name[i]);
		if (grid->count[i])
			return fault_set(fault, -EINVAL,
				"--sweep %s is given twice; put all values into one list",
				grid_name[i]);
		grid->order[grid->swept++] = (enum grid_axis)i;
		return grid_list(grid, (enum grid_axis)i, text + size + 1, fault);
	}
	char name[41];
	(void)snprintf(name, sizeof name, "%.*s", (int)UTIL_MIN(size, 40u), text);
	struct nearest nearest = nearest_to(name);
	for (size_t i = 0; i < GRID_AXES; i++)
		nearest_try(&nearest, grid_name[i]);
	const char *meant = nearest_found(&nearest);
	if (meant)
		return fault_set(fault, -EINVAL, "--sweep cannot vary \"%s\"; did you mean %s?",
			name, meant);
	return fault_set(fault, -EINVAL,
		"--sweep varies threads, batch-size or image-size (--sweep threads=1,2,4), got "
		"\"%s\"",
		name);
}

size_t grid_points(const struct grid *grid)
{
	size_t points = 1;
	for (size_t i = 0; i < grid->swept; i++)
		points *= grid->count[grid->order[i]];
	return points;
}

int grid_check(const struct grid *grid, struct fault *fault)
{
	size_t points = grid_points(grid);
	if (points <= GRID_POINTS)
		return 0;
	return fault_set(fault, -EINVAL,
		"--sweep gives %zu points with all combinations, and at most %d can be measured; "
		"leave values out",
		points, GRID_POINTS);
}

struct grid_point grid_at(const struct grid *grid, size_t number)
{
	struct grid_point point = {{0}};
	for (size_t i = grid->swept; i-- > 0;) {
		enum grid_axis axis = grid->order[i];
		point.value[axis] = grid->value[axis][number % grid->count[axis]];
		number /= grid->count[axis];
	}
	return point;
}

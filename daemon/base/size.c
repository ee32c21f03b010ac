/* size: see size.h. */
#include "base/size.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int size_shift(const char *unit)
{
	static const struct {
		const char *name;
		int shift;
	} units[] = {{"", 0}, {"B", 0}, {"K", 10}, {"M", 20}, {"G", 30}, {"T", 40}};
	char head[2] = {unit[0], 0};
	const char *tail = unit[0] ? unit + 1 : unit;
	if (unit[0] && strcasecmp(unit, "B") != 0 && *tail && strcasecmp(tail, "B") != 0 && strcasecmp(tail, "iB") != 0)
		return -1;
	for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
		if (strcasecmp(head, units[i].name) == 0)
			return units[i].shift;
	return -1;
}

int size_parse(const char *text, uint64_t *ret_bytes)
{
	while (isspace((unsigned char)*text))
		text++;
	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	char *end;
	errno = 0;
	double value = strtod(text, &end);
	if (errno)
		return -ERANGE;
	while (*end == ' ')
		end++;
	int shift = size_shift(end);
	if (shift < 0)
		return -EINVAL;
	value *= (double)(1ull << shift);
	if (!(value < 9.2e18))
		return -ERANGE;
	*ret_bytes = (uint64_t)value;
	return 0;
}

const char *size_format(uint64_t bytes, char *buffer, size_t room)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	size_t unit = 0;
	while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
		value /= 1024;
		unit++;
	}
	(void)snprintf(buffer, room, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
	return buffer;
}

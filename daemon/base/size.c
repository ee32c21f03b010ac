/* size: see size.h. */
#include "base/size.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Power of two of a unit: "", B, K, KB, KiB and so on in any case; -1 for anything else. */
static int size_shift(const char *unit)
{
	static const char letters[] = "KMGT";
	if (!*unit || strcasecmp(unit, "B") == 0)
		return 0;
	const char *letter = strchr(letters, toupper((unsigned char)*unit));
	const char *tail = unit + 1;
	if (!letter || (*tail && strcasecmp(tail, "B") != 0 && strcasecmp(tail, "iB") != 0))
		return -1;
	return 10 * (int)(letter - letters + 1);
}

/* The whole part, not as a double, which is exact only up to 2^53. */
static int size_whole(const char **text, uint64_t *ret)
{
	uint64_t value = 0;
	if (!isdigit((unsigned char)**text))
		return -EINVAL;
	for (; isdigit((unsigned char)**text); (*text)++)
		if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
			__builtin_add_overflow(value, (uint64_t)(**text - '0'), &value))
			return -ERANGE;
	*ret = value;
	return 0;
}

/* ".5" as a number below 1; 0 where there is no decimal point. */
static int size_fraction(const char **text, double *ret)
{
	double value = 0, place = 1;
	if (**text == '.') {
		(*text)++;
		if (!isdigit((unsigned char)**text))
			return -EINVAL;
		for (; isdigit((unsigned char)**text); (*text)++)
			value += (place /= 10) * (**text - '0');
	}
	*ret = value;
	return 0;
}

int size_parse(const char *text, uint64_t *ret_bytes)
{
	uint64_t whole;
	double fraction;
	while (isspace((unsigned char)*text))
		text++;
	int result = size_whole(&text, &whole);
	if (!result)
		result = size_fraction(&text, &fraction);
	if (result < 0)
		return result;
	while (*text == ' ')
		text++;
	int shift = size_shift(text);
	if (shift < 0 || (shift == 0 && fraction > 0))
		return -EINVAL;
	if (whole > (uint64_t)INT64_MAX >> shift)
		return -ERANGE;
	*ret_bytes = (whole << shift) + (uint64_t)(fraction * (double)(1ull << shift));
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

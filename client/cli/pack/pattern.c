/* pattern: see pattern.h. */
#include "client/cli/pack/pattern.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int pattern_refuse(const char *text, const char *why, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"the output \"%s\" %s; write it as FOLDER/NAME-%%06d.tar: shards are numbered from "
		"0",
		text, why);
}

/* Reads "%d" or "%0Nd" at `at`. Returns its end, or NULL. */
static const char *pattern_number(const char *at, unsigned *ret_digits)
{
	at++; /* the percent sign */
	*ret_digits = 0;
	if (*at == '0' && isdigit((unsigned char)at[1]) && at[1] != '0') {
		*ret_digits = (unsigned)(at[1] - '0');
		at += 2;
	}
	return *at == 'd' ? at + 1 : NULL;
}

/* "train" for "train-%06d.tar"; "pack" if nothing is left. */
static void pattern_stem(struct pattern *pattern)
{
	size_t n = strlen(pattern->prefix);
	while (n && strchr("-_. ", pattern->prefix[n - 1]))
		n--;
	if (n)
		(void)snprintf(
			pattern->stem, sizeof pattern->stem, "%.*s", (int)n, pattern->prefix);
	else
		(void)snprintf(pattern->stem, sizeof pattern->stem, "pack");
}

static int pattern_parse_name(const char *text, struct pattern *pattern, struct fault *fault)
{
	static const char tail[] = ".tar";
	const char *number = strchr(pattern->name, '%');
	if (!number)
		return pattern_refuse(text, "has no %06d for the number of the shard", fault);
	const char *behind = pattern_number(number, &pattern->digits);
	if (!behind)
		return pattern_refuse(
			text, "has a % that is neither %d nor %0Nd with N from 1 to 9", fault);
	if (strchr(behind, '%'))
		return pattern_refuse(text, "has more than one %", fault);
	size_t n = strlen(behind);
	if (n < strlen(tail) || strcmp(behind + n - strlen(tail), tail) != 0)
		return pattern_refuse(text, "does not end with .tar", fault);
	if (pattern->name[0] == '.')
		return pattern_refuse(text, "names hidden files, which globs do not match", fault);
	(void)snprintf(pattern->prefix, sizeof pattern->prefix, "%.*s",
		(int)(number - pattern->name), pattern->name);
	(void)snprintf(pattern->suffix, sizeof pattern->suffix, "%s", behind);
	if (n && (isdigit((unsigned char)behind[0]) ||
			 (number > pattern->name && isdigit((unsigned char)number[-1]))))
		return pattern_refuse(text,
			"has a digit next to the number, which would read as part of it", fault);
	pattern_stem(pattern);
	return 0;
}

int pattern_parse(const char *text, struct pattern *ret, struct fault *fault)
{
	struct pattern pattern = {.folder = "."};
	const char *slash = strrchr(text, '/');
	const char *name = slash ? slash + 1 : text;
	/* Room for what follows the name of a shard or of the whole output. */
	if (strlen(name) > PATTERN_NAME - 32 || (slash && slash - text >= PATTERN_PATH - 2))
		return fault_set(
			fault, -ENAMETOOLONG, "the name of the output is too long: %.80s...", text);
	if (slash)
		(void)snprintf(pattern.folder, sizeof pattern.folder, "%.*s",
			(int)(slash == text ? 1 : slash - text), text);
	if (strchr(pattern.folder, '%'))
		return pattern_refuse(text, "has a % in its folder", fault);
	(void)snprintf(pattern.name, sizeof pattern.name, "%s", name);
	int r = pattern_parse_name(text, &pattern, fault);
	if (r == 0)
		*ret = pattern;
	return r;
}

int pattern_shard(const struct pattern *pattern, uint64_t number, char ret_name[PATTERN_NAME],
	struct fault *fault)
{
	char digits[24];
	int n = snprintf(
		digits, sizeof digits, "%0*llu", (int)pattern->digits, (unsigned long long)number);
	if ((pattern->digits && n > (int)pattern->digits) || n > PATTERN_DIGITS)
		return fault_set(fault, -ERANGE,
			"shard number %llu needs more than the %u digits of %s; start again with "
			"more digits or a larger --shard-size",
			(unsigned long long)number,
			pattern->digits ? pattern->digits : PATTERN_DIGITS, pattern->name);
	(void)snprintf(ret_name, PATTERN_NAME, "%s%s%s", pattern->prefix, digits, pattern->suffix);
	return 0;
}

bool pattern_matches(const struct pattern *pattern, const char *name)
{
	size_t prefix = strlen(pattern->prefix), suffix = strlen(pattern->suffix);
	size_t size = strlen(name);
	if (size <= prefix + suffix || strncmp(name, pattern->prefix, prefix) != 0 ||
		strcmp(name + size - suffix, pattern->suffix) != 0)
		return false;
	for (size_t i = prefix; i < size - suffix; i++)
		if (!isdigit((unsigned char)name[i]))
			return false;
	return true;
}

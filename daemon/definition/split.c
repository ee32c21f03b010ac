/* split: see split.h. */
#include "definition/split.h"

#include "base/hash.h"
#include "base/host/roots.h"
#include "base/util.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SPLIT_EXPECTED "NAME, NAME[FROM:TO] or [FROM:TO], such as train[:90%%]"

/* In samples; no dataset has more. */
#define SPLIT_SAMPLES_MAX ((int64_t)1 << 48)

__extension__ typedef unsigned __int128 split_wide;

/* ---- the text ---- */

struct split_cursor {
	const char *text, *at;
	struct fault *fault;
};

static int split_expected(const struct split_cursor *c, const char *what)
{
	return fault_set(c->fault, -EINVAL,
		"at character %zu of \"%.200s\": expected %s; a split is " SPLIT_EXPECTED,
		(size_t)(c->at - c->text) + 1, c->text, what);
}

static bool split_take(struct split_cursor *c, char byte)
{
	bool is = *c->at == byte;
	c->at += is;
	return is;
}

/* The name must be a folder inside the source. */
static int split_name(struct split_cursor *c, struct split *split)
{
	size_t size = strcspn(c->at, "[");
	if (size >= sizeof split->name)
		return split_expected(c, "a short name");
	for (size_t i = 0; i < size; i++)
		if (strchr("/]:%+*?{}", c->at[i]) || iscntrl((unsigned char)c->at[i])) {
			c->at += i;
			return split_expected(c, "the name of a folder in the source");
		}
	memcpy(split->name, c->at, size);
	split->name[size] = 0;
	if (strcmp(split->name, ".") == 0 || strcmp(split->name, "..") == 0)
		return split_expected(c, "the name of a folder in the source");
	c->at += size;
	return 0;
}

/* Digits; TensorFlow allows an underscore between them. */
static int split_digits(struct split_cursor *c, int64_t *ret)
{
	int64_t value = 0;
	if (!isdigit((unsigned char)*c->at))
		return split_expected(c, "a number of samples or percent");
	for (; isdigit((unsigned char)*c->at) || *c->at == '_'; c->at++)
		if (*c->at != '_' && (value = value * 10 + (*c->at - '0')) > SPLIT_SAMPLES_MAX)
			return split_expected(c, "a number that is not larger than 2^48");
	*ret = value;
	return 0;
}

/* Up to six digits after a point. */
static int split_fraction(struct split_cursor *c, int64_t *ret_millionths)
{
	int64_t unit = SPLIT_MILLIONTHS / 10, value = 0;
	if (!isdigit((unsigned char)*c->at))
		return split_expected(c, "digits after the point");
	for (; isdigit((unsigned char)*c->at); c->at++, unit /= 10) {
		if (!unit)
			return split_expected(c, "at most six digits after the point");
		value += unit * (*c->at - '0');
	}
	*ret_millionths = value;
	return 0;
}

static int split_bound(struct split_cursor *c, struct split_bound *ret)
{
	int64_t whole = 0, fraction = 0;
	bool minus = split_take(c, '-'), point = false;
	int result = split_digits(c, &whole);
	if (!result && (point = split_take(c, '.')))
		result = split_fraction(c, &fraction);
	if (result)
		return result;
	ret->percent = split_take(c, '%');
	if (point && !ret->percent)
		return split_expected(c, "a percent sign: a number of samples is whole");
	if (ret->percent) {
		if (whole > 100 || (whole == 100 && fraction))
			return split_expected(c, "at most 100 percent before it");
		whole = whole * SPLIT_MILLIONTHS + fraction;
	}
	ret->value = minus ? -whole : whole;
	return 0;
}

/* Reads the rest after the opening bracket. */
static int split_range(struct split_cursor *c, struct split *split)
{
	int result = 0;
	if (*c->at != ':')
		result = split_bound(c, &split->from);
	if (!result && !split_take(c, ':'))
		result = split_expected(c, "a colon");
	if (!result && *c->at != ']') {
		split->ended = true;
		result = split_bound(c, &split->to);
	}
	if (!result && !split_take(c, ']'))
		result = split_expected(c, "a closing bracket");
	return result;
}

int split_parse(const char *text, struct split *ret, struct fault *fault)
{
	struct split_cursor c = {text, text, fault};
	struct split split = {0};
	int result = split_name(&c, &split);
	if (!result && split_take(&c, '['))
		result = split_range(&c, &split);
	if (!result && *c.at)
		result = split_expected(&c, "nothing after it");
	if (!result && !text[0])
		result = split_expected(&c, "something");
	if (result)
		return result;
	const struct split_bound *to = &split.to;
	if (split.ended && to->percent && to->value == 100 * (int64_t)SPLIT_MILLIONTHS)
		split.ended = false;
	split.part = split.from.value || split.ended;
	*ret = split;
	return 0;
}

/* ---- places ---- */

/* The closest whole number; in a tie, the even one. */
static uint64_t split_percent(uint64_t millionths, uint64_t samples)
{
	const uint64_t all = 100 * (uint64_t)SPLIT_MILLIONTHS;
	split_wide product = (split_wide)millionths * samples;
	uint64_t whole = (uint64_t)(product / all), rest = (uint64_t)(product % all);
	return whole + (rest * 2 > all || (rest * 2 == all && (whole & 1)));
}

/* -EINVAL if the bound is beyond the end of the dataset. */
static int split_place(const struct split_bound *bound, uint64_t samples, uint64_t *ret)
{
	uint64_t size = (uint64_t)(bound->value < 0 ? -bound->value : bound->value);
	if (bound->percent)
		size = split_percent(size, samples);
	if (size > samples)
		return -EINVAL;
	*ret = bound->value < 0 ? samples - size : size;
	return 0;
}

int split_places(const struct split *split, const char *text, uint64_t samples, uint64_t *ret_from,
	uint64_t *ret_count, struct fault *fault)
{
	uint64_t from = 0, to = samples;
	if (split_place(&split->from, samples, &from) ||
		(split->ended && split_place(&split->to, samples, &to)))
		return fault_set(fault, -EINVAL,
			"split: \"%s\" lies beyond the dataset, which has %" PRIu64
			" samples: expected numbers up to that, or percent",
			text, samples);
	if (from >= to)
		return fault_set(fault, -EINVAL,
			"split: \"%s\" has no samples: of the dataset's %" PRIu64
			" it goes from %" PRIu64 " to %" PRIu64,
			text, samples, from, to);
	*ret_from = from;
	*ret_count = to - from;
	return 0;
}

uint64_t split_hash(const struct split *split)
{
	const struct split_bound *bounds[] = {&split->from, &split->to};
	uint64_t h = hash_u64(hash_bytes(HASH_SEED, "split", 5), split->ended);
	for (size_t i = 0; i < UTIL_COUNT(bounds); i++)
		h = hash_u64(hash_u64(h, bounds[i]->percent), (uint64_t)bounds[i]->value);
	return hash_mix(h);
}

/* ---- NAME in a source ---- */

/* Whether a folder has a file PREFIX*.tar: 0, 1, or the negative errno of opening the folder. */
static int split_has_tars(const char *folder, const char *prefix)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	int found = 0;
	if (!dir)
		return -errno;
	while (!found && (entry = readdir(dir))) {
		const char *name = entry->d_name;
		size_t size = strlen(name);
		found = name[0] != '.' && strncmp(name, prefix, strlen(prefix)) == 0 && size > 4 &&
			strcmp(name + size - 4, ".tar") == 0;
	}
	(void)closedir(dir);
	return found;
}

/* Quotes a path so that a glob takes every character literally. */
static size_t split_quote(const char *path, char *buffer, size_t room)
{
	size_t at = 0;
	for (; *path; path++) {
		char quoted[4] = {*path, 0};
		if (strchr("*?[", *path))
			(void)snprintf(quoted, sizeof quoted, "[%c]", *path);
		at += (size_t)snprintf(
			at < room ? buffer + at : NULL, at < room ? room - at : 0, "%s", quoted);
	}
	return at;
}

/* Writes FOLDER, quoted, and the text that follows. */
static int split_glob(const char *folder, const char *name, const char *tail, char *buffer,
	size_t room, struct fault *fault)
{
	size_t at = split_quote(folder, buffer, room);
	if (at < room)
		at += (size_t)snprintf(buffer + at, room - at, "/%s%s", name, tail);
	if (at < room)
		return 0;
	return fault_set(fault, -ENAMETOOLONG,
		"split: the path of %s in %.400s has %zu bytes, there is room for %zu", name,
		folder, at, room);
}

int split_source(const struct split *split, const char *source, char *buffer, size_t room,
	struct fault *fault)
{
	char inside[4096 + SPLIT_TEXT + 2], prefix[SPLIT_TEXT + 1];
	struct stat st;
	if (!split->name[0]) {
		(void)snprintf(buffer, room, "%s", source);
		return 0;
	}
	int allowed = roots_check("source", source, fault);
	if (allowed < 0)
		return allowed;
	if (stat(source, &st) == 0 && !S_ISDIR(st.st_mode))
		return fault_set(fault, -EINVAL,
			"split: \"%s\" names a folder in the source, but %.400s is none: leave the "
			"name out ([FROM:TO]), or name the folder that contains it as source",
			split->name, source);
	(void)snprintf(inside, sizeof inside, "%.4096s/%s", source, split->name);
	(void)snprintf(prefix, sizeof prefix, "%s-", split->name);
	if (stat(inside, &st) == 0 && S_ISDIR(st.st_mode)) {
		if (split_has_tars(inside, "") == 1)
			return split_glob(inside, "", "*.tar", buffer, room, fault);
		if (strlen(inside) >= room)
			return fault_set(
				fault, -ENAMETOOLONG, "split: the path %.400s is too long", inside);
		(void)snprintf(buffer, room, "%s", inside);
		return 0;
	}
	if (split_has_tars(source, prefix) == 1)
		return split_glob(source, prefix, "*.tar", buffer, room, fault);
	return fault_set(fault, -ENOENT,
		"split: \"%s\" is not in %.400s: expected a folder of images or tars of that name, "
		"or tars %s-*.tar",
		split->name, source, split->name);
}

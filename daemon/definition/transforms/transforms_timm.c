/* transforms_timm: see transforms_timm.h. timm's parsers are rand_augment_transform,
 * augment_and_mix_transform and auto_augment_transform of timm/data/auto_augment.py. */
#include "definition/transforms/transforms_timm.h"

#include "augment/step_timm.h"
#include "base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMM_UNIFORM = 100, TIMM_SHOWN = 24, TIMM_NUMBER = 16, TIMM_EXPECT = 160 };

static const char *const timm_names[] = {
	[STEP_TIMM_RAND] = "rand",
	[STEP_TIMM_AUGMIX] = "augmix",
	[STEP_TIMM_V0] = "v0",
	[STEP_TIMM_V0R] = "v0r",
	[STEP_TIMM_ORIGINAL] = "original",
	[STEP_TIMM_ORIGINALR] = "originalr",
	[STEP_TIMM_3A] = "3a",
	NULL,
};

static const char *const timm_sets[] = {
	[STEP_TIMM_SET_ALL] = "",
	[STEP_TIMM_SET_WEIGHTS] = "weights",
	[STEP_TIMM_SET_3A] = "3a",
	[STEP_TIMM_SET_3AW] = "3aw",
};

/* ---- settings ---- */

enum timm_setting {
	TIMM_M,
	TIMM_N,
	TIMM_P,
	TIMM_MSTD,
	TIMM_MMAX,
	TIMM_INC,
	TIMM_T,
	TIMM_W,
	TIMM_D,
	TIMM_A,
	TIMM_B,
	TIMM_SETTINGS,
};

/* The policies that have a setting. */
enum { FOR_RAND = 1, FOR_AUGMIX = 2, FOR_AUTO = 4 };

static const struct {
	const char *name, *means;
	bool whole;
	double low, high;
	unsigned policies;
} timm_settings[TIMM_SETTINGS] = {
	[TIMM_M] = {"m", "the magnitude", true, 0, 1000, FOR_RAND | FOR_AUGMIX},
	[TIMM_N] = {"n", "the number of operations", true, 1, 16, FOR_RAND},
	[TIMM_P] = {"p", "a probability", false, 0, 1, FOR_RAND},
	[TIMM_MSTD] = {"mstd", "the standard deviation of magnitudes", false, 0, 1000,
		FOR_RAND | FOR_AUGMIX | FOR_AUTO},
	[TIMM_MMAX] = {"mmax", "the largest magnitude", true, 1, 1000, FOR_RAND},
	[TIMM_INC] = {"inc", "0 or 1", true, 0, 1, FOR_RAND},
	[TIMM_T] = {"t", "weights, 3a or 3aw", false, 0, 0, FOR_RAND},
	[TIMM_W] = {"w", "the number of chains", true, 1, 10, FOR_AUGMIX},
	[TIMM_D] = {"d", "operations of a chain, 0: 1 to 3", true, 0, 16, FOR_AUGMIX},
	[TIMM_A] = {"a", "alpha", false, 0.01, 100, FOR_AUGMIX},
	[TIMM_B] = {"b", "0 or 1", true, 0, 1, FOR_AUGMIX},
};

static unsigned timm_kind(enum step_timm_policy policy)
{
	return policy == STEP_TIMM_RAND     ? FOR_RAND
	       : policy == STEP_TIMM_AUGMIX ? FOR_AUGMIX
					    : FOR_AUTO;
}

/* ---- reading ---- */

/* A part of the string: from one dash to the next. */
struct timm_part {
	const char *text;
	size_t at, size;
};

/* The string while it is read. */
struct timm_reading {
	const char *text;
	size_t size;
	struct step step;
	unsigned given; /* settings, one bit each */
	struct fault *fault;
};

static int timm_refuse(const struct timm_reading *reading, const struct timm_part *part,
	size_t inside, const char *expected)
{
	int shown = (int)UTIL_MIN(part->size, (size_t)TIMM_SHOWN);
	return fault_set(reading->fault, -EINVAL, "at character %zu expected %s; got \"%.*s\"",
		part->at + inside + 1, expected, shown, part->text);
}

static struct timm_part timm_part_at(const struct timm_reading *reading, size_t at)
{
	struct timm_part part = {.text = reading->text + at, .at = at};
	while (at + part.size < reading->size && part.text[part.size] != '-')
		part.size++;
	return part;
}

static bool timm_part_is(const struct timm_part *part, const char *word)
{
	return strlen(word) == part->size && memcmp(part->text, word, part->size) == 0;
}

static int timm_read_policy(struct timm_reading *reading, const struct timm_part *part)
{
	for (int i = 0; timm_names[i]; i++)
		if (timm_part_is(part, timm_names[i])) {
			reading->step.timm.policy = (enum step_timm_policy)i;
			return 0;
		}
	return timm_refuse(reading, part, 0,
		"rand, augmix, v0, v0r, original, originalr or 3a, as in rand-m9-mstd0.5-inc1");
}

/* The settings that a policy has, "m, mstd, w, d, a or b". */
static void timm_expected(enum step_timm_policy policy, char ret[TIMM_EXPECT])
{
	static const char *const ends[] = {" (its number behind it, as in mstd0.5)", ""};
	unsigned kind = timm_kind(policy), left = 0;
	size_t at = (size_t)snprintf(ret, TIMM_EXPECT, "%s", kind == FOR_AUTO ? "" : "one of ");
	for (int i = 0; i < TIMM_SETTINGS; i++)
		left += (timm_settings[i].policies & kind) != 0;
	for (int i = 0; i < TIMM_SETTINGS; i++) {
		if (!(timm_settings[i].policies & kind))
			continue;
		left--;
		at += (size_t)snprintf(ret + at, TIMM_EXPECT - at, "%s%s", timm_settings[i].name,
			left > 1 ? ", "
			: left   ? " or "
				 : ends[0]);
	}
}

/* A number of digits and at most one point, whatever the locale. */
static bool timm_number(const struct timm_part *part, size_t from, double *ret)
{
	double value = 0, unit = 1;
	bool point = false, digits = false;
	if (from >= part->size || part->size - from > TIMM_NUMBER)
		return false;
	for (size_t i = from; i < part->size; i++) {
		char c = part->text[i];
		if (c == '.' && !point) {
			point = true;
			continue;
		}
		if (c < '0' || c > '9')
			return false;
		digits = true;
		value = 10 * value + (c - '0');
		unit *= point ? 10 : 1;
	}
	*ret = value / unit;
	return digits;
}

static int timm_read_set(struct timm_reading *reading, const struct timm_part *part)
{
	const struct timm_part word = {part->text + 1, part->at + 1, part->size - 1};
	for (int i = STEP_TIMM_SET_WEIGHTS; i <= STEP_TIMM_SET_3AW; i++)
		if (timm_part_is(&word, timm_sets[i])) {
			reading->step.timm.set = (enum step_timm_set)i;
			return 0;
		}
	return timm_refuse(reading, part, 1, "weights, 3a or 3aw behind t, as in tweights");
}

static void timm_assign(struct step *step, enum timm_setting setting, double value)
{
	switch (setting) {
	case TIMM_M:
		step->magnitude = (uint32_t)value;
		break;
	case TIMM_N:
		step->num_ops = (uint32_t)value;
		break;
	case TIMM_P:
		step->p = value;
		break;
	case TIMM_MSTD:
		step->timm.uniform = step->timm.policy == STEP_TIMM_RAND && value > TIMM_UNIFORM;
		step->timm.spread = step->timm.uniform ? 0 : value;
		break;
	case TIMM_MMAX:
		step->timm.most = (uint32_t)value;
		break;
	case TIMM_INC:
		step->timm.increasing = value != 0;
		break;
	case TIMM_W:
		step->mixture_width = (uint32_t)value;
		break;
	case TIMM_D:
		step->chain_depth = value > 0 ? (int32_t)value : -1;
		break;
	case TIMM_A:
		step->alpha = value;
		break;
	default:
		step->timm.blended = value != 0;
	}
}

static int timm_read_number(
	struct timm_reading *reading, const struct timm_part *part, enum timm_setting setting)
{
	char expected[TIMM_EXPECT];
	double value = 0;
	size_t from = strlen(timm_settings[setting].name);
	bool whole = timm_settings[setting].whole;
	if (timm_number(part, from, &value) && value >= timm_settings[setting].low &&
		value <= timm_settings[setting].high &&
		(!whole || !memchr(part->text + from, '.', part->size - from))) {
		timm_assign(&reading->step, setting, value);
		return 0;
	}
	(void)snprintf(expected, sizeof expected, "a %snumber from %g to %g behind %s (%s)",
		whole ? "whole " : "", timm_settings[setting].low, timm_settings[setting].high,
		timm_settings[setting].name, timm_settings[setting].means);
	return timm_refuse(reading, part, from, expected);
}

/* The letters that a part begins with, as timm splits it: all before the first digit; `t` is
 * followed by a word. */
static bool timm_setting_of(
	const struct timm_part *part, unsigned kind, enum timm_setting *ret_setting)
{
	size_t letters = 0;
	if (kind == FOR_RAND && part->size && part->text[0] == 't') {
		*ret_setting = TIMM_T;
		return true;
	}
	while (letters < part->size && part->text[letters] >= 'a' && part->text[letters] <= 'z')
		letters++;
	for (int i = 0; i < TIMM_SETTINGS; i++)
		if (i != TIMM_T && timm_settings[i].policies & kind &&
			strlen(timm_settings[i].name) == letters &&
			memcmp(timm_settings[i].name, part->text, letters) == 0) {
			*ret_setting = (enum timm_setting)i;
			return true;
		}
	return false;
}

static int timm_read_setting(struct timm_reading *reading, const struct timm_part *part)
{
	char expected[TIMM_EXPECT];
	enum timm_setting setting = TIMM_SETTINGS;
	enum step_timm_policy policy = reading->step.timm.policy;
	if (!timm_setting_of(part, timm_kind(policy), &setting)) {
		timm_expected(policy, expected);
		return timm_refuse(reading, part, 0, expected);
	}
	if (reading->given & 1u << setting) {
		(void)snprintf(
			expected, sizeof expected, "%s only once", timm_settings[setting].name);
		return timm_refuse(reading, part, 0, expected);
	}
	reading->given |= 1u << setting;
	return setting == TIMM_T ? timm_read_set(reading, part)
				 : timm_read_number(reading, part, setting);
}

/* Without replacement, no more operations can be drawn than the set has. */
static int timm_check_count(const struct timm_reading *reading)
{
	const struct timm_set *set = timm_set_of(&reading->step.timm);
	if (reading->step.timm.policy != STEP_TIMM_RAND || !timm_set_weighted(set) ||
		reading->step.num_ops <= set->count)
		return 0;
	return fault_set(reading->fault, -EINVAL,
		"n: expected at most %" PRIu32 ", since t%s draws no operation twice; got %" PRIu32,
		set->count, timm_sets[reading->step.timm.set], reading->step.num_ops);
}

int transforms_timm_parse(const char *text, size_t size, struct step *step, struct fault *fault)
{
	struct timm_reading reading = {.text = text, .size = size, .step = *step, .fault = fault};
	struct timm_part part = timm_part_at(&reading, 0);
	int result = timm_read_policy(&reading, &part);
	if (result < 0)
		return result;
	bool augmix = reading.step.timm.policy == STEP_TIMM_AUGMIX;
	/* timm's defaults. */
	reading.step.magnitude = augmix ? 3 : TIMM_MAGNITUDE;
	reading.step.num_ops = 2;
	reading.step.p = 0.5;
	reading.step.mixture_width = 3;
	reading.step.chain_depth = -1;
	reading.step.alpha = 1;
	reading.step.timm = (struct step_timm){.policy = reading.step.timm.policy,
		.uniform = augmix,
		.most = TIMM_MAGNITUDE,
		.translate = step->timm.translate};
	while (part.at + part.size < size && !result) {
		part = timm_part_at(&reading, part.at + part.size + 1);
		result = timm_read_setting(&reading, &part);
	}
	if (!result)
		result = timm_check_count(&reading);
	if (!result)
		*step = reading.step;
	return result;
}

/* ---- writing ---- */

/* What stands for uniform magnitudes: for rand any mstd above 100; for augmix, which has them by
 * default, no mstd. */
static double timm_uniform(enum step_timm_policy policy)
{
	return policy == STEP_TIMM_AUGMIX ? -1 : TIMM_UNIFORM + 1;
}

static double timm_value(const struct step *step, enum timm_setting setting)
{
	switch (setting) {
	case TIMM_M:
		return step->magnitude;
	case TIMM_N:
		return step->num_ops;
	case TIMM_P:
		return step->p;
	case TIMM_MSTD:
		return step->timm.uniform ? timm_uniform(step->timm.policy) : step->timm.spread;
	case TIMM_MMAX:
		return step->timm.most;
	case TIMM_INC:
		return step->timm.increasing;
	case TIMM_T:
		return step->timm.set;
	case TIMM_W:
		return step->mixture_width;
	case TIMM_D:
		return step->chain_depth < 0 ? 0 : step->chain_depth;
	case TIMM_A:
		return step->alpha;
	default:
		return step->timm.blended;
	}
}

/* The value that timm takes where the string does not have the setting; m is always written. */
static double timm_default(enum step_timm_policy policy, enum timm_setting setting)
{
	static const double plain[TIMM_SETTINGS] = {[TIMM_M] = -1,
		[TIMM_N] = 2,
		[TIMM_P] = 0.5,
		[TIMM_MMAX] = TIMM_MAGNITUDE,
		[TIMM_W] = 3,
		[TIMM_A] = 1};
	if (setting == TIMM_MSTD && policy == STEP_TIMM_AUGMIX)
		return timm_uniform(policy);
	return plain[setting];
}

/* Without an exponent: numbers were written without one. */
static void timm_put_number(double value, char *buffer, size_t room)
{
	for (int digits = 0; digits <= TIMM_NUMBER; digits++) {
		(void)snprintf(buffer, room, "%.*f", digits, value);
		if (strtod(buffer, NULL) == value)
			break;
	}
	for (char *s = buffer; *s; s++)
		if (*s < '0' || *s > '9')
			*s = '.';
}

void transforms_timm_text(const struct step *step, char ret[TRANSFORMS_TIMM_TEXT])
{
	enum step_timm_policy policy = step->timm.policy;
	size_t at = (size_t)snprintf(ret, TRANSFORMS_TIMM_TEXT, "%s", timm_names[policy]);
	for (int i = 0; i < TIMM_SETTINGS && at < TRANSFORMS_TIMM_TEXT; i++) {
		char number[TIMM_NUMBER + 24];
		double value = timm_value(step, (enum timm_setting)i);
		if (!(timm_settings[i].policies & timm_kind(policy)) ||
			value == timm_default(policy, (enum timm_setting)i))
			continue;
		timm_put_number(value, number, sizeof number);
		at += (size_t)snprintf(ret + at, TRANSFORMS_TIMM_TEXT - at, "-%s%s",
			timm_settings[i].name, i == TIMM_T ? timm_sets[step->timm.set] : number);
	}
}

size_t transforms_timm_numbers(const struct step *step, double ret[TRANSFORMS_TIMM_NUMBERS])
{
	unsigned kind = timm_kind(step->timm.policy);
	size_t count = 0;
	ret[count++] = step->timm.policy;
	for (int i = 0; i < TIMM_SETTINGS; i++)
		if (timm_settings[i].policies & kind)
			ret[count++] = timm_value(step, (enum timm_setting)i);
	return count;
}

/* pattern: what a user names as output: FOLDER/NAME-%06d.tar, a row of shards.
 *
 * The number stands in the file's name, once, as %d or %0Nd; the name ends with .tar, which is what
 * every reader of WebDataset looks for. Names of a row sort bytewise in the order of their numbers
 * while these have N digits, so a number that needs more is an error: a glob would read such shards
 * in another order. After %d the numbers have as many digits as they need, and globs do read them
 * in another order; a brace range does not. Main thread. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PATTERN_PATH = 4096, PATTERN_NAME = 256, PATTERN_DIGITS = 9 };

struct pattern {
	char folder[PATTERN_PATH]; /* as given; "." where there was none */
	char name[PATTERN_NAME]; /* "train-%06d.tar" */
	char prefix[PATTERN_NAME], suffix[PATTERN_NAME]; /* "train-", ".tar" */
	char stem[PATTERN_NAME]; /* "train": what the row as a whole is called */
	unsigned digits; /* 0: as many as needed */
};

/* 0, or -EINVAL or -ENAMETOOLONG with a fault. Pure. */
int pattern_parse(const char *text, struct pattern *ret, struct fault *fault);

/* The name of shard `number` without its folder. 0, or -ERANGE with a fault when the number needs
 * more digits. Pure. */
int pattern_shard(const struct pattern *pattern, uint64_t number, char ret_name[PATTERN_NAME],
	struct fault *fault);

/* Whether a name could be a shard of this row. Pure. */
bool pattern_matches(const struct pattern *pattern, const char *name);

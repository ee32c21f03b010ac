/* pattern: the output that a user names: FOLDER/NAME-%06d.tar, numbered shards.
 *
 * The file name holds the number once, as %d or %0Nd, and ends with .tar, which every reader of
 * WebDataset expects. The names sort bytewise in the order of their numbers while these have N
 * digits, so a number that needs more digits is an error: a glob would read such shards in
 * another order. With %d the numbers have as many digits as they need, and a glob does read them
 * in another order; a brace range does not. Main thread. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PATTERN_PATH = 4096, PATTERN_NAME = 256, PATTERN_DIGITS = 9 };

struct pattern {
	char folder[PATTERN_PATH]; /* as given; "." if none was given */
	char name[PATTERN_NAME]; /* "train-%06d.tar" */
	char prefix[PATTERN_NAME], suffix[PATTERN_NAME]; /* "train-", ".tar" */
	char stem[PATTERN_NAME]; /* "train": the name of the whole output */
	unsigned digits; /* 0: as many as needed */
};

/* 0, or -EINVAL or -ENAMETOOLONG with a fault. Pure. */
int pattern_parse(const char *text, struct pattern *ret, struct fault *fault);

/* The name of shard `number` without its folder. 0, or -ERANGE with a fault if the number needs
 * more digits. Pure. */
int pattern_shard(const struct pattern *pattern, uint64_t number, char ret_name[PATTERN_NAME],
	struct fault *fault);

/* Whether a name has the form of one of these shards. Pure. */
bool pattern_matches(const struct pattern *pattern, const char *name);

/* drive: what a fuzz target is when it is linked without libFuzzer: a program (drive.c has its
 * main) that makes a number of inputs, each from a seed, put together by the target and then, every
 * second one, spoiled here.
 *
 *     fuzz_X_run [--seed N] [--rounds N] [--seconds N] [FILE...]   all that fits in either, after
 *                                                                  the files; prints how many
 *     fuzz_X_run --write FOLDER [--seed N] [--rounds N]            writes them, as a corpus
 *
 * Input i of seed S is input 0 of seed S + i. Where PENSTOCK_TEST_NIGHTLY is set and no seed is
 * given, it is the day, times a billion. A finding writes its input and names it. One thread. */
#pragma once

#include "fuzz/random.h"

#include <stddef.h>
#include <stdint.h>

struct drive {
	const char *name; /* "fuzz_tar" */
	size_t room; /* bytes of an input, at most */
	/* Puts an input together; returns its size. */
	size_t (*compose)(uint8_t *bytes, size_t room, struct random *random);
	void (*end)(void); /* NULL, or the last that is done: cleaning up, figures */
};

/* The target's. */
extern const struct drive fuzz_drive;
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Any bytes, so many; returns how many. */
size_t drive_noise(uint8_t *bytes, size_t size, struct random *random);

/* One change to any bytes, as faults and attackers make them. Returns the new size. */
size_t drive_spoil(uint8_t *bytes, size_t size, size_t room, struct random *random);

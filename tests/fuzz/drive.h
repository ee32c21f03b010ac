/* drive: a fuzz target that is linked without libFuzzer: a program (drive.c has its main) that
 * makes a number of inputs, each from a seed. The target builds an input; drive damages every
 * second one.
 *
 *     fuzz_X_run [--seed N] [--rounds N] [--seconds N] [FILE...]   the files, then inputs until
 *                                                                  either limit; prints how many
 *     fuzz_X_run --write FOLDER [--seed N] [--rounds N]            writes them, as a corpus
 *
 * Input i of seed S is input 0 of seed S + i. If PENSTOCK_TEST_NIGHTLY is set and no seed is
 * given, the seed is the day times a billion. A finding writes its input and names it. One
 * thread. */
#pragma once

#include "fuzz/random.h"

#include <stddef.h>
#include <stdint.h>

struct drive {
	const char *name; /* "fuzz_tar" */
	size_t room; /* the most bytes of an input */
	/* Builds an input; returns its size. */
	size_t (*compose)(uint8_t *bytes, size_t room, struct random *random);
	void (*end)(void); /* NULL, or called at the end: cleans up, prints figures */
};

/* Defined by the target. */
extern const struct drive fuzz_drive;
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Fills in that many random bytes; returns how many. */
size_t drive_noise(uint8_t *bytes, size_t size, struct random *random);

/* Makes one change to any bytes, as a fault or an attacker would. Returns the new size. */
size_t drive_spoil(uint8_t *bytes, size_t size, size_t room, struct random *random);

/* philox: the counter-based generator behind every random draw.
 *
 * Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC
 * 2011). A pure function of key and counter: no state, so threads, ranks and restarts cannot change
 * what is drawn. Checked against the known-answer vectors of the paper's Random123 distribution in
 * tests/unit/proto. Part of the contract: daemon and clients draw
 * from the same generator, and whoever knows seed, epoch and position can draw again. */
#pragma once

#include <stdint.h>

struct philox {
	uint32_t word[4];
};

/* What a draw is for; part of the counter, so that operations never share random numbers. Values
 * are part of the promise "same seed, same bytes": append, never renumber. */
enum philox_operation {
	PHILOX_SHUFFLE = 1,
	PHILOX_SUBSTITUTE = 2,
	PHILOX_RESIZED_CROP = 3,
	PHILOX_HORIZONTAL_FLIP = 4,
	/* Of clients, on batches: */
	PHILOX_BATCH_MIX = 5, /* MixUp and CutMix; the position is that of the batch's first row */
	PHILOX_BATCH_FLIP = 6,
	PHILOX_BATCH_ERASE = 7,
	PHILOX_BATCH_NOISE = 8, /* pixels of an erased rectangle; drawn on the device */
	/* Of samples again: */
	PHILOX_VERTICAL_FLIP = 9,
};

struct philox philox_4x32(const uint32_t counter[4], const uint32_t key[2]);

/* Four words for draw number `step` (below 2^16) of `operation` on the sample at `position` (below
 * 2^48) of `epoch`. */
struct philox philox_draw(uint64_t seed, uint32_t epoch, uint64_t position,
	enum philox_operation operation, uint32_t step);

/* Uniform in [0, 1) with 53 bits out of two words. */
double philox_unit(uint32_t high, uint32_t low);

/* Uniform in [0, bound) out of two words (64-bit multiply-shift: bias below bound / 2^64). */
uint64_t philox_below(uint32_t high, uint32_t low, uint64_t bound);

/* philox: the counter-based generator of all random draws.
 *
 * Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC
 * 2011). It is a pure function of key and counter. It has no state, so threads, ranks and restarts
 * cannot change the draws. tests/unit/proto checks it against the known-answer vectors of the
 * paper's Random123 distribution. Part of the contract: daemon and clients use the same generator,
 * and a client that knows seed, epoch and position can repeat a draw. Any thread. */
#pragma once

#include <stdint.h>

struct philox {
	uint32_t word[4];
};

/* The purpose of a draw. It is part of the counter, so that operations never share random numbers.
 * Values are part of the promise "same seed, same bytes": append, never renumber. */
enum philox_operation {
	PHILOX_SHUFFLE = 1,
	PHILOX_SUBSTITUTE = 2,
	PHILOX_RESIZED_CROP = 3,
	PHILOX_HORIZONTAL_FLIP = 4,
	/* By clients, for batches: */
	PHILOX_BATCH_MIX = 5, /* MixUp and CutMix; the position is that of the batch's first row */
	PHILOX_BATCH_FLIP = 6,
	PHILOX_BATCH_ERASE = 7,
	PHILOX_BATCH_NOISE = 8, /* pixels of an erased rectangle; drawn on the device */
	/* For samples: */
	PHILOX_VERTICAL_FLIP = 9,
	PHILOX_RANDOM_CROP = 10,
	PHILOX_COLOR_JITTER = 11,
	PHILOX_GRAYSCALE = 12,
	PHILOX_GAUSSIAN_BLUR = 13,
	PHILOX_SOLARIZE = 14,
	PHILOX_POSTERIZE = 15,
	PHILOX_EQUALIZE = 16,
	PHILOX_AUTOCONTRAST = 17,
	PHILOX_INVERT = 18,
	PHILOX_ADJUST_SHARPNESS = 19,
	PHILOX_AFFINE = 20,
	PHILOX_ROTATION = 21,
	PHILOX_PERSPECTIVE = 22,
	PHILOX_RAND_AUGMENT = 23,
	PHILOX_TRIVIAL_AUGMENT = 24,
	PHILOX_AUTO_AUGMENT = 25,
	PHILOX_AUG_MIX = 26,
	PHILOX_THREE_AUGMENT = 27,
	PHILOX_APPLY = 28,
	PHILOX_CHOICE = 29,
	PHILOX_ORDER = 30,
	/* For positions: which sample is at a position. */
	PHILOX_WEIGHTED = 31, /* drawn with replacement */
	PHILOX_SOURCES = 32, /* of a mix of datasets */
	PHILOX_SPLIT = 33, /* which samples a split has; seed, epoch and position are 0 */
	/* For samples: */
	PHILOX_ERASING = 34, /* RandomErasing in a list of transforms: whether, and where */
	PHILOX_SALT = 35, /* the seed of a salted stream's draws; epoch is the salt */
	/* For positions, where batches have P classes and K samples of each: */
	PHILOX_CLASSES = 36, /* which classes */
	PHILOX_CLASS_SAMPLES = 37, /* which samples of a class */
	/* For positions: the order of batches whose samples are divided into buckets. The position
	 * is the number of a block of batches, or of a bucket. */
	PHILOX_BUCKETS = 40,
	/* For positions: a shuffle by blocks. */
	PHILOX_BLOCKS = 41, /* the order of the blocks */
	/* The order of the samples of a period, and of those of a block: a draw, whose position is
	 * the number of the period or the block, makes the seed of a permutation. */
	PHILOX_WINDOW = 42,
	PHILOX_BLOCK = 43,
	/* For samples: */
	PHILOX_TIMM = 50, /* timm's policies: which operations */
	PHILOX_TIMM_AMOUNT = 51, /* how much each does */
	PHILOX_INTERPOLATION = 52, /* which filter an interpolation of "random" is */
	/* The steps that size images. */
	PHILOX_RANDOM_RESIZE = 60,
	PHILOX_SCALE_JITTER = 61,
	PHILOX_SHORTEST_SIZE = 62,
	PHILOX_ZOOM_OUT = 63,
	PHILOX_KEEP_RATIO = 64,
	PHILOX_CROP_OR_PAD = 65,
};

struct philox philox_4x32(const uint32_t counter[4], const uint32_t key[2]);

/* Four words for draw number `step` (below 2^16) of `operation` on the sample at `position` (below
 * 2^48) of `epoch`. */
struct philox philox_draw(uint64_t seed, uint32_t epoch, uint64_t position,
	enum philox_operation operation, uint32_t step);

/* The seed of a stream's draws: `seed` itself for a salt of 0, otherwise another seed. The order of
 * samples does not use it. */
uint64_t philox_salted(uint64_t seed, uint32_t salt);

/* Uniform in [0, 1) with 53 bits out of two words. */
double philox_unit(uint32_t high, uint32_t low);

/* Uniform in [0, bound) out of two words (64-bit multiply-shift: bias below bound / 2^64). */
uint64_t philox_below(uint32_t high, uint32_t low, uint64_t bound);

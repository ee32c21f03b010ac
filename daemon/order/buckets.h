/* buckets: the batches of an epoch whose samples are divided into buckets, each of one shape.
 *
 * A batch has samples of one bucket only. Two sequences define an epoch:
 *
 *   rows     The rows of bucket 0 in the order of its own shuffle, then those of bucket 1, and so
 *            on. The place of a row in this sequence is the key of its random draws. It does not
 *            depend on the batch size, the world size or the way that batches are ordered.
 *   batches  Each bucket's rows are cut into global batches from the first one on. The last
 *            batch of a bucket is short, or left out with drop_last. A shuffled epoch mixes the
 *            buckets: its batches are divided into blocks of about BUCKETS_BLOCK, each bucket has
 *            its share of every block (rounded up in some and down in others, which a draw keyed
 *            by seed and epoch decides), and a keyed permutation orders the block. Without
 *            shuffling, the buckets follow each other.
 *
 * So the number of batches that a bucket had before any batch can be computed without walking, and
 * what was delivered up to a batch is a number of rows from the front of each bucket. When an epoch
 * continues with another global batch, the rest of each bucket is cut anew from there, and ordered
 * by the same rules: a new stretch. The list of these cuts, with the position at which each began,
 * is part of a state. A position in an epoch counts every batch as a full one.
 *
 * Pure functions; any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	BUCKETS_MAX = 64,
	BUCKETS_BLOCK = 64, /* batches */
	BUCKETS_CUTS = 8, /* global batches that an epoch may be cut with, one after the other */
};

struct buckets {
	uint32_t count; /* 0: the samples are not divided */
	uint64_t rows[BUCKETS_MAX]; /* of an epoch */
	uint64_t first[BUCKETS_MAX]; /* where a bucket's rows begin in the sequence of all */
};

/* Sets `first` from `rows`. Returns the rows of all buckets. */
uint64_t buckets_settle(struct buckets *buckets);

/* The bucket that a row belongs to. */
uint32_t buckets_of(const struct buckets *buckets, uint64_t row);

/* From `position` on, an epoch is cut into global batches of `global` samples. */
struct buckets_cut {
	uint64_t position, global;
};
struct buckets_cuts {
	uint32_t count;
	struct buckets_cut at[BUCKETS_CUTS];
};
bool buckets_cuts_equal(const struct buckets_cuts *a, const struct buckets_cuts *b);

/* What orders the batches of an epoch. */
struct buckets_key {
	uint64_t seed;
	uint32_t epoch;
	bool shuffle;
};

/* The part of an epoch after one cut. */
struct buckets_stretch {
	uint64_t global;
	uint64_t taken[BUCKETS_MAX]; /* rows that came before it */
	uint64_t batches[BUCKETS_MAX];
	uint64_t total; /* batches of all buckets */
};

/* `taken` NULL: the stretch is a whole epoch. */
struct buckets_stretch buckets_stretch(
	const struct buckets *buckets, const uint64_t *taken, uint64_t global, bool drop_last);

struct buckets_batch {
	uint32_t bucket;
	uint64_t first; /* its first row, in the sequence of rows */
	uint64_t rows; /* `global`, or fewer in a bucket's last batch */
};

/* Batch `number` (below total) of a stretch. */
struct buckets_batch buckets_batch(const struct buckets *buckets,
	const struct buckets_stretch *stretch, const struct buckets_key *key, uint64_t number);

/* The rows of each bucket that came before batch `number` (at most total) of a stretch. */
void buckets_taken(const struct buckets *buckets, const struct buckets_stretch *stretch,
	const struct buckets_key *key, uint64_t number, uint64_t ret_taken[BUCKETS_MAX]);

/* The rows of all batches of a stretch from batch `number` on. */
uint64_t buckets_left(const struct buckets *buckets, const struct buckets_stretch *stretch,
	const struct buckets_key *key, uint64_t number);

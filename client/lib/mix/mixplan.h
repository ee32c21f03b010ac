/* mixplan: what is done to each row of a batch, drawn from seed, epoch and position. Pure.
 *
 * Flip and erase are drawn per row, keyed by the row's position and view; MixUp and CutMix once per
 * batch, keyed by the position of its first row. Samples pair with the one before them (the first
 * with the last), as in torchvision.transforms.v2's MixUp and CutMix; a view pairs with the
 * partner's view of the same number.
 *
 * Compiled into libpenstock and into libpenstock_cuda, so that mixing draws the same on the CPU and
 * on a device. Thread: any. */
#pragma once

#include "penstock/penstock.h"

#include <stdint.h>

/* penstock_mix_options and penstock_cuda_options say what these are. */
struct mixplan {
	double flip;
	double erase, erase_scale[2], erase_ratio[2];
	double mixup, cutmix, mix, mix_switch;
	const struct penstock_mix_epoch *epochs; /* of the caller */
	size_t epoch_count;
};

enum { MIXPLAN_EPOCHS_MOST = 65536 };

/* The last entry of `plan` whose epoch is not after `epoch`. NULL: none. */
const struct penstock_mix_epoch *mixplan_epoch(const struct mixplan *plan, uint64_t epoch);

struct mixplan_batch {
	uint64_t seed, epoch;
	const struct penstock_sample *samples; /* a record for each row */
	uint32_t rows, views; /* rows: samples x views */
	uint32_t height, width; /* 1 to 65,535 */
};

/* Fills batch->rows rows. `plan` passed mixplan_check. */
void mixplan_rows(const struct mixplan *plan, const struct mixplan_batch *batch,
	struct penstock_mix_row *ret_rows);

/* An option's value, and its range. */
struct mixplan_range {
	const char *name;
	double value, least, most;
	const char *expected;
};

/* 0, or -EINVAL with a sentence (penstock_error) that names the first option that is out of its
 * range, and what is allowed. */
int mixplan_check_ranges(const struct mixplan_range *range, unsigned count);
#define MIXPLAN_CHECK_RANGES(table) mixplan_check_ranges(table, sizeof(table) / sizeof(table)[0])

/* The same for a whole plan, with its epochs. */
int mixplan_check(const struct mixplan *plan);

/* mix: what the device does to each row of a batch, as client/lib/mix/mixplan.h draws it. Pure. */
#pragma once

#include "penstock/cuda.h"

#include <stdint.h>

/* 0, or -EINVAL with a sentence (penstock_error) that names the option and what is allowed. */
int mix_check(const struct penstock_cuda_options *options);

/* Fills `count` rows of an image of height x width. `options` passed mix_check. */
void mix_plan(const struct penstock_cuda_options *options, uint64_t seed, uint64_t epoch,
	const struct penstock_sample *samples, uint32_t count, uint32_t height, uint32_t width,
	struct penstock_cuda_row *ret_rows);

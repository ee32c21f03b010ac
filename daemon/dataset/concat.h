/* concat: the datasets of one stream, one or several, as one list of samples. The number of a
 * sample is its number in its dataset plus the samples of the datasets before it.
 *
 * Borrows the datasets. Any thread, once they are added. */
#pragma once

#include "base/fault.h"
#include "dataset/dataset.h"
#include "order/sampler.h"

#include <stddef.h>
#include <stdint.h>

struct concat {
	uint32_t count;
	const struct dataset *dataset[SAMPLER_PARTS];
	/* number of each dataset's first sample; the last entry: the number of all samples */
	uint64_t first[SAMPLER_PARTS + 1];
};

void concat_add(struct concat *concat, const struct dataset *dataset);

uint64_t concat_samples(const struct concat *concat);
/* With one dataset, its fingerprint; with several, a hash of theirs in order. */
uint64_t concat_fingerprint(const struct concat *concat);

/* Whether a state with this fingerprint fits: see dataset_was. */
bool concat_was(const struct concat *concat, uint64_t fingerprint);
/* Fingerprints besides the present one that fit: number `i` from 0; 0 after the last. Of several
 * datasets, those in which one of them differs. */
uint64_t concat_earlier(const struct concat *concat, uint32_t i);

/* Which dataset has sample `number` (below concat_samples), and the sample's number there. */
struct sampler_pick concat_find(const struct concat *concat, uint64_t number);
/* The number in the whole list of a sample of one dataset. */
static inline uint64_t concat_number(const struct concat *concat, struct sampler_pick pick)
{
	return concat->first[pick.part] + pick.number;
}

/* As dataset_path. -EINVAL: the sample does not exist. */
int concat_path(const struct concat *concat, uint64_t number, char *buffer, size_t room,
	struct fault *fault);

/* 0, or -EINVAL if the datasets do not mean the same by a label. `source` has a name for each of
 * them. */
int concat_agree(const struct concat *concat, const char *const *source, struct fault *fault);

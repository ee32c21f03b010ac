/* parts: the datasets that a stream reads, one of them or a mix, as one row of samples: a sample's
 * number is its number in its dataset, plus the samples of the datasets before.
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
	uint64_t first[SAMPLER_PARTS + 1]; /* number of each one's first sample; the last: of all */
};

void concat_add(struct concat *parts, const struct dataset *dataset);

uint64_t concat_samples(const struct concat *parts);
/* The dataset's own where there is one; of all of them, in their order, where there are more. */
uint64_t concat_fingerprint(const struct concat *parts);

/* Which of them has sample `number`, below concat_samples; and its number there. */
struct sampler_pick concat_find(const struct concat *parts, uint64_t number);
/* The number of a sample that a part has. */
static inline uint64_t concat_number(const struct concat *parts, struct sampler_pick pick)
{
	return parts->first[pick.part] + pick.number;
}

/* As dataset_path. -EINVAL: there is no such sample. */
int concat_path(const struct concat *parts, uint64_t number, char *buffer, size_t room,
	struct fault *fault);

/* 0, or -EINVAL where they do not mean the same by a label; `source` names each of them. */
int concat_agree(const struct concat *parts, const char *const *source, struct fault *fault);

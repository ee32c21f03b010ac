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

struct parts {
	uint32_t count;
	const struct dataset *dataset[SAMPLER_PARTS];
	uint64_t first[SAMPLER_PARTS + 1]; /* number of each one's first sample; the last: of all */
};

void parts_add(struct parts *parts, const struct dataset *dataset);

uint64_t parts_samples(const struct parts *parts);
/* The dataset's own where there is one; of all of them, in their order, where there are more. */
uint64_t parts_fingerprint(const struct parts *parts);

/* Which of them has sample `number`, below parts_samples; and its number there. */
struct sampler_pick parts_find(const struct parts *parts, uint64_t number);
/* The number of a sample that a part has. */
static inline uint64_t parts_number(const struct parts *parts, struct sampler_pick pick)
{
	return parts->first[pick.part] + pick.number;
}

/* As dataset_path. -EINVAL: there is no such sample. */
int parts_path(
	const struct parts *parts, uint64_t number, char *buffer, size_t room, struct fault *fault);

/* 0, or -EINVAL where they do not mean the same by a label; `source` names each of them. */
int parts_agree(const struct parts *parts, const char *const *source, struct fault *fault);

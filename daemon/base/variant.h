/* variant: twins of one table of kernels, and which of them this processor runs.
 *
 * Resampling, entropy decoding and transforming each have a table per instruction set, under the
 * same names, so that PENSTOCK_KERNELS=c|avx2|avx512|avx512-vnni|neon forces all three: where there
 * is no table for VNNI, the one for AVX-512 is meant, and on ARM plain C where there is none for
 * NEON. Any thread. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>

enum variant {
	VARIANT_C,
	VARIANT_AVX2,
	VARIANT_AVX512,
	VARIANT_VNNI,
	VARIANT_NEON,
	VARIANTS,
};

struct variants {
	const void *table[VARIANTS]; /* NULL: not for this architecture */
	bool (*runs)(const void *table); /* whether this processor has what the table needs */
};

/* The i-th table that this processor can run; NULL behind the last. */
const void *variant_at(const struct variants *variants, unsigned i);

/* The one that PENSTOCK_KERNELS names, or NULL where it is unset or empty. 0; -EINVAL for an
 * unknown name, -ENOTSUP for one that this processor cannot run, each with a sentence. */
int variant_forced(const struct variants *variants, const void **ret, struct fault *fault);

/* dispatch: which of several tables of kernels this processor can run, and which one the
 * environment variable PENSTOCK_KERNELS asks for.
 *
 * A module whose inner loops exist once per instruction set has one table of functions for each:
 *
 *   static const struct dispatch known = {{
 *           [DISPATCH_C] = {&blend_c, 0},
 *           [DISPATCH_AVX2] = DISPATCH_X86(&blend_avx2, PROCESSOR_AVX2),
 *           [DISPATCH_NEON] = DISPATCH_ARM(&blend_neon),
 *   }};
 *
 * All modules use the same names, so that PENSTOCK_KERNELS=c|avx2|avx512|avx512-vnni|neon forces
 * all of them at once. A module without a table of that name runs the one that stands in for it:
 * AVX-512 for VNNI, and on ARM plain C for NEON.
 *
 * Any thread; reads the environment, keeps nothing. */
#pragma once

#include "proto/processor.h"

#include <stdint.h>

enum dispatch_name {
	DISPATCH_C,
	DISPATCH_AVX2,
	DISPATCH_AVX512,
	DISPATCH_VNNI,
	DISPATCH_NEON,
	DISPATCH_NAMES,
};

enum { DISPATCH_REFUSAL = 192 };

struct dispatch {
	struct dispatch_table {
		const void *table; /* NULL: not for this architecture */
		uint32_t needs; /* of enum processor_feature */
	} of[DISPATCH_NAMES];
};

/* An entry that only one architecture has; elsewhere its table is not even named. */
#ifdef __x86_64__
#define DISPATCH_X86(table, needs) \
	{                          \
		(table), (needs)   \
	}
#else
#define DISPATCH_X86(table, needs) \
	{                          \
		NULL, 0            \
	}
#endif
#ifdef __aarch64__
#define DISPATCH_ARM(table) \
	{                   \
		(table), 0  \
	}
#else
#define DISPATCH_ARM(table) \
	{                   \
		NULL, 0     \
	}
#endif

/* The i-th table that this processor can run, plain C first; NULL after the last. */
const void *dispatch_at(const struct dispatch *dispatch, unsigned i);

/* The table that PENSTOCK_KERNELS names, or NULL where the variable is unset or empty. 0; -EINVAL
 * for an unknown name, -ENOTSUP for one that this processor cannot run. */
int dispatch_forced(const struct dispatch *dispatch, const void **ret);

/* The table that PENSTOCK_KERNELS names, or else the one with the widest vectors that this
 * processor can run. Errors as dispatch_forced. */
int dispatch_widest(const struct dispatch *dispatch, const void **ret);

/* The sentence for such an error: what the variable holds and what to do. */
void dispatch_refusal(int code, char ret_sentence[DISPATCH_REFUSAL]);

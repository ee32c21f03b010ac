/* variant: see variant.h. */
#include "base/variant.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const variant_names[VARIANTS] = {
	[VARIANT_C] = "c",
	[VARIANT_AVX2] = "avx2",
	[VARIANT_AVX512] = "avx512",
	[VARIANT_VNNI] = "avx512-vnni",
	[VARIANT_NEON] = "neon",
};

/* What is meant where there is no table of this name. */
static unsigned variant_instead(unsigned k)
{
	if (k == VARIANT_VNNI)
		return VARIANT_AVX512;
#ifdef __aarch64__
	if (k == VARIANT_NEON)
		return VARIANT_C;
#endif
	return k;
}

static bool variant_runs(const struct variants *variants, unsigned k)
{
	return variants->table[k] && variants->runs(variants->table[k]);
}

const void *variant_at(const struct variants *variants, unsigned i)
{
	for (unsigned k = 0; k < VARIANTS; k++)
		if (variant_runs(variants, k) && i-- == 0)
			return variants->table[k];
	return NULL;
}

int variant_forced(const struct variants *variants, const void **ret, struct fault *fault)
{
	const char *name = getenv("PENSTOCK_KERNELS");
	*ret = NULL;
	if (!name || !*name)
		return 0;
	for (unsigned k = 0; k < VARIANTS; k++) {
		if (strcmp(variant_names[k], name) != 0)
			continue;
		if (!variants->table[k])
			k = variant_instead(k);
		if (!variant_runs(variants, k))
			return fault_set(fault, -ENOTSUP,
				"PENSTOCK_KERNELS=%s: this processor has not got these "
				"instructions; unset the variable to let penstock choose",
				name);
		*ret = variants->table[k];
		return 0;
	}
	return fault_set(fault, -EINVAL,
		"PENSTOCK_KERNELS=%s: expected c, avx2, avx512, avx512-vnni or neon; "
		"unset it to let penstock choose",
		name);
}

/* kernels: which table this processor runs; see kernels.h. */
#include "augment/kernels.h"

#include "base/variant.h"

static bool kernels_run(const void *table)
{
	return table == &augment_kernels_c;
}

static const struct variants known = {
	.table = {[VARIANT_C] = &augment_kernels_c},
	.runs = kernels_run,
};

const struct augment_kernels *augment_kernels_at(unsigned i)
{
	return variant_at(&known, i);
}

int augment_kernels_choose(const struct augment_kernels **ret, struct fault *fault)
{
	const void *forced;
	int rc = variant_forced(&known, &forced, fault);
	if (rc < 0)
		return rc;
	if (forced) {
		*ret = forced;
		return 0;
	}
	for (unsigned i = 0; augment_kernels_at(i); i++)
		*ret = augment_kernels_at(i);
	return 0;
}

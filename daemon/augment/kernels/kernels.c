/* kernels: which table this processor runs; see kernels.h. */
#include "augment/kernels/kernels.h"

#include "base/variant.h"
#include "proto/processor.h"

static bool kernels_run(const void *table)
{
#ifdef __x86_64__
	if (table == &augment_kernels_avx2)
		return processor_has(PROCESSOR_AVX2);
	uint32_t wide = PROCESSOR_AVX512F | PROCESSOR_AVX512BW | PROCESSOR_AVX512VL;
	if (table == &augment_kernels_avx512)
		return processor_has(wide);
	if (table == &augment_kernels_vnni)
		return processor_has(wide | PROCESSOR_AVX512VBMI);
#endif
#ifdef __aarch64__
	if (table == &augment_kernels_neon)
		return true;
#endif
	return table == &augment_kernels_c;
}

static const struct variants known = {
	.table =
		{
			[VARIANT_C] = &augment_kernels_c,
#ifdef __x86_64__
			[VARIANT_AVX2] = &augment_kernels_avx2,
			[VARIANT_AVX512] = &augment_kernels_avx512,
			[VARIANT_VNNI] = &augment_kernels_vnni,
#endif
#ifdef __aarch64__
			[VARIANT_NEON] = &augment_kernels_neon,
#endif
		},
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

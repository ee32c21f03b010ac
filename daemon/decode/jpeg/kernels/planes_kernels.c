/* planes_kernels: which table this processor runs; see planes_kernels.h. The same names as for the
 * resampler's kernels, so that one variable forces both. Called when a decoder is made; any thread.
 */
#include "decode/jpeg/kernels/planes_kernels.h"

#include "base/variant.h"
#include "proto/processor.h"

static bool planes_kernels_run(const void *table)
{
#ifdef __x86_64__
	if (table == &planes_kernels_avx2)
		return processor_has(PROCESSOR_AVX2);
	if (table == &planes_kernels_avx512)
		return processor_has(PROCESSOR_AVX512F | PROCESSOR_AVX512BW | PROCESSOR_AVX512VL |
				     PROCESSOR_AVX512VNNI);
#endif
#ifdef __aarch64__
	if (table == &planes_kernels_neon)
		return true;
#endif
	return table == &planes_kernels_c;
}

static const struct variants known = {
	.table =
		{
			[VARIANT_C] = &planes_kernels_c,
#ifdef __x86_64__
			[VARIANT_AVX2] = &planes_kernels_avx2,
			[VARIANT_AVX512] = &planes_kernels_avx512,
#endif
#ifdef __aarch64__
			[VARIANT_NEON] = &planes_kernels_neon,
#endif
		},
	.runs = planes_kernels_run,
};

const struct planes_kernels *planes_kernels_at(unsigned i)
{
	return variant_at(&known, i);
}

int planes_kernels_choose(const struct planes_kernels **ret, struct fault *fault)
{
	const void *forced;
	int result = variant_forced(&known, &forced, fault);
	if (result || forced) {
		if (!result)
			*ret = forced;
		return result;
	}
	for (unsigned i = 0; planes_kernels_at(i); i++)
		*ret = planes_kernels_at(i);
	return 0;
}

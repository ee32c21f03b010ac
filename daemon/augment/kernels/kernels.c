/* kernels: which table this processor runs; see kernels.h. */
#include "augment/kernels/kernels.h"

#include "base/choose.h"

#define WIDE (PROCESSOR_AVX512F | PROCESSOR_AVX512BW | PROCESSOR_AVX512VL)

static const struct dispatch known = {{
	[DISPATCH_C] = {&augment_kernels_c, 0},
	[DISPATCH_AVX2] = DISPATCH_X86(&augment_kernels_avx2, PROCESSOR_AVX2),
	[DISPATCH_AVX512] = DISPATCH_X86(&augment_kernels_avx512, WIDE),
	[DISPATCH_VNNI] = DISPATCH_X86(&augment_kernels_vnni, WIDE | PROCESSOR_AVX512VBMI),
	[DISPATCH_NEON] = DISPATCH_ARM(&augment_kernels_neon),
}};

const struct augment_kernels *augment_kernels_at(unsigned i)
{
	return dispatch_at(&known, i);
}

int augment_kernels_choose(const struct augment_kernels **ret, struct fault *fault)
{
	const void *table;
	int result = choose_widest(&known, &table, fault);
	if (!result)
		*ret = table;
	return result;
}

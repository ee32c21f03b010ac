/* planes_kernels: which table this processor runs; see planes_kernels.h. */
#include "decode/jpeg/kernels/planes_kernels.h"

#include "base/choose.h"

#define WIDE (PROCESSOR_AVX512F | PROCESSOR_AVX512BW | PROCESSOR_AVX512VL | PROCESSOR_AVX512VNNI)

static const struct dispatch known = {{
	[DISPATCH_C] = {&planes_kernels_c, 0},
	[DISPATCH_AVX2] = DISPATCH_X86(&planes_kernels_avx2, PROCESSOR_AVX2),
	[DISPATCH_AVX512] = DISPATCH_X86(&planes_kernels_avx512, WIDE),
	[DISPATCH_NEON] = DISPATCH_ARM(&planes_kernels_neon),
}};

const struct planes_kernels *planes_kernels_at(unsigned i)
{
	return dispatch_at(&known, i);
}

int planes_kernels_choose(const struct planes_kernels **ret, struct fault *fault)
{
	const void *table;
	int result = choose_widest(&known, &table, fault);
	if (!result)
		*ret = table;
	return result;
}

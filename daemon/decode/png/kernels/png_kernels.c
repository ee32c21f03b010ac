/* png_kernels: which table this processor runs; see png_kernels.h. */
#include "decode/png/kernels/png_kernels.h"

#include "base/choose.h"

#define FAST (PROCESSOR_AVX2 | PROCESSOR_BMI2)

/* AVX-512 has nothing for rows of which each pixel waits for the one before. */
static const struct dispatch known = {{
	[DISPATCH_C] = {&png_kernels_c, 0},
	[DISPATCH_AVX2] = DISPATCH_X86(&png_kernels_avx2, FAST),
	[DISPATCH_AVX512] = DISPATCH_X86(&png_kernels_avx2, FAST),
	[DISPATCH_NEON] = DISPATCH_ARM(&png_kernels_neon),
}};

const struct png_kernels *png_kernels_at(unsigned i)
{
	const struct png_kernels *table = dispatch_at(&known, i);
	return i && table == dispatch_at(&known, i - 1) ? NULL : table;
}

int png_kernels_choose(const struct png_kernels **ret, struct fault *fault)
{
	const void *table;
	int result = choose_widest(&known, &table, fault);
	if (!result)
		*ret = table;
	return result;
}

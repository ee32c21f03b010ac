/* kernels: which table this processor runs; see kernels.h. Called when a worker is made; any
 * thread. */
#include "pixel/kernels.h"

#include "base/variant.h"

#include <stdbool.h>

static bool kernels_runs(const void *table)
{
#ifdef __x86_64__
	if (table == &kernels_avx2)
		return __builtin_cpu_supports("avx2");
	if (table == &kernels_avx512)
		return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		       __builtin_cpu_supports("avx512vl");
#endif
	return table == &kernels_c;
}

static const struct variants known = {
	.table = {&kernels_c,
#ifdef __x86_64__
		&kernels_avx2, &kernels_avx512
#endif
	},
	.runs = kernels_runs,
};

const struct kernels *kernels_at(unsigned i)
{
	return variant_at(&known, i);
}

int kernels_choose(const struct kernels **ret, struct fault *fault)
{
	const void *forced;
	int result = variant_forced(&known, &forced, fault);
	if (result || forced) {
		if (!result)
			*ret = forced;
		return result;
	}
	for (unsigned i = 0; kernels_at(i); i++)
		*ret = kernels_at(i);
	return 0;
}

/* planes_kernels: which table this processor runs; see planes_kernels.h. The same names as for the
 * resampler's kernels, so that one variable forces both. Called when a decoder is made; any thread.
 */
#include "decode/planes_kernels.h"

#include "base/util.h"

#include <errno.h>
#include <string.h>

/* What is known, slowest first, and whether this build and this processor have it. */
static const struct {
	const char *name;
	const struct planes_kernels *table; /* NULL: not for this architecture */
} known[] = {
	{"c", &planes_kernels_c},
#ifdef __x86_64__
	{"avx2", &planes_kernels_avx2},
	{"avx512", &planes_kernels_avx512},
#else
	{"avx2", NULL},
	{"avx512", NULL},
#endif
};

static bool planes_kernels_run(const struct planes_kernels *table)
{
#ifdef __x86_64__
	if (table == &planes_kernels_avx2)
		return __builtin_cpu_supports("avx2");
	if (table == &planes_kernels_avx512)
		return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
#endif
	return table == &planes_kernels_c;
}

const struct planes_kernels *planes_kernels_at(unsigned i)
{
	for (unsigned k = 0; k < UTIL_COUNT(known); k++)
		if (known[k].table && planes_kernels_run(known[k].table) && i-- == 0)
			return known[k].table;
	return NULL;
}

static int planes_kernels_named(
	const char *name, const struct planes_kernels **ret, struct fault *fault)
{
	for (unsigned k = 0; k < UTIL_COUNT(known); k++) {
		if (strcmp(known[k].name, name) != 0)
			continue;
		if (!known[k].table || !planes_kernels_run(known[k].table))
			return fault_set(fault, -ENOTSUP,
				"PENSTOCK_KERNELS=%s: this processor has not got these "
				"instructions; unset the variable to let penstock choose",
				name);
		*ret = known[k].table;
		return 0;
	}
	return fault_set(fault, -EINVAL,
		"PENSTOCK_KERNELS=%s: expected c, avx2 or avx512; unset it to let penstock choose",
		name);
}

int planes_kernels_choose(const struct planes_kernels **ret, struct fault *fault)
{
	const char *name = getenv("PENSTOCK_KERNELS");
	if (name && *name)
		return planes_kernels_named(name, ret, fault);
	for (unsigned i = 0; planes_kernels_at(i); i++)
		*ret = planes_kernels_at(i);
	return 0;
}

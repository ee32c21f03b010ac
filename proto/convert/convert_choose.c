/* convert_choose: which kernels this processor runs. Thread: any. */
#include "proto/convert/convert.h"

#include "proto/processor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool choose_always(void)
{
	return true;
}

#ifdef __x86_64__
static bool choose_avx2(void)
{
	return processor_has(PROCESSOR_AVX2 | PROCESSOR_FMA | PROCESSOR_F16C);
}

static bool choose_avx512(void)
{
	return processor_has(PROCESSOR_AVX512F | PROCESSOR_AVX512BW | PROCESSOR_AVX512VL);
}
#endif

/* The best one first. Names are the daemon's, which knows one set more. */
static const struct choice {
	const char *name;
	const struct convert_kernels *kernels; /* NULL: not for this architecture */
	bool (*runs)(void);
} choices[] = {
#ifdef __x86_64__
	{"avx512", &convert_avx512, choose_avx512},
	{"avx512-vnni", &convert_avx512, choose_avx512},
	{"avx2", &convert_avx2, choose_avx2},
#else
	{"avx512", NULL, NULL},
	{"avx512-vnni", NULL, NULL},
	{"avx2", NULL, NULL},
#endif
#ifdef __aarch64__
	{"neon", &convert_neon, choose_always},
#else
	{"neon", NULL, NULL},
#endif
	{"c", &convert_c, choose_always},
};

int convert_choose(const struct convert_kernels **ret)
{
	const char *name = getenv("PENSTOCK_KERNELS");
	bool forced = name && *name, known = false;
	for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
		const struct choice *choice = &choices[i];
		if (forced && strcmp(choice->name, name) != 0)
			continue;
		known = true;
		if (!choice->kernels || !choice->runs())
			continue;
		*ret = choice->kernels;
		return 0;
	}
	return known ? -ENOTSUP : -EINVAL;
}

void convert_refusal(int code, char ret_sentence[CONVERT_REFUSAL])
{
	const char *name = getenv("PENSTOCK_KERNELS");
	(void)snprintf(ret_sentence, CONVERT_REFUSAL, "PENSTOCK_KERNELS=%.64s: %s",
		name ? name : "",
		code == -ENOTSUP ? "this processor has not got these instructions; unset the "
				   "variable to let penstock choose"
				 : "expected c, avx2, avx512, avx512-vnni or neon; unset it to let "
				   "penstock choose");
}

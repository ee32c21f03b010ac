/* dispatch: see dispatch.h. */
#include "proto/dispatch.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const dispatch_names[DISPATCH_NAMES] = {
	[DISPATCH_C] = "c",
	[DISPATCH_AVX2] = "avx2",
	[DISPATCH_AVX512] = "avx512",
	[DISPATCH_VNNI] = "avx512-vnni",
	[DISPATCH_NEON] = "neon",
};

/* The variable's value; NULL where it is unset or empty. */
static const char *dispatch_wanted(void)
{
	const char *name = getenv("PENSTOCK_KERNELS");
	return name && *name ? name : NULL;
}

static bool dispatch_runs(const struct dispatch *dispatch, unsigned k)
{
	return dispatch->of[k].table && processor_has(dispatch->of[k].needs);
}

/* Which table to use for a name that the module has no table for. */
static unsigned dispatch_instead(unsigned k)
{
	if (k == DISPATCH_VNNI)
		return DISPATCH_AVX512;
#ifdef __aarch64__
	if (k == DISPATCH_NEON)
		return DISPATCH_C;
#endif
	return k;
}

const void *dispatch_at(const struct dispatch *dispatch, unsigned i)
{
	for (unsigned k = 0; k < DISPATCH_NAMES; k++)
		if (dispatch_runs(dispatch, k) && i-- == 0)
			return dispatch->of[k].table;
	return NULL;
}

int dispatch_forced(const struct dispatch *dispatch, const void **ret)
{
	const char *name = dispatch_wanted();
	unsigned k = 0;
	if (!name) {
		*ret = NULL;
		return 0;
	}
	while (k < DISPATCH_NAMES && strcmp(dispatch_names[k], name) != 0)
		k++;
	if (k == DISPATCH_NAMES)
		return -EINVAL;
	if (!dispatch->of[k].table)
		k = dispatch_instead(k);
	if (!dispatch_runs(dispatch, k))
		return -ENOTSUP;
	*ret = dispatch->of[k].table;
	return 0;
}

int dispatch_widest(const struct dispatch *dispatch, const void **ret)
{
	const void *table;
	int result = dispatch_forced(dispatch, &table);
	if (result < 0)
		return result;
	for (unsigned k = DISPATCH_NAMES; !table && k-- > 0;)
		if (dispatch_runs(dispatch, k))
			table = dispatch->of[k].table;
	*ret = table;
	return 0;
}

void dispatch_refusal(int code, char ret_sentence[DISPATCH_REFUSAL])
{
	const char *name = dispatch_wanted();
	(void)snprintf(ret_sentence, DISPATCH_REFUSAL, "PENSTOCK_KERNELS=%.64s: %s",
		name ? name : "",
		code == -ENOTSUP ? "this processor does not have these instructions; unset the "
				   "variable to let penstock choose"
				 : "expected c, avx2, avx512, avx512-vnni or neon; unset it to let "
				   "penstock choose");
}

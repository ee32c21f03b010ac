/* quota: how much one of several may hold of what they share, so that none keeps the others from
 * continuing, even if it never gives anything back.
 *
 * Dynamic thresholds (Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2), 1998): one may
 * hold at most a multiple of what is free. A single holder gets seven eighths; two that both want
 * all get nearly a half each; and something is left for the next one, without anybody having to
 * know how many there are. To give a single holder all that was asked for, the total is made an
 * eighth larger. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { QUOTA_TIMES = 7 };

/* True if a holder of `own`, where all together hold `used` of `total`, may take `more`. A holder
 * of nothing may always try: the least is one. */
static inline bool quota_allows(uint64_t own, uint64_t used, uint64_t total, uint64_t more)
{
	uint64_t left = used + more < total ? total - used - more : 0;
	return own == 0 || own + more <= QUOTA_TIMES * left;
}

/* The total of which a single holder may have `wanted`. */
static inline uint64_t quota_total(uint64_t wanted)
{
	return wanted + (wanted + QUOTA_TIMES - 1) / QUOTA_TIMES;
}

/* quota: how much one of several may hold of what they share, so that none keeps the others from
 * going on, not even by never giving back.
 *
 * Dynamic thresholds (Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2), 1998): nobody
 * may hold more than a multiple of what is free. One alone gets seven eighths; of two that both
 * want, each gets nearly a half; and something is left for the next who comes, however long the
 * first keep theirs, without anybody having to know how many there are. What is shared is made an
 * eighth larger where one alone is to get all that was asked for. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { QUOTA_TIMES = 7 };

/* True when one that holds `own` of `total`, of which all together hold `used`, may take `more`.
 * Who holds nothing may always try: the least is one. */
static inline bool quota_allows(uint64_t own, uint64_t used, uint64_t total, uint64_t more)
{
	uint64_t left = used + more < total ? total - used - more : 0;
	return own == 0 || own + more <= QUOTA_TIMES * left;
}

/* The total of which one alone may hold `wanted`. */
static inline uint64_t quota_total(uint64_t wanted)
{
	return wanted + (wanted + QUOTA_TIMES - 1) / QUOTA_TIMES;
}

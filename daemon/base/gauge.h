/* gauge: how long a number stood at what: reads under way, threads that wait. It is told of each
 * change, and the sums follow: nothing is sampled. Pure; its owner's lock keeps it. */
#pragma once

#include <stdint.h>

struct gauge {
	uint64_t at_ns, value;
	uint64_t sum_ns; /* value times time: two that wait for a second are two seconds */
	uint64_t some_ns; /* time in which it was not 0 */
};

/* The gauge as it stands at `now_ns`. Who took the time before another changed it is a little
 * late, and counts for nothing. */
static inline struct gauge gauge_at(const struct gauge *gauge, uint64_t now_ns)
{
	struct gauge then = *gauge;
	if (now_ns <= then.at_ns)
		return then;
	uint64_t passed = then.value ? now_ns - then.at_ns : 0;
	then.sum_ns += passed * then.value;
	then.some_ns += passed;
	then.at_ns = now_ns;
	return then;
}

static inline void gauge_set(struct gauge *gauge, uint64_t value, uint64_t now_ns)
{
	*gauge = gauge_at(gauge, now_ns);
	gauge->value = value;
}

/* gauge: a number that goes up and down, such as reads in progress or threads that wait, and its
 * integral over time. It is updated at each change, so that no sampling is needed. Pure; the lock
 * of its owner protects it. */
#pragma once

#include <stdint.h>

struct gauge {
	uint64_t at_ns, value;
	uint64_t sum_ns; /* value times time: two threads that wait one second add two seconds */
	uint64_t some_ns; /* time during which the value was not 0 */
};

/* The gauge at `now_ns`. A thread may have read the clock before another thread changed the gauge:
 * then no time has passed. */
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

/* ticks: the processor's own clock, for stretches so short that clock_ns (25 ns a call) would be
 * a good part of them.
 *
 * Counts at some constant rate that nobody states: for shares of a time that is known otherwise. A
 * thread that is moved to another processor may see it step by a few ticks, so differences are
 * taken with ticks_since. */
#pragma once

#include "base/clock.h"

static inline uint64_t ticks_now(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t now;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
	return now;
#else
	return clock_ns();
#endif
}

/* How many have passed; 0 if the clock went back. */
static inline uint64_t ticks_since(uint64_t then, uint64_t now)
{
	return now > then ? now - then : 0;
}

/* Ticks of a nanosecond, for what is printed. Takes 20 ms. */
static inline double ticks_per_ns(void)
{
	uint64_t ns = clock_ns(), ticks = ticks_now();
	while (clock_ns() - ns < 20000000)
		;
	return (double)ticks_since(ticks, ticks_now()) / (double)(clock_ns() - ns);
}

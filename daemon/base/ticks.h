/* ticks: the processor's own clock, for intervals so short that clock_ns (25 ns a call) would be a
 * large part of them.
 *
 * It counts at a constant rate that is not known, so it serves to divide a time that was measured
 * otherwise. A thread that moves to another processor may see it go back by a few ticks: take
 * differences with ticks_since. */
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

/* Ticks between the two; 0 where the clock went back. */
static inline uint64_t ticks_since(uint64_t then, uint64_t now)
{
	return now > then ? now - then : 0;
}

/* Ticks in a nanosecond, for reports. Takes 20 ms. */
static inline double ticks_per_ns(void)
{
	uint64_t ns = clock_ns(), ticks = ticks_now();
	while (clock_ns() - ns < 20000000)
		;
	return (double)ticks_since(ticks, ticks_now()) / (double)(clock_ns() - ns);
}

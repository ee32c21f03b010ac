/* processor: which instructions of x86-64 may be used here: the processor has them, and the kernel
 * keeps their registers.
 *
 * Asked by cpuid itself. The compilers' own question, __builtin_cpu_supports, is answered by a
 * table of their runtime library, and not every runtime fills it: zig's, which builds the portable
 * Python wheels, always says no. Any thread; a few microseconds, since hypervisors trap the
 * instruction. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum processor_feature {
	PROCESSOR_AVX2 = 1 << 0,
	PROCESSOR_FMA = 1 << 1,
	PROCESSOR_F16C = 1 << 2,
	PROCESSOR_BMI2 = 1 << 3,
	PROCESSOR_AVX512F = 1 << 4,
	PROCESSOR_AVX512BW = 1 << 5,
	PROCESSOR_AVX512VL = 1 << 6,
	PROCESSOR_AVX512DQ = 1 << 7,
	PROCESSOR_AVX512VNNI = 1 << 8,
	PROCESSOR_AVX512VBMI = 1 << 9,
	PROCESSOR_AVX512VBMI2 = 1 << 10,
};

/* What of enum processor_feature may be used: 0 on other machines. */
uint32_t processor_features(void);

/* Whether all of these may be. */
static inline bool processor_has(uint32_t features)
{
	return (processor_features() & features) == features;
}

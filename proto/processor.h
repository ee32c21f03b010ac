/* processor: which x86-64 instructions can be used: those that the processor has and whose
 * registers the kernel saves.
 *
 * The code uses the cpuid instruction. The compilers' __builtin_cpu_supports reads a table of their
 * runtime library, which some runtimes do not fill: with zig, which builds the portable Python
 * wheels, it is always false. Any thread. A call takes a few microseconds, because hypervisors trap
 * the instruction. */
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

/* The bits of enum processor_feature that can be used; 0 on other architectures. */
uint32_t processor_features(void);

/* Whether all of these can be used. */
static inline bool processor_has(uint32_t features)
{
	return (processor_features() & features) == features;
}

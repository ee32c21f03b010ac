/* processor: see processor.h. Numbers of leaves and bits: Intel 64 and IA-32 Architectures
 * Software Developer's Manual, volume 2A, CPUID, and volume 1, 13.2 and 14.3 (the registers that
 * the kernel saves). */
#include "proto/processor.h"

#ifdef __x86_64__

#include <cpuid.h>
#include <stddef.h>

enum {
	LEAF_BASIC = 1,
	LEAF_EXTENDED = 7,
	STATE_AVX = 0x06, /* XCR0: SSE and AVX registers */
	STATE_AVX512 = 0xe6, /* and the mask and 512-bit registers */
};

struct processor_leaves {
	unsigned basic_c, extended_b, extended_c;
};

static const struct processor_bit {
	uint32_t feature;
	size_t leaf; /* offset in struct processor_leaves */
	unsigned bit;
	uint32_t state; /* the bits of XCR0 that it needs */
} bits[] = {
	{PROCESSOR_FMA, offsetof(struct processor_leaves, basic_c), 12, STATE_AVX},
	{PROCESSOR_F16C, offsetof(struct processor_leaves, basic_c), 29, STATE_AVX},
	{PROCESSOR_AVX2, offsetof(struct processor_leaves, extended_b), 5, STATE_AVX},
	{PROCESSOR_BMI2, offsetof(struct processor_leaves, extended_b), 8, 0},
	{PROCESSOR_AVX512F, offsetof(struct processor_leaves, extended_b), 16, STATE_AVX512},
	{PROCESSOR_AVX512DQ, offsetof(struct processor_leaves, extended_b), 17, STATE_AVX512},
	{PROCESSOR_AVX512BW, offsetof(struct processor_leaves, extended_b), 30, STATE_AVX512},
	{PROCESSOR_AVX512VL, offsetof(struct processor_leaves, extended_b), 31, STATE_AVX512},
	{PROCESSOR_AVX512VBMI, offsetof(struct processor_leaves, extended_c), 1, STATE_AVX512},
	{PROCESSOR_AVX512VBMI2, offsetof(struct processor_leaves, extended_c), 6, STATE_AVX512},
	{PROCESSOR_AVX512VNNI, offsetof(struct processor_leaves, extended_c), 11, STATE_AVX512},
};

/* Which registers the kernel saves. Call this only if the processor reports OSXSAVE. */
static uint32_t processor_state(void)
{
	uint32_t low, high;
	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return low;
}

uint32_t processor_features(void)
{
	unsigned a, b, c, d;
	struct processor_leaves leaves = {0};
	uint32_t state = 0, found = 0;
	if (!__get_cpuid(LEAF_BASIC, &a, &b, &leaves.basic_c, &d))
		return 0;
	if (leaves.basic_c & bit_OSXSAVE)
		state = processor_state();
	if (__get_cpuid_count(LEAF_EXTENDED, 0, &a, &b, &c, &d)) {
		leaves.extended_b = b;
		leaves.extended_c = c;
	}
	for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++) {
		unsigned leaf = *(const unsigned *)((const char *)&leaves + bits[i].leaf);
		if (leaf >> bits[i].bit & 1 && (state & bits[i].state) == bits[i].state)
			found |= bits[i].feature;
	}
	return found;
}

#else

uint32_t processor_features(void)
{
	return 0;
}

#endif

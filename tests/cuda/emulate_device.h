/* emulate_device: the parts of CUDA C++ that kernels.cu needs, for a C++ compiler for the CPU;
 * see emulate.cpp. Facts about the intrinsics come from the CUDA Math API and the CUDA C++
 * Programming Guide. */
#pragma once

#include "client/cuda/kernels.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)

/* The device faults if an address is not aligned to the type of the access, and so do these
 * functions. */
static inline void emulate_aligned(const void *address, size_t bytes)
{
	if (reinterpret_cast<uintptr_t>(address) % bytes != 0)
		__builtin_trap();
}

struct alignas(8) uint2 {
	uint32_t x, y;
};
struct alignas(16) uint4 {
	uint32_t x, y, z, w;

	uint4(const uint4 &) = default;
	uint4 &operator=(const uint4 &other)
	{
		emulate_aligned(this, sizeof *this);
		x = other.x, y = other.y, z = other.z, w = other.w;
		return *this;
	}
};

struct emulate_index {
	uint32_t x, y, z;
};
extern thread_local emulate_index threadIdx, blockIdx, gridDim;

static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
	return {x, y, z, w};
}

/* How often each thread has read 16 bytes at once. */
extern thread_local uint64_t emulate_wide;

template <class T> static inline T __ldg(const T *from)
{
	emulate_aligned(from, sizeof *from);
	if (sizeof *from == sizeof(uint4))
		emulate_wide++;
	return *from;
}

static inline uint32_t __float_as_uint(float v)
{
	uint32_t bits;
	memcpy(&bits, &v, sizeof bits);
	return bits;
}
static inline float __uint_as_float(uint32_t bits)
{
	float v;
	memcpy(&v, &bits, sizeof v);
	return v;
}
static inline float __uint2float_rn(uint32_t v)
{
	return (float)v;
}
static inline float __fadd_rn(float a, float b)
{
	return a + b;
}
static inline float __fsub_rn(float a, float b)
{
	return a - b;
}
static inline float __fmul_rn(float a, float b)
{
	return a * b;
}
static inline float __fdiv_rn(float a, float b)
{
	return a / b;
}
static inline float __fsqrt_rn(float v)
{
	return sqrtf(v);
}
static inline float __fmaf_rn(float a, float b, float c)
{
	return fmaf(a, b, c);
}
static inline uint32_t __umulhi(uint32_t a, uint32_t b)
{
	return (uint32_t)((uint64_t)a * b >> 32);
}

/* Selects four of the eight bytes of low (0 to 3) and high (4 to 7), one by each nibble. */
static inline uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t selector)
{
	uint64_t bytes = (uint64_t)high << 32 | low;
	uint32_t result = 0;
	for (unsigned i = 0; i < 4; i++) {
		unsigned nibble = selector >> (4 * i) & 15;
		if (nibble & 8) /* replicates a sign; not used here */
			__builtin_trap();
		result |= (uint32_t)(bytes >> (8 * nibble) & 255) << (8 * i);
	}
	return result;
}

static inline int min(int a, int b)
{
	return a < b ? a : b;
}
static inline int max(int a, int b)
{
	return a > b ? a : b;
}

static inline float cospif(float v)
{
	return (float)cos((double)v * M_PI);
}
static inline void sincospif(float v, float *ret_sine, float *ret_cosine)
{
	*ret_sine = (float)sin((double)v * M_PI);
	*ret_cosine = cospif(v);
}

/* Implemented differently from tests/cuda/reference.c. */
struct __half {
	uint16_t bits;
};
struct __half2 {
	__half low, high;
};

/* value's bits >> shift, to the nearest, ties to even. */
static inline uint32_t emulate_shift(uint32_t value, unsigned shift)
{
	if (shift > 31)
		return 0;
	uint32_t kept = value >> shift, rest = value & ((1u << shift) - 1),
		 half = 1u << (shift - 1);
	return kept + (rest > half || (rest == half && (kept & 1)));
}

static inline __half __float2half_rn(float v)
{
	uint32_t bits = __float_as_uint(v), sign = bits >> 16 & 0x8000,
		 magnitude = bits & 0x7fffffff;
	if (magnitude > 0x7f800000)
		return {0x7fff};
	if (magnitude >= 0x477ff000) /* 65520 */
		return {(uint16_t)(sign | 0x7c00)};
	if (magnitude >= 0x38800000) /* 2^-14 */
		return {(uint16_t)(sign | emulate_shift(magnitude - 0x38000000, 13))};
	uint32_t exponent = magnitude >> 23;
	uint32_t fraction = exponent ? (magnitude & 0x7fffff) | 0x800000 : 0;
	return {(uint16_t)(sign | emulate_shift(fraction, 126 - exponent))};
}
static inline __half2 __floats2half2_rn(float low, float high)
{
	return {__float2half_rn(low), __float2half_rn(high)};
}

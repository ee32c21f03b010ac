/* half: converts floats of 16 bits to float32 without loss, and back, rounded to nearest, ties to
 * even. Any thread; pure. */
#pragma once

#include <stdint.h>
#include <string.h>

static inline uint32_t half_bits(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static inline float half_float(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

static inline float half_from_bfloat16(uint16_t half)
{
	return half_float((uint32_t)half << 16);
}

static inline uint16_t half_to_bfloat16(float value)
{
	uint32_t bits = half_bits(value);
	uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
	/* Rounding could turn a NaN into a number or change its sign. */
	return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded);
}

/* A multiplication adjusts the exponent, which is exact and makes subnormal numbers normal.
 * Infinity and NaN have the largest exponent, which is set directly. */
static inline float half_from_float16(uint16_t half)
{
	uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13, sign = (uint32_t)(half & 0x8000)
								     << 16;
	float value = half_float(magnitude) * 0x1p112f;
	uint32_t bits = half_bits(value);
	if ((half & 0x7c00) == 0x7c00)
		bits = magnitude | 0x7f800000;
	return half_float(bits | sign);
}

static inline uint16_t half_to_float16(float value)
{
	uint32_t bits = half_bits(value), sign = bits >> 16 & 0x8000;
	uint32_t magnitude = bits & 0x7fffffff;
	if (magnitude > 0x7f800000)
		return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
	if (magnitude >= 0x477ff000) /* 65,520: half a step above the largest float16 */
		return (uint16_t)(sign | 0x7c00);
	if (magnitude < 0x38800000) {
		/* Below 2^-14: near 0.5 floats are 2^-24 apart, as subnormal float16 are. */
		float stepped = half_float(magnitude) + 0.5f;
		return (uint16_t)(sign | (half_bits(stepped) - 0x3f000000));
	}
	uint32_t odd = magnitude >> 13 & 1;
	return (uint16_t)(sign | (magnitude - 0x38000000 + 0xfff + odd) >> 13);
}

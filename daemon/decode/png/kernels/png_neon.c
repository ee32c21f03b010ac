/* png_neon: for 64-bit ARM, all of which has NEON; empty elsewhere. See png_kernels.h;
 * unfilter_body.h explains the names. */
#ifdef __aarch64__
#include "decode/png/kernels/png_kernels.h"

#include <arm_neon.h>
#include <string.h>

#define V static inline __attribute__((always_inline))

typedef uint8x16_t vec;

#define v_add vaddq_u8
#define v_adds vqaddq_u8
#define v_subs vqsubq_u8
#define v_min vminq_u8
#define v_or vorrq_u8
#define v_and vandq_u8
#define v_same vceqq_u8
#define v_half vhaddq_u8
#define v_pick vbslq_u8
#define v_load vld1q_u8
#define v_store vst1q_u8
#define v_zero() vdupq_n_u8(0)

V uint32_t v_word(const uint8_t *p)
{
	uint32_t word;
	memcpy(&word, p, sizeof(word));
	return word;
}

V void v_put_word(uint8_t *p, uint32_t word)
{
	memcpy(p, &word, sizeof(word));
}

V vec v_get(const uint8_t *p, unsigned bytes)
{
	if (bytes == 4)
		return vreinterpretq_u8_u32(vsetq_lane_u32(v_word(p), vdupq_n_u32(0), 0));
	return vcombine_u8(vld1_u8(p), vdup_n_u8(0));
}

V void v_put(uint8_t *p, vec a, unsigned bytes)
{
	if (bytes == 4)
		v_put_word(p, vgetq_lane_u32(vreinterpretq_u32_u8(a), 0));
	else
		vst1_u8(p, vget_low_u8(a));
}

V vec v_four(const uint8_t *p0, const uint8_t *p1, const uint8_t *p2, const uint8_t *p3)
{
	uint32x4_t four = vdupq_n_u32(v_word(p0));
	four = vsetq_lane_u32(v_word(p1), four, 1);
	four = vsetq_lane_u32(v_word(p2), four, 2);
	return vreinterpretq_u8_u32(vsetq_lane_u32(v_word(p3), four, 3));
}

V void v_put_four(uint8_t *p0, uint8_t *p1, uint8_t *p2, uint8_t *p3, vec a)
{
	uint32x4_t four = vreinterpretq_u32_u8(a);
	v_put_word(p0, vgetq_lane_u32(four, 0));
	v_put_word(p1, vgetq_lane_u32(four, 1));
	v_put_word(p2, vgetq_lane_u32(four, 2));
	v_put_word(p3, vgetq_lane_u32(four, 3));
}

V vec v_push(vec a, const uint8_t *p)
{
	return vextq_u8(vreinterpretq_u8_u32(vdupq_n_u32(v_word(p))), a, 12);
}

#include "decode/png/kernels/unfilter_body.h"

/* Per vector, b grows by 16 times the a before it, and by its bytes, the first 16 times. */
static uint32_t adler(uint32_t sum, const uint8_t *from, size_t size)
{
	enum { BASE = 65521, WIDE = 16, AT_ONCE = 128 };
	static const uint8_t falling[WIDE] = {
		16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1};
	const uint8x8_t weights_low = vld1_u8(falling), weights_high = vld1_u8(falling + 8);
	uint64_t a = sum & 0xffff, b = sum >> 16;
	while (size >= WIDE) {
		size_t vectors = size / WIDE < AT_ONCE ? size / WIDE : AT_ONCE;
		uint32x4_t bytes_sum = vdupq_n_u32(0), before = bytes_sum, weighted = bytes_sum;
		for (size_t i = 0; i < vectors; i++, from += WIDE) {
			uint8x16_t bytes = vld1q_u8(from);
			before = vaddq_u32(before, bytes_sum);
			bytes_sum = vpadalq_u16(bytes_sum, vpaddlq_u8(bytes));
			uint16x8_t products = vmull_u8(vget_low_u8(bytes), weights_low);
			weighted = vpadalq_u16(
				weighted, vmlal_u8(products, vget_high_u8(bytes), weights_high));
		}
		b += WIDE * (a * vectors + vaddlvq_u32(before)) + vaddlvq_u32(weighted);
		a = (a + vaddlvq_u32(bytes_sum)) % BASE;
		b %= BASE;
		size -= vectors * WIDE;
	}
	return png_kernels_c.adler((uint32_t)(b << 16 | a), from, size);
}

static void split4(uint8_t *const to[3], const uint8_t *from, size_t count)
{
	size_t i = 0;
	for (; i + 16 <= count; i += 16, from += 64) {
		uint8x16x4_t four = vld4q_u8(from);
		for (int c = 0; c < 3; c++)
			vst1q_u8(to[c] + i, four.val[c]);
	}
	png_kernels_c.split4((uint8_t *const[3]){to[0] + i, to[1] + i, to[2] + i}, from, count - i);
}

const struct png_kernels png_kernels_neon = {
	.name = "neon",
	.unfilter = body_unfilter,
	.adler = adler,
	.split4 = split4,
	.coded = inflate_coded_c,
};
#else
typedef int png_neon_empty;
#endif

/* kernels_neon: for 64-bit ARM, which always has these instructions; empty elsewhere. See
 * kernels.h; kernels_vec_body.h explains the names. */
#ifdef __aarch64__
#include "augment/kernels/kernels_body.h"
#include "augment/kernels/kernels_place_body.h"

#include <arm_neon.h>

#define LANES 1

typedef int32x4_t vec;
typedef float32x4_t vecf;
typedef uint32x4_t vmask;

#define v_set vdupq_n_s32
#define v_add vaddq_s32
#define v_sub vsubq_s32
#define v_and vandq_s32
#define v_or vorrq_s32
#define v_max vmaxq_s32
#define v_min vminq_s32
#define v_left vshlq_n_s32
#define v_equal vceqq_s32
#define v_choose vbslq_s32
#define v_of vcvtq_s32_f32
#define f_set vdupq_n_f32
#define f_add vaddq_f32
#define f_sub vsubq_f32
#define f_mul vmulq_f32
#define f_min vminq_f32
#define f_of vcvtq_f32_s32
#define f_floor vrndmq_f32
#define f_below vcltq_f32
#define f_choose vbslq_f32
#define f_quotient vdivq_f32
#define f_near vdivq_f32

#define NEON_INLINE static inline __attribute__((always_inline))

NEON_INLINE vec v_quad(const int8_t *bytes)
{
	return vreinterpretq_s32_s8(vld1q_s8(bytes));
}

/* The numbers are not negative. */
NEON_INLINE vec v_right(vec a, const int by)
{
	return vshlq_s32(a, vdupq_n_s32(-by));
}

/* Indices above 15, and -1, give 0. */
NEON_INLINE vec v_shuffle8(vec a, vec places)
{
	return vreinterpretq_s32_u8(
		vqtbl1q_u8(vreinterpretq_u8_s32(a), vreinterpretq_u8_s32(places)));
}

NEON_INLINE vec v_madd16(vec a, vec b)
{
	int16x8_t x = vreinterpretq_s16_s32(a), y = vreinterpretq_s16_s32(b);
	return vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
}

NEON_INLINE vec v_packus32(vec a, vec b)
{
	return vreinterpretq_s32_u16(vcombine_u16(vqmovun_s32(a), vqmovun_s32(b)));
}

NEON_INLINE vec v_packus16(vec a, vec b)
{
	return vreinterpretq_s32_u8(vcombine_u8(
		vqmovun_s16(vreinterpretq_s16_s32(a)), vqmovun_s16(vreinterpretq_s16_s32(b))));
}

NEON_INLINE vec v_load(const uint8_t *from)
{
	uint8_t pixels[16] = {0};
	memcpy(pixels, from, 12);
	return vreinterpretq_s32_u8(vld1q_u8(pixels));
}

NEON_INLINE void v_store(uint8_t *to, vec a)
{
	memcpy(to, &a, 12);
}

NEON_INLINE vmask v_odd(vec a)
{
	return vtstq_s32(a, v_set(1));
}

/* For each byte of a number: 4 times the number's position, plus 0 to 3. */
NEON_INLINE vec v_turn(const int8_t *table, vec a)
{
	const int8x16x2_t eight = {{vld1q_s8(table), vld1q_s8(table + 16)}};
	vec places = vmlaq_s32(v_set(0x03020100), a, v_set(0x04040404));
	return vreinterpretq_s32_s8(vqtbl2q_s8(eight, vreinterpretq_u8_s32(places)));
}

NEON_INLINE vecf f_sixth(vecf a)
{
	return vdivq_f32(a, f_set(6.0f));
}

#include "augment/kernels/kernels_vec_body.h"

const struct augment_kernels augment_kernels_neon = {
	.name = "neon",
	.blend = body_blend,
	.fold = body_fold,
	.map = body_map,
	.gray = vec_gray,
	.saturate = vec_saturate,
	.hue = vec_hue,
	.light = vec_light,
	.extremes = body_extremes,
	.sharpen = body_sharpen,
	.blur_down = body_blur_down,
	.blur_across = body_blur_across,
	.box_down = body_box_down,
	.box_across = body_box_across,
	.walk = body_walk,
	.bilinear = body_bilinear,
	.bicubic = body_bicubic,
};
#else
typedef int augment_kernels_neon_empty;
#endif

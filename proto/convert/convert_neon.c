/* convert_neon: kernels for 64-bit ARM. See convert.h. Thread: any. */
#ifdef __aarch64__

#include "proto/convert/convert.h"

#include <arm_neon.h>

typedef uint8x16_t body_bytes;
typedef float32x4x4_t body_group;

static inline void body_interleaved(const uint8_t *from, uint8x16_t ret[3])
{
	for (int i = 0; i < 3; i++)
		ret[i] = vld1q_u8(from + 16 * i);
}

static inline void body_planes(const uint8_t *from, uint8x16_t ret[3])
{
	uint8x16x3_t x = vld3q_u8(from);
	for (int i = 0; i < 3; i++)
		ret[i] = x.val[i];
}

static inline body_group body_all(float value)
{
	float32x4_t all = vdupq_n_f32(value);
	return (body_group){{all, all, all, all}};
}

static inline body_group body_load(const float *from)
{
	return (body_group){
		{vld1q_f32(from), vld1q_f32(from + 4), vld1q_f32(from + 8), vld1q_f32(from + 12)}};
}

static inline body_group body_widen(uint8x16_t x)
{
	uint16x8_t low = vmovl_u8(vget_low_u8(x)), high = vmovl_u8(vget_high_u8(x));
	return (body_group){{
		vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))),
		vcvtq_f32_u32(vmovl_u16(vget_high_u16(low))),
		vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))),
		vcvtq_f32_u32(vmovl_u16(vget_high_u16(high))),
	}};
}

static inline body_group body_times(body_group x, body_group y)
{
	for (int i = 0; i < 4; i++)
		x.val[i] = vmulq_f32(x.val[i], y.val[i]);
	return x;
}

static inline body_group body_less(body_group x, body_group y)
{
	for (int i = 0; i < 4; i++)
		x.val[i] = vsubq_f32(x.val[i], y.val[i]);
	return x;
}

static inline body_group body_fused(body_group x, body_group y, body_group z)
{
	for (int i = 0; i < 4; i++)
		x.val[i] = vfmaq_f32(z.val[i], x.val[i], y.val[i]);
	return x;
}

static inline void body_put_u8(void *out, uint8x16_t x)
{
	vst1q_u8(out, x);
}

/* Stores bytes: `out` needs no alignment. */
static inline void body_put_f32(char *out, body_group x, bool stream)
{
	(void)stream;
	for (int i = 0; i < 4; i++)
		body_put_u8(out + 16 * i, vreinterpretq_u8_f32(x.val[i]));
}

static inline void body_put_f16(char *out, body_group x)
{
	for (int i = 0; i < 2; i++) {
		float16x8_t both =
			vcombine_f16(vcvt_f16_f32(x.val[2 * i]), vcvt_f16_f32(x.val[2 * i + 1]));
		body_put_u8(out + 16 * i, vreinterpretq_u8_f16(both));
	}
}

/* To nearest, ties to even. */
static inline uint16x4_t body_round(float32x4_t value)
{
	uint32x4_t x = vreinterpretq_u32_f32(value);
	uint32x4_t odd = vandq_u32(vshrq_n_u32(x, 16), vdupq_n_u32(1));
	return vshrn_n_u32(vaddq_u32(x, vaddq_u32(odd, vdupq_n_u32(0x7fff))), 16);
}

static inline void body_put_bf16(char *out, body_group x)
{
	for (int i = 0; i < 2; i++) {
		uint16x8_t both =
			vcombine_u16(body_round(x.val[2 * i]), body_round(x.val[2 * i + 1]));
		body_put_u8(out + 16 * i, vreinterpretq_u8_u16(both));
	}
}

static inline void body_fence(void)
{
}

#include "proto/convert/convert_body.h"

const struct convert_kernels convert_neon = {
	.run = BODY_RUN,
};

#endif

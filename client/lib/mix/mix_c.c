/* mix_c: blending as such, what every kernel must equal. Each operation is rounded to float32
 * (nothing is fused: -ffp-contract=off), the result once more to a shorter type. Thread: any. */
#include "client/lib/mix/mix.h"
#include "proto/half.h"

static inline float blend_f32_value(float own, float other, float blend, float partner_blend)
{
	return own * blend + other * partner_blend;
}

static void blend_f32(void *own, const void *other, size_t count, float blend, float partner_blend)
{
	float *to = own;
	const float *from = other;
	for (size_t i = 0; i < count; i++)
		to[i] = blend_f32_value(to[i], from[i], blend, partner_blend);
}

#define BLEND_SHORT(name, widen, narrow)                                                      \
	static void name(                                                                     \
		void *own, const void *other, size_t count, float blend, float partner_blend) \
	{                                                                                     \
		uint16_t *to = own;                                                           \
		const uint16_t *from = other;                                                 \
		for (size_t i = 0; i < count; i++)                                            \
			to[i] = narrow(blend_f32_value(                                       \
				widen(to[i]), widen(from[i]), blend, partner_blend));         \
	}
BLEND_SHORT(blend_f16, half_from_float16, half_to_float16)
BLEND_SHORT(blend_bf16, half_from_bfloat16, half_to_bfloat16)

const struct mix_kernels mix_c = {
	.blend =
		{
			[PENSTOCK_FLOAT32] = blend_f32,
			[PENSTOCK_FLOAT16] = blend_f16,
			[PENSTOCK_BFLOAT16] = blend_bf16,
		},
};

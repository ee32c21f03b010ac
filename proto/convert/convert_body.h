/* convert_body: the loop of every kernel, for a file that defines for its instruction set
 *
 *   body_bytes, body_group   sixteen bytes, sixteen floats
 *   body_interleaved(), body_planes()
 *                            the next three times sixteen bytes, unchanged or by channel
 *   body_load(), body_widen(), body_fused(a, b, c) = a x b + c rounded once, body_less(),
 *   body_times(), body_put_u8(), body_put_f32(), body_put_f16(), body_put_bf16(), body_fence()
 *
 * and BODY_STREAMS if body_put_f32() can bypass the caches; its argument `stream` asks for that. */
#pragma once

#include "proto/convert/convert.h"

#define BODY_INLINE static inline __attribute__((always_inline))

/* 1 / 255 in two parts. */
#define BODY_SCALE 0x1.010102p-8f
#define BODY_REST (-0x1.fdfdfep-33f)

BODY_INLINE body_group body_value(body_group x, body_group mean, body_group scale, body_group rest)
{
	body_group share = body_fused(x, body_all(BODY_SCALE), body_times(x, body_all(BODY_REST)));
	body_group centred = body_less(share, mean);
	return body_fused(centred, scale, body_times(centred, rest));
}

BODY_INLINE void body_put(uint32_t dtype, void *out, body_group value, bool stream)
{
	if (dtype == CONVERT_FLOAT32)
		body_put_f32(out, value, stream);
	else if (dtype == CONVERT_FLOAT16)
		body_put_f16(out, value);
	else
		body_put_bf16(out, value);
}

BODY_INLINE void body_floats(const struct convert *convert, const uint8_t *from, size_t pixels,
	char *out, size_t plane_bytes, uint32_t dtype, bool planar, bool stream)
{
	size_t group = (dtype == CONVERT_FLOAT32 ? 4 : 2) * CONVERT_GROUP;
	size_t step = planar ? group : 3 * group, apart = planar ? plane_bytes : group;
	body_group mean[3], scale[3], rest[3];
	for (int i = 0; i < 3; i++) {
		mean[i] = body_load(convert->constants.mean[i]);
		scale[i] = body_load(convert->constants.scale[i]);
		rest[i] = body_load(convert->constants.rest[i]);
	}
	for (size_t pixel = 0; pixel < pixels; pixel += CONVERT_GROUP, out += step) {
		body_bytes x[3];
		if (planar)
			body_planes(from + 3 * pixel, x);
		else
			body_interleaved(from + 3 * pixel, x);
		for (size_t i = 0; i < 3; i++)
			body_put(dtype, out + i * apart,
				body_value(body_widen(x[i]), mean[i], scale[i], rest[i]), stream);
	}
	if (stream)
		body_fence();
}

#define BODY_FLOATS(name, dtype, planar, stream)                                             \
	static void name(const struct convert *convert, const uint8_t *from, size_t pixels,  \
		void *out, size_t plane_bytes)                                               \
	{                                                                                    \
		body_floats(convert, from, pixels, out, plane_bytes, dtype, planar, stream); \
	}
BODY_FLOATS(run_f32, CONVERT_FLOAT32, false, false)
BODY_FLOATS(run_f32_planar, CONVERT_FLOAT32, true, false)
BODY_FLOATS(run_f16, CONVERT_FLOAT16, false, false)
BODY_FLOATS(run_f16_planar, CONVERT_FLOAT16, true, false)
BODY_FLOATS(run_bf16, CONVERT_BFLOAT16, false, false)
BODY_FLOATS(run_bf16_planar, CONVERT_BFLOAT16, true, false)

static void run_u8_planar(const struct convert *convert, const uint8_t *from, size_t pixels,
	void *out, size_t plane_bytes)
{
	(void)convert;
	char *to = out;
	for (size_t pixel = 0; pixel < pixels; pixel += CONVERT_GROUP, to += CONVERT_GROUP) {
		body_bytes x[3];
		body_planes(from + 3 * pixel, x);
		for (size_t i = 0; i < 3; i++)
			body_put_u8(to + i * plane_bytes, x[i]);
	}
}

#define BODY_RUN                                                  \
	{                                                         \
		[CONVERT_UINT8] = {convert_copy, run_u8_planar},  \
		[CONVERT_FLOAT32] = {run_f32, run_f32_planar},    \
		[CONVERT_FLOAT16] = {run_f16, run_f16_planar},    \
		[CONVERT_BFLOAT16] = {run_bf16, run_bf16_planar}, \
	}

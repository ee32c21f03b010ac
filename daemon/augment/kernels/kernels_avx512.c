/* kernels_avx512: for x86-64 with AVX-512 F, BW, VL (only this file is compiled with them);
 * empty elsewhere. See kernels.h; kernels_vec_body.h explains the names. */
#ifdef __AVX512BW__
#include "augment/kernels/kernels_avx512_body.h"

const struct augment_kernels augment_kernels_avx512 = {
	.name = "avx512",
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
	.walk = walk_avx2,
	.bilinear = way_bilinear,
	.bicubic = way_bicubic,
};
#else
typedef int augment_kernels_avx512_empty;
#endif

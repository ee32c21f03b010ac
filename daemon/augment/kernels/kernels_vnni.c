/* kernels_vnni: for x86-64 with AVX-512 F, BW, VL, VBMI (only this file is compiled with them);
 * empty elsewhere. As kernels_avx512.c, but every map from byte to byte is a lookup: four
 * registers hold a table of 256 bytes. See kernels.h. */
#ifdef __AVX512VBMI__
#include "augment/kernels/kernels_avx512_body.h"

struct wide_table {
	vec quarter[4];
};

WIDE_INLINE struct wide_table wide_table_load(const uint8_t *table)
{
	struct wide_table loaded;
	for (int i = 0; i < 4; i++)
		loaded.quarter[i] = _mm512_loadu_si512(table + 64 * (size_t)i);
	return loaded;
}

WIDE_INLINE vec wide_look(const struct wide_table *table, vec bytes)
{
	vec low = _mm512_permutex2var_epi8(table->quarter[0], bytes, table->quarter[1]);
	vec high = _mm512_permutex2var_epi8(table->quarter[2], bytes, table->quarter[3]);
	return _mm512_mask_blend_epi8(_mm512_movepi8_mask(bytes), low, high);
}

enum { WIDE = 64 };

/* A mask for the first `bytes` bytes of a vector, or for the whole vector if `bytes` is larger. */
WIDE_INLINE __mmask64 wide_mask(size_t bytes)
{
	return bytes >= WIDE ? ~(__mmask64)0 : ((__mmask64)1 << bytes) - 1;
}

static void wide_blend(uint8_t *to, const uint8_t *from, size_t bytes, uint8_t level, float amount)
{
	uint8_t levels[AUGMENT_LEVELS], mixed[AUGMENT_LEVELS];
	for (int i = 0; i < AUGMENT_LEVELS; i++)
		levels[i] = (uint8_t)i;
	body_blend(mixed, levels, AUGMENT_LEVELS, level, amount);
	struct wide_table table = wide_table_load(mixed);
	for (size_t i = 0; i < bytes; i += WIDE) {
		__mmask64 mask = wide_mask(bytes - i);
		vec part = _mm512_maskz_loadu_epi8(mask, from + i);
		_mm512_mask_storeu_epi8(to + i, mask, wide_look(&table, part));
	}
}

/* Every third byte. */
#define WIDE_THIRDS 0x9249249249249249u

static void wide_map(
	uint8_t *to, const uint8_t *from, size_t pixels, const uint8_t table[3][AUGMENT_LEVELS])
{
	const struct wide_table tables[3] = {
		wide_table_load(table[0]), wide_table_load(table[1]), wide_table_load(table[2])};
	static const __mmask64 thirds[3] = {WIDE_THIRDS, WIDE_THIRDS << 1, WIDE_THIRDS << 2};
	size_t bytes = 3 * pixels;
	for (size_t i = 0, first = 0; i < bytes; i += WIDE, first = (first + 2) % 3) {
		__mmask64 mask = wide_mask(bytes - i);
		vec part = _mm512_maskz_loadu_epi8(mask, from + i);
		/* The vector begins with channel 0, then 1, then 2. */
		vec out = wide_look(&tables[0], part);
		out = _mm512_mask_mov_epi8(
			out, thirds[(first + 1) % 3], wide_look(&tables[1], part));
		out = _mm512_mask_mov_epi8(
			out, thirds[(first + 2) % 3], wide_look(&tables[2], part));
		_mm512_mask_storeu_epi8(to + i, mask, out);
	}
}

const struct augment_kernels augment_kernels_vnni = {
	.name = "avx512-vnni",
	.blend = wide_blend,
	.fold = body_fold,
	.map = wide_map,
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
typedef int augment_kernels_vnni_empty;
#endif

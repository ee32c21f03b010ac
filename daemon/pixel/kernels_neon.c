/* kernels_neon: for 64-bit ARM, which always has NEON; empty elsewhere. See kernels.h.
 *
 * Sums have 32 bits, as in plain C: NEON multiplies and adds 32-bit values, and a byte look-up
 * makes such values from the pixels that four outputs take, anywhere within 16 bytes. Split
 * weights would take two multiplications where this takes one. */
#ifdef __aarch64__
#include "pixel/kernels.h"

#include "base/util.h"

#include <arm_neon.h>

enum {
	FOUR = 4, /* values in a vector */
	BLOCK_FOURS = 4,
	BLOCK = BLOCK_FOURS * FOUR, /* bytes in a vector */
	NOWHERE = 0x80, /* looking it up gives 0 */
};

/* Which of 16 bytes to take for 32-bit values: the first four, the second four, ... */
#define WIDE(n) (n), NOWHERE, NOWHERE, NOWHERE
static const _Alignas(16) uint8_t wide[BLOCK_FOURS][BLOCK] = {
	{WIDE(0), WIDE(1), WIDE(2), WIDE(3)},
	{WIDE(4), WIDE(5), WIDE(6), WIDE(7)},
	{WIDE(8), WIDE(9), WIDE(10), WIDE(11)},
	{WIDE(12), WIDE(13), WIDE(14), WIDE(15)},
};

static inline __attribute__((always_inline)) uint32x4_t neon_pick(
	const uint8_t *from, uint8x16_t pick)
{
	return vreinterpretq_u32_u8(vqtbl1q_u8(vld1q_u8(from), pick));
}

static inline __attribute__((always_inline)) uint32x4_t neon_weights(const int32_t *value)
{
	return vreinterpretq_u32_s32(vld1q_s32(value));
}

#define KERNELS_DOTS
static inline __attribute__((always_inline)) void body_dots(uint32_t sums[3],
	const uint8_t *const from[3], size_t first, const int32_t *value, uint32_t taps)
{
	uint32x4_t sum[3] = {vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0)};
	for (uint32_t t = 0; t < taps; t += BLOCK)
		for (int j = 0; j < BLOCK_FOURS; j++) {
			uint32x4_t weights = neon_weights(value + t + (size_t)FOUR * j);
			uint8x16_t pick = vld1q_u8(wide[j]);
			for (int c = 0; c < 3; c++)
				sum[c] = vmlaq_u32(
					sum[c], neon_pick(from[c] + first + t, pick), weights);
		}
	for (int c = 0; c < 3; c++)
		sums[c] = vaddvq_u32(sum[c]);
}

#include "pixel/kernels_body.h"

/* For four outputs: which bytes after the base they take for their first taps, and the weights
 * of each tap. The bytes of each further tap are one byte on. */
struct neon_four {
	_Alignas(16) uint8_t pick[BLOCK];
	uint32_t base;
	_Alignas(16) int32_t value[][FOUR];
};

KERNELS_INLINE size_t neon_four_bytes(uint32_t taps)
{
	return sizeof(struct neon_four) + taps * sizeof(int32_t[FOUR]);
}

_Static_assert(
	sizeof(struct neon_four) + WEIGHTS_FEW * sizeof(int32_t[FOUR]) <= FOUR * KERNELS_PACKED,
	"a table of most taps has room");

/* Outputs [at, at + 4), as far as they exist. */
static bool neon_pack_four(const struct weights *w, uint32_t at, struct neon_four *to)
{
	uint32_t count = at < w->count ? w->count - at : 0, low = UINT32_MAX, high = 0;
	count = count < FOUR ? count : FOUR;
	for (uint32_t o = 0; o < count; o++) {
		uint32_t first = w->first[at + o];
		low = first < low ? first : low;
		high = first > high ? first : high;
	}
	if (count && high - low >= BLOCK)
		return false;
	to->base = count ? low : 0;
	vst1q_u8(to->pick, vdupq_n_u8(NOWHERE));
	for (uint32_t o = 0; o < FOUR; o++) {
		const int32_t *value = w->value + (size_t)(at + o) * w->stride;
		if (o < count)
			to->pick[FOUR * o] = (uint8_t)(w->first[at + o] - low);
		for (uint32_t t = 0; t < w->most; t++)
			to->value[t][o] = o < count ? value[t] : 0;
	}
	return true;
}

static bool neon_pack(const struct weights *w, uint8_t *table)
{
	for (uint32_t at = 0; at < util_align(w->count, BLOCK); at += FOUR) {
		if (!neon_pack_four(w, at, (struct neon_four *)(void *)table))
			return false;
		table += neon_four_bytes(w->most);
	}
	return true;
}

/* Shifts by 16, which takes the upper halves, then by the rest. */
KERNELS_INLINE uint8x16_t neon_end(const uint32x4_t sum[BLOCK_FOURS])
{
	enum { LEFT = WEIGHTS_BITS - 16 };
	int16x8_t upper[2];
	for (int i = 0; i < 2; i++)
		upper[i] = vuzp2q_s16(
			vreinterpretq_s16_u32(sum[2 * i]), vreinterpretq_s16_u32(sum[2 * i + 1]));
	return vqshrun_high_n_s16(vqshrun_n_s16(upper[0], LEFT), upper[1], LEFT);
}

/* `taps` is a constant if it is small. */
KERNELS_INLINE void neon_across_taps(uint8_t *const to[3], const uint8_t *const from[3],
	uint32_t count, const uint8_t *table, uint32_t taps)
{
	for (uint32_t i = 0; i < count; i += BLOCK) {
		uint32x4_t sum[3][BLOCK_FOURS];
		for (int j = 0; j < BLOCK_FOURS; j++, table += neon_four_bytes(taps)) {
			const struct neon_four *four = (const void *)table;
			uint8x16_t pick = vld1q_u8(four->pick);
			for (int c = 0; c < 3; c++)
				sum[c][j] = vdupq_n_u32(WEIGHTS_HALF);
			for (uint32_t t = 0; t < taps; t++) {
				uint32x4_t weights = neon_weights(four->value[t]);
				for (int c = 0; c < 3; c++)
					sum[c][j] = vmlaq_u32(sum[c][j],
						neon_pick(from[c] + four->base + t, pick), weights);
			}
		}
		for (int c = 0; c < 3; c++)
			vst1q_u8(to[c] + i, neon_end(sum[c]));
	}
}

static void neon_across(uint8_t *const to[3], const uint8_t *const from[3], const struct weights *w,
	const uint8_t *table)
{
	switch (w->most) {
	case 2:
		neon_across_taps(to, from, w->count, table, 2);
		break;
	case 3:
		neon_across_taps(to, from, w->count, table, 3);
		break;
	case 4:
		neon_across_taps(to, from, w->count, table, 4);
		break;
	case 5:
		neon_across_taps(to, from, w->count, table, 5);
		break;
	default:
		neon_across_taps(to, from, w->count, table, w->most);
		break;
	}
}

KERNELS_INLINE void neon_down_taps(
	uint8_t *to, const uint8_t *const *rows, const int32_t *value, uint32_t taps, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += BLOCK) {
		uint32x4_t sum[BLOCK_FOURS];
		for (int j = 0; j < BLOCK_FOURS; j++)
			sum[j] = vdupq_n_u32(WEIGHTS_HALF);
		for (uint32_t t = 0; t < taps; t++)
			for (int j = 0; j < BLOCK_FOURS; j++)
				sum[j] = vmlaq_n_u32(sum[j],
					neon_pick(rows[t] + at, vld1q_u8(wide[j])),
					(uint32_t)value[t]);
		vst1q_u8(to + at, neon_end(sum));
	}
}

static void neon_down(
	uint8_t *to, const uint8_t *const *rows, const int32_t *value, uint32_t taps, size_t bytes)
{
	switch (taps) {
	case 2:
		neon_down_taps(to, rows, value, 2, bytes);
		break;
	case 3:
		neon_down_taps(to, rows, value, 3, bytes);
		break;
	case 4:
		neon_down_taps(to, rows, value, 4, bytes);
		break;
	case 5:
		neon_down_taps(to, rows, value, 5, bytes);
		break;
	default:
		neon_down_taps(to, rows, value, taps, bytes);
		break;
	}
}

static void neon_weave(uint8_t *to, const uint8_t *const from[3], size_t count)
{
	size_t i = 0;
	for (; i + BLOCK <= count; i += BLOCK, to += 3 * (size_t)BLOCK) {
		uint8x16x3_t all = {
			{vld1q_u8(from[0] + i), vld1q_u8(from[1] + i), vld1q_u8(from[2] + i)}};
		vst3q_u8(to, all);
	}
	kernels_c.weave(
		to, (const uint8_t *const[]){from[0] + i, from[1] + i, from[2] + i}, count - i);
}

const struct kernels kernels_neon = {
	.name = "neon",
	.pack = neon_pack,
	.across = neon_across,
	.across_many = body_across_many,
	.down = neon_down,
	.down_add = body_down_add,
	.down_end = body_down_end,
	.weave = neon_weave,
};
#else
typedef int kernels_neon_empty;
#endif

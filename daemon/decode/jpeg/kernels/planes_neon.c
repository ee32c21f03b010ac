/* planes_neon: for 64-bit ARM, all of which has NEON; empty elsewhere. See planes_kernels.h;
 * planes_body.h explains the names. */
#ifdef __aarch64__
#include "decode/jpeg/kernels/planes_kernels.h"

#include <arm_neon.h>
#include <stddef.h>

#define LANES 1
#define TABLE planes_kernels_neon
#define NAME "neon"
#define V static inline __attribute__((always_inline))

typedef int16x8_t vec;

/* A vector as elements of another size, and back. */
#define AS8 vreinterpretq_u8_s16
#define AS16U vreinterpretq_u16_s16
#define AS32 vreinterpretq_s32_s16
#define AS32U vreinterpretq_u32_s16
#define OF8 vreinterpretq_s16_u8
#define OF16U vreinterpretq_s16_u16
#define OF32 vreinterpretq_s16_s32
#define OF32U vreinterpretq_s16_u32

/* Values that may wrap are unsigned: compilers treat these as C's operators. */

#define v_set8(a) vreinterpretq_s16_s8(vdupq_n_s8((int8_t)(a)))
#define v_set16 vdupq_n_s16
#define v_set32(a) OF32(vdupq_n_s32(a))
#define v_add16(a, b) OF16U(vaddq_u16(AS16U(a), AS16U(b)))
#define v_add32(a, b) OF32U(vaddq_u32(AS32U(a), AS32U(b)))
#define v_sub16(a, b) OF16U(vsubq_u16(AS16U(a), AS16U(b)))
#define v_sub32(a, b) OF32U(vsubq_u32(AS32U(a), AS32U(b)))
#define v_subs16 vqsubq_s16
#define v_abs16 vabsq_s16
#define v_mullo16(a, b) OF16U(vmulq_u16(AS16U(a), AS16U(b)))
#define v_subus16(a, b) OF16U(vqsubq_u16(AS16U(a), AS16U(b)))
#define v_mulhrs16 vqrdmulhq_s16
#define v_sra16(a, n) vshrq_n_s16(a, n)
#define v_srl16(a, n) OF16U(vshrq_n_u16(AS16U(a), n))
#define v_sll16(a, n) vshlq_n_s16(a, n)
#define v_sra32(a, n) OF32(AS32(a) >> (n)) /* NEON's instruction takes only constants */
#define v_packs32(a, b) vqmovn_high_s32(vqmovn_s32(AS32(a)), AS32(b))
#define v_packus16(a, b) OF8(vqmovun_high_s16(vqmovun_s16(a), b))
#define v_unpacklo8(a, b) OF8(vzip1q_u8(AS8(a), AS8(b)))
#define v_unpackhi8(a, b) OF8(vzip2q_u8(AS8(a), AS8(b)))
#define v_unpacklo16 vzip1q_s16
#define v_unpackhi16 vzip2q_s16
#define v_unpacklo32(a, b) OF32(vzip1q_s32(AS32(a), AS32(b)))
#define v_unpackhi32(a, b) OF32(vzip2q_s32(AS32(a), AS32(b)))
#define v_unpackhi64(a, b) \
	vreinterpretq_s16_s64(vzip2q_s64(vreinterpretq_s64_s16(a), vreinterpretq_s64_s16(b)))
#define v_unpacklo64(a, b) \
	vreinterpretq_s16_s64(vzip1q_s64(vreinterpretq_s64_s16(a), vreinterpretq_s64_s16(b)))
#define v_and vandq_s16
#define v_or vorrq_s16
#define v_xor veorq_s16

/* Without the saturation: the body's sums fit. */
V vec v_maddubs16(vec a, vec b)
{
	vec low = vmulq_s16(v_and(a, v_set16(0xff)), v_sra16(v_sll16(b, 8), 8));
	return vmlaq_s16(low, v_srl16(a, 8), v_sra16(b, 8));
}

V vec v_load(const void *p)
{
	return OF8(vld1q_u8(p));
}

V void v_store(void *p, vec a)
{
	vst1q_u8(p, AS8(a));
}

V vec v_lane(const void *p)
{
	return v_load(p);
}

V vec v_lanes(const int16_t *const *blocks, int i)
{
	return v_load(blocks[0] + (ptrdiff_t)8 * i);
}

V int v_any(vec a)
{
	return vmaxvq_u32(AS32U(a)) != 0;
}

V void v_rows(uint8_t *to, size_t pitch, vec a)
{
	vst1_u8(to, vget_low_u8(AS8(a)));
	vst1_u8(to + pitch, vget_high_u8(AS8(a)));
}

V void v_pair(vec *low, vec *high)
{
	(void)low, (void)high;
}

/* NEON multiplies without adding neighbors, so pairs are separated first, once for all the products
 * that they are part of. */
#define BODY_OWN
V vec body_dot_add(vec sum, vec pairs, int low, int high)
{
	int16x4_t first = vmovn_s32(AS32(pairs)), second = vshrn_n_s32(AS32(pairs), 16);
	int32x4_t both = vmlal_n_s16(AS32(sum), first, (int16_t)low);
	return OF32(vmlal_n_s16(both, second, (int16_t)high));
}

V vec body_dot(vec pairs, int low, int high)
{
	int16x4_t first = vmovn_s32(AS32(pairs)), second = vshrn_n_s32(AS32(pairs), 16);
	return OF32(vmlal_n_s16(vmull_n_s16(first, (int16_t)low), second, (int16_t)high));
}

V vec body_three_low(vec a, vec b)
{
	return OF16U(vmlal_u8(vmovl_u8(vget_low_u8(AS8(b))), vget_low_u8(AS8(a)), vdup_n_u8(3)));
}

V vec body_three_high(vec a, vec b)
{
	return OF16U(vmlal_high_u8(vmovl_high_u8(AS8(b)), AS8(a), vdupq_n_u8(3)));
}

static void body_split(uint8_t *const to[3], const uint8_t *from, size_t count)
{
	size_t i = 0;
	for (; i + sizeof(vec) <= count; i += sizeof(vec), from += 3 * sizeof(vec)) {
		uint8x16x3_t all = vld3q_u8(from);
		for (int c = 0; c < 3; c++)
			vst1q_u8(to[c] + i, all.val[c]);
	}
	planes_kernels_c.split(
		(uint8_t *const[3]){to[0] + i, to[1] + i, to[2] + i}, from, count - i);
}

/* For each unit of the ready order: its bytes in the zigzag order. */
#define TWO(k) 2 * (k), 2 * (k) + 1
#define UNIT(u, a, b, c, d, e, f, g, h) \
	{TWO(a), TWO(b), TWO(c), TWO(d), TWO(e), TWO(f), TWO(g), TWO(h)},
static const _Alignas(16) uint8_t pick[8][16] = {PLANES_READY_UNITS(UNIT)};

/* A look-up reaches 64 bytes: half a block. */
V void sort_one(int16_t *to, const uint8x16x4_t *first, const uint8x16x4_t *second)
{
	for (int u = 0; u < 8; u++) {
		uint8x16_t index = vld1q_u8(pick[u]);
		uint8x16_t unit = vqtbl4q_u8(*first, index);
		unit = vqtbx4q_u8(unit, *second, vsubq_u8(index, vdupq_n_u8(64)));
		v_store(to + (ptrdiff_t)8 * u, OF8(unit));
	}
}

static const _Alignas(16) int16_t behind_dc[8] = {0, -1, -1, -1, -1, -1, -1, -1};
static const _Alignas(16) int16_t behind_ten[8] = {0, 0, -1, -1, -1, -1, -1, -1};

static void body_sort(int16_t (*to)[64], uint8_t *kinds, const int16_t *const *from, size_t count)
{
	_Static_assert(PLANES_SPARSE_LENGTH == 10, "behind_ten is of the second eight");
	for (size_t i = 0; i < count; i++) {
		uint8x16x4_t z[2];
		for (int k = 0; k < 8; k++)
			z[k / 4].val[k % 4] = AS8(v_load(from[i] + (ptrdiff_t)8 * k));
		uint8x16_t later = vorrq_u8(z[0].val[2], z[0].val[3]);
		for (int k = 0; k < 4; k++)
			later = vorrq_u8(later, z[1].val[k]);
		vec many = v_or(OF8(later), v_and(OF8(z[0].val[1]), v_load(behind_ten)));
		vec any = v_or(OF8(vorrq_u8(later, z[0].val[1])),
			v_and(OF8(z[0].val[0]), v_load(behind_dc)));
		kinds[i] = (uint8_t)(v_any(any) + v_any(many));
		sort_one(to[i], &z[0], &z[1]);
	}
}

#include "decode/jpeg/kernels/planes_body.h"
#else
typedef int planes_neon_empty;
#endif

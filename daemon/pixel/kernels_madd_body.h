/* kernels_madd_body: passes of few taps for vectors of LANES lanes of 16 bytes that multiply and
 * add pairs of 16-bit values; see kernels.h. The including file defines the type `vec` and its
 * operations, which work within lanes as the instructions do, and TABLE and NAME:
 *
 *   v_load, v_store, v_set32, v_add32, v_sll32, v_sra32, v_madd16, v_packs32, v_packus16,
 *   v_unpacklo8, v_unpackhi8, v_unpacklo32, v_unpackhi32, v_unpacklo64, v_unpackhi64, v_shuffle8
 *   v_store_part(to, n, a)      n bytes, or more within whole KERNELS_OUTPUTS, at most all
 *   v_lanes(from, base)         16 bytes for each lane, at from + base[lane]
 *   madd_weave                  the table's entry
 *
 * A weight is high x 2^11 + low with low in [0, 2047]; high fits 16 bits, because the magnitude
 * of weights is far below 2^26. If outputs are near each other, a lane has four of them, and
 * everything that their pair p of taps takes is in the 16 bytes that begin 2 p after the lane's
 * base. Otherwise (bilinear: where an image shrinks to less than a fifth) a lane has 16 taps of one
 * output, and the four parts of its sum are added up. */
#include "pixel/kernels_body.h"

#include <string.h>

enum {
	HALF_BITS = 11,
	HALF_MASK = (1 << HALF_BITS) - 1,
	LANE_OUTPUTS = 4,
	LANE_BYTES = 16,
	PAIRS = WEIGHTS_FEW / 2,
	BLOCK_VECS = 4, /* of 32 bits: one of bytes */
	BLOCK_OUTPUTS = BLOCK_VECS * LANES * LANE_OUTPUTS,
	STEP = LANE_BYTES, /* taps of an output in a lane of its own */
	STEPS = WEIGHTS_FEW / STEP,
};

/* What `pack` makes: vectors of near outputs, or of far ones. */
struct madd_table {
	uint32_t far;
	_Alignas(KERNELS_GRAIN) uint8_t vecs[];
};

/* The outputs of a vector: lane l of vector j of a block has output 16 l + 4 j and the next
 * three, where packing puts them. */
struct madd_vec {
	_Alignas(16) uint32_t base[4];
	_Alignas(KERNELS_GRAIN) uint8_t pick[LANES * LANE_BYTES];
	struct {
		uint32_t high[LANES * LANE_OUTPUTS], low[LANES * LANE_OUTPUTS];
	} pair[];
};

KERNELS_INLINE size_t madd_vec_bytes(uint32_t pairs)
{
	size_t bytes = sizeof(struct madd_vec) + pairs * sizeof(((struct madd_vec *)0)->pair[0]);
	return (bytes + KERNELS_GRAIN - 1) & ~(size_t)(KERNELS_GRAIN - 1);
}

KERNELS_INLINE uint32_t madd_pair_high(const int32_t *value)
{
	return (uint32_t)(uint16_t)(value[0] >> HALF_BITS) | (uint32_t)(value[1] >> HALF_BITS)
								     << 16;
}

KERNELS_INLINE uint32_t madd_pair_low(const int32_t *value)
{
	return (uint32_t)(value[0] & HALF_MASK) | (uint32_t)(value[1] & HALF_MASK) << 16;
}

/* Outputs [at, at + 4), as far as they exist. */
static bool madd_pack_lane(
	const struct weights *w, uint32_t at, unsigned lane, uint32_t pairs, struct madd_vec *to)
{
	uint32_t count = at < w->count ? w->count - at : 0, low = UINT32_MAX, high = 0;
	count = count < LANE_OUTPUTS ? count : LANE_OUTPUTS;
	for (uint32_t o = 0; o < count; o++) {
		uint32_t first = w->first[at + o];
		low = first < low ? first : low;
		high = first > high ? first : high;
	}
	if (count && high - low + 2 > LANE_BYTES)
		return false;
	to->base[lane] = count ? low : 0;
	for (uint32_t o = 0; o < LANE_OUTPUTS; o++) {
		uint8_t place = (uint8_t)(o < count ? w->first[at + o] - low : 0);
		uint8_t *pick = to->pick + lane * LANE_BYTES + o * 4;
		pick[0] = place;
		pick[2] = place + 1;
		pick[1] = pick[3] = 0x80;
		const int32_t *value = w->value + (size_t)(at + o) * w->stride;
		for (uint32_t p = 0; p < pairs; p++) {
			uint32_t i = lane * LANE_OUTPUTS + o;
			to->pair[p].high[i] = o < count ? madd_pair_high(value + 2 * p) : 0;
			to->pair[p].low[i] = o < count ? madd_pair_low(value + 2 * p) : 0;
		}
	}
	return true;
}

/* A vector of outputs that have a lane each. Four such vectors become one of near outputs: they
 * have the first output of each of its lanes, the second, and so on. */
struct madd_far { /* a step of 16 taps; the unpacked bytes of a lane are in two vectors */
	int16_t high[2][LANES * LANE_BYTES / 2], low[2][LANES * LANE_BYTES / 2];
};

KERNELS_INLINE uint32_t madd_far_vecs(uint32_t count)
{
	return (count + BLOCK_OUTPUTS - 1) / BLOCK_OUTPUTS * BLOCK_VECS * LANE_OUTPUTS;
}

/* Output `at`, if it exists, in a lane. */
static void madd_pack_far_lane(const struct weights *w, uint32_t at, unsigned lane, uint32_t *base,
	struct madd_far *to, uint32_t steps)
{
	bool exists = at < w->count;
	base[lane] = exists ? w->first[at] : 0;
	for (uint32_t t = 0; t < steps * STEP; t++) {
		uint32_t half = t % STEP / 8, i = lane * LANE_BYTES / 2 + t % 8;
		int32_t value = exists && t < w->stride ? w->value[(size_t)at * w->stride + t] : 0;
		to[t / STEP].high[half][i] = (int16_t)(value >> HALF_BITS);
		to[t / STEP].low[half][i] = (int16_t)(value & HALF_MASK);
	}
}

static void madd_pack_far(const struct weights *w, uint8_t *to)
{
	uint32_t steps = (w->most + STEP - 1) / STEP, vecs = madd_far_vecs(w->count);
	uint32_t(*base)[4] = (uint32_t(*)[4])(void *)to;
	struct madd_far *far = (struct madd_far *)(void *)(base + vecs);
	for (uint32_t block = 0; block < w->count; block += BLOCK_OUTPUTS)
		for (unsigned o = 0; o < BLOCK_VECS * LANE_OUTPUTS; o++, base++, far += steps)
			for (unsigned lane = 0; lane < LANES; lane++)
				madd_pack_far_lane(
					w, block + LANE_BYTES * lane + o, lane, *base, far, steps);
}

static bool madd_pack_near(const struct weights *w, uint8_t *table)
{
	uint32_t pairs = (w->most + 1) / 2;
	size_t bytes = madd_vec_bytes(pairs);
	for (uint32_t block = 0; block < w->count; block += BLOCK_OUTPUTS)
		for (unsigned j = 0; j < BLOCK_VECS; j++, table += bytes)
			for (unsigned lane = 0; lane < LANES; lane++)
				if (!madd_pack_lane(w, block + 16 * lane + 4 * j, lane, pairs,
					    (struct madd_vec *)(void *)table))
					return false;
	return true;
}

static bool madd_pack(const struct weights *w, uint8_t *bytes)
{
	struct madd_table *table = (struct madd_table *)(void *)bytes;
	table->far = !madd_pack_near(w, table->vecs);
	if (table->far)
		madd_pack_far(w, table->vecs);
	return true;
}

KERNELS_INLINE vec madd_end(vec high, vec low)
{
	return v_sra32(v_add32(v_sll32(high, HALF_BITS), low), WEIGHTS_BITS);
}

/* A vector of outputs of one row, before packing. */
KERNELS_INLINE vec madd_across_vec(const uint8_t *from, const struct madd_vec *v, uint32_t pairs)
{
	vec pick = v_load(v->pick), high = v_set32(0), low = v_set32(WEIGHTS_HALF);
	for (uint32_t p = 0; p < pairs; p++) {
		vec bytes = v_shuffle8(v_lanes(from + 2 * (size_t)p, v->base), pick);
		high = v_add32(high, v_madd16(bytes, v_load(v->pair[p].high)));
		low = v_add32(low, v_madd16(bytes, v_load(v->pair[p].low)));
	}
	return madd_end(high, low);
}

/* `pairs` is a constant if it is small. */
KERNELS_INLINE void madd_across_pairs(uint8_t *const to[3], const uint8_t *const from[3],
	uint32_t count, const uint8_t *table, uint32_t pairs)
{
	size_t bytes = madd_vec_bytes(pairs);
	for (uint32_t i = 0; i < count; i += BLOCK_OUTPUTS, table += BLOCK_VECS * bytes)
		for (int c = 0; c < 3; c++) {
			vec v[BLOCK_VECS];
			for (unsigned j = 0; j < BLOCK_VECS; j++)
				v[j] = madd_across_vec(from[c],
					(const struct madd_vec *)(const void *)(table + j * bytes),
					pairs);
			v_store_part(to[c] + i, count - i,
				v_packus16(v_packs32(v[0], v[1]), v_packs32(v[2], v[3])));
		}
}

/* The parts of an output's sum, in its lane. */
KERNELS_INLINE vec madd_across_far_vec(
	const uint8_t *from, const uint32_t base[4], const struct madd_far *far, uint32_t steps)
{
	vec high = v_set32(0), low = v_set32(0), zero = v_set32(0);
	for (uint32_t s = 0; s < steps; s++) {
		vec bytes = v_lanes(from + (size_t)s * STEP, base);
		vec half[2] = {v_unpacklo8(bytes, zero), v_unpackhi8(bytes, zero)};
		for (int h = 0; h < 2; h++) {
			high = v_add32(high, v_madd16(half[h], v_load(far[s].high[h])));
			low = v_add32(low, v_madd16(half[h], v_load(far[s].low[h])));
		}
	}
	return v_add32(v_sll32(high, HALF_BITS), low);
}

/* A vector of outputs, before packing, from the four that have their parts. */
KERNELS_INLINE vec madd_far_end(const vec part[LANE_OUTPUTS])
{
	vec a = v_add32(v_unpacklo32(part[0], part[1]), v_unpackhi32(part[0], part[1]));
	vec b = v_add32(v_unpacklo32(part[2], part[3]), v_unpackhi32(part[2], part[3]));
	vec sum = v_add32(v_unpacklo64(a, b), v_unpackhi64(a, b));
	return v_sra32(v_add32(sum, v_set32(WEIGHTS_HALF)), WEIGHTS_BITS);
}

/* `steps` is a constant. */
KERNELS_INLINE void madd_across_far(uint8_t *const to[3], const uint8_t *const from[3],
	uint32_t count, const uint8_t *table, uint32_t steps)
{
	const uint32_t(*base)[4] = (const uint32_t(*)[4])(const void *)table;
	const struct madd_far *far =
		(const struct madd_far *)(const void *)(base + madd_far_vecs(count));
	for (uint32_t i = 0; i < count; i += BLOCK_OUTPUTS) {
		for (int c = 0; c < 3; c++) {
			vec v[BLOCK_VECS];
			for (unsigned j = 0; j < BLOCK_VECS; j++) {
				vec part[LANE_OUTPUTS];
				for (unsigned k = 0; k < LANE_OUTPUTS; k++) {
					size_t n = j * LANE_OUTPUTS + k;
					part[k] = madd_across_far_vec(
						from[c], base[n], far + n * steps, steps);
				}
				v[j] = madd_far_end(part);
			}
			v_store_part(to[c] + i, count - i,
				v_packus16(v_packs32(v[0], v[1]), v_packs32(v[2], v[3])));
		}
		base += BLOCK_VECS * LANE_OUTPUTS;
		far += (size_t)BLOCK_VECS * LANE_OUTPUTS * steps;
	}
}

static void madd_across(uint8_t *const to[3], const uint8_t *const from[3], const struct weights *w,
	const uint8_t *bytes)
{
	uint32_t pairs = (w->most + 1) / 2;
	const uint8_t *table = ((const struct madd_table *)(const void *)bytes)->vecs;
	if (((const struct madd_table *)(const void *)bytes)->far) {
		if (w->most <= STEP)
			madd_across_far(to, from, w->count, table, 1);
		else
			madd_across_far(to, from, w->count, table, STEPS);
		return;
	}
	switch (pairs) {
	case 1:
		madd_across_pairs(to, from, w->count, table, 1);
		break;
	case 2:
		madd_across_pairs(to, from, w->count, table, 2);
		break;
	case 3:
		madd_across_pairs(to, from, w->count, table, 3);
		break;
	default:
		madd_across_pairs(to, from, w->count, table, pairs);
		break;
	}
}

/* The bytes of two rows, as pairs of 16-bit values. */
KERNELS_INLINE void madd_pairs_of_rows(vec out[BLOCK_VECS], const uint8_t *a, const uint8_t *b)
{
	vec x = v_load(a), y = v_load(b), zero = v_set32(0);
	vec low = v_unpacklo8(x, y), high = v_unpackhi8(x, y);
	out[0] = v_unpacklo8(low, zero);
	out[1] = v_unpackhi8(low, zero);
	out[2] = v_unpacklo8(high, zero);
	out[3] = v_unpackhi8(high, zero);
}

KERNELS_INLINE void madd_down_pairs(uint8_t *to, const uint8_t *const *rows,
	const uint32_t (*weight)[2], size_t bytes, uint32_t pairs)
{
	for (size_t at = 0; at < bytes; at += sizeof(vec)) {
		vec high[BLOCK_VECS], low[BLOCK_VECS];
		for (unsigned j = 0; j < BLOCK_VECS; j++) {
			high[j] = v_set32(0);
			low[j] = v_set32(WEIGHTS_HALF);
		}
		for (uint32_t p = 0; p < pairs; p++) {
			vec pixel[BLOCK_VECS], a = v_set32((int)weight[p][0]),
					       b = v_set32((int)weight[p][1]);
			madd_pairs_of_rows(pixel, rows[2 * p] + at, rows[2 * p + 1] + at);
			for (unsigned j = 0; j < BLOCK_VECS; j++) {
				high[j] = v_add32(high[j], v_madd16(pixel[j], a));
				low[j] = v_add32(low[j], v_madd16(pixel[j], b));
			}
		}
		for (unsigned j = 0; j < BLOCK_VECS; j++)
			low[j] = madd_end(high[j], low[j]);
		v_store(to + at, v_packus16(v_packs32(low[0], low[1]), v_packs32(low[2], low[3])));
	}
}

static void madd_down(
	uint8_t *to, const uint8_t *const *rows, const int32_t *value, uint32_t taps, size_t bytes)
{
	const uint8_t *paired[2 * PAIRS];
	uint32_t weight[PAIRS][2], pairs = (taps + 1) / 2;
	for (uint32_t p = 0; p < pairs; p++) {
		uint32_t second = 2 * p + 1 < taps ? 2 * p + 1 : 2 * p;
		int32_t two[2] = {value[2 * p], second != 2 * p ? value[second] : 0};
		paired[2 * p] = rows[2 * p];
		paired[2 * p + 1] = rows[second];
		weight[p][0] = madd_pair_high(two);
		weight[p][1] = madd_pair_low(two);
	}
	switch (pairs) {
	case 1:
		madd_down_pairs(to, paired, weight, bytes, 1);
		break;
	case 2:
		madd_down_pairs(to, paired, weight, bytes, 2);
		break;
	case 3:
		madd_down_pairs(to, paired, weight, bytes, 3);
		break;
	default:
		madd_down_pairs(to, paired, weight, bytes, pairs);
		break;
	}
}

const struct kernels TABLE = {
	.name = NAME,
	.pack = madd_pack,
	.across = madd_across,
	.across_many = body_across_many,
	.down = madd_down,
	.down_add = body_down_add,
	.down_end = body_down_end,
	.weave = madd_weave,
};

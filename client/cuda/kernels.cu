/* kernels: the kernels: bytes to normalized tensors, labels to distributions.
 * tests/cuda/reference.c defines in plain C what each computes; this file computes it fast.
 *
 * A block of KERNELS_THREADS threads processes KERNELS_SPAN pixels of one row of the batch, so the
 * operations of a row are one branch for the whole block:
 *
 *   plain    only normalizes. A thread turns 4 or 8 bytes into one store of 16 bytes (NHWC), or 4
 *            or 8 pixels into one such store in each plane (NCHW).
 *   groups   flips, mixing, rectangles of one color: also 4 or 8 pixels at a time.
 *   single   everything else, pixel by pixel: sides that are not a multiple of 4 or 8, noise, and
 *            deviations that the device has to divide by.
 *
 * Every operation rounds as float32 does on the CPU: the compiler must not fuse any operations.
 *
 * tests/cuda/emulate.cpp compiles this source for the CPU and supplies what a C++ compiler
 * lacks. */
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#include "client/cuda/kernels.h"

namespace
{

/* ---- the types that are written: GROUP values are one store of 16 bytes ---- */

struct f32 {
	static constexpr uint32_t GROUP = 4;
	typedef float value;
	static __device__ value round(float v)
	{
		return v;
	}
	static __device__ uint4 pack(const float *v)
	{
		return make_uint4(__float_as_uint(v[0]), __float_as_uint(v[1]),
			__float_as_uint(v[2]), __float_as_uint(v[3]));
	}
};

struct f16 {
	static constexpr uint32_t GROUP = 8;
	typedef __half value;
	static __device__ value round(float v)
	{
		return __float2half_rn(v);
	}
	static __device__ uint32_t pair(const float *v)
	{
		__half2 two = __floats2half2_rn(v[0], v[1]);
		return reinterpret_cast<uint32_t &>(two);
	}
	static __device__ uint4 pack(const float *v)
	{
		return make_uint4(pair(v), pair(v + 2), pair(v + 4), pair(v + 6));
	}
};

struct bf16 {
	static constexpr uint32_t GROUP = 8;
	typedef uint16_t value;
	static __device__ value round(float v)
	{
		return (uint16_t)pair(v, 0);
	}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
	static __device__ uint32_t pair(float low, float high)
	{
		__nv_bfloat162 two = __floats2bfloat162_rn(low, high);
		return reinterpret_cast<uint32_t &>(two);
	}
#else
	/* Devices before 8.0 have no instruction for it, and older headers no function. */
	static __device__ uint32_t pair(float low, float high)
	{
		return __byte_perm(upper(low), upper(high), 0x7632);
	}
	/* Rounded to its upper half, ties to even. */
	static __device__ uint32_t upper(float v)
	{
		uint32_t bits = __float_as_uint(v);
		return v == v ? bits + 0x7fff + (bits >> 16 & 1) : 0x7fff0000;
	}
#endif
	static __device__ uint4 pack(const float *v)
	{
		return make_uint4(
			pair(v[0], v[1]), pair(v[2], v[3]), pair(v[4], v[5]), pair(v[6], v[7]));
	}
};

/* GROUP bytes, aligned to as many, as words. */
template <class T> __device__ void load(const uint8_t *from, uint32_t *ret_words)
{
	if (T::GROUP == 8) {
		uint2 v = __ldg(reinterpret_cast<const uint2 *>(from));
		ret_words[0] = v.x;
		ret_words[T::GROUP / 4 - 1] = v.y;
	} else {
		ret_words[0] = __ldg(reinterpret_cast<const uint32_t *>(from));
	}
}

/* ---- normalising ---- */

struct colour {
	float mean, std, reciprocal, residual;
};

/* By the parameter's own constants, so that the compiler can take them from where they lie. */
__device__ colour colour_of(const kernels_normalise &a, uint32_t c)
{
	if (c == 0)
		return {a.mean[0], a.std[0], a.reciprocal[0], a.residual[0]};
	if (c == 1)
		return {a.mean[1], a.std[1], a.reciprocal[1], a.residual[1]};
	return {a.mean[2], a.std[2], a.reciprocal[2], a.residual[2]};
}

/* Byte k of a word, / 255, - mean. Converting costs nothing: put twice into the middle of a word,
 * the byte b reads as the (subnormal) float b x 257 x 2^-141. Of 2^141 / 65535 the first 24 bits
 * are 2^125 (1 + 2^-16), the rest is 2^93 and a little; rounded once, in the sum, that is b / 255
 * rounded (test_kernels.c tries all bytes). */
__device__ float centred(uint32_t word, uint32_t k, float mean)
{
	float b = __uint_as_float(__byte_perm(word, 0, 0x4004 | k << 4 | k << 8));
	float x = __fmaf_rn(b, 0x1.0001p125f, __fmul_rn(b, 0x1p93f));
	return __fsub_rn(x, mean);
}

/* As kernels_normalise_prepare has tried it. */
__device__ float normal(uint32_t word, uint32_t k, const colour &c)
{
	float v = centred(word, k, c.mean);
	return __fmaf_rn(v, c.reciprocal, __fmul_rn(v, c.residual));
}

/* floor(p / width), where inverse is floor((2^32 - 1) / width): at most one too small. */
__device__ uint32_t quotient(uint32_t p, uint32_t width, uint32_t inverse)
{
	uint32_t q = __umulhi(p, inverse);
	return p - q * width >= width ? q + 1 : q;
}

/* ---- plain ---- */

struct span {
	const uint8_t *image; /* of the row */
	size_t out; /* values before the row's own */
	uint32_t begin, end, pixels; /* of the row */
};

template <class T> __device__ typename T::value *out_of(const kernels_normalise &a, size_t index)
{
	return static_cast<typename T::value *>(a.out) + index;
}

template <class T> __device__ void store(const kernels_normalise &a, size_t index, uint4 packed)
{
	*reinterpret_cast<uint4 *>(out_of<T>(a, index)) = packed;
}

/* Bytes and values lie in the same order, so channels do not matter but for their constants. Those
 * repeat every 3 values: a thread has them turned to where it begins, and stays in step. */
template <class T> __device__ void plain_nhwc(const kernels_normalise &a, const span &s)
{
	constexpr uint32_t G = T::GROUP, STEPS = KERNELS_SPAN * 3 / G / KERNELS_THREADS;
	static_assert(KERNELS_THREADS % 3 == 0 && KERNELS_SPAN * 3 % (G * KERNELS_THREADS) == 0,
		"threads stay in step");
	uint32_t first = s.begin / G * 3 + threadIdx.x, end = s.end / G * 3;
	uint32_t phase = threadIdx.x * G % 3;
	colour turned[3] = {colour_of(a, phase), colour_of(a, phase == 2 ? 0 : phase + 1),
		colour_of(a, phase == 0 ? 2 : phase - 1)};
	size_t before = (size_t)first * G;
	uint32_t words[STEPS][G / 4];
#pragma unroll
	for (uint32_t i = 0; i < STEPS; i++)
		if (first + i * KERNELS_THREADS < end)
			load<T>(s.image + before + i * KERNELS_THREADS * G, words[i]);
#pragma unroll
	for (uint32_t i = 0; i < STEPS; i++) {
		if (first + i * KERNELS_THREADS >= end)
			break;
		float v[G];
#pragma unroll
		for (uint32_t j = 0; j < G; j++)
			v[j] = normal(words[i][j / 4], j % 4, turned[j % 3]);
		store<T>(a, s.out + before + i * KERNELS_THREADS * G, T::pack(v));
	}
}

template <class T> __device__ void plain_nchw(const kernels_normalise &a, const span &s)
{
	constexpr uint32_t G = T::GROUP, STEPS = KERNELS_SPAN / G / KERNELS_THREADS;
	uint32_t first = s.begin / G + threadIdx.x, end = s.end / G;
	size_t before = (size_t)first * G;
	uint32_t words[STEPS][G / 4 * 3];
#pragma unroll
	for (uint32_t i = 0; i < STEPS; i++)
		if (first + i * KERNELS_THREADS < end)
#pragma unroll
			for (uint32_t k = 0; k < 3; k++)
				load<T>(s.image + before * 3 + (i * KERNELS_THREADS * 3 + k) * G,
					words[i] + k * (G / 4));
#pragma unroll
	for (uint32_t i = 0; i < STEPS; i++) {
		if (first + i * KERNELS_THREADS >= end)
			break;
#pragma unroll
		for (uint32_t c = 0; c < 3; c++) {
			float v[G];
#pragma unroll
			for (uint32_t j = 0; j < G; j++)
				v[j] = normal(words[i][(j * 3 + c) / 4], (j * 3 + c) % 4,
					colour_of(a, c));
			store<T>(a, s.out + (size_t)c * s.pixels + before + i * KERNELS_THREADS * G,
				T::pack(v));
		}
	}
}

/* blend x own + partner_blend x the partner's. */
__device__ float blended(float own, float blend, float other, float partner_blend)
{
	return __fadd_rn(__fmul_rn(own, blend), __fmul_rn(other, partner_blend));
}

/* ---- what is done to a row ---- */

/* Two coordinates of a row in a word, as they are in memory. */
struct rectangle {
	uint32_t corner, size;

	__device__ uint32_t left() const
	{
		return corner & 0xffff;
	}
	__device__ uint32_t top() const
	{
		return corner >> 16;
	}
	__device__ uint32_t width() const
	{
		return size & 0xffff;
	}
	__device__ uint32_t height() const
	{
		return size >> 16;
	}
};

struct change {
	uint32_t flags;
	rectangle erase;
};

struct changes {
	change own, of_partner; /* the partner's flags are 0 where nothing is mixed */
	rectangle cut;
	uint32_t partner;
	float blend, partner_blend;
};

/* 16 bytes of a row: number 0 has position, flags and epoch, 1 the rectangles, 2 what is mixed. */
__device__ uint4 row_words(const kernels_normalise &a, uint32_t number, uint32_t which)
{
	return __ldg(reinterpret_cast<const uint4 *>(a.row + number) + which);
}

/* Once for each row and thread. Left to itself the compiler reads the fields again for each group
 * of values, because a store to `out` might have changed them. */
__device__ changes changes_of(const kernels_normalise &a, uint32_t number)
{
	changes row = {};
	row.own.flags = row_words(a, number, 0).z;
	if (!row.own.flags)
		return row;
	uint4 rectangles = row_words(a, number, 1);
	row.own.erase = {rectangles.x, rectangles.y};
	row.cut = {rectangles.z, rectangles.w};
	if (!(row.own.flags & PENSTOCK_CUDA_ROW_MIXED))
		return row;
	uint4 mixed = row_words(a, number, 2);
	row.partner = mixed.x;
	row.blend = __uint_as_float(mixed.y);
	row.partner_blend = __uint_as_float(mixed.z);
	rectangles = row_words(a, row.partner, 1);
	row.of_partner = {row_words(a, row.partner, 0).z, {rectangles.x, rectangles.y}};
	return row;
}

/* ---- groups ---- */

/* The constants of three values that follow each other, from a channel on. */
struct palette {
	uint32_t phase; /* that channel */
	colour colours[3];
	float erased[3];
};

__device__ palette palette_of(const kernels_normalise &a, uint32_t phase)
{
	palette p;
	p.phase = phase;
#pragma unroll
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t c = phase + i < 3 ? phase + i : phase + i - 3;
		p.colours[i] = colour_of(a, c);
		p.erased[i] = c == 0   ? a.erase_value[0]
			      : c == 1 ? a.erase_value[1]
				       : a.erase_value[2];
	}
	return p;
}

/* GROUP items of a line, in the output's order: values (NHWC) or pixels (NCHW); and which of them
 * are erased. */
template <class T, int LAYOUT> struct group {
	static constexpr uint32_t EACH = LAYOUT == PENSTOCK_CUDA_NHWC ? 1 : 3; /* bytes */
	static constexpr uint32_t WORDS = T::GROUP / 4 * EACH, ALL = (1u << T::GROUP) - 1;
	uint32_t words[WORDS], erased;
};

/* Which of a group's items, from x, y on, lie in a rectangle: a bit for each. */
template <class G> __device__ uint32_t covered(uint32_t x, uint32_t y, const rectangle &r)
{
	constexpr int SCALE = 3 / G::EACH, COUNT = G::WORDS * 4 / G::EACH;
	if (y - r.top() >= r.height())
		return 0;
	int begin = (int)r.left() * SCALE - (int)x, end = begin + (int)r.width() * SCALE;
	return (1u << min(max(end, 0), COUNT)) - (1u << min(max(begin, 0), COUNT));
}

/* Four pixels in reverse. */
__device__ void mirror(uint32_t *words)
{
	uint32_t first = words[0], middle = words[1], last = words[2];
	words[0] = __byte_perm(middle, last, 0x2765); /* bytes 9, 10, 11, 6 */
	words[1] = __byte_perm(__byte_perm(middle, last, 0x0043), /* 7, 8 */
		__byte_perm(first, middle, 0x0043), 0x5410); /* 3, 4 */
	words[2] = __byte_perm(first, middle, 0x2105); /* 5, 0, 1, 2 */
}

/* Pixels x on of a mirrored line: those that end before the x last ones, in reverse. */
template <class T>
__device__ void load_flipped(const kernels_normalise &a, const palette &, const uint8_t *line,
	uint32_t x, group<T, PENSTOCK_CUDA_NCHW> &ret)
{
	constexpr uint32_t G = T::GROUP, WORDS = G / 4 * 3;
	uint32_t words[WORDS];
#pragma unroll
	for (uint32_t k = 0; k < 3; k++)
		load<T>(line + (a.width - G - x) * 3 + k * G, words + k * (G / 4));
#pragma unroll
	for (uint32_t k = 0; k < WORDS; k += 3)
		mirror(words + k);
#pragma unroll
	for (uint32_t k = 0; k < WORDS; k++) /* and its halves, where it has two */
		ret.words[k] = words[(k + WORDS - 3) % WORDS];
}

/* Values x on of a mirrored line. Value x + j is channel (phase + j) % 3 of the pixel that is
 * (x - phase) / 3 + (phase + j) / 3 from the end: each further pixel is 3 bytes back where the
 * value is 3 on. Which j begin a pixel depends on the phase, by j % 3. */
template <class T>
__device__ void load_flipped(const kernels_normalise &a, const palette &p, const uint8_t *line,
	uint32_t x, group<T, PENSTOCK_CUDA_NHWC> &ret)
{
	const uint8_t *first = line + (a.width - 1) * 3 - x + 2 * p.phase;
	const uint8_t *from[3] = {
		first, p.phase == 2 ? first - 6 : first, p.phase > 0 ? first - 6 : first};
#pragma unroll
	for (int k = 0; k < (int)T::GROUP / 4; k++) {
		uint32_t bytes[4];
#pragma unroll
		for (int i = 0; i < 4; i++) {
			int j = k * 4 + i;
			bytes[i] = __ldg(from[j % 3] + (j - j / 3 * 6));
		}
		ret.words[k] = __byte_perm(__byte_perm(bytes[0], bytes[1], 0x0040),
			__byte_perm(bytes[2], bytes[3], 0x0040), 0x5410);
	}
}

template <class T, int LAYOUT>
__device__ group<T, LAYOUT> group_of(const kernels_normalise &a, const palette &p, uint32_t number,
	const change &own, uint32_t x, uint32_t y)
{
	typedef group<T, LAYOUT> G;
	const uint8_t *line = a.images + ((size_t)number * a.height + y) * a.width * 3;
	G g;
	if (own.flags & PENSTOCK_CUDA_ROW_FLIPPED) {
		load_flipped<T>(a, p, line, x, g);
	} else {
#pragma unroll
		for (uint32_t k = 0; k < G::EACH; k++)
			load<T>(line + x * G::EACH + k * T::GROUP, g.words + k * (T::GROUP / 4));
	}
	g.erased = own.flags & PENSTOCK_CUDA_ROW_ERASED ? covered<G>(x, y, own.erase) : 0;
	return g;
}

/* Value c of item j, as if nothing was erased; and as it is. */
template <class G>
__device__ float group_normal(const palette &p, const G &g, uint32_t j, uint32_t c)
{
	uint32_t byte = j * G::EACH + (G::EACH == 3 ? c : 0);
	return normal(g.words[byte / 4], byte % 4, p.colours[c]);
}

template <class G>
__device__ float group_value(const palette &p, const G &g, uint32_t j, uint32_t c)
{
	float v = group_normal(p, g, j, c);
	return g.erased >> j & 1 ? p.erased[c] : v;
}

/* Writes value(item, channel) as group number i of the row: in one store, or one for each plane. */
template <class T, int LAYOUT, class F>
__device__ void group_store(const kernels_normalise &a, const span &s, uint32_t i, F value)
{
	constexpr uint32_t G = T::GROUP, EACH = group<T, LAYOUT>::EACH;
#pragma unroll
	for (uint32_t c = 0; c < EACH; c++) {
		float v[G];
#pragma unroll
		for (uint32_t j = 0; j < G; j++)
			v[j] = value(j, EACH == 3 ? c : j % 3);
		store<T>(a, s.out + (size_t)i * G + (size_t)c * s.pixels, T::pack(v));
	}
}

/* One group, with the partner's where it takes part. */
template <class T, int LAYOUT>
__device__ void group_do(const kernels_normalise &a, const palette &p, const span &s,
	uint32_t number, const changes &row, uint32_t i, uint32_t x, uint32_t y)
{
	typedef group<T, LAYOUT> G;
	bool mixed = row.own.flags & PENSTOCK_CUDA_ROW_MIXED;
	bool mixup = mixed && row.partner_blend != 0;
	uint32_t cut = mixed ? covered<G>(x, y, row.cut) : 0;
	bool all = cut == G::ALL;
	G own = group_of<T, LAYOUT>(
		a, p, all ? row.partner : number, all ? row.of_partner : row.own, x, y);
	if (all || (cut == 0 && !mixup)) {
		group_store<T, LAYOUT>(
			a, s, i, [&](uint32_t j, uint32_t c) { return group_value(p, own, j, c); });
		return;
	}
	G other = group_of<T, LAYOUT>(a, p, row.partner, row.of_partner, x, y);
	float blend = row.blend, partner_blend = row.partner_blend;
	if (!(cut | own.erased | other.erased)) {
		group_store<T, LAYOUT>(a, s, i, [&](uint32_t j, uint32_t c) {
			return blended(group_normal(p, own, j, c), blend,
				group_normal(p, other, j, c), partner_blend);
		});
		return;
	}
	group_store<T, LAYOUT>(a, s, i, [&](uint32_t j, uint32_t c) {
		float mine = group_value(p, own, j, c), its = group_value(p, other, j, c);
		if (cut >> j & 1)
			return its;
		return mixup ? blended(mine, blend, its, partner_blend) : mine;
	});
}

template <class T, int LAYOUT>
__device__ void groups(
	const kernels_normalise &a, const span &s, uint32_t number, const changes &row)
{
	constexpr uint32_t G = T::GROUP, SCALE = 3 / group<T, LAYOUT>::EACH;
	uint32_t line = a.width / G * SCALE, inverse = 0xffffffffu / line;
	palette p = palette_of(a, SCALE == 3 ? threadIdx.x * G % 3 : 0);
	uint32_t end = s.end / G * SCALE;
#pragma unroll 1
	for (uint32_t i = s.begin / G * SCALE + threadIdx.x; i < end; i += KERNELS_THREADS) {
		uint32_t y = quotient(i, line, inverse);
		group_do<T, LAYOUT>(a, p, s, number, row, i, (i - y * line) * G, y);
	}
}

/* ---- pixel by pixel ---- */

__device__ bool inside(uint32_t x, uint32_t y, const rectangle &r)
{
	return x - r.left() < r.width() && y - r.top() < r.height();
}

/* proto/philox.h's generator. */
__device__ uint4 philox_4x32_10(uint4 counter, uint32_t k0, uint32_t k1)
{
#pragma unroll
	for (uint32_t round = 0; round < 10; round++) {
		uint32_t high0 = __umulhi(0xd2511f53u, counter.x), low0 = 0xd2511f53u * counter.x;
		uint32_t high1 = __umulhi(0xcd9e8d57u, counter.z), low1 = 0xcd9e8d57u * counter.z;
		counter = make_uint4(high1 ^ counter.y ^ k0, low1, high0 ^ counter.w ^ k1, low0);
		k0 += 0x9e3779b9u;
		k1 += 0xbb67ae85u;
	}
	return counter;
}

/* Box and Muller's radius; (0, 1] from 32 bits. */
__device__ float radius(uint32_t bits)
{
	float u = __fmaf_rn(__uint2float_rn(bits), 0x1p-32f, 0x1p-33f);
	return __fsqrt_rn(__fmul_rn(-2.0f, logf(u)));
}

/* Three values of N(0, 1) for a pixel: one draw of philox_draw's, whose step goes on behind the
 * operation where 16 bits are too few. */
__device__ void noise(const kernels_normalise &a, uint32_t number, uint32_t pixel, float *ret_v)
{
	uint4 drawn = row_words(a, number, 0); /* here, because few rows have noise */
	uint32_t key[2] = {a.key[0], a.key[1]};
	/* Or the compiler computes the ten keys in front of all loops, for all paths. */
	asm volatile("" : "+r"(key[0]), "+r"(key[1]));
	uint4 bits = philox_4x32_10(make_uint4(drawn.x, (drawn.y & 0xffff) | pixel << 16, drawn.w,
					    KERNELS_NOISE | pixel >> 16 << 8),
		key[0], key[1]);
	float sine, cosine;
	sincospif(__fmul_rn(__uint2float_rn(bits.y), 0x1p-31f), &sine, &cosine);
	float length = radius(bits.x);
	ret_v[0] = __fmul_rn(length, cosine);
	ret_v[1] = __fmul_rn(length, sine);
	ret_v[2] = __fmul_rn(radius(bits.z), cospif(__fmul_rn(__uint2float_rn(bits.w), 0x1p-31f)));
}

__device__ void single_source(const kernels_normalise &a, uint32_t number, const change &row,
	uint32_t pixel, uint32_t x, uint32_t y, float *ret_v)
{
	uint32_t flags = row.flags;
	if (flags & PENSTOCK_CUDA_ROW_ERASED && inside(x, y, row.erase)) {
		if (a.erase_random) {
			noise(a, number, pixel, ret_v);
			return;
		}
#pragma unroll
		for (uint32_t c = 0; c < 3; c++)
			ret_v[c] = a.erase_value[c];
		return;
	}
	uint32_t from = flags & PENSTOCK_CUDA_ROW_FLIPPED ? pixel - x + (a.width - 1 - x) : pixel;
	const uint8_t *bytes = a.images + ((size_t)number * a.height * a.width + from) * 3;
#pragma unroll
	for (uint32_t c = 0; c < 3; c++) {
		colour k = colour_of(a, c);
		uint32_t byte = __ldg(bytes + c);
		ret_v[c] =
			a.divide ? __fdiv_rn(centred(byte, 0, k.mean), k.std) : normal(byte, 0, k);
	}
}

/* One pass, or one for each of the two that are blended. */
__device__ void single_mixed(const kernels_normalise &a, uint32_t number, const changes &row,
	uint32_t pixel, uint32_t x, uint32_t y, float *ret_v)
{
	bool mixed = row.own.flags & PENSTOCK_CUDA_ROW_MIXED;
	bool cut = mixed && inside(x, y, row.cut);
	bool both = mixed && !cut && row.partner_blend != 0;
	single_source(
		a, cut ? row.partner : number, cut ? row.of_partner : row.own, pixel, x, y, ret_v);
	if (!both)
		return;
	float own[3] = {ret_v[0], ret_v[1], ret_v[2]};
	single_source(a, row.partner, row.of_partner, pixel, x, y, ret_v);
#pragma unroll
	for (uint32_t c = 0; c < 3; c++)
		ret_v[c] = blended(own[c], row.blend, ret_v[c], row.partner_blend);
}

template <class T, int LAYOUT>
__device__ void single(
	const kernels_normalise &a, const span &s, uint32_t number, const changes &row)
{
	uint32_t inverse = 0xffffffffu / a.width;
#pragma unroll 1
	for (uint32_t p = s.begin + threadIdx.x; p < s.end; p += KERNELS_THREADS) {
		uint32_t y = quotient(p, a.width, inverse), x = p - y * a.width;
		float v[3];
		single_mixed(a, number, row, p, x, y, v);
#pragma unroll
		for (uint32_t c = 0; c < 3; c++)
			*out_of<T>(a,
				s.out + (LAYOUT == PENSTOCK_CUDA_NHWC ? (size_t)p * 3 + c
								      : (size_t)c * s.pixels + p)) =
				T::round(v[c]);
	}
}

/* ---- a row's span ---- */

/* Whether noise may be in a row. */
__device__ bool noisy(const kernels_normalise &a, const changes &row)
{
	return a.erase_random && (row.own.flags | row.of_partner.flags) & PENSTOCK_CUDA_ROW_ERASED;
}

template <class T, int LAYOUT> __device__ void normalise(const kernels_normalise &a)
{
	span s;
	s.pixels = a.height * a.width;
	s.begin = blockIdx.x * KERNELS_SPAN;
	s.end = s.pixels - s.begin < KERNELS_SPAN ? s.pixels : s.begin + KERNELS_SPAN;
	for (uint32_t number = blockIdx.y; number < a.rows; number += gridDim.y) {
		s.out = (size_t)number * s.pixels * 3;
		s.image = a.images + s.out;
		changes row = changes_of(a, number);
		uint32_t flags = row.own.flags;
		if (a.divide || (flags ? a.width % T::GROUP || noisy(a, row) : s.pixels % T::GROUP))
			single<T, LAYOUT>(a, s, number, row);
		else if (flags)
			groups<T, LAYOUT>(a, s, number, row);
		else if (LAYOUT == PENSTOCK_CUDA_NHWC)
			plain_nhwc<T>(a, s);
		else
			plain_nchw<T>(a, s);
	}
}

/* ---- labels ---- */

/* A label's share of class k. */
__device__ float share(
	int64_t label, uint32_t k, uint32_t classes, float weight, float hit, float even)
{
	if (label < 0 || label >= classes)
		return 0;
	return __fmul_rn(weight, label == k ? hit : even);
}

__device__ void targets(const kernels_targets &a)
{
	uint32_t k = blockIdx.x * KERNELS_TARGETS_THREADS + threadIdx.x;
	if (k >= a.classes)
		return;
	float even = __fdiv_rn(a.smoothing, __uint2float_rn(a.classes));
	float hit = __fadd_rn(__fsub_rn(1.0f, a.smoothing), even);
	for (uint32_t number = blockIdx.y; number < a.rows; number += gridDim.y) {
		const penstock_cuda_row *row = a.row + number;
		float v = share(a.label[number], k, a.classes, row->weight, hit, even);
		if (row->flags & PENSTOCK_CUDA_ROW_MIXED)
			v = __fadd_rn(v, share(a.label[row->partner], k, a.classes,
						 row->partner_weight, hit, even));
		a.out[(size_t)number * a.classes + k] = v;
	}
}

} // namespace

#define KERNELS_NORMALISE(name, type, layout)                                          \
	extern "C" __global__ void __launch_bounds__(KERNELS_THREADS, KERNELS_BLOCKS)  \
		penstock_normalise_##name(const __grid_constant__ kernels_normalise a) \
	{                                                                              \
		normalise<type, layout>(a);                                            \
	}

KERNELS_NORMALISE(f32_nhwc, f32, PENSTOCK_CUDA_NHWC)
KERNELS_NORMALISE(f32_nchw, f32, PENSTOCK_CUDA_NCHW)
KERNELS_NORMALISE(f16_nhwc, f16, PENSTOCK_CUDA_NHWC)
KERNELS_NORMALISE(f16_nchw, f16, PENSTOCK_CUDA_NCHW)
KERNELS_NORMALISE(bf16_nhwc, bf16, PENSTOCK_CUDA_NHWC)
KERNELS_NORMALISE(bf16_nchw, bf16, PENSTOCK_CUDA_NCHW)

extern "C" __global__ void __launch_bounds__(KERNELS_TARGETS_THREADS)
	penstock_targets(const __grid_constant__ kernels_targets a)
{
	targets(a);
}

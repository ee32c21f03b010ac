/* kernels_place_body: `bilinear` and `bicubic` in plain C: Pillow's Geometry.c, pixel by pixel,
 * in double, with the same roundings in the same order; see kernels.h. */
#include "augment/kernels/kernels.h"

#include <float.h>
#include <string.h>

_Static_assert(FLT_EVAL_METHOD == 0, "double arithmetic must be done in double");

/* A place in the source. A NaN does not count as outside: Pillow continues with it, and the
 * result is black. */
struct place {
	double x, y;
};

static inline struct place place_of(const struct augment_warp *warp, double x, double y)
{
	const double *m = warp->matrix;
	struct place at = {m[0] * x + m[1] * y + m[2], m[3] * x + m[4] * y + m[5]};
	if (!warp->perspective)
		return at;
	double share = m[6] * x + m[7] * y + 1;
	return (struct place){at.x / share, at.y / share};
}

static inline bool place_outside(const struct augment_warp *warp, struct place at)
{
	return at.x < 0 || at.x >= warp->width || at.y < 0 || at.y >= warp->height;
}

/* The pixels around a place: `taps` of them, starting with the first. A pixel beyond an edge is
 * the edge's pixel. The fraction says where the place is between the second and the third of
 * four, or between the two. */
struct place_taps {
	size_t offset[4];
	double part;
};

static inline void place_taps(
	double at, int32_t taps, uint32_t side, size_t stride, struct place_taps *ret)
{
	double middle = at - 0.5; /* -0.5 or more */
	int32_t first = middle < 0 ? -1 : (int32_t)middle, last = (int32_t)side - 1;
	ret->part = middle - first;
	for (int32_t i = 0; i < taps; i++) {
		int32_t place = first - (taps / 2 - 1) + i;
		place = place < 0 ? 0 : place > last ? last : place;
		ret->offset[i] = (size_t)place * stride;
	}
}

static inline double place_linear(const double v[2], double part)
{
	return v[0] + (v[1] - v[0]) * part;
}

static inline double place_cubic(const double v[4], double part)
{
	double p2 = -v[0] + v[2];
	double p3 = 2 * (v[0] - v[1]) + v[2] - v[3];
	double p4 = -v[0] + v[1] - v[2] + v[3];
	return v[1] + part * (p2 + part * (p3 + part * p4));
}

typedef void place_filter(uint8_t *to, const struct augment_warp *warp, struct place at);

static inline void place_bilinear(uint8_t *to, const struct augment_warp *warp, struct place at)
{
	struct place_taps x, y;
	place_taps(at.x, 2, warp->width, 3, &x);
	place_taps(at.y, 2, warp->height, (size_t)3 * warp->width, &y);
	for (unsigned c = 0; c < 3; c++) {
		double down[2];
		for (unsigned i = 0; i < 2; i++) {
			const uint8_t *from = warp->from + y.offset[i] + c;
			double across[2] = {from[x.offset[0]], from[x.offset[1]]};
			down[i] = place_linear(across, x.part);
		}
		to[c] = (uint8_t)place_linear(down, y.part);
	}
}

static inline void place_bicubic(uint8_t *to, const struct augment_warp *warp, struct place at)
{
	struct place_taps x, y;
	place_taps(at.x, 4, warp->width, 3, &x);
	place_taps(at.y, 4, warp->height, (size_t)3 * warp->width, &y);
	for (unsigned c = 0; c < 3; c++) {
		double down[4];
		for (unsigned i = 0; i < 4; i++) {
			const uint8_t *from = warp->from + y.offset[i] + c;
			double across[4] = {from[x.offset[0]], from[x.offset[1]], from[x.offset[2]],
				from[x.offset[3]]};
			down[i] = place_cubic(across, x.part);
		}
		double value = place_cubic(down, y.part);
		value = value < 0.0 ? 0.0 : value;
		to[c] = (uint8_t)(value > 255.0 ? 255.0 : value);
	}
}

static inline void place_each(uint8_t *to, const struct augment_warp *warp, uint32_t x, uint32_t y,
	size_t count, place_filter *filter)
{
	for (; count; count--, x++, to += 3) {
		struct place at = place_of(warp, x + 0.5, y + 0.5);
		if (place_outside(warp, at))
			memcpy(to, warp->fill, 3);
		else if (at.x != at.x || at.y != at.y)
			memset(to, 0, 3);
		else
			filter(to, warp, at);
	}
}

static void body_bilinear(
	uint8_t *to, const struct augment_warp *warp, uint32_t x, uint32_t y, size_t count)
{
	place_each(to, warp, x, y, count, place_bilinear);
}

static void body_bicubic(
	uint8_t *to, const struct augment_warp *warp, uint32_t x, uint32_t y, size_t count)
{
	place_each(to, warp, x, y, count, place_bicubic);
}

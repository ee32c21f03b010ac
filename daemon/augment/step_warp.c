/* step_warp: see step_warp.h. Pure functions.
 *
 * The order of the operations is CPython's and must stay: it determines the last bit. */
#include "augment/step_warp.h"

#include "proto/angle.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

_Static_assert(FLT_EVAL_METHOD == 0, "double arithmetic must be done in double");

#define WARP_PI 0x1.921fb54442d18p+1

/* math.radians, math.degrees. */
static double warp_radians(double degrees)
{
	return degrees * (WARP_PI / 180.0);
}

static double warp_degrees(double radians)
{
	return radians * (180.0 / WARP_PI);
}

static struct op warp_op(const struct step_warp *warp, enum op_kind kind)
{
	struct op op = {.kind = kind, .filter = warp->interpolation};
	memcpy(op.fill, warp->fill, sizeof(op.fill));
	return op;
}

/* With an identity any filter copies. */
static bool warp_moves(const double matrix[6])
{
	static const double identity[6] = {1, 0, 0, 0, 1, 0};
	for (int i = 0; i < 6; i++)
		if (matrix[i] != identity[i])
			return true;
	return false;
}

static void warp_center(const struct step_warp *warp, const double *center, double ret[2])
{
	ret[0] = center ? center[0] : warp->width * 0.5;
	ret[1] = center ? center[1] : warp->height * 0.5;
}

/* _get_inverse_affine_matrix. */
bool step_warp_affine(
	const struct step_warp *warp, const struct step_affine *affine, struct op *ret)
{
	assert(affine->scale > 0);
	struct op op = warp_op(warp, OP_AFFINE);
	double angle = warp_radians(affine->angle), center[2], *m = op.matrix;
	double shear_x = warp_radians(affine->shear[0]), shear_y = warp_radians(affine->shear[1]);
	double cosine = angle_cosine(angle - shear_y), sine = angle_sine(angle - shear_y);
	double upright = angle_cosine(shear_y), slope = angle_tangent(shear_x);
	double a = cosine / upright, b = -cosine * slope / upright - angle_sine(angle);
	double c = sine / upright, d = -sine * slope / upright + angle_cosine(angle);
	warp_center(warp, affine->center, center);
	double x = -center[0] - affine->translate[0], y = -center[1] - affine->translate[1];
	m[0] = d / affine->scale;
	m[1] = -b / affine->scale;
	m[3] = -c / affine->scale;
	m[4] = a / affine->scale;
	m[2] = m[0] * x + m[1] * y + center[0];
	m[5] = m[3] * x + m[4] * y + center[1];
	*ret = op;
	return warp_moves(m);
}

/* Python's round(x, 15) of a sine: the nearest 15 digits, then the double nearest to those. |x|
 * is m 2^-k; m 10^15 fits 103 bits, and dividing a double of 15 digits by a power of ten rounds
 * once. */
static double warp_round(double x)
{
	int exponent;
	double fraction = frexp(fabs(x), &exponent);
	int shift = DBL_MANT_DIG - exponent;
	if (shift > 104) /* far below half of the last digit */
		return copysign(0, x);
	unsigned __int128 scaled =
		(unsigned __int128)ldexp(fraction, DBL_MANT_DIG) * 1000000000000000u;
	unsigned __int128 half = (unsigned __int128)1 << (shift - 1);
	uint64_t whole = (uint64_t)(scaled >> shift);
	unsigned __int128 rest = scaled & ((half << 1) - 1);
	if (rest > half || (rest == half && (whole & 1)))
		whole++;
	return copysign((double)whole / 1e15, x);
}

/* Python's angle % 360.0: 0 .. 360. */
static double warp_circle(double angle)
{
	double rest = fmod(angle, 360.0); /* exact in every libm */
	return rest < 0 ? rest + 360.0 : rest;
}

/* The number of quarter turns of Pillow's shortcut, or -1. */
static int warp_quarters(const struct step_warp *warp, double angle)
{
	bool square = warp->width == warp->height;
	if (angle == 0)
		return 0;
	if (angle == 180)
		return 2;
	if (square && (angle == 90 || angle == 270))
		return angle == 90 ? 1 : 3;
	return -1;
}

bool step_warp_rotate(
	const struct step_warp *warp, double angle, const double *center, struct op *ret)
{
	angle = warp_circle(angle);
	int quarters = center ? -1 : warp_quarters(warp, angle);
	if (quarters >= 0) {
		*ret = warp_op(warp, OP_ROTATE_QUARTERS);
		ret->amount = quarters;
		return quarters > 0;
	}
	struct op op = warp_op(warp, OP_AFFINE);
	double at[2], *m = op.matrix, turn = -warp_radians(angle);
	warp_center(warp, center, at);
	m[0] = m[4] = warp_round(angle_cosine(turn));
	m[1] = warp_round(angle_sine(turn));
	m[3] = -m[1];
	m[2] = m[0] * -at[0] + m[1] * -at[1] + at[0];
	m[5] = m[3] * -at[0] + m[4] * -at[1] + at[1];
	*ret = op;
	return warp_moves(m);
}

/* Image.rotate's transform(x, y, matrix). */
static void warp_place(const double *m, double x, double y, double ret[2])
{
	ret[0] = m[0] * x + m[1] * y + m[2];
	ret[1] = m[3] * x + m[4] * y + m[5];
}

/* The size that holds all corners. */
static struct pixel_size warp_corners(const struct step_warp *warp, const double *m)
{
	double least[2] = {INFINITY, INFINITY}, most[2] = {-INFINITY, -INFINITY}, at[2];
	for (unsigned corner = 0; corner < 4; corner++) {
		bool right = corner == 1 || corner == 2, bottom = corner >= 2;
		warp_place(m, right ? warp->width : 0, bottom ? warp->height : 0, at);
		for (int i = 0; i < 2; i++) {
			least[i] = fmin(least[i], at[i]);
			most[i] = fmax(most[i], at[i]);
		}
	}
	return (struct pixel_size){.width = (uint32_t)(ceil(most[0]) - floor(least[0])),
		.height = (uint32_t)(ceil(most[1]) - floor(least[1]))};
}

bool step_warp_rotate_all(const struct step_warp *warp, double angle, const double *center,
	struct op *ret, struct pixel_size *ret_size)
{
	const struct pixel_size size = {warp->height, warp->width};
	double circle = warp_circle(angle);
	bool quarter = !center && (circle == 90 || circle == 270);
	*ret_size = quarter ? (struct pixel_size){size.width, size.height} : size;
	if (quarter) {
		*ret = warp_op(warp, OP_ROTATE_QUARTERS);
		ret->amount = circle == 90 ? 1 : 3;
		return true;
	}
	bool moves = step_warp_rotate(warp, angle, center, ret);
	if (!moves || ret->kind == OP_ROTATE_QUARTERS)
		return moves;
	double *m = ret->matrix, at[2];
	*ret_size = warp_corners(warp, m);
	warp_place(m, -((double)ret_size->width - size.width) / 2.0,
		-((double)ret_size->height - size.height) / 2.0, at);
	m[2] = at[0];
	m[5] = at[1];
	return true;
}

/* The map of the unit square to the corners (Heckbert, "Fundamentals of texture mapping and
 * image warping", 1989, 2.2.3), times its denominator: the rows of a 3 x 3 matrix. With sides of
 * up to 2^12 all entries are below 2^41. */
static void warp_quad(const int32_t corners[4][2], int64_t ret[3][3])
{
	int64_t near[2], far[2], skew[2];
	for (int i = 0; i < 2; i++) {
		near[i] = (int64_t)corners[1][i] - corners[2][i];
		far[i] = (int64_t)corners[3][i] - corners[2][i];
		skew[i] = (int64_t)corners[0][i] - corners[1][i] - far[i];
	}
	int64_t whole = near[0] * far[1] - far[0] * near[1];
	ret[2][0] = skew[0] * far[1] - far[0] * skew[1];
	ret[2][1] = near[0] * skew[1] - skew[0] * near[1];
	ret[2][2] = whole;
	for (int i = 0; i < 2; i++) {
		ret[i][0] = (corners[1][i] - corners[0][i]) * whole + ret[2][0] * corners[1][i];
		ret[i][1] = (corners[3][i] - corners[0][i]) * whole + ret[2][1] * corners[3][i];
		ret[i][2] = corners[0][i] * whole;
	}
}

/* The adjugate: the inverse except for its scale. */
static void warp_adjoint(const int64_t m[3][3], __int128 ret[3][3])
{
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 3; j++) {
			const int64_t *above = m[(j + 1) % 3], *below = m[(j + 2) % 3];
			int k = (i + 1) % 3, l = (i + 2) % 3;
			ret[i][j] = (__int128)above[k] * below[l] - (__int128)above[l] * below[k];
		}
}

/* _get_perspective_coeffs. torchvision solves eight equations by least squares in double and
 * rounds the result to float. The equations have one solution; each unknown is a quotient of
 * integers, which this function computes. The roundings agree except where the solver's own
 * error crosses the middle between two floats, or where it turns a zero into something like
 * 1e-17. */
bool step_warp_perspective(
	const struct step_warp *warp, const int32_t corners[4][2], struct op *ret)
{
	int64_t quad[3][3];
	__int128 map[3][3];
	const uint32_t side[3] = {warp->width - 1, warp->height - 1, 1};
	warp_quad(corners, quad);
	warp_adjoint(quad, map);
	__int128 determinant = 0;
	for (int i = 0; i < 3; i++)
		determinant += quad[0][i] * map[i][0];
	struct op op = warp_op(warp, OP_PERSPECTIVE);
	if (determinant == 0 || map[2][2] == 0 || !side[0] || !side[1])
		return false;
	/* Two statements: in one, GCC 12's vectorizer leaves out the rounding to float. */
	float rounded[OP_MATRIX];
	for (int i = 0; i < OP_MATRIX; i++) {
		int row = i / 3, column = i % 3;
		double above = (double)(map[row][column] * side[row]);
		rounded[i] = (float)(above / (double)map[2][2]);
	}
	for (int i = 0; i < OP_MATRIX; i++)
		op.matrix[i] = rounded[i];
	*ret = op;
	return true;
}

static bool warp_shear(const struct step_warp *warp, double x, double y, struct op *ret)
{
	static const double corner[2] = {0, 0};
	struct step_affine affine = {.scale = 1,
		.shear = {warp_degrees(angle_arctangent(x)), warp_degrees(angle_arctangent(y))},
		.center = corner};
	return step_warp_affine(warp, &affine, ret);
}

bool step_warp_shear_x(const struct step_warp *warp, double magnitude, struct op *ret)
{
	return warp_shear(warp, magnitude, 0, ret);
}

bool step_warp_shear_y(const struct step_warp *warp, double magnitude, struct op *ret)
{
	return warp_shear(warp, 0, magnitude, ret);
}

bool step_warp_translate_x(const struct step_warp *warp, double magnitude, struct op *ret)
{
	struct step_affine affine = {.translate = {(int32_t)magnitude, 0}, .scale = 1};
	return step_warp_affine(warp, &affine, ret);
}

bool step_warp_translate_y(const struct step_warp *warp, double magnitude, struct op *ret)
{
	struct step_affine affine = {.translate = {0, (int32_t)magnitude}, .scale = 1};
	return step_warp_affine(warp, &affine, ret);
}

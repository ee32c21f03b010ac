/* Rotations, shears, translations and perspectives: matrices of CPython and torchvision (golden,
 * by warp_matrices.py), shortcuts, transforms that change nothing, transforms without a map. */
#include "augment/step_warp.h"
#include "base/util.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "unit/augment/warp_matrices.h"

static const struct step_warp square = {
	.width = 224, .height = 224, .interpolation = WEIGHTS_BICUBIC, .fill = {1, 2, 3}};

/* Equal except for the last bits, which CPython takes from libm. */
static void check_matrix(const struct op *op, const double *want, unsigned line)
{
	for (unsigned i = 0; i < 6; i++) {
		double most = fmax(fabs(want[i]), 1) * 0x1p-50;
		if (i % 3 == 2)
			most *= 1024; /* sums of products with a center */
		if (!(fabs(op->matrix[i] - want[i]) <= most))
			fail_msg("golden %u: matrix[%u] is %a, expected %a", line, i, op->matrix[i],
				want[i]);
	}
}

static bool is_equal(const double *matrix, const double *other)
{
	for (unsigned i = 0; i < 6; i++)
		if (matrix[i] != other[i])
			return false;
	return true;
}

static void test_matrices(void **state)
{
	unsigned equal = 0;
	(void)state;
	for (unsigned i = 0; i < UTIL_COUNT(warp_matrices); i++) {
		const struct warp_matrices *golden = &warp_matrices[i];
		const struct step_warp warp = {.width = golden->width, .height = golden->height};
		struct step_affine affine = {.angle = golden->number[0],
			.translate = {(int32_t)golden->number[1], (int32_t)golden->number[2]},
			.scale = golden->number[3],
			.shear = {golden->number[4], golden->number[5]},
			.center = golden->centered ? golden->center : NULL};
		struct op op;
		if (golden->turned)
			assert_true(step_warp_rotate(&warp, golden->number[0], affine.center, &op));
		else
			assert_true(step_warp_affine(&warp, &affine, &op));
		assert_int_equal(op.kind, OP_AFFINE);
		check_matrix(&op, golden->matrix, i);
		equal += is_equal(op.matrix, golden->matrix);
	}
	print_message("%u of %zu matrices are CPython's to the last bit\n", equal,
		UTIL_COUNT(warp_matrices));
	assert_true(equal > UTIL_COUNT(warp_matrices) * 9 / 10);
}

static void test_policy_shear(void **state)
{
	struct op op;
	(void)state;
	for (int i = -99; i <= 99; i++) {
		double magnitude = i / 100.0;
		assert_int_equal(step_warp_shear_x(&square, magnitude, &op), i != 0);
		/* tan(radians(degrees(atan(m)))): m, except for the last bit or two. */
		assert_true(fabs(op.matrix[1] - magnitude) <= 4 * 0x1p-53);
		assert_true(op.matrix[0] == 1 && op.matrix[3] == 0 && op.matrix[4] == 1);
		assert_int_equal(step_warp_shear_y(&square, magnitude, &op), i != 0);
		assert_true(fabs(op.matrix[3] - magnitude) <= 4 * 0x1p-53);
		assert_true(op.matrix[2] == 0 && op.matrix[5] == 0);
		assert_memory_equal(op.fill, square.fill, 3);
		assert_int_equal(op.filter, WEIGHTS_BICUBIC);
	}
}

/* int(magnitude): towards zero. */
static void test_policy_translate(void **state)
{
	struct op op;
	(void)state;
	assert_true(step_warp_translate_x(&square, 33.9, &op));
	assert_true(op.matrix[2] == -33 && op.matrix[5] == 0 && op.matrix[1] == 0);
	assert_true(step_warp_translate_x(&square, -33.9, &op));
	assert_true(op.matrix[2] == 33);
	assert_true(step_warp_translate_y(&square, -1.5, &op));
	assert_true(op.matrix[5] == 1 && op.matrix[2] == 0);
	assert_false(step_warp_translate_x(&square, 0.99, &op));
	assert_false(step_warp_translate_y(&square, -0.99, &op));
}

static void check_quarters(const struct step_warp *warp, double angle, int quarters)
{
	struct op op;
	assert_int_equal(step_warp_rotate(warp, angle, NULL, &op), quarters != 0);
	assert_int_equal(op.kind, OP_ROTATE_QUARTERS);
	assert_int_equal((int)op.amount, quarters);
}

static void test_quarters(void **state)
{
	static const double center[2] = {112, 112};
	const struct step_warp wide = {.width = 224, .height = 200};
	struct op op;
	(void)state;
	for (int turns = -3; turns <= 3; turns++)
		for (int quarters = 0; quarters < 4; quarters++)
			check_quarters(&square, 360.0 * turns + 90.0 * quarters, quarters);
	check_quarters(&wide, -180, 2);
	check_quarters(&wide, 720, 0);
	/* No shortcut: a side would not fit, or the rotation has a center. */
	assert_true(step_warp_rotate(&wide, 90, NULL, &op));
	assert_int_equal(op.kind, OP_AFFINE);
	assert_true(op.matrix[0] == 0 && op.matrix[1] == -1 && op.matrix[3] == 1);
	assert_true(step_warp_rotate(&square, 180, center, &op));
	assert_int_equal(op.kind, OP_AFFINE);
	assert_false(step_warp_rotate(&square, 0, center, &op));
	assert_false(step_warp_rotate(&square, -360, center, &op));
}

/* The op's matrix maps a corner to its origin; coefficients are floats, as torch computes them.
 */
static void check_perspective(const struct step_warp *warp, const int32_t corners[4][2])
{
	const double side[2] = {warp->width - 1.0, warp->height - 1.0};
	struct op op;
	assert_true(step_warp_perspective(warp, corners, &op));
	assert_int_equal(op.kind, OP_PERSPECTIVE);
	for (int i = 0; i < OP_MATRIX; i++)
		assert_true((double)(float)op.matrix[i] == op.matrix[i]);
	const double *m = op.matrix;
	for (int i = 0; i < 4; i++) {
		double x = corners[i][0], y = corners[i][1], share = m[6] * x + m[7] * y + 1;
		double u = (m[0] * x + m[1] * y + m[2]) / share;
		double v = (m[3] * x + m[4] * y + m[5]) / share;
		assert_true(fabs(u - (i == 1 || i == 2 ? side[0] : 0)) < 1e-3 * warp->width);
		assert_true(fabs(v - (i >= 2 ? side[1] : 0)) < 1e-3 * warp->height);
	}
}

static void test_perspective(void **state)
{
	const struct step_warp warp = {.width = 160, .height = 97};
	(void)state;
	for (int32_t i = 0; i < 2000; i++) {
		int32_t a = i * 7 % 60, b = i * 11 % 40, c = i * 13 % 55, d = i * 17 % 45;
		const int32_t corners[4][2] = {
			{a, b}, {159 - c, d}, {159 - b, 96 - a / 2}, {d, 96 - c / 2}};
		check_perspective(&warp, corners);
	}
}

static void test_no_map(void **state)
{
	const int32_t line[4][2] = {{0, 0}, {10, 10}, {20, 20}, {30, 30}};
	const int32_t point[4][2] = {{5, 5}, {5, 5}, {5, 5}, {5, 5}};
	const int32_t one[4][2] = {{0, 0}, {0, 0}, {0, 0}, {0, 0}};
	const int32_t whole[4][2] = {{0, 0}, {223, 0}, {223, 223}, {0, 223}};
	const struct step_warp dot = {.width = 1, .height = 1}, thin = {.width = 1, .height = 9};
	struct op op;
	(void)state;
	assert_false(step_warp_perspective(&square, line, &op));
	assert_false(step_warp_perspective(&square, point, &op));
	assert_false(step_warp_perspective(&dot, one, &op));
	assert_false(step_warp_perspective(&thin, one, &op));
	assert_true(step_warp_perspective(&square, whole, &op));
	assert_true(op.matrix[0] == 1 && op.matrix[1] == 0 && op.matrix[6] == 0);
}

/* The largest side that images have: nothing overflows for any corners. */
static void test_large(void **state)
{
	const struct step_warp large = {.width = 4096, .height = 4096};
	const int32_t far[4][2] = {{1800, 2000}, {2400, 6}, {4095, 4080}, {1, 2200}};
	const int32_t corners[][4][2] = {
		{{2047, 2047}, {2048, 2047}, {4095, 4095}, {0, 2048}},
		{{0, 2047}, {4095, 0}, {2048, 2048}, {2047, 4095}},
		{{2047, 0}, {2048, 2047}, {2048, 2048}, {0, 4095}},
	};
	struct op op;
	(void)state;
	check_perspective(&large, far);
	for (unsigned i = 0; i < UTIL_COUNT(corners); i++) {
		assert_true(step_warp_perspective(&large, corners[i], &op));
		for (unsigned k = 0; k < OP_MATRIX; k++)
			assert_true(isfinite(op.matrix[k]) && fabs(op.matrix[k]) < 1e9);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matrices),
		cmocka_unit_test(test_policy_shear),
		cmocka_unit_test(test_policy_translate),
		cmocka_unit_test(test_quarters),
		cmocka_unit_test(test_perspective),
		cmocka_unit_test(test_no_map),
		cmocka_unit_test(test_large),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

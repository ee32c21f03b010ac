/* row_share: which views are made from one decoding, against the cost that row_share.h states. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "stream/row_share.h"

enum { WIDTH = 500 };

static struct row_share at(uint32_t x0, uint32_t y0, uint32_t x1, uint32_t y1, uint8_t shrink)
{
	return (struct row_share){{x0, y0, x1, y1}, shrink};
}

static void assert_region(
	const struct row_share *share, uint32_t x0, uint32_t y0, uint32_t x1, uint32_t y1)
{
	assert_int_equal(share->region.x0, x0);
	assert_int_equal(share->region.y0, y0);
	assert_int_equal(share->region.x1, x1);
	assert_int_equal(share->region.y1, y1);
}

static void views_that_overlap_share(void **state)
{
	(void)state;
	/* A large crop, one inside it, one that sticks out a little, one far below. */
	const struct row_share views[] = {at(50, 10, 450, 210, 0), at(100, 20, 200, 120, 0),
		at(300, 150, 480, 230, 0), at(0, 900, 60, 960, 0)};
	struct row_share all;
	assert_int_equal(row_share_choose(views, UTIL_COUNT(views), WIDTH, &all), 7);
	assert_region(&all, 50, 10, 480, 230);
	assert_int_equal(row_share_choose(views, 1, WIDTH, &all), 1);
	assert_region(&all, 50, 10, 450, 210);
}

/* Two narrow crops, one above the other, are only worth sharing once a third one joins them. */
static void a_view_may_join_two_others(void **state)
{
	(void)state;
	const struct row_share apart[] = {at(0, 0, 100, 100, 0), at(0, 150, 100, 250, 0)};
	const struct row_share joined[] = {apart[0], apart[1], at(0, 50, 100, 200, 0)};
	struct row_share all;
	assert_int_equal(row_share_choose(apart, 2, WIDTH, &all), 1);
	assert_region(&all, 0, 0, 100, 100);
	assert_int_equal(row_share_choose(joined, 3, WIDTH, &all), 7);
	assert_region(&all, 0, 0, 100, 250);
}

/* Rows are whole lines for the entropy decoder: side by side costs less than one above another. */
static void lines_cost_their_whole_width(void **state)
{
	(void)state;
	const struct row_share beside[] = {at(0, 0, 100, 100, 0), at(400, 0, 500, 100, 0)};
	const struct row_share above[] = {at(0, 0, 100, 100, 0), at(0, 101, 100, 201, 0)};
	struct row_share all;
	assert_int_equal(row_share_choose(beside, 2, WIDTH, &all), 3);
	assert_region(&all, 0, 0, 500, 100);
	assert_int_equal(row_share_choose(above, 2, WIDTH, &all), 1);
}

static void other_scales_are_decoded_apart(void **state)
{
	(void)state;
	const struct row_share views[] = {
		at(0, 0, 100, 100, 1), at(0, 0, 100, 100, 0), at(0, 0, 100, 90, 1)};
	struct row_share all;
	assert_int_equal(row_share_choose(views, 3, WIDTH, &all), 5);
	assert_int_equal(all.shrink, 1);
	assert_region(&all, 0, 0, 100, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(views_that_overlap_share),
		cmocka_unit_test(a_view_may_join_two_others),
		cmocka_unit_test(lines_cost_their_whole_width),
		cmocka_unit_test(other_scales_are_decoded_apart),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

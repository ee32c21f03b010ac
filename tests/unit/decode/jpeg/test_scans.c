/* scans: what is read of a scan that ends too early. Pixels are compared by fuzz_scans.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "decode/jpeg/lane.h"
#include "decode/jpeg/mcu_plan.h"
#include "decode/jpeg/scans/scans.h"
#include "guarded.h"

#include <string.h>

/* 4:1:0, two MCUs, of which the crop has the second. */
static const struct parse parse = {.width = 64,
	.height = 16,
	.components = 3,
	.component = {{.h = 4, .v = 2}, {.h = 1, .v = 1}, {.h = 1, .v = 1}},
	.h_max = 4,
	.v_max = 2,
	.in_mcu = 10,
	.mcus_across = 2,
	.mcus_down = 1,
	.several = true};

/* Nine of ten blocks are in the first scan, and each takes as many bits as a block can: the codes
 * are zeros, as is everything after the scan's only byte, also the coefficients. */
static void test_short(void **state)
{
	static const uint8_t dc_counts[16] = {1}, ac_counts[16] = {[15] = 1}, dc = 0, ac = 10;
	static const uint8_t data[3 + UNSTUFF_SLACK] = {0, 0xff, 0xd9};
	const struct parse_code of_dc = {dc_counts, &dc, 1}, of_ac = {ac_counts, &ac, 1};
	static struct script script = {.count = 1,
		.scan = {
			{.components = 2, .component = {0, 1}, .last = BLOCKS_SIZE - 1, .end = 1}}};
	struct blocks blocks;
	struct scan_plan plan;
	struct fault fault;
	const struct scans_kernels *chosen;
	const struct lanes *lanes;
	(void)state;
	for (unsigned i = 0; i < script.scan[0].components; i++) {
		script.scan[0].dc[i] = of_dc;
		script.scan[0].ac[i] = of_ac;
	}
	assert_int_equal(scans_choose(&chosen, &fault), 0);
	assert_int_equal(lanes_choose(&lanes, &fault), 0);
	mcu_plan_blocks(&parse, (struct decode_region){32, 0, 64, 16}, &blocks);
	assert_int_equal(scan_plan(&parse, &script, &blocks, &plan), 0);
	const struct scans_kernels *const each[] = {&scans_c, chosen};
	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		struct guarded memory = guarded_new(plan.end, 1);
		assert_int_equal(scans_decode(each[i], lanes->unstuff, data, &parse, &script, &plan,
					 memory.bytes, &blocks),
			STEPBACK_SHORT);
		guarded_free(&memory);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_short),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

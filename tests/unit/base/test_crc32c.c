/* crc32c: known sums, and the processor's instruction against the tables for all kinds of sizes. */
#include "base/sum/crc32c.h"
#include "base/util.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_known(void **state)
{
	uint8_t bytes[32] = {0};
	assert_int_equal(crc32c((const uint8_t *)"123456789", 9), 0xe3069283);
	assert_int_equal(crc32c(bytes, 0), 0);
	/* RFC 3720, B.4 */
	assert_int_equal(crc32c(bytes, 32), 0x8a9136aa);
	memset(bytes, 0xff, 32);
	assert_int_equal(crc32c(bytes, 32), 0x62a8ab43);
	for (int i = 0; i < 32; i++)
		bytes[i] = (uint8_t)i;
	assert_int_equal(crc32c(bytes, 32), 0x46dd794e);
}

static void test_same(void **state)
{
	enum { SIZE = 70000 };
	static uint8_t bytes[SIZE];
	uint32_t random = 1;
	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (uint8_t)((random = random * 1664525 + 1013904223) >> 24);
	static const size_t sizes[] = {
		1, 7, 8, 9, 63, 4095, 4096, 12287, 12288, 12289, 24576, 24583, 65535, 65536, 69000};
	for (size_t i = 0; i < UTIL_COUNT(sizes); i++)
		for (size_t from = 0; from < 9; from++)
			assert_int_equal(crc32c(bytes + from, sizes[i]),
				crc32c_portable(bytes + from, sizes[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* hash: published values of FNV-1a and of SplitMix64's mixer; one flipped bit changes half of the
 * result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hash.h"

#include <string.h>

/* The first values are Landon Noll's test vectors for 64 bits, from the algorithm's reference
 * page. */
static void matches_fnv1a(void **state)
{
	(void)state;
	assert_int_equal(hash_bytes(HASH_SEED, "", 0), 0xcbf29ce484222325u);
	assert_int_equal(hash_bytes(HASH_SEED, "a", 1), 0xaf63dc4c8601ec8cu);
	assert_int_equal(hash_bytes(HASH_SEED, "foobar", 6), 0x85944171f73967e8u);
	assert_int_equal(
		hash_bytes(hash_bytes(HASH_SEED, "foo", 3), "bar", 3), 0x85944171f73967e8u);
}

/* The generator with seed 0 mixes its increment first. */
static void matches_splitmix64(void **state)
{
	(void)state;
	assert_int_equal(hash_mix(0x9e3779b97f4a7c15u), 0xe220a8397b1dcdafu);
	assert_int_equal(hash_mix(0), 0);
	assert_int_equal(hash_mix(hash_bytes(HASH_SEED, "foobar", 6)), 0x404da9e3b74078c2u);
}

static void reads_integers_lowest_byte_first(void **state)
{
	const uint8_t bytes[8] = {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
	(void)state;
	assert_int_equal(hash_u64(HASH_SEED, 0x1122334455667788u), hash_bytes(HASH_SEED, bytes, 8));
}

static void spreads_single_bits(void **state)
{
	unsigned changed = 0;
	(void)state;
	for (uint64_t i = 0; i < 1000; i++)
		for (unsigned bit = 0; bit < 64; bit++) {
			uint64_t a = hash_mix(hash_u64(HASH_SEED, i));
			uint64_t b = hash_mix(hash_u64(HASH_SEED, i ^ (uint64_t)1 << bit));
			unsigned distance = (unsigned)__builtin_popcountll(a ^ b);
			assert_in_range(distance, 1, 63);
			changed += distance;
		}
	assert_in_range(changed / 64000, 31, 32);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matches_fnv1a),
		cmocka_unit_test(matches_splitmix64),
		cmocka_unit_test(reads_integers_lowest_byte_first),
		cmocka_unit_test(spreads_single_bits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

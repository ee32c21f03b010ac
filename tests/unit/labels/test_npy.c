/* npy: files that NumPy writes are read; other headers are refused in words, and no byte beyond the
 * input is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "labels/npy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 70000 };

/* Writes a header of this version with this dict, and returns its size. */
static size_t make(uint8_t *bytes, unsigned major, const char *dict)
{
	size_t text = strlen(dict), prefix = major == 1 ? 10 : 12;
	memcpy(bytes, "\x93NUMPY", 6);
	bytes[6] = (uint8_t)major;
	bytes[7] = 0;
	for (size_t i = 8; i < prefix; i++)
		bytes[i] = (uint8_t)(text >> 8 * (i - 8));
	memcpy(bytes + prefix, dict, text);
	return prefix + text;
}

/* Parses a copy that ends at the end of its allocation, so that sanitizers detect reads beyond
 * it. */
static int parse(const uint8_t *bytes, size_t size, struct npy *ret, struct fault *fault)
{
	uint8_t *exact = malloc(size ? size : 1);
	assert_non_null(exact);
	memcpy(exact, bytes, size);
	int result = npy_parse(exact, size, NPY_INTEGERS, ret, fault);
	free(exact);
	return result;
}

static void accepts(unsigned major, const char *dict, uint64_t count, uint8_t bytes, bool is_signed)
{
	static uint8_t header[ROOM];
	struct npy npy;
	struct fault fault = {{0}};
	size_t size = make(header, major, dict);
	assert_int_equal(parse(header, size, &npy, &fault), 0);
	assert_int_equal(npy.count, count);
	assert_int_equal(npy.data, size);
	assert_int_equal(npy.bytes, bytes);
	assert_int_equal(npy.is_signed, is_signed);
}

static void refuses(const char *dict, const char *words)
{
	static uint8_t header[ROOM];
	struct npy npy;
	struct fault fault = {{0}};
	size_t size = make(header, 1, dict);
	assert_int_equal(parse(header, size, &npy, &fault), -EINVAL);
	if (!strstr(fault.text, words))
		fail_msg("%s: expected \"%s\" in \"%s\"", dict, words, fault.text);
}

static void takes_what_numpy_writes(void **state)
{
	accepts(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }        \n", 3, 8,
		true);
	accepts(2, "{'descr': '<u8', 'fortran_order': False, 'shape': (1281167,), }\n", 1281167, 8,
		false);
	accepts(3, "{'descr': '<i4', 'fortran_order': False, 'shape': (0,), }\n", 0, 4, true);
	accepts(1, "{\"shape\":(18446744073709551615,),\"descr\":\"<u4\",\"fortran_order\":False}",
		UINT64_MAX, 4, false);
}

static void refuses_other_contents(void **state)
{
	static const char *const types[] = {
		"<f8", ">i8", "|b1", "|u1", "<i2", "|O", "<U5", "<i16", "=i8", "i8", "<i8x", ""};
	char dict[200];
	for (size_t i = 0; i < UTIL_COUNT(types); i++) {
		(void)snprintf(dict, sizeof dict,
			"{'descr': '%s', 'fortran_order': False, 'shape': (3,), }", types[i]);
		refuses(dict, "expected little-endian integers");
	}
	refuses("{'descr': [('a', '<i8')], 'fortran_order': False, 'shape': (3,), }",
		"of several fields");
	refuses("{'descr': '<i8', 'fortran_order': True, 'shape': (3,), }", "C order");
	refuses("{'descr': '<i8', 'fortran_order': False, 'shape': (), }", "0 dimensions");
	refuses("{'descr': '<i8', 'fortran_order': False, 'shape': (3, 4), }", "2 dimensions");
}

static void refuses_what_is_no_dict(void **state)
{
	static const struct {
		const char *dict, *words;
	} cases[] = {
		{"  ", "an opening brace, but the header ends there"},
		{"{ ", "a quoted text, but the header ends there"},
		{"{}", "descr, fortran_order and shape"},
		{"{'descr': '<i8', 'shape': (3,)}", "descr, fortran_order and shape"},
		{"{'descr': '<i8', 'descr': '<i8', 'fortran_order': False, 'shape': (3,)}", "once"},
		{"{'other': 1}", "once"},
		{"{descr: '<i8'}", "a quoted text"},
		{"{'descr' '<i8'}", "a colon"},
		{"{'descr': '<i8' 'shape': (3,)}", "a comma or a closing brace"},
		{"{'descr': <i8}", "a quoted text"},
		{"{'descr': '<i8", "the end of a short quoted text"},
		{"{'fortran_order': Fals", "True or False"},
		{"{'fortran_order': 0", "True or False"},
		{"{'shape': 3", "a shape in brackets"},
		{"{'shape': (3", "a comma or the end of the shape"},
		{"{'shape': (-3,)", "a number"},
		{"{'shape': (,)", "a number"},
		{"{'shape': (3L,)", "a comma or the end of the shape"},
		{"{'shape': (18446744073709551616,)", "fits 64 bits"},
		{"{'descr': '<i8', 'fortran_order': False, 'shape': (3,)} x", "nothing but spaces"},
		{"{'descr': '"
		 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'",
			"a short quoted text"},
	};
	for (size_t i = 0; i < UTIL_COUNT(cases); i++)
		refuses(cases[i].dict, cases[i].words);
}

static void refuses_other_files(void **state)
{
	static uint8_t header[ROOM];
	static const char good[] = "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }\n";
	struct npy npy;
	struct fault fault = {{0}};
	size_t size = make(header, 1, good);
	for (size_t cut = 0; cut < size; cut++)
		assert_int_equal(parse(header, cut, &npy, &fault), -EINVAL);
	for (size_t i = 0; i < 6; i++) {
		header[i] ^= 1;
		assert_int_equal(parse(header, size, &npy, &fault), -EINVAL);
		assert_non_null(strstr(fault.text, "does not begin with"));
		header[i] ^= 1;
	}
	for (unsigned version = 0; version < 65536; version++) {
		header[6] = (uint8_t)version;
		header[7] = (uint8_t)(version >> 8);
		if (version == 1)
			continue;
		assert_int_equal(parse(header, size, &npy, &fault), -EINVAL);
	}
	/* Longer than the file, and longer than allowed. */
	size = make(header, 2, good);
	header[11] = 0xff;
	assert_int_equal(parse(header, size, &npy, &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "cut off or damaged"));
	memset(header, ' ', sizeof header);
	(void)make(header, 2, good);
	header[8] = header[9] = header[11] = 0;
	header[10] = 1; /* 65,536 */
	assert_int_equal(parse(header, NPY_PREFIX + NPY_TEXT_MAX, &npy, &fault), 0);
	header[8] = 1;
	assert_int_equal(parse(header, NPY_PREFIX + NPY_TEXT_MAX + 1, &npy, &fault), -EINVAL);
}

/* Flips every bit of a valid header, one at a time and several at once: it is read, or refused in
 * words. */
static void survives_flipped_bits(void **state)
{
	static const char good[] =
		"{'descr': '<i8', 'fortran_order': False, 'shape': (1281167,), }          \n";
	uint8_t header[200], flipped[200];
	uint64_t random = 1;
	unsigned refused = 0;
	struct npy npy;
	size_t size = make(header, 1, good);
	for (unsigned round = 0; round < size * 8 + 20000; round++) {
		struct fault fault = {{0}};
		memcpy(flipped, header, size);
		unsigned flips = round < size * 8 ? 1 : 1 + round % 5;
		for (unsigned i = 0; i < flips; i++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			size_t bit = flips == 1 && round < size * 8 ? round
								    : (random >> 33) % (size * 8);
			flipped[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		int result = parse(flipped, size, &npy, &fault);
		assert_true(result == 0 || (result == -EINVAL && fault.text[0]));
		assert_true(result || (npy.data <= size && (npy.bytes == 4 || npy.bytes == 8)));
		refused += result != 0;
	}
	assert_true(refused > size * 6);
}

static void widens_values(void **state)
{
	static const uint8_t bytes[] = {
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 0, 0, 0, 0, 0, 0x40};
	uint64_t value[4];
	npy_widen(&(struct npy){.bytes = 8, .is_signed = true}, bytes, 2, value);
	assert_int_equal((int64_t)value[0], -1);
	assert_int_equal(value[1], 0x4000000000000201);
	npy_widen(&(struct npy){.bytes = 4, .is_signed = true}, bytes, 4, value);
	assert_int_equal((int64_t)value[1], -1);
	assert_int_equal(value[2], 0x201);
	npy_widen(&(struct npy){.bytes = 4}, bytes, 4, value);
	assert_int_equal(value[1], UINT32_MAX);
	assert_int_equal(value[3], 0x40000000);
}

static void reads_floats(void **state)
{
	static uint8_t header[ROOM];
	static const double wide[] = {0.1, -0.0, 1e300};
	static const float narrow[] = {0.1f, 3.5f};
	double value[3];
	struct npy npy;
	struct fault fault = {{0}};
	size_t size =
		make(header, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (7,), }\n");
	assert_int_equal(npy_parse(header, size, NPY_FLOATS, &npy, &fault), 0);
	assert_int_equal(npy.bytes, 4);
	assert_int_equal(npy.count, 7);
	npy_reals(&npy, (const uint8_t *)narrow, 2, value);
	assert_true(value[0] == (double)0.1f && value[1] == 3.5);
	assert_int_equal(npy_parse(header, size, NPY_INTEGERS, &npy, &fault), -EINVAL);
	npy_reals(&(struct npy){.bytes = 8}, (const uint8_t *)wide, 3, value);
	assert_memory_equal(value, wide, sizeof wide);
	static const char *const types[] = {"<i8", ">f8", "<f2", "<f16", "f8", "<c8"};
	for (size_t i = 0; i < UTIL_COUNT(types); i++) {
		char dict[100];
		(void)snprintf(dict, sizeof dict,
			"{'descr': '%s', 'fortran_order': False, 'shape': (3,), }", types[i]);
		size = make(header, 1, dict);
		assert_int_equal(npy_parse(header, size, NPY_FLOATS, &npy, &fault), -EINVAL);
		assert_non_null(strstr(fault.text, "expected little-endian floats (<f8 or <f4)"));
		assert_non_null(strstr(fault.text, "asarray(weights"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_what_numpy_writes),
		cmocka_unit_test(refuses_other_contents),
		cmocka_unit_test(refuses_what_is_no_dict),
		cmocka_unit_test(refuses_other_files),
		cmocka_unit_test(survives_flipped_bits),
		cmocka_unit_test(widens_values),
		cmocka_unit_test(reads_floats),
	};
	return cmocka_run_group_tests_name("npy", tests, NULL, NULL);
}

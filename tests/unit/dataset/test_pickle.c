/* Pickles: what the scanner finds in one, and what it refuses, with the byte. */
#include "dataset/container/arrays/pickle.h"

#include "unit/source_fixture.h"

#include "base/util.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>

static struct fault fault;
static struct pickle_dict dict;
static struct window window;
static struct blob blob;

static void begin(const void *bytes, size_t size)
{
	blob = BLOB_OF(memfd_create("pickle", MFD_CLOEXEC));
	assert_int_equal(pwrite(blob.fd, bytes, size, 0), size);
	window_init(&window, &blob, "x.pkl", size);
	fault.text[0] = 0;
}

static void end(void)
{
	blob_close(&blob);
	window_deinit(&window);
}

static void refuse(const void *bytes, size_t size, const char *sentence)
{
	begin(bytes, size);
	assert_int_equal(pickle_scan(&window, &dict, &fault), -EINVAL);
	if (!strstr(fault.text, sentence) || !strstr(fault.text, "x.pkl: byte "))
		fail_msg("expected \"%s\" in: %s", sentence, fault.text);
	end();
}

#define REFUSE(bytes, sentence) refuse(bytes, sizeof(bytes) - 1, sentence)

static void accept(const void *bytes, size_t size)
{
	begin(bytes, size);
	if (pickle_scan(&window, &dict, &fault) < 0)
		fail_msg("%s", fault.text);
}

#define ACCEPT(bytes) accept(bytes, sizeof(bytes) - 1)

static void test_lists(void **state)
{
	struct pickle_cursor cursor;
	struct pickle_value item;
	/* Appended one by one and in pieces, with numbers of each form and memos between. */
	ACCEPT("\x80\x02}q\x00(U\x01nq\x01]q\x02(K\x07M\x01\x02"
	       "eJ\xff\xff\xff\xff"
	       "a(\x8a\x03\x01\x00\x80"
	       "eU\x01tq\x03]q\x04(U\x02hiq\x05X\x00\x00\x00\x00q\x06"
	       "eU\x01zq\x07]q\x08U\x01mq\x09]q\x0a(K\x01U\x01x"
	       "eu.");
	assert_int_equal(dict.count, 4);
	const struct pickle_value *numbers = pickle_find(&dict, "n");
	const struct pickle_value *texts = pickle_find(&dict, "t");
	assert_int_equal(numbers->items, PICKLE_ITEMS_NUMBERS);
	assert_int_equal(numbers->size, 4);
	assert_int_equal(texts->items, PICKLE_ITEMS_TEXTS);
	assert_int_equal(texts->size, 2);
	assert_int_equal(pickle_find(&dict, "z")->items, PICKLE_ITEMS_NONE);
	assert_int_equal(pickle_find(&dict, "m")->items, PICKLE_ITEMS_OTHER);
	assert_null(pickle_find(&dict, "other"));
	static const int64_t expected[] = {7, 513, -1, -8388607};
	pickle_cursor_init(&cursor, &window, numbers);
	for (size_t i = 0; i < UTIL_COUNT(expected); i++) {
		assert_int_equal(pickle_next(&cursor, &item, &fault), 1);
		assert_int_equal(item.number, expected[i]);
	}
	assert_int_equal(pickle_next(&cursor, &item, &fault), 0);
	pickle_cursor_init(&cursor, &window, texts);
	assert_int_equal(pickle_next(&cursor, &item, &fault), 1);
	assert_int_equal(item.size, 2);
	assert_int_equal(pickle_next(&cursor, &item, &fault), 1);
	assert_int_equal(item.size, 0);
	end();
}

/* A key that is written twice has its last value, as in Python. */
static void test_keys(void **state)
{
	ACCEPT("\x80\x02}(U\x01kK\x01U\x01kK\x02u.");
	assert_int_equal(dict.count, 1);
	assert_int_equal(pickle_find(&dict, "k")->number, 2);
	end();
	ACCEPT("\x80\x02}q\x01U\x01kq\x02h\x02s.");
	assert_true(pickle_find(&dict, "k")->again);
	end();
}

#define ARRAY(kind, flag, rows, data)                                                              \
	"\x80\x02}U\x04"                                                                           \
	"datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01"                \
	"b\x87R(K\x01K" rows "K\x02\x86"                                                           \
	"cnumpy\ndtype\nU\x02" kind "K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff" \
	"\xffK\x00tb" flag "U\x04" data "tbs."

static void test_array(void **state)
{
	static const char good[] = ARRAY("u1", "\x89", "\x02", "abcd");
	uint8_t damaged[sizeof good];
	ACCEPT(ARRAY("u1", "\x89", "\x02", "abcd"));
	const struct pickle_value *array = pickle_find(&dict, "data");
	assert_int_equal(array->type, PICKLE_ARRAY);
	assert_int_equal(array->rows, 2);
	assert_int_equal(array->columns, 2);
	assert_memory_equal(good + array->at, "abcd", 4);
	end();
	REFUSE(ARRAY("f4", "\x89", "\x02", "abcd"), "an object that is not an array of bytes");
	REFUSE(ARRAY("u1", "\x88", "\x02", "abcd"), "in rows, in C's order");
	REFUSE(ARRAY("u1", "\x89", "\x03", "abcd"),
		"an array has 3 times 2 bytes, but its contents have 4");
	/* Cut anywhere, it is refused. */
	for (size_t size = 0; size < sizeof good - 1; size++)
		refuse(good, size, "");
	/* Each operation taken away: no crash, and an array only where its bytes are. */
	for (size_t at = 0; at < sizeof good - 1; at++) {
		memcpy(damaged, good, at);
		memcpy(damaged + at, good + at + 1, sizeof good - 1 - at);
		begin(damaged, sizeof good - 2);
		if (pickle_scan(&window, &dict, &fault) == 0 && pickle_find(&dict, "data") &&
			pickle_find(&dict, "data")->type == PICKLE_ARRAY)
			assert_in_range(pickle_find(&dict, "data")->at, 1, sizeof good - 6);
		end();
	}
}

static void test_refused(void **state)
{
	REFUSE("\x80\x01}.", "does not begin as a pickled dict of protocol 2 to 5");
	REFUSE("\x80\x06}.", "does not begin as a pickled dict of protocol 2 to 5");
	REFUSE("\x80\x04]q\x00.", "does not begin as a pickled dict");
	REFUSE("", "does not begin as a pickled dict");
	REFUSE("\x80\x02}cos\nsystem\nU\x02ls\x85R0.", "byte 3: the pickle names something other "
						       "than NumPy's arrays of bytes, which could "
						       "run any program");
	REFUSE("\x80\x04}\x8c\x02os\x8c\x06system\x93.", "byte 15: the pickle names something");
	REFUSE("\x80\x02}c_codecs\nencode\n.", "pickle it again with protocol=4");
	REFUSE("\x80\x02}cnumpy\nndarray\n)R.", "an object that is not an array of bytes");
	REFUSE("\x80\x02}cnumpy", "names something");
	REFUSE("\x80\x02}P", "byte 3: 0x50 is not one of the operations");
	REFUSE("\x80\x02}(i", "0x69 is not one of the operations");
	REFUSE("\x80\x02}\x81", "0x81 is not one of the operations"); /* NEWOBJ */
	REFUSE("\x80\x02}}", "a dict within another value");
	REFUSE("\x80\x02}K\x01s.", "does not fit the values before it");
	REFUSE("\x80\x02}u.", "does not fit the values before it");
	REFUSE("\x80\x02}(K\x01u.", "does not fit the values before it");
	REFUSE("\x80\x02}e.", "does not fit the values before it");
	REFUSE("\x80\x02}\x87.", "does not fit the values before it");
	REFUSE("\x80\x02}R.", "does not fit the values before it");
	REFUSE("\x80\x02}K\x01.", "does not fit the values before it");
	REFUSE("\x80\x02}(K\x01K\x02u.", "a key of the dict is not a string");
	REFUSE("\x80\x02}h\x05.", "repeats a value");
	REFUSE("\x80\x02}q\x00h\x00.", "repeats a value");
	REFUSE("\x80\x02}\x8a\x09.", "a whole number has 9 bytes");
	REFUSE("\x80\x02}T\xff\xff\xff\xff", "a string of 4294967295 bytes begins here, but");
	REFUSE("\x80\x04}\x8e\xff\xff\xff\xff\xff\xff\xff\xff",
		"a string of 18446744073709551615 bytes begins here, but");
	REFUSE("\x80\x02}K\x01", "the file ends at byte 5");
}

/* More than the stack, the keys or the memo can have. */
static void test_bounds(void **state)
{
	static uint8_t bytes[64 << 10];
	size_t size = 3;
	memcpy(bytes, "\x80\x02}", 3);
	memset(bytes + size, '(', PICKLE_STACK);
	refuse(bytes, size + PICKLE_STACK, "more than 4096 values are on the pickle's stack");
	for (int i = 0; i <= PICKLE_ENTRIES; i++, size += 6)
		memcpy(bytes + size, (const uint8_t[]){'U', 1, (uint8_t)('a' + i), 'K', 1, 's'}, 6);
	bytes[size++] = '.';
	refuse(bytes, size, "the dict has more than 16 keys");
	/* A list of texts, each with a memo, and the first key asked for again. */
	size = 3;
	memcpy(bytes + size, "U\x01kr\x00\x00\x00\x00]", 9);
	size += 9;
	for (uint32_t i = 1; i < 3000; i++, size += 8)
		memcpy(bytes + size,
			(const uint8_t[]){'U', 0, 'r', (uint8_t)i, (uint8_t)(i >> 8), 0, 0, 'a'},
			8);
	memcpy(bytes + size, "s.", 2);
	accept(bytes, size + 2);
	assert_int_equal(pickle_find(&dict, "k")->size, 2999);
	end();
	memcpy(bytes + size, "sh\x00h\x00s.", 7);
	refuse(bytes, size + 7, "repeats a value of before that is not known any more");
	/* Each of these names is looked up anywhere in the file. */
	size = 3;
	memcpy(bytes + size, "U\2u1q\0]", 7);
	for (size += 7; size < 10 + 1025 * 8; size += 8)
		memcpy(bytes + size,
			"h\0K\0K\0\x87"
			"a",
			8);
	refuse(bytes, size, "more than 1024 keys, types and names of functions");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_array),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_bounds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* unpack: RecordIO records of several parts, in reads of every size; then damaged ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unpack/unpack.h"

#include "base/util.h"
#include "unpack_fixture.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static const uint8_t magic[4] = {0x0a, 0x23, 0xd7, 0xce};
static uint8_t stored[256], whole[256], out[256];
static uint32_t stored_size, whole_size;
static struct unpack *unpack;
static struct fault fault;

static void put(uint32_t which, const char *text)
{
	const uint32_t coded = which << 29 | (uint32_t)strlen(text);
	if (stored_size) {
		memcpy(whole + whole_size, magic, sizeof magic);
		whole_size += sizeof magic;
	}
	memcpy(stored + stored_size, magic, sizeof magic);
	memcpy(stored + stored_size + 4, &coded, sizeof coded);
	memcpy(stored + stored_size + 8, text, strlen(text));
	memcpy(whole + whole_size, text, strlen(text));
	stored_size += 8 + (uint32_t)strlen(text);
	whole_size += (uint32_t)strlen(text);
}

static struct packed slice(uint32_t inner)
{
	return (struct packed){
		.method = PACKED_PARTS, .stored = stored_size, .inner = inner, .whole = whole_size};
}

static int make(void **state)
{
	unpack = unpack_new();
	stored_size = whole_size = 0;
	put(1, "head of a record");
	put(2, "");
	put(2, "four");
	put(3, "end");
	return 0;
}

static int unmake(void **state)
{
	unpack_free(unpack);
	return 0;
}

static void test_slices(void **state)
{
	int fd = memfd_create("parts", MFD_CLOEXEC);
	assert_int_equal(pwrite(fd, stored, stored_size, 3), stored_size);
	struct unpack_file file = {fd, 3};
	const struct unpack_source source = {.read = unpack_file_read, .context = &file};
	for (uint32_t from = 0; from < whole_size; from++)
		for (uint32_t size = 1; size <= whole_size - from; size++) {
			struct packed packed = slice(from);
			assert_true(packed_sound(&packed, size));
			assert_int_equal(
				unpack_slice(unpack, &packed, size, stored, out, &fault), 0);
			assert_memory_equal(out, whole + from, size);
		}
	for (size_t piece = 1; piece <= whole_size; piece++) {
		struct packed packed = slice(0);
		size_t done = 0, n = 1;
		assert_int_equal(
			unpack_begin_sample(unpack, &packed, whole_size, &source, &fault), 0);
		for (; n; done += n)
			assert_int_equal(unpack_read(unpack, out + done,
						 UTIL_MIN(piece, sizeof out - done), &n, &fault),
				0);
		assert_int_equal(done, whole_size);
		assert_memory_equal(out, whole, whole_size);
	}
	(void)close(fd);
}

static void refuse(const struct packed *packed, const char *sentence)
{
	fault.text[0] = 0;
	assert_int_equal(
		unpack_slice(unpack, packed, packed->whole, stored, out, &fault), -EBADMSG);
	if (!strstr(fault.text, sentence))
		fail_msg("expected \"%s\" in: %s", sentence, fault.text);
}

static void test_damaged(void **state)
{
	struct packed packed = slice(0);
	stored[0] ^= 1;
	refuse(&packed, "the next part of a record does not follow");
	stored[0] ^= 1;
	stored[7] ^= 0x40; /* a first part becomes a last one */
	refuse(&packed, "the next part of a record does not follow");
	stored[7] ^= 0x40;
	stored[4] = 0xff; /* a length beyond the end */
	refuse(&packed, "in the middle of the stream");
	stored[4] = 16;
	for (packed.stored = packed.whole; packed.stored < stored_size; packed.stored++)
		refuse(&packed, "in the middle of the stream");
	packed.whole--;
	refuse(&packed, "damaged or a bomb");
	packed.whole += 2;
	refuse(&packed, "but its container says");
	assert_int_equal(unpack_slice(unpack,
				 &(struct packed){.method = PACKED_PARTS, .stored = 8, .whole = 1},
				 1, stored + stored_size - 3, out, &fault),
		-EBADMSG);
	packed = slice(0);
	packed.whole = packed.stored + 1;
	assert_false(packed_sound(&packed, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_slices, make, unmake),
		cmocka_unit_test_setup_teardown(test_damaged, make, unmake),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* unpack_zstd: Zstandard frames of every kind, and those that are refused. In builds without
 * libzstd: the sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unpack/unpack.h"

#include "base/util.h"
#include "fuzz/random.h"

#include <errno.h>
#include <string.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

enum { PLAIN = 300 << 10, ROOM = 1 << 20 };

static uint8_t plain[PLAIN], packed[ROOM], out[ROOM];
static size_t packed_size;
static struct unpack *unpack;
static struct fault fault;

static int read_all(size_t whole, size_t piece)
{
	const struct unpack_source source = {.memory = packed};
	size_t done = 0, n = 1;
	int rc = unpack_begin(unpack, PACKED_ZSTD, packed_size, whole, &source, &fault);
	while (rc == 0 && n && done < sizeof out) {
		rc = unpack_read(
			unpack, out + done, UTIL_MIN(piece, sizeof out - done), &n, &fault);
		done += rc == 0 ? n : 0;
	}
	if (rc == 0 && whole != (size_t)UNPACK_UNKNOWN)
		assert_int_equal(done, whole);
	return rc;
}

static void expect(size_t whole, int result, const char *sentence)
{
	fault.text[0] = 0;
	assert_int_equal(read_all(whole, 65536), result);
	if (!strstr(fault.text, sentence))
		fail_msg("expected \"%s\" in: %s", sentence, fault.text);
}

#ifdef HAVE_ZSTD
/* Appends a frame of plain[from, from + size). */
static void add(size_t from, size_t size, int level, bool sized, bool checked, int window)
{
	ZSTD_CCtx *context = ZSTD_createCCtx();
	ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
	ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, sized);
	ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, checked);
	ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window);
	ZSTD_inBuffer in = {plain + from, size, 0};
	ZSTD_outBuffer to = {packed, sizeof packed, packed_size};
	if (sized)
		(void)ZSTD_CCtx_setPledgedSrcSize(context, size);
	else
		/* In two steps, so that the size is not known at first. */
		(void)ZSTD_compressStream2(context, &to, &in, ZSTD_e_flush);
	assert_int_equal(ZSTD_compressStream2(context, &to, &in, ZSTD_e_end), 0);
	packed_size = to.pos;
	ZSTD_freeCCtx(context);
}

static void test_frames(void **state)
{
	for (int i = 0; i < 8; i++) {
		packed_size = 0;
		add(0, 1000, 1 + i, i & 1, i & 2, 0);
		add(1000, 0, 1, true, false, 0);
		add(1000, PLAIN - 1000, 3 + i, i & 4, i & 1, i & 4 ? 0 : 23);
		for (size_t piece = 13; piece < ROOM; piece = piece * 11) {
			memset(out, 0, sizeof out);
			assert_int_equal(read_all(PLAIN, piece), 0);
			assert_memory_equal(out, plain, PLAIN);
		}
		assert_int_equal(read_all((size_t)UNPACK_UNKNOWN, 5000), 0);
		assert_memory_equal(out, plain, PLAIN);
	}
}

static void test_bad(void **state)
{
	packed_size = 0;
	add(0, PLAIN, 3, true, true, 0);
	expect(PLAIN - 1, -EBADMSG, "damaged or a bomb");
	expect(PLAIN + 1, -EBADMSG, "but its container says");
	const size_t size = packed_size;
	for (packed_size = 1; packed_size < size; packed_size += size / 40)
		expect(PLAIN, -EBADMSG, "in the middle of the stream");
	packed_size = size;
	packed[size - 1] ^= 1;
	expect(PLAIN, -EBADMSG, "checksum");
	memset(packed, 'x', size);
	expect(PLAIN, -EBADMSG, "damaged");
	packed_size = 0;
	add(0, PLAIN, 3, false, false, 24);
	expect(PLAIN, -EBADMSG, "window of more than 8 MiB");
}
#endif

static void test_refused(void **state)
{
	if (!unpack_refused(PACKED_ZSTD))
		skip();
	expect(10, -EOPNOTSUPP, "libzstd");
}

static int group_setup(void **state)
{
	struct random random = {5};
	unpack = unpack_new();
	for (size_t i = 0; i < sizeof plain; i++)
		plain[i] = i >> 14 & 1 || i < 64 ? (uint8_t)random_64(&random)
						 : plain[i - 1 - draw(&random, 40)];
	return unpack ? 0 : -1;
}

static int group_teardown(void **state)
{
	unpack_free(unpack);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifdef HAVE_ZSTD
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_bad),
#endif
		cmocka_unit_test(test_refused),
	};
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}

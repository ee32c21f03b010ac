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

enum { WINDOW_LOG = 12, WINDOW = 1 << WINDOW_LOG, NOISE = 20000, HEAD = 3000 };

/* Images: heads that compress, each with other bytes, and noise. */
static void images_fill(void)
{
	struct random random = {9};
	for (size_t i = 0; i < sizeof plain; i++) {
		const size_t at = i % (HEAD + NOISE);
		plain[i] = at > 100 && at < HEAD ? plain[i - 1 - draw(&random, 60)]
						 : (uint8_t)random_64(&random);
	}
}

/* Walks the stream as an indexer does, and unpacks each sample by its part. Returns how many have a
 * part, and the sum of their `inner`. */
static unsigned parts_check(uint32_t sample, uint32_t first, uint64_t *ret_inner)
{
	const struct unpack_source source = {.memory = packed};
	struct unpack *other = unpack_new();
	uint32_t read = 0;
	unsigned parts = 0;
	*ret_inner = 0;
	assert_int_equal(unpack_begin(unpack, PACKED_ZSTD, packed_size, PLAIN, &source, &fault), 0);
	assert_int_equal(unpack_parts(unpack, &fault), 0);
	for (uint32_t at = first; at + sample <= PLAIN; at += HEAD + NOISE) {
		uint64_t skipped = 0, from;
		struct packed part;
		for (int i = 0; i < 2; i++) {
			const uint32_t to = UTIL_MIN(at + (i ? sample : 700u), (uint32_t)PLAIN);
			if (to > read)
				assert_int_equal(
					unpack_skip(unpack, to - read, &skipped, &fault), 0);
			read = UTIL_MAX(read, to);
			if (!i)
				unpack_part_begin(unpack, at);
		}
		if (!unpack_part_end(unpack, at, sample, &from, &part))
			continue;
		parts++;
		assert_int_equal(part.method, PACKED_ZSTD_PART);
		assert_true(packed_sound(&part, sample) && from + part.stored <= packed_size);
		assert_int_equal(unpack_slice(other, &part, sample, packed + from, out, &fault), 0);
		assert_memory_equal(out, plain + at, sample);
	}
	unpack_free(other);
	return parts;
}

static void test_parts(void **state)
{
	const unsigned images = PLAIN / (HEAD + NOISE);
	uint64_t inner;
	images_fill();
	for (int level = 1; level < 8; level += 2) {
		packed_size = 0;
		add(0, PLAIN, level, level & 2, level & 4, WINDOW_LOG);
		/* In noise a part begins in the block before; in heads, a few windows before. */
		assert_in_range(parts_check(9000, HEAD + 5000, &inner), images, images + 1);
		assert_in_range(inner, 0, images * (WINDOW + 1));
		assert_in_range(parts_check(HEAD + NOISE, 0, &inner), images, images + 1);
		assert_in_range(inner, 0, (images + 1) * 6 * WINDOW);
	}
	/* A frame that refers to all of itself: parts begin with it. */
	packed_size = 0;
	add(0, PLAIN, 3, true, false, 0);
	assert_in_range(parts_check(HEAD + NOISE, 0, &inner), images, images + 1);
	/* The second frame has none. */
	packed_size = 0;
	add(0, PLAIN / 2, 3, true, true, WINDOW_LOG);
	add(PLAIN / 2, PLAIN - PLAIN / 2, 3, true, true, WINDOW_LOG);
	assert_in_range(parts_check(HEAD + NOISE, 0, &inner), images / 2, images / 2 + 1);
}

/* An index is not trusted. */
static void test_part_bad(void **state)
{
	struct packed part = {.whole = PLAIN, .method = PACKED_ZSTD_PART};
	packed_size = 0;
	images_fill();
	add(0, PLAIN, 3, false, false, WINDOW_LOG);
	/* The frame's head has no size: 6 bytes. */
	part.window = (WINDOW_LOG - 10) << 3;
	part.stored = (uint32_t)packed_size - 6;
	assert_int_equal(unpack_slice(unpack, &part, PLAIN, packed + 6, out, &fault), 0);
	assert_memory_equal(out, plain, PLAIN);
	part.stored /= 2;
	assert_int_equal(unpack_slice(unpack, &part, PLAIN, packed + 6, out, &fault), -EBADMSG);
	assert_non_null(strstr(fault.text, "in the middle"));
	assert_int_equal(unpack_slice(unpack, &part, PLAIN, packed + 9, out, &fault), -EBADMSG);
	part.window = PACKED_WINDOW_MOST + 1;
	assert_false(packed_sound(&part, PLAIN));
	part.window = PACKED_WINDOW_MOST;
	assert_true(packed_sound(&part, PLAIN));
	/* It would unpack to more than a thousand times its size. */
	part = (struct packed){.stored = 1000,
		.inner = 1024 * 1000 + (16 << 20) - 10,
		.whole = UINT32_MAX,
		.window = part.window};
	for (unsigned i = 0; i < 2; i++) {
		part.method = i ? PACKED_ZSTD_PART : PACKED_ZSTD;
		assert_true(packed_sound(&part, 10));
		assert_false(packed_sound(&part, 11));
	}
	part.inner = 0;
	/* The frame ends before the sample does. */
	part.whole = PLAIN + 1;
	part.stored = (uint32_t)packed_size - 6;
	assert_int_equal(unpack_slice(unpack, &part, PLAIN + 1, packed + 6, out, &fault), -EBADMSG);
	assert_non_null(strstr(fault.text, "but its container says"));
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
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_part_bad),
#endif
		cmocka_unit_test(test_refused),
	};
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}

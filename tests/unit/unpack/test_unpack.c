/* unpack: every method against bytes that are known, in reads of every size, from memory and from a
 * file; then streams that are cut, damaged, too long or too short. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unpack/unpack.h"

#include "base/util.h"
#include "fuzz/random.h"
#include "fuzz/snappy_make.h"
#include "unpack_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

enum { ROOM = 512 << 10, PLAIN = 300 << 10 };

static uint8_t plain[ROOM], packed[ROOM], out[ROOM];
static size_t packed_size;
static struct snappy_made made;
static struct unpack *unpack;
static struct fault fault;

/* Text that compresses, with stretches that do not. */
static void plain_fill(uint64_t seed)
{
	struct random random = {seed};
	for (size_t i = 0; i < sizeof plain; i++) {
		const bool noise = i >> 14 & 1;
		plain[i] = noise || i < 64 ? (uint8_t)random_64(&random)
					   : plain[i - 1 - draw(&random, 40)];
	}
}

/* Appends a deflate stream of plain[from, from + size) with `bits` for its wrapper. */
static void deflate_add(size_t from, size_t size, int bits)
{
	z_stream stream = {0};
	assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
	stream.next_in = plain + from;
	stream.avail_in = (uInt)size;
	stream.next_out = packed + packed_size;
	stream.avail_out = (uInt)(sizeof packed - packed_size);
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	packed_size += stream.total_out;
	(void)deflateEnd(&stream);
}

/* Makes a Snappy block of random elements in `packed` and `plain`. */
static void snappy_random(uint32_t most, uint64_t seed)
{
	struct random random = {seed};
	uint8_t noise[600];
	made.packed_size = made.plain_size = 0;
	while (made.plain_size < most) {
		const uint32_t offsets = (const uint32_t[]){1, 2, 4}[draw(&random, 3)];
		const uint32_t back = UTIL_MIN(made.plain_size, offsets == 1 ? 2047u : 65535u);
		for (size_t i = 0; i < sizeof noise; i++)
			noise[i] = (uint8_t)random_64(&random);
		if (!back || one_in(&random, 4))
			snappy_put_literal(
				&made, noise, 1 + draw(&random, sizeof noise), draw(&random, 5));
		else
			snappy_put_copy(&made, 1 + draw(&random, back),
				offsets == 1 ? 4 + draw(&random, 8) : 1 + draw(&random, 64),
				offsets);
	}
	snappy_put_size(&made, made.plain_size);
	memcpy(plain, made.plain, made.plain_size);
	memcpy(packed, made.packed, made.packed_size);
	packed_size = made.packed_size;
}

static struct packed whole_of(enum packed_method method, size_t whole)
{
	return (struct packed){.method = (uint8_t)method,
		.stored = (uint32_t)packed_size,
		.whole = (uint32_t)whole};
}

/* Reads everything in pieces of `piece` bytes. */
static int read_all(
	enum packed_method method, size_t whole, const struct unpack_source *source, size_t piece)
{
	size_t done = 0, n = 1;
	int rc = unpack_begin(unpack, method, packed_size, whole, source, &fault);
	while (rc == 0 && n && done < sizeof out) {
		rc = unpack_read(
			unpack, out + done, UTIL_MIN(piece, sizeof out - done), &n, &fault);
		done += rc == 0 ? n : 0;
	}
	if (rc == 0)
		assert_int_equal(done, whole);
	return rc;
}

static void check_good(enum packed_method method, size_t whole)
{
	static const size_t pieces[] = {1, 7, 4096, 65536, 100003, ROOM};
	int fd = memfd_create("stored", MFD_CLOEXEC);
	assert_int_equal(pwrite(fd, packed, packed_size, 5), packed_size);
	struct unpack_file file = {fd, 5};
	const struct unpack_source memory = {.memory = packed},
				   from_file = {.read = unpack_file_read, .context = &file};
	for (size_t i = 0; i < UTIL_COUNT(pieces); i++) {
		memset(out, 0xee, sizeof out);
		assert_int_equal(
			read_all(method, whole, i & 1 ? &from_file : &memory, pieces[i]), 0);
		assert_memory_equal(out, plain, whole);
	}
	/* Any slice. */
	struct random random = {whole};
	for (int i = 0; method != PACKED_NONE && i < 20; i++) {
		struct packed slice = whole_of(method, whole);
		slice.inner = draw(&random, (uint32_t)whole);
		uint32_t size = draw(&random, (uint32_t)whole - slice.inner + 1);
		slice.checked = 1;
		slice.crc = (uint32_t)crc32(0, plain + slice.inner, size);
		assert_int_equal(unpack_slice(unpack, &slice, size, packed, out, &fault), 0);
		assert_memory_equal(out, plain + slice.inner, size);
		slice.crc ^= 1;
		if (size) {
			assert_int_equal(
				unpack_slice(unpack, &slice, size, packed, out, &fault), -EBADMSG);
			assert_non_null(strstr(fault.text, "checksum"));
		}
	}
	(void)close(fd);
}

static void expect(enum packed_method method, size_t whole, int result, const char *sentence)
{
	const struct unpack_source source = {.memory = packed};
	fault.text[0] = 0;
	assert_int_equal(read_all(method, whole, &source, 65536), result);
	if (!strstr(fault.text, sentence))
		fail_msg("expected \"%s\" in: %s", sentence, fault.text);
}

/* What becomes of a good stream that is changed; it ends before its checksums. */
static void check_bad(enum packed_method method, size_t whole)
{
	const size_t size = packed_size;
	expect(method, whole - 1, -EBADMSG,
		method == PACKED_SNAPPY ? "unpack to more than the" : "damaged or a bomb");
	expect(method, whole + 1, -EBADMSG,
		method == PACKED_SNAPPY ? "fewer bytes" : "but its container says");
	for (packed_size = 0; packed_size < size; packed_size += 1 + size / 50)
		expect(method, whole, -EBADMSG, "in the middle of the stream");
	packed_size = size;
}

static void setup_deflate(int bits)
{
	plain_fill(7);
	packed_size = 0;
	deflate_add(0, PLAIN, bits);
}

static void test_deflate(void **state)
{
	setup_deflate(-15);
	check_good(PACKED_DEFLATE, PLAIN);
	check_bad(PACKED_DEFLATE, PLAIN);
	packed[0] |= 6; /* a block of the reserved type */
	expect(PACKED_DEFLATE, PLAIN, -EBADMSG, "invalid block type");
}

static void test_gzip_and_zlib(void **state)
{
	setup_deflate(15 + 16);
	check_good(PACKED_GZIP, PLAIN);
	check_bad(PACKED_GZIP, PLAIN);
	packed[packed_size - 6] ^= 1;
	expect(PACKED_GZIP, PLAIN, -EBADMSG, "incorrect data check");
	setup_deflate(15);
	check_good(PACKED_GZIP, PLAIN);
	packed[packed_size - 1] ^= 1;
	expect(PACKED_GZIP, PLAIN, -EBADMSG, "incorrect data check");
	packed_size = 20;
	memset(packed, 'x', packed_size);
	expect(PACKED_GZIP, PLAIN, -EBADMSG, "incorrect header check");
}

static void test_gzip_members(void **state)
{
	plain_fill(8);
	packed_size = 0;
	deflate_add(0, 1000, 15 + 16);
	deflate_add(1000, 0, 15 + 16);
	deflate_add(1000, PLAIN - 1000, 15 + 16);
	check_good(PACKED_GZIP, PLAIN);
	expect(PACKED_GZIP, 1000, -EBADMSG, "damaged or a bomb");
}

static void test_snappy(void **state)
{
	for (uint64_t seed = 0; seed < 8; seed++) {
		snappy_random(seed < 4 ? 3000 : PLAIN, seed);
		check_good(PACKED_SNAPPY, made.plain_size);
		check_bad(PACKED_SNAPPY, made.plain_size);
	}
	/* The block says itself how long it is. */
	const struct unpack_source source = {.memory = packed};
	size_t n;
	assert_int_equal(
		unpack_begin(unpack, PACKED_SNAPPY, packed_size, UNPACK_UNKNOWN, &source, &fault),
		0);
	assert_int_equal(unpack_read(unpack, out, sizeof out, &n, &fault), 0);
	assert_int_equal(n, made.plain_size);
}

static void snappy_raw(const char *bytes, size_t size)
{
	memcpy(packed, bytes, size);
	packed_size = size;
}

static void test_snappy_bad(void **state)
{
	snappy_raw("\x08\x0cgood\x0d\x05", 8); /* 4 literals, a copy of 7 from 5 before */
	expect(PACKED_SNAPPY, 8, -EBADMSG, "before its first byte");
	snappy_raw("\x08\x0cgood\x01\x00", 8); /* from 0 before */
	expect(PACKED_SNAPPY, 8, -EBADMSG, "before its first byte");
	snappy_raw("\x08\x0cgood\x0d\x04", 8); /* 7 bytes where 4 are left */
	expect(PACKED_SNAPPY, 8, -EBADMSG, "more than the 8 bytes");
	snappy_raw("\x04\x0cgoodx", 7);
	expect(PACKED_SNAPPY, 4, -EBADMSG, "more than the 4 bytes");
	snappy_raw("\0\0x", 3);
	expect(PACKED_SNAPPY, 0, -EBADMSG, "more than the 0 bytes");
	snappy_raw("\xff\xff\xff\xff\x7f", 5);
	expect(PACKED_SNAPPY, 4, -EBADMSG, "32 bits");
	snappy_raw("\x80\x80", 2);
	expect(PACKED_SNAPPY, 4, -EBADMSG, "in the middle");
	snappy_raw("\x04\xfc\xff\xff\xff\xffx", 7); /* a literal of 4 GiB */
	expect(PACKED_SNAPPY, 4, -EBADMSG, "more than the 4 bytes");
	/* A copy from more than 64 KiB before. */
	static uint8_t zeros[70000];
	made.packed_size = made.plain_size = 0;
	snappy_put_literal(&made, zeros, sizeof zeros, 0);
	snappy_put_copy(&made, 66000, 10, 4);
	snappy_put_size(&made, made.plain_size);
	memcpy(packed, made.packed, packed_size = made.packed_size);
	expect(PACKED_SNAPPY, made.plain_size, -EBADMSG, "more than 64 KiB back");
}

/* Pieces of 64 KiB whose copies stay within them; `over`: one copy reaches back over the beginning
 * of piece 2. */
static void snappy_pieces(bool over, uint64_t seed)
{
	enum { PIECE = 64 << 10, PIECES = 5 };
	struct random random = {seed};
	made.packed_size = made.plain_size = 0;
	while (made.plain_size < PIECES * PIECE) {
		const uint32_t at = made.plain_size % PIECE, left = PIECE - at;
		if (over && made.plain_size > 2 * PIECE + 500) {
			over = false;
			snappy_put_copy(&made, at + 1, 10, 2);
		} else if (at < 64 || left < 64 || draw(&random, 2)) {
			snappy_put_literal(&made, plain + made.plain_size % 1000,
				1 + draw(&random, UTIL_MIN(left, 9000u)), 0);
		} else {
			snappy_put_copy(&made, 1 + draw(&random, at), 1 + draw(&random, 64), 2);
		}
	}
	snappy_put_size(&made, made.plain_size);
	memcpy(packed, made.packed, packed_size = made.packed_size);
}

/* Walks `packed`, which unpacks to these bytes, as an indexer does. Returns the largest `inner` of
 * samples that begin at `least` or later. */
static uint32_t parts_check(enum packed_method method, const uint8_t *bytes, uint32_t whole,
	uint32_t sample, uint32_t least)
{
	int fd = memfd_create("stored", MFD_CLOEXEC);
	assert_int_equal(pwrite(fd, packed, packed_size, 0), packed_size);
	struct unpack_file file = {fd, 0};
	const struct unpack_source source = {.read = unpack_file_read, .context = &file};
	struct unpack *other = unpack_new();
	uint32_t at = 0, read = 0, largest = 0;
	assert_int_equal(unpack_begin(unpack, method, packed_size, whole, &source, &fault), 0);
	assert_int_equal(unpack_parts(unpack, &fault), 0);
	for (; at < whole; at += sample) {
		const uint32_t size = UTIL_MIN(sample, whole - at);
		const uint32_t ahead = UTIL_MIN(16384u, whole - at);
		uint64_t skipped = 0, from;
		struct packed part;
		for (int i = 0; i < 2; i++) {
			const uint32_t to = at + (i ? size : ahead);
			if (to > read)
				assert_int_equal(
					unpack_skip(unpack, to - read, &skipped, &fault), 0);
			read = UTIL_MAX(read, to);
			if (!i)
				unpack_part_begin(unpack, at);
		}
		assert_true(unpack_part_end(unpack, at, size, &from, &part));
		assert_int_equal(part.method,
			method == PACKED_SNAPPY ? PACKED_SNAPPY_PART : PACKED_DEFLATE_PART);
		assert_true(packed_sound(&part, size) && from + part.stored <= packed_size);
		assert_int_equal(unpack_slice(other, &part, size, packed + from, out, &fault), 0);
		assert_memory_equal(out, bytes + at, size);
		if (at >= least)
			largest = UTIL_MAX(largest, part.inner);
	}
	unpack_free(other);
	(void)close(fd);
	return largest;
}

/* A sample is a part that begins less than 64 KiB before it, or where a copy reaches back, before
 * the place that it reaches. */
static void test_snappy_parts(void **state)
{
	static const uint32_t sizes[] = {100, 5000, 70000, 150000};
	for (uint64_t seed = 0; seed < 4; seed++)
		for (size_t i = 0; i < UTIL_COUNT(sizes); i++) {
			snappy_pieces(false, seed);
			assert_in_range(parts_check(PACKED_SNAPPY, made.plain, made.plain_size,
						sizes[i], 0),
				0, 65535);
			snappy_pieces(true, seed);
			assert_in_range(parts_check(PACKED_SNAPPY, made.plain, made.plain_size,
						sizes[i], 0),
				65536, 2 * 65536);
			assert_in_range(parts_check(PACKED_SNAPPY, made.plain, made.plain_size,
						sizes[i], 3 * 65536),
				0, 65535);
		}
	/* ZIP's members are samples themselves. */
	const struct unpack_source source = {.memory = packed};
	struct packed part;
	uint64_t from, skipped;
	setup_deflate(-15);
	assert_int_equal(
		unpack_begin(unpack, PACKED_DEFLATE, packed_size, PLAIN, &source, &fault), 0);
	unpack_part_begin(unpack, 0);
	assert_int_equal(unpack_skip(unpack, 10, &skipped, &fault), 0);
	assert_false(unpack_part_end(unpack, 0, 10, &from, &part));
}

/* A sample is a part of a gzip stream from a block on that is near it, and that may begin within a
 * byte. */
static void test_gzip_parts(void **state)
{
	static const uint32_t sizes[] = {100, 5000, 70000, 150000};
	for (uint64_t seed = 0; seed < 4; seed++) {
		plain_fill(seed);
		packed_size = 0;
		deflate_add(0, PLAIN, seed & 1 ? 15 : 15 + 16);
		for (size_t i = 0; i < UTIL_COUNT(sizes); i++)
			assert_in_range(
				parts_check(PACKED_GZIP, plain, PLAIN, sizes[i], 0), 0, 250000);
		assert_in_range(parts_check(PACKED_GZIP, plain, PLAIN, 5000, 290000), 1, 200000);
	}
	plain_fill(202);
}

static void test_deflate_part_bad(void **state)
{
	struct packed part = {.whole = 8, .method = PACKED_DEFLATE_PART, .window = 8};
	assert_false(packed_sound(&part, 8));
	part.window = 7;
	assert_true(packed_sound(&part, 8));
	assert_int_equal(unpack_slice(unpack, &part, 8, packed, out, &fault), -EBADMSG);
	assert_non_null(strstr(fault.text, "in the middle"));
	/* A copy that begins before the part. */
	part.window = 0;
	part.stored = 4;
	assert_int_equal(
		unpack_slice(unpack, &part, 8, (const uint8_t *)"\x03\x02\0\0", out, &fault),
		-EBADMSG);
}

/* An index is not trusted: a part of elements that need what is before it, or that end. */
static void test_snappy_part_bad(void **state)
{
	const struct packed part = {.stored = 5, .whole = 8, .method = PACKED_SNAPPY_PART};
	assert_int_equal(
		unpack_slice(unpack, &part, 8, (const uint8_t *)"\x0cgood", out, &fault), -EBADMSG);
	assert_non_null(strstr(fault.text, "in the middle"));
	assert_int_equal(
		unpack_slice(unpack, &part, 8, (const uint8_t *)"\x0d\x05\0\0\0", out, &fault),
		-EBADMSG);
	assert_non_null(strstr(fault.text, "before its first byte"));
	/* The last element may be cut, and others may follow. */
	assert_int_equal(
		unpack_slice(unpack, &part, 8, (const uint8_t *)"\0a\x1d\1x", out, &fault), 0);
	assert_memory_equal(out, "aaaaaaaa", 8);
}

static void test_source_ends(void **state)
{
	setup_deflate(-15);
	int fd = memfd_create("stored", MFD_CLOEXEC);
	assert_int_equal(pwrite(fd, packed, packed_size / 2, 0), packed_size / 2);
	struct unpack_file file = {fd, 0};
	const struct unpack_source source = {.read = unpack_file_read, .context = &file};
	assert_int_equal(read_all(PACKED_DEFLATE, PLAIN, &source, 4096), -ENODATA);
	assert_non_null(strstr(fault.text, "stored bytes"));
	file.fd = -1;
	assert_int_equal(read_all(PACKED_DEFLATE, PLAIN, &source, 4096), -EBADF);
	(void)close(fd);
}

static void test_stops_early(void **state)
{
	/* What follows the wanted bytes may be damaged: nothing reads it. */
	setup_deflate(-15);
	struct packed slice = whole_of(PACKED_DEFLATE, PLAIN);
	slice.inner = 100;
	memset(packed + packed_size / 2, 0xff, packed_size / 2);
	assert_int_equal(unpack_slice(unpack, &slice, 1000, packed, out, &fault), 0);
	assert_memory_equal(out, plain + 100, 1000);
	assert_int_equal(unpack_slice(unpack, &slice, PLAIN - 100, packed, out, &fault), -EBADMSG);
}

static void check_pixels(enum packed_method method, uint8_t channels)
{
	enum { WIDTH = 301, HEIGHT = 201 };
	const size_t each = (size_t)WIDTH * HEIGHT;
	char header[PACKED_HEADER + 1];
	packed_size = each * channels;
	for (size_t i = 0; i < packed_size; i++)
		packed[i] = (uint8_t)(i * 7 + (i >> 8));
	int n = snprintf(
		header, sizeof header, "P%d %5d %5d  255\n", channels == 1 ? 5 : 6, WIDTH, HEIGHT);
	assert_int_equal(n, PACKED_HEADER);
	memcpy(plain, header, PACKED_HEADER);
	for (size_t i = 0; i < packed_size; i++)
		plain[PACKED_HEADER + i] = method == PACKED_PIXELS
						   ? packed[i]
						   : packed[i % channels * each + i / channels];
	const struct packed pixels = {.method = (uint8_t)method,
		.stored = (uint32_t)packed_size,
		.whole = (uint32_t)packed_size + PACKED_HEADER,
		.channels = channels,
		.width = WIDTH,
		.height = HEIGHT};
	assert_true(packed_sound(&pixels, pixels.whole));
	assert_int_equal(unpack_slice(unpack, &pixels, pixels.whole, packed, out, &fault), 0);
	assert_memory_equal(out, plain, pixels.whole);
	const struct unpack_source source = {.memory = packed};
	for (size_t piece = 1; piece < 60000; piece = piece * 3 + 1) {
		size_t done = 0, got = 1;
		memset(out, 0, sizeof out);
		assert_int_equal(
			unpack_begin_sample(unpack, &pixels, pixels.whole, &source, &fault), 0);
		for (; got; done += got)
			assert_int_equal(unpack_read(unpack, out + done,
						 UTIL_MIN(piece, sizeof out - done), &got, &fault),
				0);
		assert_int_equal(done, pixels.whole);
		assert_memory_equal(out, plain, pixels.whole);
	}
}

static void test_pixels(void **state)
{
	check_pixels(PACKED_PIXELS, 3);
	check_pixels(PACKED_PIXELS, 1);
	check_pixels(PACKED_PLANES, 3);
	check_pixels(PACKED_PLANES, 1);
}

static void test_stored(void **state)
{
	plain_fill(9);
	memcpy(packed, plain, packed_size = 70000);
	check_good(PACKED_NONE, 70000);
	const struct packed none = {0};
	assert_int_equal(unpack_slice(unpack, &none, 70000, packed, out, &fault), 0);
	assert_memory_equal(out, plain, 70000);
}

static void test_describe(void **state)
{
	char text[UNPACK_TEXT];
	assert_non_null(strstr(unpack_describe(text), zlibVersion()));
	assert_int_equal(!!strstr(text, "Zstandard"), !unpack_refused(PACKED_ZSTD));
	assert_null(unpack_refused(PACKED_SNAPPY));
	assert_string_equal(unpack_name(PACKED_SNAPPY), "Snappy");
}

static int group_setup(void **state)
{
	unpack = unpack_new();
	return unpack ? 0 : -1;
}

static int group_teardown(void **state)
{
	unpack_free(unpack);
	unpack_free(NULL);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deflate),
		cmocka_unit_test(test_gzip_and_zlib),
		cmocka_unit_test(test_gzip_members),
		cmocka_unit_test(test_snappy),
		cmocka_unit_test(test_snappy_bad),
		cmocka_unit_test(test_snappy_parts),
		cmocka_unit_test(test_snappy_part_bad),
		cmocka_unit_test(test_gzip_parts),
		cmocka_unit_test(test_deflate_part_bad),
		cmocka_unit_test(test_source_ends),
		cmocka_unit_test(test_stops_early),
		cmocka_unit_test(test_pixels),
		cmocka_unit_test(test_stored),
		cmocka_unit_test(test_describe),
	};
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}

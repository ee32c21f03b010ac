/* Inflating against zlib: streams of every level and strategy, cut into pieces of input and of
 * output in every way, with every table of kernels; streams that zlib's encoder does not write; and
 * streams that are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "decode/png/kernels/png_kernels.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { ROOM = 1 << 18, INPUT = 4096, KEPT = 8 };

static uint32_t seed = 1;

static uint32_t random_below(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

struct stream {
	uint8_t bytes[2 * ROOM];
	size_t size, at, piece; /* `piece`: input that one call of `more` appends, at most */
	uint8_t input[KEPT + INPUT + 64];
	struct inflate inflate;
	uint8_t out[ROOM + INFLATE_OVERSHOOT];
};

static void more(void *context, struct inflate *inflate)
{
	struct stream *s = context;
	size_t left = (size_t)(inflate->in_end - inflate->in);
	memmove(s->input, inflate->in - KEPT, KEPT + left);
	while (left < INFLATE_INPUT_LEAST && s->at < s->size) {
		size_t part = s->size - s->at < s->piece ? s->size - s->at : s->piece;
		if (part > INPUT - left)
			part = INPUT - left;
		memcpy(s->input + KEPT + left, s->bytes + s->at, part);
		s->at += part;
		left += part;
	}
	/* What comes after the input must not matter. */
	memset(s->input + KEPT + left, 0xa5, 64);
	inflate->in = s->input + KEPT;
	inflate->in_end = inflate->in + left;
	inflate->in_last = s->at == s->size;
}

/* Inflates by `step` bytes; returns how many there are. The sum is checked at a whole stream's end.
 */
static size_t inflate_all(
	struct stream *s, const struct png_kernels *kernels, size_t step, bool *ret_fine)
{
	struct inflate *inflate = &s->inflate;
	s->at = 0;
	inflate->in = inflate->in_end = s->input + KEPT;
	inflate->in_last = false;
	inflate->more = more;
	inflate->context = s;
	inflate->start = inflate->out = s->out;
	bool fine = inflate_begin(inflate);
	while (fine && inflate->state != INFLATE_ENDED && inflate->out < s->out + ROOM) {
		size_t made = (size_t)(inflate->out - s->out);
		fine = inflate_run(inflate, kernels->coded,
			s->out + (made + step < ROOM ? made + step : ROOM));
	}
	uint32_t sum = 0;
	size_t made = (size_t)(inflate->out - s->out);
	if (fine && inflate->state == INFLATE_ENDED)
		fine = inflate_sum(inflate, &sum) && sum == kernels->adler(1, s->out, made);
	*ret_fine = fine;
	return made;
}

static void each_kernels(struct stream *s, const uint8_t *plain, size_t size)
{
	static const size_t steps[] = {1, 2, 7, 258, 1000, ROOM}, pieces[] = {1, 3, 100, INPUT};
	const struct png_kernels *kernels;
	for (unsigned k = 0; (kernels = png_kernels_at(k)); k++)
		for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
			bool fine;
			s->piece = pieces[random_below(4)];
			assert_int_equal(inflate_all(s, kernels, steps[i], &fine), size);
			assert_true(fine);
			assert_int_equal(s->inflate.state, INFLATE_ENDED);
			assert_memory_equal(s->out, plain, size);
		}
}

/* Bytes of several kinds: noise, a ramp, repeats from near and far, and values of which some are
 * much rarer than others, whose codes are long. */
static void fill(uint8_t *bytes, size_t size, unsigned kind)
{
	for (size_t i = 0; i < size; i++) {
		uint32_t noise = random_below(1 << 20);
		size_t back = 1 + noise % (kind == 3 ? 40000 : 9);
		if (kind == 0)
			bytes[i] = (uint8_t)noise;
		else if (kind == 1)
			bytes[i] = (uint8_t)(i / 5 + noise % 3);
		else if (kind == 4)
			bytes[i] = (uint8_t)(noise ? __builtin_clz(noise) : 40);
		else
			bytes[i] = back <= i && noise % 64 ? bytes[i - back] : (uint8_t)noise;
	}
}

static void deflate_all(
	struct stream *s, const uint8_t *plain, size_t size, int level, int memory, int strategy)
{
	z_stream z = {0};
	assert_int_equal(
		deflateInit2(&z, level, Z_DEFLATED, 9 + (int)random_below(7), memory, strategy),
		Z_OK);
	z.next_in = (z_const Bytef *)(uintptr_t)plain;
	z.next_out = s->bytes;
	z.avail_out = sizeof(s->bytes);
	/* Flushes make empty stored blocks. */
	z.avail_in = (uInt)(size / 3);
	(void)deflate(&z, random_below(2) ? Z_FULL_FLUSH : Z_BLOCK);
	z.avail_in = (uInt)(plain + size - z.next_in);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	s->size = sizeof(s->bytes) - z.avail_out;
	assert_int_equal(deflateEnd(&z), Z_OK);
}

static void test_zlib(void **state)
{
	static uint8_t plain[ROOM];
	struct stream *s = calloc(1, sizeof(*s));
	assert_non_null(s);
	for (unsigned i = 0; i < 150; i++) {
		size_t size = i % 10 ? random_below(3000) : ROOM - random_below(99);
		fill(plain, size, i % 5);
		deflate_all(s, plain, size, (int)(i % 10), 1 + (int)(i % 9),
			(int)random_below(Z_FIXED + 1));
		if (i % 10)
			each_kernels(s, plain, size);
		bool fine;
		s->piece = INPUT;
		assert_int_equal(
			inflate_all(s,
				png_kernels_at(i % 2) ? png_kernels_at(i % 2) : &png_kernels_c,
				65536, &fine),
			size);
		assert_true(fine);
		assert_memory_equal(s->out, plain, size);
	}
	free(s);
}

/* ---- streams by hand ---- */

static void put(struct stream *s, unsigned value, unsigned bits, size_t *at)
{
	for (unsigned i = 0; i < bits; i++, (*at)++)
		s->bytes[*at / 8] |= (uint8_t)((value >> i & 1) << *at % 8);
	s->size = (*at + 7) / 8;
}

/* A block whose codes are: "a" 0, the end 10, a match of 3 bytes 11; the code lengths of these are
 * `litlens`, and `dists` those of distances 1 and 2. */
static size_t block_begin(struct stream *s, const uint8_t litlens[3], const uint8_t dists[2])
{
	/* Lengths 0, 1, 2 and runs of zeros have codes of two bits, first bit highest. */
	static const uint8_t codes[] = {0, 2, 1}, order[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11,
							  4, 12, 3, 13, 2, 14, 1};
	size_t at = 16;
	memset(s->bytes, 0, 256);
	s->bytes[0] = 0x78;
	s->bytes[1] = 0x9c;
	put(s, 1, 1, &at);
	put(s, 2, 2, &at);
	put(s, 258 - 257, 5, &at);
	put(s, 2 - 1, 5, &at);
	put(s, 18 - 4, 4, &at);
	for (size_t i = 0; i < sizeof(order); i++)
		put(s, order[i] <= 2 || order[i] == 18 ? 2 : 0, 3, &at);
	put(s, 3, 2, &at);
	put(s, 97 - 11, 7, &at);
	put(s, codes[litlens[0]], 2, &at);
	put(s, 3, 2, &at);
	put(s, 127, 7, &at);
	put(s, 3, 2, &at);
	put(s, 20 - 11, 7, &at);
	for (int i = 1; i < 3; i++)
		put(s, codes[litlens[i]], 2, &at);
	for (int i = 0; i < 2; i++)
		put(s, codes[dists[i]], 2, &at);
	return at;
}

static void finish(struct stream *s, size_t at, const char *plain)
{
	uint32_t sum = (uint32_t)adler32(1, (const Bytef *)plain, (uInt)strlen(plain));
	at = (at + 7) / 8 * 8;
	for (int shift = 24; shift >= 0; shift -= 8)
		put(s, sum >> shift & 0xff, 8, &at);
}

/* Whether all tables of kernels refuse the stream; or else, whether all make `plain` of it. */
static void want(struct stream *s, const char *plain, bool refused)
{
	const struct png_kernels *kernels;
	for (int padded = 0; padded < 2; padded++)
		for (unsigned k = 0; (kernels = png_kernels_at(k)); k++) {
			bool fine;
			/* With more input after it the fast loop runs. */
			size_t size = s->size;
			if (padded) {
				memset(s->bytes + size, 0, 200);
				s->size += 200;
			}
			s->piece = INPUT;
			size_t made = inflate_all(s, kernels, ROOM, &fine);
			s->size = size;
			assert_int_equal(fine, !refused);
			if (!refused)
				assert_int_equal(made, strlen(plain));
			assert_memory_equal(
				s->out, plain, made < strlen(plain) ? made : strlen(plain));
		}
}

static void test_codes(void **state)
{
	static const struct {
		uint8_t litlens[3], dists[2];
		const char *bits; /* as they come */
		bool refused;
		const char *plain;
	} cases[] = {
		{{1, 2, 2}, {1, 1}, "00011010", false, "aaaaaa"},
		/* One code of one bit, and none. */
		{{1, 2, 2}, {1, 0}, "00011010", false, "aaaaaa"},
		{{1, 2, 2}, {0, 0}, "00010", false, "aaa"},
		{{1, 2, 2}, {1, 0}, "00011110", true, "aaa"},
		{{1, 2, 2}, {0, 0}, "00011010", true, "aaa"},
		/* A distance to before the beginning. */
		{{1, 2, 2}, {1, 1}, "011110", true, "a"},
		/* An incomplete code; too many codes; no end. */
		{{1, 2, 0}, {1, 1}, "00010", true, ""},
		{{1, 1, 2}, {1, 1}, "00010", true, ""},
		{{1, 0, 1}, {1, 1}, "00010", true, ""},
		{{1, 2, 2}, {2, 2}, "00010", true, ""},
	};
	struct stream *s = calloc(1, sizeof(*s));
	assert_non_null(s);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		size_t at = block_begin(s, cases[i].litlens, cases[i].dists);
		for (const char *bit = cases[i].bits; *bit; bit++)
			put(s, *bit == '1', 1, &at);
		finish(s, at, cases[i].plain);
		want(s, cases[i].plain, cases[i].refused);
	}
	free(s);
}

static void test_refused(void **state)
{
	static const struct {
		const char *bytes;
		size_t size;
	} cases[] = {
		{"", 0}, {"\x78", 1}, {"\x79\x9c\3\0\0\0\0\1", 8}, /* another method */
		{"\x88\x1c\3\0\0\0\0\1", 8}, /* a window of 64 KiB */
		{"\x78\x9d\3\0\0\0\0\1", 8}, /* a wrong check */
		{"\x78\xbb\3\0\0\0\0\1", 8}, /* a dictionary */
		{"\x78\x9c\7\0\0\0\0\1", 8}, /* a reserved kind of block */
		{"\x78\x9c\1\1\0\xff\xff\0\0\0\0\0", 12}, /* a stored block's lengths differ */
		{"\x78\x9c\1\1\0\xfe\xff", 7}, /* its bytes are missing */
		{"\x78\x9c\3\0\0\0\0\2", 8}, /* a wrong sum */
		{"\x78\x9c\3\0\0\0\0", 7}, /* a sum that is not complete */
		{"\x78\x9c\4", 3}, /* a header that is not complete */
		{"\x78\x9c\xfd\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
			14}, /* too many codes */
		{"\x78\x9c\x1b\3\0", 5}, /* fixed codes: no such length (286) */
	};
	struct stream *s = calloc(1, sizeof(*s));
	assert_non_null(s);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		for (unsigned k = 0; png_kernels_at(k); k++) {
			bool fine;
			memcpy(s->bytes, cases[i].bytes, cases[i].size);
			s->size = cases[i].size;
			s->piece = INPUT;
			(void)inflate_all(s, png_kernels_at(k), ROOM, &fine);
			assert_false(fine);
		}
	free(s);
}

/* A stream that ends too early is refused at every byte, and the bytes before are right. */
static void test_cut(void **state)
{
	static uint8_t plain[3000];
	struct stream *s = calloc(1, sizeof(*s));
	assert_non_null(s);
	for (unsigned kind = 0; kind < 5; kind++) {
		fill(plain, sizeof(plain), kind);
		deflate_all(s, plain, sizeof(plain), 6, 8, Z_DEFAULT_STRATEGY);
		size_t whole = s->size;
		s->piece = INPUT;
		for (s->size = 0; s->size < whole; s->size++) {
			bool fine;
			const struct png_kernels *kernels = png_kernels_at(s->size % 2);
			size_t made =
				inflate_all(s, kernels ? kernels : &png_kernels_c, ROOM, &fine);
			assert_false(fine);
			assert_in_range(made, 0, sizeof(plain));
			assert_memory_equal(s->out, plain, made);
		}
	}
	free(s);
}

/* Four blocks in 47 bytes that have tables of their own and make nothing: each two codes, a literal
 * that is never sent and the end. */
struct empty {
	uint8_t bytes[47];
	unsigned bit;
	uint8_t input[KEPT + INPUT + 64];
	unsigned rounds; /* of the bytes that `more` appends yet */
};

static void empty_put(struct empty *empty, unsigned value, unsigned bits)
{
	for (unsigned i = 0; i < bits; i++, empty->bit++)
		empty->bytes[empty->bit / 8] |= (uint8_t)((value >> i & 1) << empty->bit % 8);
}

static void empty_fill(struct empty *empty)
{
	for (unsigned block = 0; block < 4; block++) {
		empty_put(empty, 2 << 1, 3); /* dynamic, and not the last one */
		empty_put(empty, 0 | 0 << 5 | 14 << 10, 14);
		/* Lengths of the codes' code: 18 has 1 bit, 0 and 1 have 2. */
		for (unsigned i = 0; i < 18; i++)
			empty_put(empty, i == 2 ? 1 : i == 3 || i == 17 ? 2 : 0, 3);
		empty_put(empty, 3, 2); /* a literal of 1 bit */
		empty_put(empty, 127 << 1, 8); /* 138 codes that are not used */
		empty_put(empty, 106 << 1, 8); /* 117 more */
		empty_put(empty, 3, 2); /* the end, of 1 bit */
		empty_put(empty, 1, 2); /* no distances */
		empty_put(empty, 1, 1); /* the end */
	}
	assert_int_equal(empty->bit, 8 * sizeof empty->bytes);
}

static void more_empty(void *context, struct inflate *inflate)
{
	struct empty *empty = context;
	size_t left = (size_t)(inflate->in_end - inflate->in);
	memmove(empty->input, inflate->in - KEPT, KEPT + left);
	for (; left + sizeof empty->bytes <= INPUT && empty->rounds; empty->rounds--) {
		memcpy(empty->input + KEPT + left, empty->bytes, sizeof empty->bytes);
		left += sizeof empty->bytes;
	}
	inflate->in = empty->input + KEPT;
	inflate->in_end = inflate->in + left;
	inflate->in_last = !empty->rounds;
}

/* Tables cost more than the bytes that describe them: a stream of nothing else ends. */
static void test_tables(void **state)
{
	static struct empty empty;
	static struct inflate inflate;
	static uint8_t out[1 + INFLATE_OVERSHOOT];
	const uint8_t head[2] = {0x78, 0x01};
	(void)state;
	empty_fill(&empty);
	memcpy(empty.input + KEPT, head, sizeof head);
	empty.rounds = INFLATE_TABLES_MOST;
	inflate = (struct inflate){.in = empty.input + KEPT,
		.in_end = empty.input + KEPT + sizeof head,
		.more = more_empty,
		.context = &empty,
		.start = out,
		.out = out};
	assert_true(inflate_begin(&inflate));
	assert_false(inflate_run(&inflate, png_kernels_at(0)->coded, out + 1));
	assert_int_equal(inflate.tables, INFLATE_TABLES_MOST + 1);
	assert_true(empty.rounds > INFLATE_TABLES_MOST / 2);
	assert_ptr_equal(inflate.out, out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_zlib),
		cmocka_unit_test(test_codes),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_cut),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

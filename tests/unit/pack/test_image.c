/* One image in, one out: the same pixels, never larger by its last choice, its own bytes where
 * anything is odd, and nothing but a clean refusal for what is broken. */
#include "unit/decode/images.h"

#include "client/cli/pack/image.h"

#include <errno.h>

enum { POOL = 64 << 20 };

static struct permit work, decoders;

static int make_pools(void **state)
{
	(void)state;
	permit_init(&work, POOL);
	permit_init(&decoders, POOL);
	return 0;
}

static int drop_pools(void **state)
{
	(void)state;
	permit_deinit(&work); /* asserts that all was given back */
	permit_deinit(&decoders);
	return 0;
}

static const struct image_options usual = {.interval = {.mcus = 12}, .verify = true};

static struct image_maker *make_maker(const struct image_options *options)
{
	struct image_maker *maker = NULL;
	struct image_memory memory = {&work, &decoders};
	assert_int_equal(image_maker_new(options, memory, &maker, NULL), 0);
	return maker;
}

static int make_image(struct image_maker *maker, struct bytes bytes, struct image *ret)
{
	return image_make(maker, bytes_copy(bytes.data, bytes.size).data, bytes.size, ret);
}

static void assert_pixels(struct bytes source, const struct image_choice *choice)
{
	struct decoder *decoder = make_decoder(NULL);
	struct bytes copy = bytes_copy(choice->bytes, choice->size);
	struct result a = decode_bytes(decoder, source, NULL, true);
	struct result b = decode_bytes(decoder, copy, NULL, true);
	assert_int_equal(a.outcome, DECODE_OK);
	assert_same(&a, &b);
	result_free(&a);
	result_free(&b);
	free(copy.data);
	decoder_free(decoder);
}

static void assert_lossless(struct bytes source, const struct image *image)
{
	assert_true(image->choices >= 1 && image->choices <= IMAGE_CHOICES);
	assert_true(image->choice[image->choices - 1].size <= source.size);
	for (unsigned i = 0; i < image->choices; i++)
		assert_pixels(source, &image->choice[i]);
}

/* Geometry, samplings, codings: a step in each of them. */
static void test_kinds(void **state)
{
	(void)state;
	struct image_maker *maker = make_maker(&usual);
	static const uint32_t sides[] = {1, 7, 8, 9, 16, 17, 33, 100, 257};
	for (unsigned n = 0; n < 9 * 48; n++) {
		struct jpeg_kind kind = {
			.width = sides[n % 9],
			.height = sides[(n * 5 + n / 9) % 9],
			.components = n % 7 == 0 ? 1 : 3,
			.h = 1 + (int)(n / 2 % 2),
			.v = 1 + (int)(n / 4 % 2),
			.progressive = n % 3 == 0,
			.arithmetic = n % 5 == 0,
			.optimized = n % 2 == 0 && n % 5 != 0,
			.restart_rows = n % 11 == 0,
			.quality = 30 + (int)(n * 13 % 70),
		};
		struct bytes source = make_jpeg(&kind);
		struct image image;
		assert_int_equal(make_image(maker, source, &image), 0);
		assert_lossless(source, &image);
		assert_true(image.choice[0].how <= IMAGE_TRANSCODED_PLAIN ||
			    image.choice[0].how == IMAGE_KEPT_SMALLER);
		image_deinit(&image);
		free(source.data);
	}
	image_maker_free(maker);
}

static enum image_how only_how(const struct image_options *options, struct bytes source)
{
	struct image_maker *maker = make_maker(options);
	struct image image;
	assert_int_equal(make_image(maker, source, &image), 0);
	assert_int_equal(image.choices, 1);
	enum image_how how = image.choice[0].how;
	if (how >= IMAGE_KEPT_PNG) {
		assert_int_equal(image.choice[0].size, source.size);
		assert_memory_equal(image.choice[0].bytes, source.data, source.size);
	}
	image_deinit(&image);
	image_maker_free(maker);
	return how;
}

static void test_kept(void **state)
{
	(void)state;
	struct jpeg_kind cmyk = {.width = 60, .height = 40, .components = 4};
	struct jpeg_kind plain = {.width = 600, .height = 400, .components = 3, .h = 2, .v = 2};
	struct bytes png = make_png(60, 40, PNG_COLOR_TYPE_RGB, 8, true), four = make_jpeg(&cmyk),
		     odd = make_jpeg(&plain), large = make_jpeg(&plain);
	assert_int_equal(only_how(&usual, png), IMAGE_KEPT_PNG);
	assert_int_equal(only_how(&usual, four), IMAGE_KEPT_COLOURS);
	/* A code near the end is spoilt: libjpeg warns and goes on, Pillow too. */
	odd.data[odd.size - 300] ^= 0x55;
	odd.data[odd.size - 299] ^= 0x2a;
	assert_int_equal(only_how(&usual, odd), IMAGE_KEPT_IRREGULAR);
	/* Neither coefficients nor pixels to compare fit. */
	permit_deinit(&work);
	permit_init(&work, 100000);
	assert_int_equal(only_how(&usual, large), IMAGE_KEPT_MEMORY);
	permit_deinit(&work);
	permit_init(&work, POOL);
	free(png.data);
	free(four.data);
	free(odd.data);
	free(large.data);
}

/* Tables that are made for an image already cannot pay for markers: all three ways are offered. */
static void test_choices(void **state)
{
	(void)state;
	struct jpeg_kind tight = {.width = 400, .height = 300, .components = 3, .optimized = true};
	struct bytes source = make_jpeg(&tight);
	struct image_maker *maker = make_maker(&usual);
	struct image image;
	assert_int_equal(make_image(maker, source, &image), 0);
	assert_int_equal(image.choices, 3);
	assert_int_equal(image.choice[0].how, IMAGE_TRANSCODED);
	assert_int_equal(image.choice[1].how, IMAGE_TRANSCODED_WIDER);
	assert_int_equal(image.choice[2].how, IMAGE_TRANSCODED_PLAIN);
	assert_true(image.choice[0].size > image.choice[1].size);
	assert_true(image.choice[1].size > image.choice[2].size);
	assert_int_equal(image_bytes(&image),
		image.choice[0].size + image.choice[1].size + image.choice[2].size);
	assert_lossless(source, &image);
	image_deinit(&image);
	image_maker_free(maker);
	/* Tables from a book do pay. */
	tight.optimized = false;
	free(source.data);
	source = make_jpeg(&tight);
	assert_int_equal(only_how(&usual, source), IMAGE_TRANSCODED);
	free(source.data);
}

/* A file cut anywhere, and with bytes spoilt anywhere: either broken, or one with the same pixels.
 */
static void test_hostile(void **state)
{
	(void)state;
	struct image_maker *maker = make_maker(&usual);
	struct jpeg_kind kinds[] = {
		{.width = 50, .height = 40, .components = 3, .h = 2, .v = 2},
		{.width = 50, .height = 40, .components = 3, .progressive = true},
		{.width = 50, .height = 40, .components = 1, .arithmetic = true},
	};
	unsigned broken = 0, made = 0, seed = 1;
	for (size_t k = 0; k < UTIL_COUNT(kinds); k++) {
		struct bytes source = make_jpeg(&kinds[k]);
		for (unsigned n = 0; n < 800; n++) {
			struct bytes bad = bytes_copy(source.data, source.size);
			if (n < 200)
				bad.size = source.size * n / 200;
			for (unsigned i = 0; n >= 200 && i < 1 + n % 3; i++) {
				seed = seed * 1664525 + 1013904223;
				bad.data[(seed >> 8) % bad.size] = (uint8_t)(seed >> 3);
			}
			struct image image;
			int r = make_image(maker, bad, &image);
			assert_true(r >= 0 && r < DECODE_OUTCOMES);
			if (r == 0)
				assert_lossless(bad, &image);
			else
				assert_true(image_maker_message(maker)[0]);
			broken += r > 0;
			made += r == 0;
			image_deinit(&image);
			free(bad.data);
		}
		free(source.data);
	}
	assert_true(broken > 200 && made > 100);
	image_maker_free(maker);
}

static struct decode_info packed_info(const struct image_choice *choice)
{
	struct decoder *decoder = make_decoder(NULL);
	struct bytes copy = bytes_copy(choice->bytes, choice->size);
	struct result result = decode_bytes(decoder, copy, NULL, true);
	struct decode_info info = result.info;
	assert_int_equal(result.outcome, DECODE_OK);
	result_free(&result);
	free(copy.data);
	decoder_free(decoder);
	return info;
}

static void test_lossy(void **state)
{
	(void)state;
	struct image_options small = usual, coarse = usual;
	small.max_side = 64;
	coarse.quality = 40;
	struct jpeg_kind kind = {.width = 300, .height = 200, .components = 3, .h = 2, .v = 2};
	struct bytes source = make_jpeg(&kind);
	struct image_maker *maker = make_maker(&small);
	struct image image;
	assert_int_equal(make_image(maker, source, &image), 0);
	assert_int_equal(image.choice[0].how, IMAGE_REENCODED);
	struct decode_info info = packed_info(&image.choice[0]);
	assert_int_equal(info.width, 64);
	assert_int_equal(info.height, 43);
	image_deinit(&image);
	image_maker_free(maker);
	assert_int_equal(only_how(&coarse, source), IMAGE_REENCODED);
	free(source.data);
	/* What would become larger is packed without loss. */
	coarse.quality = 100;
	kind.quality = 20;
	kind.optimized = false;
	source = make_jpeg(&kind);
	assert_int_equal(only_how(&coarse, source), IMAGE_TRANSCODED);
	free(source.data);
	/* A strip: the shorter side does not vanish. */
	struct bytes strip = make_png(900, 1, PNG_COLOR_TYPE_GRAY, 8, false);
	maker = make_maker(&small);
	assert_int_equal(make_image(maker, strip, &image), 0);
	info = packed_info(&image.choice[0]);
	assert_int_equal(info.width, 64);
	assert_int_equal(info.height, 1);
	assert_string_equal(image.extension, "jpg");
	image_deinit(&image);
	image_maker_free(maker);
	free(strip.data);
}

static void test_fit(void **state)
{
	(void)state;
	static const uint32_t cases[][5] = {{1000, 500, 400, 400, 200}, {500, 1000, 400, 200, 400},
		{401, 400, 400, 400, 399}, {65535, 1, 16384, 16384, 1}, {3, 2, 2, 2, 1},
		{500, 500, 499, 499, 499}};
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		uint32_t w, h;
		image_fit(cases[i][0], cases[i][1], cases[i][2], &w, &h);
		assert_int_equal(w, cases[i][3]);
		assert_int_equal(h, cases[i][4]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_kinds, make_pools, drop_pools),
		cmocka_unit_test_setup_teardown(test_kept, make_pools, drop_pools),
		cmocka_unit_test_setup_teardown(test_choices, make_pools, drop_pools),
		cmocka_unit_test_setup_teardown(test_hostile, make_pools, drop_pools),
		cmocka_unit_test_setup_teardown(test_lossy, make_pools, drop_pools),
		cmocka_unit_test(test_fit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

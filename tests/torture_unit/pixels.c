/* Scenarios of decoders and augmenters: what they allocate, and what libjpeg-turbo and libpng do.
 */
#include "torture_unit/data.h"
#include "torture_unit/torture.h"

#include "augment/augment.h"
#include "base/hash.h"
#include "decode/decode.h"

#include <errno.h>

struct sink {
	uint64_t hash, rows;
	size_t width;
};

static void sink_row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct sink *sink = context;
	for (int c = 0; c < DECODE_PLANES; c++)
		for (size_t x = 0; x < sink->width; x++)
			sink->hash = hash_mix(sink->hash ^ rgb[c][x]);
	sink->rows++;
}

/* Decodes the images [from, to) of `images`; 0, an outcome, or -ENOMEM. */
static int decode(struct decoder *decoder, const struct bytes *image, struct sink *ret)
{
	struct decode_info info;
	int code = decoder_begin(decoder, image->data, image->size, &info);
	if (code != DECODE_OK)
		return code;
	*ret = (struct sink){.width = info.width};
	struct decode_region all = {0, 0, info.width, info.height};
	code = decoder_rows(decoder, all, true, sink_row, ret);
	if (code == DECODE_OK)
		TORTURE_WANT(ret->rows == info.height);
	return code;
}

static void decode_kind(const struct bytes *image, bool whole)
{
	struct permit large;
	struct decode_limits limits = decode_limits_default();
	struct decoder *decoder = NULL;
	struct fault fault = {""};
	struct sink right = {0}, sink = {0};
	permit_init(&large, 64 << 20);
	limits.large = &large;
	limits.whole = whole;
	TORTURE_WANT(decoder_new(&limits, &decoder, &fault) == 0);
	TORTURE_WANT(decode(decoder, image, &right) == DECODE_OK);
	decoder_free(decoder);
	decoder = NULL;
	torture_on();
	int code = decoder_new(&limits, &decoder, &fault);
	if (code < 0) {
		torture_refused(code, fault.text);
		permit_deinit(&large);
		return;
	}
	for (int i = 0; i < 2; i++) {
		code = decode(decoder, image, &sink);
		if (code > 0)
			torture_wrong("blames the image: %s: %s",
				decode_outcome_name((enum decode_outcome)code),
				decoder_message(decoder));
		else if (code < 0)
			torture_mute(code);
		else
			TORTURE_WANT(sink.hash == right.hash);
	}
	/* And it goes on. */
	torture_off();
	TORTURE_WANT(decode(decoder, image, &sink) == DECODE_OK && sink.hash == right.hash);
	TORTURE_WANT(large.used == 0);
	decoder_free(decoder);
	permit_deinit(&large);
}

static void decode_jpeg(struct jpeg_kind kind, bool whole)
{
	struct bytes image = make_jpeg(&kind);
	decode_kind(&image, whole);
	free(image.data);
}

static void run_own(void)
{
	decode_jpeg(
		(struct jpeg_kind){.width = 301, .height = 203, .components = 3, .h = 2, .v = 2},
		false);
}

static void run_library(void)
{
	decode_jpeg(
		(struct jpeg_kind){.width = 301, .height = 203, .components = 3, .h = 2, .v = 2},
		true);
}

static void run_progressive(void)
{
	decode_jpeg(
		(struct jpeg_kind){
			.width = 301, .height = 203, .components = 3, .progressive = true},
		false);
}

static void run_arithmetic(void)
{
	decode_jpeg(
		(struct jpeg_kind){.width = 99, .height = 77, .components = 3, .arithmetic = true},
		false);
}

static void run_cmyk(void)
{
	decode_jpeg((struct jpeg_kind){.width = 99, .height = 77, .components = 4}, false);
}

static void run_large(void)
{
	decode_jpeg(
		(struct jpeg_kind){
			.width = 1101, .height = 901, .components = 3, .progressive = true},
		false);
}

static void run_png(void)
{
	struct bytes image = make_png(120, 90, PNG_COLOR_TYPE_RGB_ALPHA, 16, false);
	decode_kind(&image, false);
	free(image.data);
}

static void run_interlaced(void)
{
	struct bytes image = make_png(300, 200, PNG_COLOR_TYPE_RGB, 8, true);
	decode_kind(&image, false);
	free(image.data);
}

/* ---- augment ---- */

static void run_augment(void)
{
	static struct step_recipe recipe = {.count = 2,
		.step = {{.kind = STEP_GAUSSIAN_BLUR,
				 .p = 1,
				 .kernel_size = {5, 5},
				 .sigma = {0.5, 2}},
			{.kind = STEP_RANDOM_ROTATION,
				.p = 1,
				.degrees = {-20, 20},
				.interpolation = WEIGHTS_BILINEAR}}};
	struct augmenter *augmenter = NULL;
	struct fault fault = {""};
	static struct step_plan plan;
	static uint8_t out[64 * 64 * 3];
	struct pixel_key key = {.seed = 1, .position = 2};
	torture_on();
	int code = augmenter_new(&recipe, 64, &augmenter, &fault);
	if (code < 0) {
		torture_refused(code, fault.text);
		return;
	}
	memset(augmenter_image(augmenter), 77, sizeof out);
	step_plan(&recipe, &key, 64, 64, &plan);
	augmenter_run(augmenter, &plan, 64, 64, out);
	augmenter_free(augmenter);
	torture_off();
	TORTURE_WANT(out[32 * 64 * 3 + 96] == 77);
}

const struct torture_scenario torture_pixels[] = {
	{"decode.own", NULL, run_own},
	{"decode.library", NULL, run_library},
	{"decode.progressive", NULL, run_progressive},
	{"decode.arithmetic", NULL, run_arithmetic},
	{"decode.cmyk", NULL, run_cmyk},
	{"decode.large", NULL, run_large},
	{"decode.png", NULL, run_png},
	{"decode.interlaced", NULL, run_interlaced},
	{"augment", NULL, run_augment},
	{0},
};

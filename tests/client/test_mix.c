/* mix: images mixed in place against the definition, applied to a copy; labels against sums in
 * double; plans of several views; every kernel of this processor against C; refusals.
 * tests/cuda/torchvision_mix.py compares plans with torchvision itself, tests/python/torch_mix.py
 * images and labels. */
#include "client/lib/map.h"
#include "client/lib/mix/mix.h"
#include "client/random.h"
#include "proto/half.h"
#include "proto/philox.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROWS = 24, GUARD = 32, GUARD_BYTE = 0xa5, CLASSES = 7 };

static const uint32_t dtypes[] = {PENSTOCK_FLOAT32, PENSTOCK_FLOAT16, PENSTOCK_BFLOAT16};

static struct penstock_mix_options defaults(void)
{
	struct penstock_mix_options options;
	penstock_mix_options_init(&options);
	return options;
}

static struct penstock_mix *mixer(const struct penstock_mix_options *options)
{
	struct penstock_mix *mix = NULL;
	if (penstock_mix_new(options, &mix) < 0)
		fail_msg("%s", penstock_error());
	return mix;
}

/* A batch of `count` samples of `views` rows each, from position `first` on. */
struct planned {
	struct penstock_stream_info info;
	struct penstock_batch batch;
	struct penstock_sample samples[ROWS];
	struct penstock_mix_row rows[ROWS];
	uint32_t count; /* of rows */
};

static void plan(struct planned *p, const struct penstock_mix *mix, uint64_t seed, uint64_t first,
	uint32_t samples, uint32_t views, uint32_t height, uint32_t width)
{
	memset(p, 0, sizeof *p);
	p->info.seed = seed;
	p->info.views = views;
	p->batch.epoch = 3;
	p->batch.count = samples;
	p->batch.height = height;
	p->batch.width = width;
	p->batch.samples = p->samples;
	p->count = samples * views;
	assert_true(p->count <= ROWS);
	for (uint32_t i = 0; i < p->count; i++)
		p->samples[i].position = first + i / views;
	penstock_mix_plan(mix, &p->info, &p->batch, p->rows);
}

/* ---- images ---- */

static size_t value_bytes(uint32_t dtype)
{
	return dtype == PENSTOCK_FLOAT32 ? 4 : 2;
}

static float read_value(const void *memory, uint32_t dtype, size_t i)
{
	float value;
	uint16_t half;
	if (dtype == PENSTOCK_FLOAT32) {
		memcpy(&value, (const char *)memory + i * 4, 4);
		return value;
	}
	memcpy(&half, (const char *)memory + i * 2, 2);
	return dtype == PENSTOCK_FLOAT16 ? half_from_float16(half) : half_from_bfloat16(half);
}

static void write_value(void *memory, uint32_t dtype, size_t i, float value)
{
	uint16_t half =
		dtype == PENSTOCK_FLOAT16 ? half_to_float16(value) : half_to_bfloat16(value);
	if (dtype == PENSTOCK_FLOAT32)
		memcpy((char *)memory + i * 4, &value, 4);
	else
		memcpy((char *)memory + i * 2, &half, 2);
}

static bool is_erased(const struct penstock_mix_row *row, uint32_t x, uint32_t y)
{
	return row->flags & PENSTOCK_ROW_ERASED && x - row->erase_x < row->erase_w &&
	       y - row->erase_y < row->erase_h;
}

static bool is_cut(const struct penstock_mix_row *row, uint32_t x, uint32_t y)
{
	return x - row->cut_x < row->cut_w && y - row->cut_y < row->cut_h;
}

/* The noise of a pixel, of libm. */
static float noise_of(const struct penstock_mix_row *row, uint32_t pixel, uint32_t channel)
{
	static const double pi = 3.14159265358979323846;
	const uint32_t counter[4] = {(uint32_t)row->position,
		(uint32_t)(row->position >> 32) | (pixel & 0xffff) << 16, row->epoch,
		(uint32_t)PHILOX_BATCH_NOISE | pixel >> 16 << 8 | row->view << 24};
	struct philox p = philox_4x32(counter, row->seed);
	uint32_t word = p.word[channel == 2 ? 2 : 0], turn = p.word[channel == 2 ? 3 : 1];
	float u = fmaf((float)word, 0x1p-32f, 0x1p-33f);
	double radius = sqrt(-2 * log((double)u)), angle = (double)(float)turn * 0x1p-31 * pi;
	return (float)(radius * (channel == 1 ? sin(angle) : cos(angle)));
}

/* A row's own value: its pixel, or the value that erased it. */
static float source_of(const struct planned *p, const struct penstock_mix_options *options,
	const struct penstock_mix_images *images, const void *before, uint32_t row, uint32_t x,
	uint32_t y, uint32_t c, bool *noisy)
{
	const struct penstock_mix_row *r = &p->rows[row];
	size_t plane = (size_t)images->height * images->width,
	       pixel = (size_t)y * images->width + x;
	size_t at = row * plane * 3 +
		    (images->layout == PENSTOCK_NCHW ? c * plane + pixel : pixel * 3 + c);
	char short_value[4];
	if (!is_erased(r, x, y))
		return read_value(before, images->dtype, at);
	*noisy |= options->erase_random;
	write_value(short_value, images->dtype, 0,
		options->erase_random ? noise_of(r, (uint32_t)pixel, c) : options->erase_value[c]);
	return read_value(short_value, images->dtype, 0);
}

static void check_value(uint32_t dtype, float got, float want, bool noisy)
{
	float rounded;
	char memory[4];
	write_value(memory, dtype, 0, want);
	rounded = read_value(memory, dtype, 0);
	if (noisy) /* libm's last bits, and a step of the dtype where that is between two */
		assert_true(fabsf(got - rounded) <= (dtype == PENSTOCK_FLOAT32          ? 2e-6f
							    : dtype == PENSTOCK_FLOAT16 ? 4e-3f
											: 4e-2f));
	else
		assert_memory_equal(&got, &rounded, sizeof got);
}

static void check_images(const struct planned *p, const struct penstock_mix_options *options,
	const struct penstock_mix_images *images, const void *before)
{
	size_t plane = (size_t)images->height * images->width;
	for (size_t i = 0; i < p->count * plane * 3; i++) {
		uint32_t row = (uint32_t)(i / (plane * 3));
		size_t in = i % (plane * 3);
		uint32_t c = (uint32_t)(images->layout == PENSTOCK_NCHW ? in / plane : in % 3);
		uint32_t pixel = (uint32_t)(images->layout == PENSTOCK_NCHW ? in % plane : in / 3);
		uint32_t x = pixel % images->width, y = pixel / images->width;
		const struct penstock_mix_row *r = &p->rows[row];
		bool noisy = false, mixed = r->flags & PENSTOCK_ROW_MIXED;
		float own = source_of(p, options, images, before, row, x, y, c, &noisy);
		if (mixed && (r->partner_blend != 0 || is_cut(r, x, y))) {
			float other =
				source_of(p, options, images, before, r->partner, x, y, c, &noisy);
			float mine = r->blend * own, its = r->partner_blend * other;
			own = is_cut(r, x, y) ? other : mine + its;
		}
		check_value(
			images->dtype, read_value(images->memory, images->dtype, i), own, noisy);
	}
}

/* Fills, applies and checks, with guards around. */
static void apply_and_check(const struct planned *p, const struct penstock_mix *mix,
	const struct penstock_mix_options *options, uint32_t dtype, uint32_t layout)
{
	size_t bytes = (size_t)p->count * p->batch.height * p->batch.width * 3 * value_bytes(dtype);
	char *memory = malloc(bytes + 2 * GUARD), *before = malloc(bytes);
	assert_true(memory && before);
	memset(memory, GUARD_BYTE, bytes + 2 * GUARD);
	struct penstock_mix_images images = {
		memory + GUARD, dtype, layout, p->batch.height, p->batch.width};
	for (size_t i = 0; i < bytes / value_bytes(dtype); i++)
		write_value(images.memory, dtype, i,
			((float)random_below(1 << 24) - (1 << 23)) * 0x1p-22f);
	memcpy(before, images.memory, bytes);
	assert_int_equal(penstock_mix_apply(mix, p->rows, p->count, &images), 0);
	check_images(p, options, &images, before);
	for (size_t i = 0; i < GUARD; i++) {
		assert_int_equal((unsigned char)memory[i], GUARD_BYTE);
		assert_int_equal((unsigned char)memory[GUARD + bytes + i], GUARD_BYTE);
	}
	free(memory);
	free(before);
}

static void apply_everywhere(const struct penstock_mix_options *options)
{
	static const uint32_t shapes[][4] = {/* samples, views, height, width */
		{1, 1, 5, 4}, {2, 1, 1, 1}, {5, 1, 7, 9}, {3, 2, 8, 6}, {1, 3, 9, 9}, {6, 4, 3, 5},
		{3, 1, 61, 47}, {2, 2, 40, 40}};
	struct penstock_mix *mix = mixer(options);
	struct planned p;
	for (uint64_t seed = 0; seed < 6; seed++) {
		for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
			plan(&p, mix, seed << 33 | seed, 100 * seed, shapes[i][0], shapes[i][1],
				shapes[i][2], shapes[i][3]);
			for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
				apply_and_check(&p, mix, options, dtypes[d], PENSTOCK_NHWC);
				apply_and_check(&p, mix, options, dtypes[d], PENSTOCK_NCHW);
			}
		}
	}
	penstock_mix_free(mix);
}

static void mixes_as_defined(void **state)
{
	(void)state;
	struct penstock_mix_options options = defaults();
	apply_everywhere(&options);
	options.mixup = 1;
	apply_everywhere(&options);
	options.mixup = 0;
	options.cutmix = 1;
	apply_everywhere(&options);
	options.mixup = 0.3;
	options.erase = 0.7;
	options.erase_value[0] = -1.3f;
	options.erase_value[2] = 70000; /* infinite in float16 */
	apply_everywhere(&options);
}

static void noise_is_the_drawn_one(void **state)
{
	(void)state;
	struct penstock_mix_options options = defaults();
	options.erase = options.erase_random = 1;
	options.erase_scale[0] = 0.2;
	apply_everywhere(&options);
	options.mixup = 1;
	apply_everywhere(&options);
	/* A pixel whose number has more than 16 bits. */
	struct penstock_mix *mix = mixer(&options);
	struct planned p;
	plan(&p, mix, 9, 4, 2, 1, 300, 400);
	apply_and_check(&p, mix, &options, PENSTOCK_FLOAT32, PENSTOCK_NHWC);
	penstock_mix_free(mix);
}

/* ---- kernels ---- */

static void kernels_equal_c(void **state)
{
	(void)state;
	static const char *const names[] = {"c", "avx2", "avx512", "neon"};
	const struct penstock_mix_options options = defaults();
	for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
		struct penstock_mix *mix = NULL;
		assert_int_equal(setenv("PENSTOCK_KERNELS", names[n], 1), 0);
		if (penstock_mix_new(&options, &mix) == -ENOTSUP)
			continue;
		assert_non_null(mix);
		for (unsigned round = 0; round < 3000; round++) {
			uint32_t dtype = dtypes[round % 3], at = random_below(4);
			uint32_t count = random_below(100);
			size_t each = value_bytes(dtype);
			uint32_t own[128], other[128], want[128];
			/* Every bit pattern: also infinities, NaNs and subnormals. */
			for (size_t i = 0; i < 128; i++) {
				own[i] = want[i] = random_bits();
				other[i] = random_bits();
			}
			float blend = (float)random_below(1 << 20) * 0x1p-20f, rest = 1 - blend;
			char *to = (char *)own + at * each, *law = (char *)want + at * each;
			mix->kernels->blend[dtype](to, (char *)other + each, count, blend, rest);
			mix_c.blend[dtype](law, (char *)other + each, count, blend, rest);
			for (size_t i = 0; i < 512 / each; i++) {
				float a = read_value(own, dtype, i), b = read_value(want, dtype, i);
				assert_true((isnan(a) && isnan(b)) || half_bits(a) == half_bits(b));
			}
		}
		penstock_mix_free(mix);
	}
	assert_int_equal(unsetenv("PENSTOCK_KERNELS"), 0);
}

/* All 65,536, there and back, and halfway between. */
static void short_floats_are_rounded(void **state)
{
	(void)state;
	for (uint32_t half = 0; half < 65536; half++) {
		float wide = half_from_float16((uint16_t)half);
		int exponent = half >> 10 & 31, fraction = half & 1023;
		float magnitude = exponent ? ldexpf((float)(1024 + fraction), exponent - 25)
					   : ldexpf((float)fraction, -24);
		if (exponent == 31) {
			assert_true(fraction ? isnan(wide) : isinf(wide));
			if (!fraction)
				assert_int_equal(half_to_float16(wide), half);
			continue;
		}
		assert_true(fabsf(wide) == magnitude && !signbit(wide) == !(half & 0x8000));
		assert_int_equal(half_to_float16(wide), half);
		float step = ldexpf(1, (exponent ? exponent : 1) - 25);
		float next = wide + (half & 0x8000 ? -step : step), more = nextafterf(wide, next);
		float between = wide + (next - wide) / 2;
		assert_int_equal(half_to_float16(more), half);
		assert_int_equal(half_to_float16(between), half + (half & 1));
		assert_int_equal(half_to_float16(nextafterf(between, next)), half + 1);
	}
	assert_int_equal(half_to_bfloat16(1 + 0x1p-8f), 0x3f80); /* ties to even */
	assert_int_equal(half_to_bfloat16(1 + 0x3p-8f), 0x3f82);
	assert_int_equal(half_to_bfloat16(nextafterf(1 + 0x1p-8f, 2)), 0x3f81);
	assert_true(isnan(half_from_bfloat16(half_to_bfloat16(NAN))));
}

/* ---- plans ---- */

/* Views of a sample share what is mixed, each with the partner's view of its number, and are erased
 * each on its own; the first view's draws are those of a stream of one. */
static void views_are_planned(void **state)
{
	(void)state;
	struct penstock_mix_options options = defaults();
	options.mixup = options.cutmix = 1;
	options.erase = 0.5;
	struct penstock_mix *mix = mixer(&options);
	unsigned differ = 0;
	for (uint64_t seed = 0; seed < 50; seed++) {
		struct planned one, three;
		plan(&one, mix, seed, 40, 5, 1, 30, 20);
		plan(&three, mix, seed, 40, 5, 3, 30, 20);
		for (uint32_t i = 0; i < three.count; i++) {
			const struct penstock_mix_row *row = &three.rows[i], *of = &one.rows[i / 3];
			assert_int_equal(row->view, i % 3);
			assert_int_equal(
				row->partner, row->flags & PENSTOCK_ROW_MIXED ? (i + 12) % 15 : i);
			assert_memory_equal(&row->cut_x, &of->cut_x, 4 * sizeof row->cut_x);
			assert_true(row->weight == of->weight && row->blend == of->blend);
			if (i % 3 == 0)
				assert_memory_equal(&row->erase_x, &of->erase_x, 8);
			else
				differ += memcmp(&row->erase_x, &of->erase_x, 8) != 0;
		}
	}
	assert_true(differ > 200);
	penstock_mix_free(mix);
}

/* ---- labels ---- */

static void targets_are_sums(void **state)
{
	(void)state;
	static const float smoothings[] = {0, 0.1f, 1};
	for (size_t s = 0; s < 3; s++) {
		struct penstock_mix_options options = defaults();
		options.mixup = options.cutmix = 1;
		options.mix = 0.8;
		options.classes = CLASSES;
		options.smoothing = smoothings[s];
		struct penstock_mix *mix = mixer(&options);
		for (uint64_t seed = 0; seed < 30; seed++) {
			uint32_t views = 1 + (uint32_t)seed % 3;
			float targets[8 * CLASSES];
			int64_t labels[8];
			struct planned p;
			plan(&p, mix, seed, 0, 8, views, 10, 10);
			for (int i = 0; i < 8; i++)
				labels[i] = (int64_t)random_below(CLASSES + 1) - 1;
			assert_int_equal(
				penstock_mix_targets(mix, p.rows, p.count, views, labels, targets),
				0);
			for (uint32_t i = 0; i < 8 * CLASSES; i++) {
				const struct penstock_mix_row *row = &p.rows[i / CLASSES * views];
				int64_t k = i % CLASSES, own = labels[i / CLASSES];
				int64_t other = labels[row->partner / views];
				double even = (double)smoothings[s] / CLASSES;
				double want =
					own < 0 ? 0
						: (double)row->weight *
							  ((own == k) * (1 - (double)smoothings
											[s]) +
								  even);
				if (other >= 0)
					want += (double)row->partner_weight *
						((other == k) * (1 - (double)smoothings[s]) + even);
				assert_true(fabs(targets[i] - want) < 3e-7);
			}
		}
		penstock_mix_free(mix);
	}
}

static void values_are_mixed(void **state)
{
	(void)state;
	struct penstock_mix_options options = defaults();
	options.mixup = 1;
	struct penstock_mix *mix = mixer(&options);
	struct planned p;
	float values[12], targets[12];
	plan(&p, mix, 6, 0, 4, 2, 10, 10);
	for (int i = 0; i < 12; i++)
		values[i] = (float)random_below(1000) * 0.1f - 50;
	assert_int_equal(penstock_mix_values(mix, p.rows, p.count, 2, values, 3, targets), 0);
	for (int i = 0; i < 12; i++) {
		float mine = values[i] * p.rows[0].weight;
		float its = values[(i + 9) % 12] * p.rows[0].partner_weight;
		assert_true(targets[i] == mine + its);
	}
	assert_true(p.rows[0].weight < 1);
	penstock_mix_free(mix);
}

/* ---- epochs ---- */

static const struct penstock_mix_epoch changes[] = {
	{.epoch = 2, .mixup = 1, .mix = 1, .mix_switch = 0.5, .smoothing = 0.5F},
	{.epoch = 3, .cutmix = 0.4, .mix = 0.7, .mix_switch = 0.5},
	{.epoch = 1000, .mix = 1, .smoothing = 1},
};

/* The options with the values of one entry. */
static struct penstock_mix_options constant(const struct penstock_mix_epoch *epoch)
{
	struct penstock_mix_options options = defaults();
	options.classes = CLASSES;
	options.mixup = epoch->mixup;
	options.cutmix = epoch->cutmix;
	options.mix = epoch->mix;
	options.mix_switch = epoch->mix_switch;
	options.smoothing = epoch->smoothing;
	return options;
}

static void epochs_change_what_is_mixed(void **state)
{
	(void)state;
	static const struct penstock_mix_epoch before = {
		.mixup = 0.3, .mix = 1, .mix_switch = 0.5, .smoothing = 0.1F};
	static const struct {
		uint64_t epoch;
		const struct penstock_mix_epoch *values;
	} cases[] = {{0, &before}, {1, &before}, {2, &changes[0]}, {3, &changes[1]},
		{999, &changes[1]}, {1000, &changes[2]}, {UINT32_MAX, &changes[2]}};
	struct penstock_mix_epoch epochs[3];
	memcpy(epochs, changes, sizeof epochs);
	struct penstock_mix_options options = constant(&before);
	options.epochs = epochs;
	options.epoch_count = 3;
	struct penstock_mix *mix = mixer(&options);
	memset(epochs, GUARD_BYTE, sizeof epochs); /* they were copied */
	const int64_t labels[4] = {0, 1, 2, 1};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct penstock_mix_options same = constant(cases[i].values);
		struct penstock_mix *plain = mixer(&same);
		for (uint64_t seed = 0; seed < 20; seed++) {
			struct penstock_mix_row rows[4];
			float targets[4 * CLASSES], want[4 * CLASSES];
			struct planned p;
			plan(&p, plain, seed, 4, 4, 1, 10, 10);
			p.batch.epoch = cases[i].epoch;
			penstock_mix_plan(plain, &p.info, &p.batch, rows);
			penstock_mix_plan(mix, &p.info, &p.batch, p.rows);
			assert_memory_equal(p.rows, rows, sizeof rows);
			assert_int_equal(
				penstock_mix_targets(mix, p.rows, 4, 1, labels, targets), 0);
			assert_int_equal(penstock_mix_targets(plain, rows, 4, 1, labels, want), 0);
			assert_memory_equal(targets, want, sizeof want);
		}
		penstock_mix_free(plain);
	}
	penstock_mix_free(mix);
}

/* ---- refusals ---- */

static void expect_refused(int result, const char *sentence)
{
	assert_int_equal(result, -EINVAL);
	if (!strstr(penstock_error(), sentence))
		fail_msg("\"%s\" and not \"%s\"", penstock_error(), sentence);
}

#define REFUSES(change, sentence)                                           \
	do {                                                                \
		struct penstock_mix_options options = defaults();           \
		struct penstock_mix *mix = NULL;                            \
		options.change;                                             \
		expect_refused(penstock_mix_new(&options, &mix), sentence); \
		assert_null(mix);                                           \
	} while (0)

static void options_are_checked(void **state)
{
	(void)state;
	struct penstock_mix *none = NULL;
	struct penstock_mix_options nothing = {0};
	expect_refused(penstock_mix_new(&nothing, &none), "penstock_mix_options_init");
	expect_refused(penstock_mix_new(NULL, &none), "penstock_mix_options_init");
	REFUSES(mixup = -1, "options.mixup is -1: expected 0 for off");
	REFUSES(cutmix = 200, "options.cutmix is 200: expected 0 for off");
	REFUSES(mix = 1.5, "options.mix is 1.5: expected a probability");
	REFUSES(mix_switch = -0.5, "options.mix_switch is -0.5: expected a probability");
	REFUSES(erase = NAN, "options.erase is ");
	REFUSES(erase_scale[0] = 2, "options.erase_scale[0] is 2: expected a share");
	REFUSES(erase_ratio[0] = 9, "options.erase_ratio is 9 to 3.3: expected the smaller first");
	REFUSES(erase_value[1] = INFINITY, "options.erase_value[1] is inf: expected a finite");
	REFUSES(erase_random = 2, "options.erase_random is 2: expected 0, or 1");
	REFUSES(classes = 1 << 25, "options.classes is 33554432: expected 0");
	REFUSES(smoothing = 1.01f, "options.smoothing is 1.0");
	REFUSES(epoch_count = 1, "options.epoch_count is 1 and options.epochs is NULL");
	REFUSES(epoch_count = 65537, "options.epoch_count is 65537: expected at most 65536");
	assert_int_equal(setenv("PENSTOCK_KERNELS", "mmx", 1), 0);
	REFUSES(size = sizeof options, "PENSTOCK_KERNELS=mmx");
	assert_int_equal(unsetenv("PENSTOCK_KERNELS"), 0);
	penstock_mix_free(NULL);
}

static void expect_refused_epochs(struct penstock_mix_epoch first, const char *sentence)
{
	const struct penstock_mix_epoch epochs[2] = {{.epoch = 1, .mix = 1}, first};
	struct penstock_mix_options options = defaults();
	struct penstock_mix *mix = NULL;
	options.epochs = epochs;
	options.epoch_count = 2;
	expect_refused(penstock_mix_new(&options, &mix), sentence);
	assert_null(mix);
}

static void epochs_are_checked(void **state)
{
	(void)state;
	struct penstock_mix_epoch epoch = {.epoch = 1};
	expect_refused_epochs(
		epoch, "options.epochs[1].epoch is 1, after 1: expected ascending epochs");
	epoch.epoch = 2;
	epoch.mixup = 0.001;
	expect_refused_epochs(epoch, "options.epochs[1].mixup is 0.001: expected 0 for off");
	epoch.mixup = 0;
	epoch.cutmix = NAN;
	expect_refused_epochs(epoch, "options.epochs[1].cutmix is ");
	epoch.cutmix = 1;
	epoch.mix = 2;
	expect_refused_epochs(epoch, "options.epochs[1].mix is 2: expected a probability, 0 to 1");
	epoch.mix = 1;
	epoch.smoothing = -1;
	expect_refused_epochs(epoch, "options.epochs[1].smoothing is -1: expected a share");
	epoch.smoothing = 0;
	epoch.reserved = 1;
	expect_refused_epochs(epoch, "options.epochs[1].reserved is 1: expected 0");
}

/* An application of an earlier release has a shorter struct. */
static void earlier_structs_are_filled(void **state)
{
	(void)state;
	struct penstock_mix_options options;
	memset(&options, GUARD_BYTE, sizeof options);
	penstock_mix_options_init_size(&options, offsetof(struct penstock_mix_options, classes));
	assert_true(options.mix == 1 && options.erase_ratio[1] == 3.3);
	assert_int_equal(options.classes, 0xa5a5a5a5);
	struct penstock_mix *mix = NULL;
	memset(&options, GUARD_BYTE, sizeof options);
	penstock_mix_options_init_size(&options, offsetof(struct penstock_mix_options, epochs));
	assert_int_equal(penstock_mix_new(&options, &mix), 0);
	penstock_mix_free(mix);
}

static void later_structs_are_read(void **state)
{
	(void)state;
	struct {
		struct penstock_mix_options options;
		int32_t later;
	} application;
	struct penstock_mix *mix = NULL;
	penstock_mix_options_init_size(&application.options, sizeof application);
	assert_int_equal(penstock_mix_new(&application.options, &mix), 0);
	penstock_mix_free(mix);
	mix = NULL;
	application.later = 1;
	expect_refused(penstock_mix_new(&application.options, &mix), "sets an option of mixing");
	application.options.size = SIZE_MAX;
	expect_refused(penstock_mix_new(&application.options, &mix), "penstock_mix_options_init");
	assert_null(mix);
}

/* Streams of one seed whose salts differ mix other rows; a salt of 0 changes nothing. */
static void a_salt_changes_the_draws(void **state)
{
	(void)state;
	struct penstock_mix_options options = defaults();
	options.mixup = 1;
	struct penstock_mix *mix = mixer(&options);
	struct planned p;
	plan(&p, mix, 6, 0, 4, 1, 10, 10);
	const float plain = p.rows[0].weight;
	penstock_mix_plan(mix, &p.info, &p.batch, p.rows);
	assert_true(p.rows[0].weight == plain);
	p.info.salt = 1;
	penstock_mix_plan(mix, &p.info, &p.batch, p.rows);
	assert_true(p.rows[0].weight != plain);
	assert_int_not_equal(p.rows[0].seed[0], 6);
	penstock_mix_free(mix);
}

/* Of a batch of several views, the samples' number in the place of the rows'. */
static void fewer_rows_have_no_labels(void **state)
{
	(void)state;
	struct penstock_mix_options options = defaults();
	options.mixup = 1;
	options.classes = CLASSES;
	struct penstock_mix *mix = mixer(&options);
	struct planned p;
	static const int64_t labels[4];
	static const float values[4];
	float targets[4 * CLASSES];
	plan(&p, mix, 6, 0, 4, 2, 10, 10);
	expect_refused(penstock_mix_targets(mix, p.rows, 4, 2, labels, targets),
		"rows[0] is mixed with row 6, and there are 4 rows");
	expect_refused(penstock_mix_values(mix, p.rows, 4, 2, values, 1, targets),
		"rows[0] is mixed with row 6, and there are 4 rows");
	penstock_mix_free(mix);
}

static void images_are_checked(void **state)
{
	(void)state;
	struct penstock_mix_options options = defaults();
	options.mixup = options.erase = 1;
	struct penstock_mix *mix = mixer(&options);
	struct planned p;
	static float memory[4 * 10 * 10 * 3 + 1];
	plan(&p, mix, 0, 0, 4, 1, 10, 10);
	const struct penstock_mix_images good = {memory, PENSTOCK_FLOAT32, PENSTOCK_NHWC, 10, 10};
	struct penstock_mix_images bad = good;
	bad.dtype = PENSTOCK_UINT8;
	expect_refused(penstock_mix_apply(mix, p.rows, 4, &bad), "images.dtype is 0");
	bad.dtype = 4;
	expect_refused(penstock_mix_apply(mix, p.rows, 4, &bad), "images.dtype is 4");
	bad = good;
	bad.layout = 2;
	expect_refused(penstock_mix_apply(mix, p.rows, 4, &bad), "images.layout is 2");
	bad = good;
	bad.height = 0;
	expect_refused(penstock_mix_apply(mix, p.rows, 4, &bad), "images of 10 x 0");
	bad = good;
	bad.memory = (char *)memory + 1;
	expect_refused(penstock_mix_apply(mix, p.rows, 4, &bad), "not aligned");
	bad = good;
	bad.width = bad.height = 3;
	expect_refused(penstock_mix_apply(mix, p.rows, 4, &bad), "not within 3 x 3");
	expect_refused(penstock_mix_apply(mix, p.rows, 3, &good), "rows[0] is not mixed as");
	expect_refused(
		penstock_mix_apply(mix, p.rows + 1, 3, &good), "rows[1] is not mixed as rows[0]");
	p.rows[2].blend = 0.5f;
	expect_refused(penstock_mix_apply(mix, p.rows, 4, &good), "rows[2] is not mixed as");
	p.rows[2].flags = 0;
	expect_refused(penstock_mix_apply(mix, p.rows, 4, &good), "rows[2] is not mixed as");
	for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
		assert_true(memory[i] == 0);
	assert_int_equal(penstock_mix_apply(mix, p.rows, 0, &good), 0);
	penstock_mix_free(mix);
}

static void labels_are_checked(void **state)
{
	(void)state;
	struct penstock_mix_options options = defaults();
	struct penstock_mix *mix = mixer(&options);
	struct planned p;
	int64_t labels[4] = {0, 1, 9, -1};
	float targets[4 * 9];
	plan(&p, mix, 0, 0, 4, 1, 10, 10);
	expect_refused(penstock_mix_targets(mix, p.rows, 4, 1, labels, targets), "options.classes");
	penstock_mix_free(mix);
	options.classes = 9;
	mix = mixer(&options);
	expect_refused(penstock_mix_targets(mix, p.rows, 4, 1, labels, targets),
		"labels[2] is 9, and options.classes is 9");
	expect_refused(penstock_mix_targets(mix, p.rows, 4, 3, labels, targets), "4 rows of 3");
	expect_refused(penstock_mix_values(mix, p.rows, 4, 0, targets, 1, targets), "4 rows of 0");
	labels[2] = INT64_MIN;
	assert_int_equal(penstock_mix_targets(mix, p.rows, 4, 1, labels, targets), 0);
	assert_int_equal(penstock_mix_targets(mix, p.rows, 0, 1, labels, targets), 0);
	labels[0] = labels[1] = -1;
	targets[0] = 5;
	expect_refused(penstock_mix_targets(mix, p.rows, 4, 1, labels, targets),
		"none of 4 samples has a label, and mixup, cutmix and label smoothing need labels: "
		"give the dataset class folders");
	assert_true(targets[0] == 5);
	penstock_mix_free(mix);
}

/* Memory that is mapped of a daemon is known as such, up to its edges. */
static void daemon_memory_is_refused(void **state)
{
	(void)state;
	int fd = memfd_create("mix", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct map map;
	assert_true(fd >= 0 && ftruncate(fd, 8192) == 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS,
				 F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL),
		0);
	assert_int_equal(map_init(&map, fd, 8192, false), 0);
	const struct penstock_mix_options options = defaults();
	struct penstock_mix *mix = mixer(&options);
	struct planned p;
	plan(&p, mix, 0, 0, 2, 1, 4, 4);
	struct penstock_mix_images images = {
		(void *)(uintptr_t)(map.bytes + 4096), PENSTOCK_FLOAT32, PENSTOCK_NHWC, 4, 4};
	expect_refused(penstock_mix_apply(mix, p.rows, 2, &images), "is the daemon's");
	assert_false(map_meets(map.bytes + 8192, 1));
	assert_false(map_meets(map.bytes - 1, 1));
	assert_true(map_meets(map.bytes - 1, 2));
	assert_true(map_meets(map.bytes + 8191, 1));
	const void *was = map.bytes;
	map_deinit(&map);
	assert_false(map_meets(was, 8192));
	assert_int_equal(close(fd), 0);
	penstock_mix_free(mix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mixes_as_defined),
		cmocka_unit_test(noise_is_the_drawn_one),
		cmocka_unit_test(kernels_equal_c),
		cmocka_unit_test(short_floats_are_rounded),
		cmocka_unit_test(views_are_planned),
		cmocka_unit_test(targets_are_sums),
		cmocka_unit_test(values_are_mixed),
		cmocka_unit_test(epochs_change_what_is_mixed),
		cmocka_unit_test(epochs_are_checked),
		cmocka_unit_test(options_are_checked),
		cmocka_unit_test(earlier_structs_are_filled),
		cmocka_unit_test(later_structs_are_read),
		cmocka_unit_test(a_salt_changes_the_draws),
		cmocka_unit_test(fewer_rows_have_no_labels),
		cmocka_unit_test(images_are_checked),
		cmocka_unit_test(labels_are_checked),
		cmocka_unit_test(daemon_memory_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

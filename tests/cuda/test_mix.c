/* mix: what is done to each row. Known answers per seed; against twins in libm's arithmetic; the
 * distributions with fixed seeds; what depends only on the position and what on the batch; every
 * option that is refused. tests/cuda/torchvision_mix.py compares with torchvision itself. */
#include "base/hash.h"
#include "base/util.h"
#include "client/cuda/mix.h"
#include "proto/philox.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 64, SIDE = 224 };

static struct penstock_cuda_options defaults(void)
{
	return (struct penstock_cuda_options){.size = sizeof(struct penstock_cuda_options),
		.device = -1,
		.prefetch = 2,
		.mean = {0.485F, 0.456F, 0.406F},
		.std = {0.229F, 0.224F, 0.225F},
		.erase_scale = {0.02, 0.33},
		.erase_ratio = {0.3, 3.3},
		.mix = 1,
		.mix_switch = 0.5};
}

/* A batch of `count` rows from position `first` on. */
static void plan(const struct penstock_cuda_options *options, uint64_t seed, uint64_t epoch,
	uint64_t first, uint32_t count, struct penstock_cuda_row *ret_rows)
{
	struct penstock_sample samples[ROWS];
	assert_true(count <= ROWS);
	memset(samples, 0, sizeof samples);
	for (uint32_t i = 0; i < count; i++)
		samples[i].position = first + i;
	mix_plan(options, seed, epoch, samples, count, SIDE, SIDE, ret_rows);
}

/* The first row of a batch of two: for what is drawn once per batch. */
static struct penstock_cuda_row plan_first(const struct penstock_cuda_options *options,
	uint64_t seed, uint64_t epoch, uint64_t first, uint32_t height, uint32_t width)
{
	struct penstock_sample samples[2];
	struct penstock_cuda_row rows[2];
	memset(samples, 0, sizeof samples);
	samples[0].position = first;
	samples[1].position = first + 1;
	mix_plan(options, seed, epoch, samples, 2, height, width, rows);
	return rows[0];
}

static double unit(struct philox r, int word)
{
	return philox_unit(r.word[word], r.word[word + 1]);
}

static void untouched_where_nothing_is_asked_for(void **state)
{
	struct penstock_cuda_options options = defaults();
	struct penstock_cuda_row rows[ROWS];
	(void)state;
	plan(&options, 5, 7, 1000, ROWS, rows);
	for (uint32_t i = 0; i < ROWS; i++) {
		const struct penstock_cuda_row want = {
			.position = 1000 + i, .epoch = 7, .partner = i, .blend = 1, .weight = 1};
		assert_memory_equal(&rows[i], &want, sizeof want);
	}
}

static void writes_count_rows_and_no_more(void **state)
{
	struct penstock_cuda_options options = defaults();
	struct penstock_cuda_row rows[ROWS], guard;
	(void)state;
	options.mixup = options.cutmix = options.flip = options.erase = 1;
	memset(&guard, 0xa5, sizeof guard);
	for (uint32_t count = 0; count < ROWS; count++) {
		memset(rows, 0xa5, sizeof rows);
		plan(&options, 5, 7, 1000, count, rows);
		for (uint32_t i = 0; i < ROWS; i++) {
			if (i < count)
				assert_int_equal(rows[i].position, 1000 + i);
			else
				assert_memory_equal(&rows[i], &guard, sizeof guard);
		}
	}
}

/* torchvision's RandomErasing in libm's arithmetic. */
static bool twin_erase(const struct penstock_cuda_options *options, uint64_t seed, uint32_t epoch,
	uint64_t position, uint32_t height, uint32_t width, uint16_t ret_box[4])
{
	double low = log(options->erase_ratio[0]), high = log(options->erase_ratio[1]);
	double least = options->erase_scale[0], most = options->erase_scale[1];
	memset(ret_box, 0, 4 * sizeof ret_box[0]);
	if (!(unit(philox_draw(seed, epoch, position, PHILOX_BATCH_ERASE, 0), 0) < options->erase))
		return false;
	for (uint32_t attempt = 1; attempt <= 10; attempt++) {
		struct philox r = philox_draw(seed, epoch, position, PHILOX_BATCH_ERASE, attempt);
		double area =
			(double)height * width * (least + ldexp(r.word[0], -32) * (most - least));
		double ratio = exp(low + ldexp(r.word[1], -32) * (high - low));
		double h = nearbyint(sqrt(area * ratio)), w = nearbyint(sqrt(area / ratio));
		if (!(h < height && w < width))
			continue;
		if (h == 0 || w == 0)
			return false;
		ret_box[0] = (uint16_t)((uint64_t)r.word[3] * (uint64_t)(width - w + 1) >> 32);
		ret_box[1] = (uint16_t)((uint64_t)r.word[2] * (uint64_t)(height - h + 1) >> 32);
		ret_box[2] = (uint16_t)w;
		ret_box[3] = (uint16_t)h;
		return true;
	}
	return false;
}

static void erases_what_the_twin_erases(void **state)
{
	static const uint32_t sides[] = {1, 2, 3, 7, 50, 224, 2048, 65535};
	static const double ranges[][4] = {{0.02, 0.33, 0.3, 3.3}, {0, 1, 0.1, 10},
		{0.5, 0.5, 1, 1}, {0, 1e-4, 1, 4}, {0.9, 1, 0.9, 1.1}};
	uint32_t erased = 0, kept = 0;
	(void)state;
	for (unsigned n = 0; n < UTIL_COUNT(sides) * UTIL_COUNT(sides) * 400; n++) {
		const double *range = ranges[n % UTIL_COUNT(ranges)];
		uint32_t width = sides[n % UTIL_COUNT(sides)];
		uint32_t height = sides[n / UTIL_COUNT(sides) % UTIL_COUNT(sides)];
		struct penstock_cuda_options options = defaults();
		uint16_t want[4];
		options.erase = 0.9;
		memcpy(options.erase_scale, range, sizeof options.erase_scale);
		memcpy(options.erase_ratio, range + 2, sizeof options.erase_ratio);
		struct penstock_cuda_row row = plan_first(&options, n, 3, 77, height, width);
		bool is = twin_erase(&options, n, 3, 77, height, width, want);
		assert_int_equal(row.flags, is ? PENSTOCK_CUDA_ROW_ERASED : 0);
		assert_memory_equal(&row.erase_x, want, sizeof want);
		assert_true(row.erase_x + row.erase_w <= width);
		assert_true(row.erase_y + row.erase_h <= height);
		*(is ? &erased : &kept) += 1;
	}
	assert_true(erased > 5000 && kept > 2500);
}

/* Neither a ratio that leaves no image nor a scale of everything or nothing may hang or wrap. */
static void erases_nothing_where_nothing_fits(void **state)
{
	static const struct {
		double scale[2], ratio[2];
		uint32_t height, width;
	} cases[] = {
		{{1, 1}, {0.3, 3.3}, SIDE, SIDE},
		{{0, 0}, {0.3, 3.3}, SIDE, SIDE},
		{{0.5, 1}, {1e300, 1e308}, SIDE, SIDE},
		{{0.5, 1}, {1e-307, 1e-300}, SIDE, SIDE},
		{{0.02, 0.33}, {0.3, 3.3}, 1, 1},
		{{0.3, 0.33}, {1, 1}, 1, 65535},
	};
	(void)state;
	for (unsigned i = 0; i < UTIL_COUNT(cases); i++)
		for (uint64_t position = 0; position < 200; position++) {
			struct penstock_cuda_options options = defaults();
			options.erase = 1;
			memcpy(options.erase_scale, cases[i].scale, sizeof options.erase_scale);
			memcpy(options.erase_ratio, cases[i].ratio, sizeof options.erase_ratio);
			assert_int_equal(mix_check(&options), 0);
			struct penstock_cuda_row row = plan_first(
				&options, 1, 0, position, cases[i].height, cases[i].width);
			assert_int_equal(row.flags, 0);
			assert_int_equal(row.erase_w | row.erase_h | row.erase_x | row.erase_y, 0);
		}
}

enum { BINS = 20, DRAWS = 100000 };

struct histogram {
	uint32_t bin[BINS], count;
};

static void histogram_add(struct histogram *h, double x)
{
	assert_true(x >= 0 && x <= 1);
	h->bin[UTIL_MIN((int)(x * BINS), BINS - 1)]++;
	h->count++;
}

/* Chi-square with 19 degrees of freedom: above 50.8 in one of 10,000 uniform samples. */
static void histogram_check(const struct histogram *h, const char *what)
{
	double expected = (double)h->count / BINS, sum = 0;
	assert_true(h->count > DRAWS / 3);
	for (int i = 0; i < BINS; i++)
		sum += (h->bin[i] - expected) * (h->bin[i] - expected) / expected;
	if (sum > 50.8)
		fail_msg("%s: chi-square %.1f", what, sum);
}

/* What any ratio fits into is uniform in area, and in the logarithm of the ratio. */
static void erases_uniform_areas_and_ratios(void **state)
{
	enum { LARGE = 40000 };
	struct histogram area = {{0}, 0}, ratio = {{0}, 0}, x = {{0}, 0}, y = {{0}, 0};
	struct penstock_cuda_options options = defaults();
	(void)state;
	options.erase = 1;
	for (uint32_t n = 0; n < DRAWS; n++) {
		struct penstock_cuda_row row = plan_first(&options, 12, 1, n, LARGE, LARGE);
		double part = (double)row.erase_w * row.erase_h / ((double)LARGE * LARGE);
		double log_ratio = log((double)row.erase_h / row.erase_w);
		histogram_add(&x, (row.erase_x + 0.5) / (LARGE - row.erase_w + 1.0));
		histogram_add(&y, (row.erase_y + 0.5) / (LARGE - row.erase_h + 1.0));
		if (part < 0.0201 || part > 0.3)
			continue;
		histogram_add(&area, (part - 0.0201) / (0.3 - 0.0201));
		log_ratio = (log_ratio - log(0.3)) / (log(3.3) - log(0.3));
		histogram_add(&ratio, UTIL_MIN(UTIL_MAX(log_ratio, 0), 1));
	}
	histogram_check(&area, "area");
	histogram_check(&ratio, "ratio");
	histogram_check(&x, "column");
	histogram_check(&y, "row");
}

/* Devroye's formula as it is printed, in libm's arithmetic. */
static double twin_beta(double alpha, struct philox r)
{
	double u = 1 - unit(r, 0), v = unit(r, 2);
	double cosine = cos(3.14159265358979323846 * fmod(2 * v, 1) / 2);
	double half = 0.5 / sqrt(1 + 1 / ((pow(u, -1 / alpha) - 1) * cosine * cosine));
	return v < 0.5 ? 0.5 - half : 0.5 + half;
}

static void mixes_up_as_the_twin_does(void **state)
{
	static const double alphas[] = {0.01, 0.1, 0.2, 0.5, 0.8, 1, 2, 4, 32, 100};
	(void)state;
	for (uint32_t n = 0; n < 20000; n++) {
		struct penstock_cuda_options options = defaults();
		options.mixup = alphas[n % UTIL_COUNT(alphas)];
		struct penstock_cuda_row row = plan_first(&options, 3, 2, n, SIDE, SIDE);
		double lambda = twin_beta(options.mixup, philox_draw(3, 2, n, PHILOX_BATCH_MIX, 1));
		assert_int_equal(row.flags, PENSTOCK_CUDA_ROW_MIXED);
		assert_true(fabs(row.blend - lambda) <= 0x1p-24);
		assert_true(fabs(row.partner_blend - (1 - lambda)) <= 0x1p-24);
		assert_true(row.weight == row.blend && row.partner_weight == row.partner_blend);
		assert_int_equal(row.cut_x | row.cut_y | row.cut_w | row.cut_h, 0);
	}
}

/* The regularised incomplete beta function I_x(a, a): its continued fraction (Abramowitz and
 * Stegun 26.5.8) by Lentz's method. */
static double beta_fraction(double a, double x)
{
	double c = 1, d = 1 / (1 - 2 * a * x / (a + 1)), f = d;
	for (int m = 1; m < 1000; m++) {
		double even = m * (a - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		d = 1 / (1 + even * d);
		c = 1 + even / c;
		f *= c * d;
		double odd = -(a + m) * (2 * a + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
		d = 1 / (1 + odd * d);
		c = 1 + odd / c;
		f *= c * d;
		if (fabs(c * d - 1) < 1e-15)
			return f;
	}
	fail_msg("no convergence at %g, %g", a, x);
	return 0;
}

static double beta_cdf(double a, double x)
{
	double front = exp(a * log(x) + a * log1p(-x) + lgamma(2 * a) - 2 * lgamma(a)) / a;
	return x <= 0.5 ? front * beta_fraction(a, x) : 1 - front * beta_fraction(a, 1 - x);
}

/* The function that judges is judged by closed forms. */
static void knows_the_beta_distribution(void **state)
{
	(void)state;
	for (int i = 1; i < 100; i++) {
		double x = i / 100.0;
		assert_true(fabs(beta_cdf(1, x) - x) < 1e-12);
		assert_true(fabs(beta_cdf(0.5, x) - 2 / 3.14159265358979323846 * asin(sqrt(x))) <
			    1e-12);
		assert_true(fabs(beta_cdf(2, x) - x * x * (3 - 2 * x)) < 1e-12);
		assert_true(fabs(beta_cdf(3, x) - x * x * x * (10 - 15 * x + 6 * x * x)) < 1e-12);
	}
}

/* A number in (0, 1), with room below it for the floats that are 0 where alpha is small. */
static double probe(int i)
{
	static const double ends[] = {1e-30, 1e-20, 1e-12, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3};
	return i < (int)UTIL_COUNT(ends) ? ends[i] : (i - (int)UTIL_COUNT(ends) + 1) / 1000.0;
}
enum { PROBES = 8 + 999 };

static int double_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Kolmogorov and Smirnov's distance at the probes, times the root of the number of draws: above
 * 1.95 in one of 1,000 samples. */
static double beta_distance(double alpha)
{
	static double drawn[DRAWS];
	struct penstock_cuda_options options = defaults();
	double worst = 0;
	options.mixup = alpha;
	for (uint32_t n = 0; n < DRAWS; n++) {
		struct penstock_cuda_row row = plan_first(&options, 99, 0, n, SIDE, SIDE);
		drawn[n] = row.blend;
	}
	qsort(drawn, DRAWS, sizeof drawn[0], double_compare);
	uint32_t below = 0;
	for (int i = 0; i < PROBES; i++) {
		while (below < DRAWS && drawn[below] <= probe(i))
			below++;
		worst = fmax(worst, fabs((double)below / DRAWS - beta_cdf(alpha, probe(i))));
	}
	return worst * sqrt(DRAWS);
}

static void draws_beta_numbers(void **state)
{
	static const double alphas[] = {0.01, 0.05, 0.2, 0.4, 0.5, 0.8, 1, 1.5, 2, 8, 32, 100};
	(void)state;
	for (unsigned i = 0; i < UTIL_COUNT(alphas); i++) {
		double distance = beta_distance(alphas[i]);
		if (distance > 1.95)
			fail_msg("alpha %g: distance %.2f", alphas[i], distance);
	}
}

/* torchvision's CutMix, clamped as it clamps. */
static double twin_cut(
	double lambda, struct philox r, int32_t height, int32_t width, uint16_t ret_box[4])
{
	int32_t x = (int32_t)(unit(r, 0) * width), y = (int32_t)(unit(r, 2) * height);
	int32_t half_w = (int32_t)(0.5 * sqrt(1 - lambda) * width);
	int32_t half_h = (int32_t)(0.5 * sqrt(1 - lambda) * height);
	int32_t x1 = UTIL_MAX(x - half_w, 0), x2 = UTIL_MIN(x + half_w, width);
	int32_t y1 = UTIL_MAX(y - half_h, 0), y2 = UTIL_MIN(y + half_h, height);
	ret_box[0] = (uint16_t)x1;
	ret_box[1] = (uint16_t)y1;
	ret_box[2] = (uint16_t)(x2 - x1);
	ret_box[3] = (uint16_t)(y2 - y1);
	return 1.0 - (double)(x2 - x1) * (y2 - y1) / ((double)width * height);
}

static void cuts_what_the_twin_cuts(void **state)
{
	static const int32_t sides[] = {1, 2, 3, 7, 50, 224, 2048, 65535};
	uint32_t cut = 0;
	(void)state;
	for (unsigned n = 0; n < UTIL_COUNT(sides) * UTIL_COUNT(sides) * 400; n++) {
		int32_t width = sides[n % UTIL_COUNT(sides)];
		int32_t height = sides[n / UTIL_COUNT(sides) % UTIL_COUNT(sides)];
		struct penstock_cuda_options options = defaults();
		uint16_t want[4];
		options.cutmix = n % 3 ? 1 : 0.3;
		struct penstock_cuda_row row =
			plan_first(&options, n, 4, 9, (uint32_t)height, (uint32_t)width);
		double lambda =
			twin_beta(options.cutmix, philox_draw(n, 4, 9, PHILOX_BATCH_MIX, 1));
		lambda = twin_cut(
			lambda, philox_draw(n, 4, 9, PHILOX_BATCH_MIX, 2), height, width, want);
		if (want[2] == 0 || want[3] == 0) {
			memset(want, 0, sizeof want);
			assert_int_equal(row.flags | row.partner, 0);
		} else {
			assert_int_equal(row.flags, PENSTOCK_CUDA_ROW_MIXED);
			cut++;
		}
		assert_memory_equal(&row.cut_x, want, sizeof want);
		assert_true(row.weight == (float)lambda);
		assert_true(row.partner_weight == (float)(1 - lambda));
		assert_true(row.blend == 1 && row.partner_blend == 0);
	}
	assert_true(cut > 10000);
}

/* Rows pair with the one before them; the whole batch is mixed in one way. */
static void pairs_each_row_with_the_one_before(void **state)
{
	struct penstock_cuda_options options = defaults();
	struct penstock_cuda_row rows[ROWS];
	(void)state;
	options.mixup = options.cutmix = 0.7;
	for (uint32_t count = 2; count <= ROWS; count++) {
		plan(&options, 8, 1, 100 * count, count, rows);
		if (!(rows[0].flags & PENSTOCK_CUDA_ROW_MIXED))
			continue; /* a box of nothing */
		for (uint32_t i = 0; i < count; i++) {
			assert_int_equal(rows[i].partner, (i + count - 1) % count);
			assert_memory_equal(&rows[i].cut_x, &rows[0].cut_x, 4 * sizeof(uint16_t));
			assert_memory_equal(&rows[i].blend, &rows[0].blend, 4 * sizeof(float));
			assert_true(fabsf(rows[i].weight + rows[i].partner_weight - 1) <= 0x1p-23F);
		}
	}
}

static void leaves_a_single_row_as_it_is(void **state)
{
	struct penstock_cuda_options options = defaults();
	struct penstock_cuda_row row;
	(void)state;
	options.mixup = options.cutmix = 1;
	for (uint64_t first = 0; first < 100; first++) {
		const struct penstock_cuda_row want = {.position = first, .blend = 1, .weight = 1};
		plan(&options, 8, 0, first, 1, &row);
		assert_memory_equal(&row, &want, sizeof want);
	}
}

/* Within four standard deviations of DRAWS coins. */
static void assert_share(uint32_t hits, double probability, const char *what)
{
	double expected = DRAWS * probability;
	if (fabs(hits - expected) > 4 * sqrt(expected * (1 - probability)))
		fail_msg("%s: %u of %d, expected %.0f", what, hits, DRAWS, expected);
}

struct shares {
	uint32_t flipped, erased, mixed, cut;
};

static struct shares count_shares(const struct penstock_cuda_options *options)
{
	struct shares shares = {0, 0, 0, 0};
	for (uint32_t n = 0; n < DRAWS; n++) {
		struct penstock_cuda_row row = plan_first(options, 21, 5, n, SIDE, SIDE);
		shares.flipped += (row.flags & PENSTOCK_CUDA_ROW_FLIPPED) != 0;
		shares.erased += (row.flags & PENSTOCK_CUDA_ROW_ERASED) != 0;
		shares.mixed += (row.flags & PENSTOCK_CUDA_ROW_MIXED) != 0;
		shares.cut += row.cut_w > 0;
	}
	return shares;
}

static void keeps_to_the_probabilities(void **state)
{
	struct penstock_cuda_options options = defaults();
	(void)state;
	options.flip = 0.3;
	options.erase = 0.6;
	options.erase_scale[1] = 0.1; /* so that every rectangle fits */
	options.mixup = 1;
	options.cutmix = 2; /* boxes of nothing are rarer than the test can see */
	options.mix = 0.8;
	options.mix_switch = 0.25;
	struct shares shares = count_shares(&options);
	assert_share(shares.flipped, 0.3, "flip");
	assert_share(shares.erased, 0.6, "erase");
	assert_share(shares.mixed, 0.8, "mix");
	assert_share(shares.cut, 0.8 * 0.25, "mix_switch");
}

static void keeps_to_certainties(void **state)
{
	struct penstock_cuda_options options = defaults();
	(void)state;
	options.flip = 1;
	options.mixup = options.cutmix = 1;
	options.mix_switch = 0; /* always MixUp */
	struct shares shares = count_shares(&options);
	assert_int_equal(shares.flipped, DRAWS);
	assert_int_equal(shares.mixed, DRAWS);
	assert_int_equal(shares.cut, 0);
	options.mix = 0;
	shares = count_shares(&options);
	assert_int_equal(shares.mixed, 0);
	options.mix = 1;
	options.mix_switch = 1; /* always CutMix, whose box may be of nothing */
	shares = count_shares(&options);
	assert_int_equal(shares.mixed, shares.cut);
	assert_true(shares.cut > DRAWS - DRAWS / 100);
}

static struct penstock_cuda_options everything(void)
{
	struct penstock_cuda_options options = defaults();
	options.flip = options.erase = 0.5;
	options.mixup = 0.2;
	options.cutmix = 1;
	options.mix = 0.9;
	return options;
}

/* Only what is drawn per row. */
static struct penstock_cuda_row own_part(struct penstock_cuda_row row)
{
	return (struct penstock_cuda_row){.position = row.position,
		.flags = row.flags & ~(uint32_t)PENSTOCK_CUDA_ROW_MIXED,
		.epoch = row.epoch,
		.erase_x = row.erase_x,
		.erase_y = row.erase_y,
		.erase_w = row.erase_w,
		.erase_h = row.erase_h};
}

/* Flip and rectangle follow from the position, however batches are cut; what a run that goes on
 * plans is what it would have planned. */
static void a_row_depends_on_its_position_alone(void **state)
{
	struct penstock_cuda_options options = everything();
	struct penstock_cuda_row whole[ROWS], part[ROWS];
	(void)state;
	plan(&options, 31, 2, 5000, ROWS, whole);
	for (uint32_t size = 1; size <= ROWS; size++)
		for (uint32_t from = 0; from + size <= ROWS; from += size) {
			plan(&options, 31, 2, 5000 + from, size, part);
			for (uint32_t i = 0; i < size; i++) {
				struct penstock_cuda_row a = own_part(whole[from + i]);
				struct penstock_cuda_row b = own_part(part[i]);
				assert_memory_equal(&a, &b, sizeof a);
			}
		}
	plan(&options, 31, 2, 5000, ROWS, part);
	assert_memory_equal(part, whole, sizeof whole);
}

/* How a batch is mixed follows from its first row: neither from its size nor from the others. */
static void a_batch_is_mixed_by_its_first_position(void **state)
{
	struct penstock_cuda_options options = everything();
	struct penstock_cuda_row all[ROWS], few[ROWS];
	(void)state;
	for (uint64_t first = 0; first < 1000; first++) {
		plan(&options, 31, 2, first, ROWS, all);
		plan(&options, 31, 2, first, 2, few);
		assert_memory_equal(&all[0].cut_x, &few[0].cut_x, 4 * sizeof(uint16_t));
		assert_memory_equal(&all[0].blend, &few[0].blend, 4 * sizeof(float));
	}
}

static uint64_t hash_of(uint64_t seed, uint64_t epoch, uint64_t first)
{
	struct penstock_cuda_options options = everything();
	struct penstock_cuda_row rows[ROWS];
	uint64_t hash = HASH_SEED;
	plan(&options, seed, epoch, first, ROWS, rows);
	for (uint32_t i = 0; i < ROWS; i++) {
		rows[i].position = rows[i].epoch = 0; /* the name itself */
		hash = hash_bytes(hash, &rows[i], sizeof rows[i]);
	}
	return hash_mix(hash);
}

static void differs_in_every_part_of_the_name(void **state)
{
	const uint64_t hashes[] = {
		hash_of(1, 1, 1),
		hash_of(2, 1, 1),
		hash_of(1 + ((uint64_t)1 << 32), 1, 1),
		hash_of(1, 2, 1),
		hash_of(1, 1, 1 + ((uint64_t)1 << 32)),
		hash_of(1, 1, ((uint64_t)1 << 48) - ROWS),
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(hashes); i++)
		for (size_t j = 0; j < i; j++)
			assert_true(hashes[i] != hashes[j]);
}

/* A counter has 32 bits of the epoch and 48 of the position. The latter comes out of the daemon's
 * memory: garbage there must not end the trainer. */
static void cuts_what_a_counter_cannot_hold(void **state)
{
	struct penstock_cuda_options options = everything();
	struct penstock_cuda_row row =
		plan_first(&options, 6, ((uint64_t)5 << 32) + 9, UINT64_MAX - 1, SIDE, SIDE);
	(void)state;
	assert_int_equal(row.epoch, 9);
	assert_true(row.position == UINT64_MAX - 1);
	assert_true(hash_of(6, ((uint64_t)5 << 32) + 9, 3) == hash_of(6, 9, 3));
	assert_true(hash_of(6, 9, ((uint64_t)7 << 48) + 3) == hash_of(6, 9, 3));
}

/* The promise "same seed, same bytes": these values may never change. */
static void golden_rows(void **state)
{
	static const struct {
		uint64_t seed, position;
		uint32_t epoch, flags;
		uint16_t erase[4], cut[4];
		float weight;
	} golden[] = {
		{0, 0, 0, 6, {90, 156, 116, 51}, {0, 0, 0, 0}, 0x1.58e548p-6F},
		{0, 1, 0, 7, {32, 123, 144, 66}, {0, 43, 198, 181}, 0x1.249cbcp-2F},
		{1, 0, 0, 6, {36, 53, 158, 94}, {0, 0, 0, 0}, 0x1.f1f672p-1F},
		{0, 0, 1, 6, {89, 11, 79, 167}, {112, 133, 90, 90}, 0x1.ad58dp-1F},
		{0xfedcba9876543210u, 0xabcdef012345u, 89, 6, {48, 8, 160, 57}, {0, 0, 0, 0},
			0x1.1485cep-4F},
	};
	struct penstock_cuda_options options = everything();
	(void)state;
	for (unsigned i = 0; i < UTIL_COUNT(golden); i++) {
		struct penstock_cuda_row row = plan_first(
			&options, golden[i].seed, golden[i].epoch, golden[i].position, SIDE, SIDE);
		if (row.flags != golden[i].flags ||
			memcmp(&row.erase_x, golden[i].erase, sizeof golden[i].erase) != 0 ||
			memcmp(&row.cut_x, golden[i].cut, sizeof golden[i].cut) != 0 ||
			row.weight != golden[i].weight)
			fail_msg("golden %u: %u, {%u, %u, %u, %u}, {%u, %u, %u, %u}, %aF", i,
				row.flags, row.erase_x, row.erase_y, row.erase_w, row.erase_h,
				row.cut_x, row.cut_y, row.cut_w, row.cut_h, row.weight);
	}
	uint64_t hash = HASH_SEED;
	for (uint32_t n = 0; n < 500; n++)
		hash = hash_u64(hash, hash_of(42, n % 90, n * ROWS));
	if (hash_mix(hash) != 0xe496fda2c02a22b3)
		fail_msg("golden hash: 0x%016llx", (unsigned long long)hash_mix(hash));
}

static void *some_allocate(void *context, size_t bytes)
{
	(void)bytes;
	return context;
}

static void some_release(void *context, void *memory, size_t bytes)
{
	(void)context;
	(void)memory;
	(void)bytes;
}

static void takes_good_options(void **state)
{
	struct penstock_cuda_options options = defaults();
	(void)state;
	assert_int_equal(mix_check(&options), 0);
	options.device = 7;
	options.prefetch = 64;
	options.memory = PENSTOCK_CUDA_RING;
	options.dtype = PENSTOCK_CUDA_BFLOAT16;
	options.layout = PENSTOCK_CUDA_NCHW;
	options.allocate = some_allocate;
	options.release = some_release;
	options.flip = options.erase = 1;
	options.erase_scale[0] = options.erase_scale[1] = 0.5;
	options.erase_ratio[0] = options.erase_ratio[1] = 1;
	options.erase_random = 1;
	options.mean[0] = -3e38F;
	options.mixup = 0.01;
	options.cutmix = 100;
	options.mix = options.mix_switch = 0;
	assert_int_equal(mix_check(&options), 0);
	options.prefetch = 1;
	assert_int_equal(mix_check(&options), 0);
}

static void epochs_change_what_is_mixed(void **state)
{
	(void)state;
	const struct penstock_mix_epoch epochs[] = {
		{.epoch = 2, .cutmix = 1, .mix = 1}, {.epoch = 4, .mix = 1}};
	struct penstock_cuda_options options = defaults(), second = defaults(), third = defaults();
	options.mixup = 0.5;
	const struct penstock_cuda_options first = options;
	second.cutmix = 1;
	options.epochs = epochs;
	options.epoch_count = 2;
	assert_int_equal(mix_check(&options), 0);
	const struct penstock_cuda_options *constant[] = {
		&first, &first, &second, &second, &third, &third};
	for (uint64_t epoch = 0; epoch < 6; epoch++) {
		struct penstock_cuda_row rows[8], want[8];
		plan(&options, 3, epoch, 16, 8, rows);
		plan(constant[epoch], 3, epoch, 16, 8, want);
		assert_memory_equal(rows, want, sizeof want);
	}
}

#define REFUSES(change, sentence)                                                  \
	do {                                                                       \
		struct penstock_cuda_options options = defaults();                 \
		options.change;                                                    \
		penstock_error_set("");                                            \
		assert_int_equal(mix_check(&options), -EINVAL);                    \
		if (strcmp(penstock_error(), sentence) != 0)                       \
			fail_msg("options." #change ": \"%s\"", penstock_error()); \
	} while (0)

static void refuses_bad_settings(void **state)
{
	(void)state;
	REFUSES(device = -2, "options.device is -2: expected a device's number from 0 on, or -1 "
			     "for LOCAL_RANK's");
	REFUSES(prefetch = 0, "options.prefetch is 0: expected 1 to 64 batches");
	REFUSES(prefetch = 65, "options.prefetch is 65: expected 1 to 64 batches");
	REFUSES(prefetch = UINT32_MAX, "options.prefetch is 4294967295: expected 1 to 64 batches");
	REFUSES(memory = 3, "options.memory is 3: expected PENSTOCK_CUDA_AUTO, _REGISTERED or "
			    "_RING (0 to 2)");
	REFUSES(dtype = 3, "options.dtype is 3: expected PENSTOCK_CUDA_FLOAT32, _FLOAT16 or "
			   "_BFLOAT16 (0 to 2)");
	REFUSES(layout = 2, "options.layout is 2: expected PENSTOCK_CUDA_NHWC or _NCHW (0 or 1)");
	REFUSES(allocate = some_allocate, "options.allocate is set and options.release is not: "
					  "expected both, or neither for the driver's own memory");
	REFUSES(release = some_release, "options.release is set and options.allocate is not: "
					"expected both, or neither for the driver's own memory");
	REFUSES(erase_random = 2, "options.erase_random is 2: expected 0, or 1 for noise");
	REFUSES(erase_random = -1, "options.erase_random is -1: expected 0, or 1 for noise");
}

static void refuses_bad_probabilities(void **state)
{
	(void)state;
	REFUSES(flip = 1.5, "options.flip is 1.5: expected a probability, 0 to 1");
	REFUSES(flip = -0.1, "options.flip is -0.1: expected a probability, 0 to 1");
	REFUSES(erase = (double)INFINITY, "options.erase is inf: expected a probability, 0 to 1");
	REFUSES(mix = 2, "options.mix is 2: expected a probability, 0 to 1");
	REFUSES(mix_switch = -1, "options.mix_switch is -1: expected a probability, 0 to 1");
	REFUSES(mixup = -1, "options.mixup is -1: expected 0 for off, or the alpha of a Beta "
			    "distribution, 0.01 to 100");
	REFUSES(mixup = 0.001, "options.mixup is 0.001: expected 0 for off, or the alpha of a Beta "
			       "distribution, 0.01 to 100");
	REFUSES(cutmix = 101, "options.cutmix is 101: expected 0 for off, or the alpha of a Beta "
			      "distribution, 0.01 to 100");
}

static void refuses_bad_rectangles(void **state)
{
	(void)state;
	REFUSES(erase_scale[0] = -1,
		"options.erase_scale[0] is -1: expected a share of the image's area, 0 to 1");
	REFUSES(erase_scale[1] = 1.01,
		"options.erase_scale[1] is 1.01: expected a share of the image's area, 0 to 1");
	REFUSES(erase_scale[0] = 0.5,
		"options.erase_scale is 0.5 to 0.33: expected the smaller first");
	REFUSES(erase_ratio[0] = 0, "options.erase_ratio[0] is 0: expected a ratio above 0");
	REFUSES(erase_ratio[1] = (double)INFINITY,
		"options.erase_ratio[1] is inf: expected a ratio above 0");
	REFUSES(erase_ratio[0] = 4, "options.erase_ratio is 4 to 3.3: expected the smaller first");
}

static void refuses_bad_colors(void **state)
{
	(void)state;
	REFUSES(mean[1] = INFINITY, "options.mean[1] is inf: expected a finite number");
	REFUSES(std[2] = 0, "options.std[2] is 0: expected a number above 0");
	REFUSES(std[0] = -1, "options.std[0] is -1: expected a number above 0");
	REFUSES(std[1] = INFINITY, "options.std[1] is inf: expected a number above 0");
	REFUSES(erase_value[0] = -INFINITY,
		"options.erase_value[0] is -inf: expected a finite number");
}

/* Whatever sign the processor gives it. */
#define REFUSES_NAN(field)                                                           \
	do {                                                                         \
		struct penstock_cuda_options options = defaults();                   \
		options.field = NAN;                                                 \
		assert_int_equal(mix_check(&options), -EINVAL);                      \
		assert_non_null(strstr(penstock_error(), "options." #field " is ")); \
		assert_non_null(strstr(penstock_error(), "nan: expected "));         \
	} while (0)

static void refuses_nan(void **state)
{
	(void)state;
	REFUSES_NAN(flip);
	REFUSES_NAN(erase);
	REFUSES_NAN(mix);
	REFUSES_NAN(mix_switch);
	REFUSES_NAN(mixup);
	REFUSES_NAN(cutmix);
	REFUSES_NAN(erase_scale[0]);
	REFUSES_NAN(erase_scale[1]);
	REFUSES_NAN(erase_ratio[0]);
	REFUSES_NAN(erase_ratio[1]);
	REFUSES_NAN(mean[0]);
	REFUSES_NAN(std[0]);
	REFUSES_NAN(erase_value[2]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(untouched_where_nothing_is_asked_for),
		cmocka_unit_test(writes_count_rows_and_no_more),
		cmocka_unit_test(erases_what_the_twin_erases),
		cmocka_unit_test(erases_nothing_where_nothing_fits),
		cmocka_unit_test(erases_uniform_areas_and_ratios),
		cmocka_unit_test(mixes_up_as_the_twin_does),
		cmocka_unit_test(knows_the_beta_distribution),
		cmocka_unit_test(draws_beta_numbers),
		cmocka_unit_test(cuts_what_the_twin_cuts),
		cmocka_unit_test(pairs_each_row_with_the_one_before),
		cmocka_unit_test(leaves_a_single_row_as_it_is),
		cmocka_unit_test(keeps_to_the_probabilities),
		cmocka_unit_test(keeps_to_certainties),
		cmocka_unit_test(a_row_depends_on_its_position_alone),
		cmocka_unit_test(a_batch_is_mixed_by_its_first_position),
		cmocka_unit_test(differs_in_every_part_of_the_name),
		cmocka_unit_test(cuts_what_a_counter_cannot_hold),
		cmocka_unit_test(golden_rows),
		cmocka_unit_test(epochs_change_what_is_mixed),
		cmocka_unit_test(takes_good_options),
		cmocka_unit_test(refuses_bad_settings),
		cmocka_unit_test(refuses_bad_probabilities),
		cmocka_unit_test(refuses_bad_rectangles),
		cmocka_unit_test(refuses_bad_colors),
		cmocka_unit_test(refuses_nan),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

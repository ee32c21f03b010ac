/* order: a permutation for every size, its inverse, its statistics, and values that must never
 * change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "order/order.h"

#include <stdio.h>
#include <string.h>

enum { EVERY_SIZE = 2000 };

static struct order shuffled(uint64_t samples, uint64_t seed)
{
	return (struct order){.samples = samples, .seed = seed, .shuffle = true};
}

/* Every sample exactly once, for each size in turn; the inverse is sampled. */
static void permutes_every_size(void **state)
{
	static uint8_t seen[EVERY_SIZE];
	(void)state;
	for (uint64_t n = 1; n <= EVERY_SIZE; n++) {
		struct order order = shuffled(n, n * 77);
		memset(seen, 0, n);
		for (uint64_t p = 0; p < n; p++) {
			uint64_t sample = order_sample(&order, 3, p);
			assert_true(sample < n);
			assert_int_equal(seen[sample]++, 0);
			if (n < 200 || p % 97 == n % 97)
				assert_int_equal(order_position(&order, 3, sample), p);
		}
	}
}

static void inverts_large_sizes(void **state)
{
	static const uint64_t sizes[] = {65535, 65536, 65537, 1281167, 100000000, UINT32_MAX,
		(uint64_t)1 << 32, ((uint64_t)1 << 32) + 1, 1000000000000, ((uint64_t)1 << 40) - 87,
		(uint64_t)1 << 40, ((uint64_t)1 << 40) + 1};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(sizes); i++) {
		struct order order = shuffled(sizes[i], 0xfedcba9876543210u + i);
		for (uint64_t k = 0; k < 500; k++) {
			uint64_t position = k < 5    ? k
					    : k < 10 ? sizes[i] - 1 - (k - 5)
						     : k * 0x9e3779b97f4a7c15u % sizes[i];
			uint64_t sample = order_sample(&order, (uint32_t)k, position);
			assert_true(sample < sizes[i]);
			assert_int_equal(order_position(&order, (uint32_t)k, sample), position);
			assert_true(order_position(&order, (uint32_t)k, position) < sizes[i]);
		}
	}
}

static void leaves_the_order_alone_without_shuffle(void **state)
{
	struct order order = {.samples = 1000, .seed = 5};
	(void)state;
	for (uint64_t p = 0; p < 1000; p++) {
		assert_int_equal(order_sample(&order, 7, p), p);
		assert_int_equal(order_position(&order, 7, p), p);
	}
}

/* The order shuffles the places of a subset, so a subset has the order of a dataset of its size.
 */
static void looks_numbers_up_in_a_subset(void **state)
{
	static const uint32_t narrow[] = {7, 1000000, 7, 0, 4294967295u, 12, 7};
	static const uint64_t wide[] = {7, 1000000, 7, 0, (uint64_t)1 << 40, 12, 7};
	struct order plain = shuffled(UTIL_COUNT(narrow), 11), few = plain, many = plain;
	(void)state;
	few.subset.narrow = narrow;
	many.subset.wide = wide;
	for (uint32_t epoch = 0; epoch < 50; epoch++) {
		for (uint64_t p = 0; p < plain.samples; p++) {
			uint64_t place = order_sample(&plain, epoch, p);
			assert_int_equal(order_sample(&few, epoch, p), narrow[place]);
			assert_int_equal(order_sample(&many, epoch, p), wide[place]);
			assert_int_equal(order_position(&few, epoch, place), p);
			place = order_substitute(&plain, epoch, p, epoch % 3 + 1);
			assert_int_equal(
				order_substitute(&few, epoch, p, epoch % 3 + 1), narrow[place]);
			assert_int_equal(
				order_substitute(&many, epoch, p, epoch % 3 + 1), wide[place]);
		}
	}
	few.shuffle = many.shuffle = false;
	for (uint64_t p = 0; p < plain.samples; p++) {
		assert_int_equal(order_sample(&few, 3, p), narrow[p]);
		assert_int_equal(order_sample(&many, 3, p), wide[p]);
	}
}

/* An independent program computed these values from the construction in order.h. They keep the
 * promise "same seed, same order" across releases. */
static void never_changes(void **state)
{
	static const uint64_t epoch0[] = {1, 7, 9, 6, 3, 8, 4, 2, 0, 5},
			      epoch1[] = {7, 8, 0, 5, 9, 2, 1, 6, 3, 4};
	static const uint64_t imagenet[] = {250479, 482514, 972654, 230022, 278370};
	struct order ten = shuffled(10, 0), large = shuffled(1281167, 42);
	struct order keyed = shuffled(1281167, 0x123456789abcdef0u),
		     huge = shuffled(1000000000000, 7);
	(void)state;
	for (uint64_t p = 0; p < 10; p++) {
		assert_int_equal(order_sample(&ten, 0, p), epoch0[p]);
		assert_int_equal(order_sample(&ten, 1, p), epoch1[p]);
	}
	for (uint64_t p = 0; p < UTIL_COUNT(imagenet); p++)
		assert_int_equal(order_sample(&large, 0, p), imagenet[p]);
	assert_int_equal(order_sample(&keyed, 90, 0), 456165);
	assert_int_equal(order_sample(&keyed, 90, 1), 995481);
	assert_int_equal(order_sample(&keyed, 90, 1281166), 210145);
	assert_int_equal(order_sample(&huge, 3, 0), 210332001501);
	assert_int_equal(order_sample(&huge, 3, 1), 984673518343);
	assert_int_equal(order_sample(&huge, 3, 999999999999), 714400437530);
}

/* Chi-square of "position p shows sample s" over many epochs or seeds. For permutations it has (n -
 * 1)^2 degrees of freedom after scaling by (n - 1) / n; the bound is 5 standard deviations of that
 * distribution. */
static void assert_uniform(uint64_t n, bool over_seeds)
{
	enum { TRIALS = 12000, WIDEST = 40 };
	static unsigned count[WIDEST][WIDEST];
	double expected = (double)TRIALS / (double)n, chi = 0,
	       freedom = (double)((n - 1) * (n - 1));
	memset(count, 0, sizeof count);
	for (uint32_t t = 0; t < TRIALS; t++) {
		struct order order = shuffled(n, over_seeds ? t : 99);
		for (uint64_t p = 0; p < n; p++)
			count[p][order_sample(&order, over_seeds ? 0 : t, p)]++;
	}
	for (uint64_t p = 0; p < n; p++)
		for (uint64_t s = 0; s < n; s++)
			chi += (count[p][s] - expected) * (count[p][s] - expected) / expected;
	chi *= (double)(n - 1) / (double)n;
	double excess = chi - freedom;
	if (excess * excess > 25 * 2 * freedom)
		fail_msg("n = %d over %s: chi-square %.1f at %.0f degrees of freedom", (int)n,
			over_seeds ? "seeds" : "epochs", chi, freedom);
}

static void shows_every_sample_everywhere_alike(void **state)
{
	static const uint64_t sizes[] = {2, 3, 4, 5, 8, 15, 16, 17, 33};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(sizes); i++) {
		assert_uniform(sizes[i], false);
		assert_uniform(sizes[i], true);
	}
}

/* All 120 orders of five samples come equally often: so positions are also independent of each
 * other. */
static void reaches_every_order_of_five(void **state)
{
	enum { TRIALS = 60000, ORDERS = 120 };
	unsigned count[ORDERS] = {0};
	double chi = 0;
	(void)state;
	for (uint32_t t = 0; t < TRIALS; t++) {
		struct order order = shuffled(5, 1);
		unsigned number = 0, used = 0;
		for (uint64_t p = 0; p < 5; p++) {
			unsigned sample = (unsigned)order_sample(&order, t, p);
			unsigned below = (unsigned)__builtin_popcount(~used & ((1u << sample) - 1));
			number = number * (5 - (unsigned)p) + below; /* Lehmer code */
			used |= 1u << sample;
		}
		count[number]++;
	}
	for (size_t i = 0; i < ORDERS; i++)
		chi += (count[i] - TRIALS / 120.0) * (count[i] - TRIALS / 120.0) / (TRIALS / 120.0);
	assert_true(chi > 119 - 5 * 15.4 && chi < 119 + 5 * 15.4);
}

/* Without the coin of order.c, fifteen of sixteen samples would nearly always form an odd
 * permutation. */
static void is_as_often_odd_as_even(void **state)
{
	static const uint64_t sizes[] = {6, 15, 16, 64};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(sizes); i++) {
		unsigned odd = 0;
		for (uint32_t t = 0; t < 4000; t++) {
			struct order order = shuffled(sizes[i], 8);
			uint64_t seen = 0, cycles = 0;
			for (uint64_t p = 0; p < sizes[i]; p++) {
				cycles += !(seen >> p & 1);
				for (uint64_t x = p; !(seen >> x & 1);
					x = order_sample(&order, t, x))
					seen |= (uint64_t)1 << x;
			}
			odd += (sizes[i] - cycles) & 1;
		}
		assert_in_range(odd, 1840, 2160); /* 5 standard deviations */
	}
}

/* Two independent permutations agree in about one place, for every n. */
static unsigned agreements(
	const struct order *a, uint32_t epoch_a, const struct order *b, uint32_t epoch_b)
{
	unsigned same = 0;
	for (uint64_t p = 0; p < a->samples; p++)
		same += order_sample(a, epoch_a, p) == order_sample(b, epoch_b, p);
	return same;
}

static void shares_nothing_between_epochs_and_seeds(void **state)
{
	enum { SAMPLES = 1000, PAIRS = 200 };
	struct order identity = {.samples = SAMPLES};
	unsigned epochs = 0, seeds = 0, high = 0, fixed = 0;
	(void)state;
	for (uint32_t e = 0; e < PAIRS; e++) {
		struct order a = shuffled(SAMPLES, e), b = shuffled(SAMPLES, e + 1);
		struct order c = shuffled(SAMPLES, e | (uint64_t)1 << 63);
		epochs += agreements(&a, e, &a, e + 1);
		seeds += agreements(&a, 0, &b, 0);
		high += agreements(&a, 0, &c, 0);
		fixed += agreements(&a, e, &identity, 0);
	}
	/* Poisson with mean 200: 6 standard deviations. */
	assert_in_range(epochs, 115, 285);
	assert_in_range(seeds, 115, 285);
	assert_in_range(high, 115, 285);
	assert_in_range(fixed, 115, 285);
}

/* Neighbors in the order are not neighbors in the dataset: their mean distance is a third of its
 * size. */
static void tears_neighbours_apart(void **state)
{
	enum { SAMPLES = 100000 };
	struct order order = shuffled(SAMPLES, 12);
	double distance = 0, drift = 0;
	uint64_t last = order_sample(&order, 0, 0);
	(void)state;
	for (uint64_t p = 1; p < SAMPLES; p++) {
		uint64_t sample = order_sample(&order, 0, p);
		distance += (double)(sample > last ? sample - last : last - sample);
		drift += ((double)p / SAMPLES - 0.5) * ((double)sample / SAMPLES - 0.5);
		last = sample;
	}
	distance /= SAMPLES - 1.0;
	drift /= SAMPLES / 12.0; /* correlation of position and sample */
	assert_true(distance > SAMPLES / 3.0 * 0.99 && distance < SAMPLES / 3.0 * 1.01);
	assert_true(drift > -0.016 && drift < 0.016); /* 5 / sqrt(n) */
}

static void substitutes_from_the_whole_dataset(void **state)
{
	struct order order = shuffled(10, 4), other = shuffled(10, 5);
	unsigned count[10] = {0}, same = 0;
	(void)state;
	for (uint64_t p = 0; p < 10; p++)
		for (uint32_t attempt = 1; attempt <= 2000; attempt++) {
			uint64_t sample = order_substitute(&order, 1, p, attempt);
			assert_int_equal(sample, order_substitute(&order, 1, p, attempt));
			count[sample]++;
			same += sample == order_substitute(&other, 1, p, attempt);
		}
	for (size_t i = 0; i < 10; i++)
		assert_in_range(count[i], 1780, 2220); /* 5 standard deviations */
	assert_in_range(same, 1780, 2220);
	struct order one = shuffled(1, 4);
	assert_int_equal(order_substitute(&one, 0, 0, 1), 0);
}

static void hashes_what_fixes_the_order(void **state)
{
	struct order a = shuffled(10, 4), b = shuffled(10, 5), c = {.samples = 10, .seed = 4},
		     d = shuffled(11, 4);
	(void)state;
	assert_int_not_equal(order_hash(&a), order_hash(&b));
	assert_int_not_equal(order_hash(&a), order_hash(&c));
	assert_int_equal(order_hash(&a), order_hash(&d)); /* the fingerprint covers the dataset */
}

/* Deals an epoch from `start` on and counts how often it deals each position, without padding.
 * Returns the rows of all ranks together. */
static uint64_t deal(const struct order_epoch *epoch, uint64_t start, unsigned *times)
{
	uint64_t rows = 0, position = start, batches = order_batches(epoch, start);
	for (uint64_t b = 0, next = start; b < batches; b++, position = next) {
		uint64_t end = position;
		for (uint32_t rank = 0; rank < epoch->world_size; rank++) {
			struct order_slice s = order_slice(epoch, position, rank);
			assert_in_range(s.count, 1, epoch->batch_size);
			assert_int_equal(s.last, b == batches - 1);
			assert_int_equal(s.next,
				s.last ? 0 : position + epoch->batch_size * epoch->world_size);
			if (!s.last)
				assert_int_equal(s.position, position + rank * epoch->batch_size);
			if (s.padded) {
				assert_int_equal(s.count, 1);
				assert_int_equal(s.position, epoch->samples - 1);
				continue;
			}
			assert_int_equal(s.position,
				end); /* each rank continues where the one before ends */
			end += s.count;
			for (uint32_t i = 0; i < s.count; i++)
				times[s.position + i]++;
			rows += s.count;
			next = s.next;
		}
	}
	return rows;
}

static void assert_dealt(const struct order_epoch *epoch, uint64_t start)
{
	unsigned times[64] = {0};
	uint64_t global = (uint64_t)epoch->batch_size * epoch->world_size, steps;
	uint64_t left = start < epoch->samples ? epoch->samples - start : 0;
	uint64_t expected = epoch->drop_last ? left / global * global : left;
	assert_int_equal(order_left(epoch, start), expected);
	assert_int_equal(deal(epoch, start, times), expected);
	for (uint64_t p = 0; p < UTIL_COUNT(times); p++)
		assert_int_equal(times[p], p >= start && p < start + expected);
	for (uint64_t p = 0; p < UTIL_COUNT(times); p++) {
		bool begins = order_steps(epoch, start, p, &steps);
		bool expect = p >= start && (p - start) % global == 0 &&
			      (p - start) / global <= order_batches(epoch, start);
		assert_int_equal(begins, expect);
		if (begins)
			assert_int_equal(steps, (p - start) / global);
	}
}

static void deals_every_sample_once(void **state)
{
	(void)state;
	for (uint64_t samples = 0; samples <= 40; samples++)
		for (uint32_t batch_size = 1; batch_size <= 8; batch_size++)
			for (uint32_t world_size = 1; world_size <= 5; world_size++) {
				for (int drop_last = 0; drop_last <= 1; drop_last++) {
					struct order_epoch epoch = {.samples = samples,
						.batch_size = batch_size,
						.world_size = world_size,
						.drop_last = drop_last};
					assert_dealt(&epoch, 0);
					assert_dealt(&epoch, samples / 2);
					assert_dealt(&epoch, samples);
				}
			}
}

static void shares_out_the_tail_evenly(void **state)
{
	struct order_epoch epoch = {
		.samples = 1281167, .batch_size = 256, .world_size = 8, .drop_last = false};
	(void)state;
	assert_int_equal(order_batches(&epoch, 0), 626);
	/* 1,167 samples remain: 145 for each rank, and one more for the first seven. */
	struct order_slice s = order_slice(&epoch, 625 * 2048, 7);
	assert_int_equal(s.position, 1281167 - 145);
	assert_int_equal(s.count, 145);
	assert_int_equal(order_slice(&epoch, 625 * 2048, 6).count, 146);
	assert_true(s.last);
	epoch.samples = 625 * 2048 + 3;
	assert_true(order_slice(&epoch, 625 * 2048, 3).padded);
	assert_false(order_slice(&epoch, 625 * 2048, 2).padded);
	epoch.drop_last = true;
	assert_int_equal(order_batches(&epoch, 0), 625);
}

static void deals_large_epochs(void **state)
{
	struct order_epoch epoch = {.samples = (uint64_t)1 << 48,
		.batch_size = 65536,
		.world_size = 65536,
		.drop_last = false};
	(void)state;
	assert_int_equal(order_batches(&epoch, 0), 65536);
	epoch.samples++;
	assert_int_equal(order_batches(&epoch, 0), 65537);
	assert_int_equal(order_slice(&epoch, (uint64_t)1 << 48, 65535).position, (uint64_t)1 << 48);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(permutes_every_size),
		cmocka_unit_test(inverts_large_sizes),
		cmocka_unit_test(leaves_the_order_alone_without_shuffle),
		cmocka_unit_test(looks_numbers_up_in_a_subset),
		cmocka_unit_test(never_changes),
		cmocka_unit_test(shows_every_sample_everywhere_alike),
		cmocka_unit_test(reaches_every_order_of_five),
		cmocka_unit_test(is_as_often_odd_as_even),
		cmocka_unit_test(shares_nothing_between_epochs_and_seeds),
		cmocka_unit_test(tears_neighbours_apart),
		cmocka_unit_test(substitutes_from_the_whole_dataset),
		cmocka_unit_test(hashes_what_fixes_the_order),
		cmocka_unit_test(deals_every_sample_once),
		cmocka_unit_test(shares_out_the_tail_evenly),
		cmocka_unit_test(deals_large_epochs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

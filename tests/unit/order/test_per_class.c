/* per_class: every block has P distinct classes with K samples of each, classes and samples come
 * equally often, a sample is replaced by another one of its class. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "order/sampler.h"

#include <string.h>

/* Classes of 1, 3, 4, 5 and 9 samples; sample s of class c is 100 c + s. */
static const uint64_t sizes[] = {1, 3, 4, 5, 9};
enum { CLASSES = 5, SAMPLES = 22, SEED = 77 };

struct table {
	uint64_t first[CLASSES + 1];
	uint32_t number[SAMPLES];
	uint64_t wide[SAMPLES];
	struct per_class view;
};

static void make(struct table *table, uint32_t classes, uint32_t each)
{
	uint64_t at = 0;
	for (uint32_t c = 0; c < CLASSES; c++) {
		table->first[c] = at;
		for (uint32_t s = 0; s < sizes[c]; s++, at++)
			table->wide[at] = table->number[at] = 100 * c + s;
	}
	table->first[CLASSES] = at;
	assert_int_equal(at, SAMPLES);
	table->view = (struct per_class){.classes = classes,
		.each = each,
		.all = CLASSES,
		.first = table->first,
		.narrow = table->number};
}

/* The class of a row's samples, which all of its K rows have. */
static uint64_t check_class(const struct per_class *view, uint64_t block, uint64_t slot)
{
	const uint64_t first = per_class_sample(view, SEED, block, slot * view->each);
	const uint64_t class = first / 100;
	uint32_t count[16] = {0}, most = 0, least = UINT32_MAX;
	for (uint32_t i = 0; i < view->each; i++) {
		uint64_t sample = per_class_sample(view, SEED, block, slot * view->each + i);
		assert_int_equal(sample / 100, class);
		assert_true(sample % 100 < sizes[class]);
		count[sample % 100]++;
	}
	for (uint32_t s = 0; s < sizes[class]; s++) {
		most = UTIL_MAX(most, count[s]);
		least = UTIL_MIN(least, count[s]);
	}
	if (sizes[class] >= view->each)
		assert_int_equal(most, 1);
	else
		assert_true(most - least <= 1);
	return class;
}

static void blocks_have_classes(void **state)
{
	static const uint32_t shapes[][2] = {{1, 1}, {2, 4}, {3, 2}, {4, 3}, {5, 7}};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(shapes); i++) {
		struct table table;
		uint32_t seen[CLASSES] = {0}, blocks = 3000;
		make(&table, shapes[i][0], shapes[i][1]);
		for (uint64_t block = 0; block < blocks; block++) {
			uint32_t here = 0;
			for (uint32_t slot = 0; slot < table.view.classes; slot++) {
				uint64_t class = check_class(&table.view, block, slot);
				assert_false(here >> class & 1);
				here |= 1u << class;
				seen[class]++;
			}
		}
		/* Where P divides the classes, exactly; otherwise the rest is left out by chance:
		 * 6 standard deviations are below 330. */
		double mean = blocks * table.view.classes / (double)CLASSES;
		for (uint32_t c = 0; c < CLASSES; c++) {
			double off = seen[c] - mean;
			assert_true(
				CLASSES % table.view.classes ? off * off < 330. * 330. : off == 0);
		}
	}
}

/* All classes come in each pass, so a class of 9 shows 4, 4, and others of the next permutation. */
static void samples_come_equally_often(void **state)
{
	struct table table;
	uint32_t seen[CLASSES][16] = {{0}};
	(void)state;
	make(&table, 5, 4);
	for (uint64_t block = 0; block < 4000; block++)
		for (uint32_t row = 0; row < 20; row++) {
			uint64_t sample = per_class_sample(&table.view, SEED, block, row);
			seen[sample / 100][sample % 100]++;
		}
	for (uint32_t c = 0; c < CLASSES; c++)
		for (uint32_t s = 0; s < sizes[c]; s++) {
			double off = seen[c][s] - 16000. / (double)sizes[c];
			assert_true(off * off < 250. * 250.);
		}
	/* Every sample of a class comes once before any comes twice, where K divides its number. */
	make(&table, 5, 3);
	uint32_t nine = 0;
	for (uint64_t block = 0; block < 3; block++)
		for (uint32_t row = 0; row < 15; row++) {
			uint64_t sample = per_class_sample(&table.view, SEED, block, row);
			if (sample / 100 == 4)
				nine |= 1u << sample % 100;
		}
	assert_int_equal(nine, 0x1ff);
}

static void numbers_may_be_wide(void **state)
{
	struct table table;
	(void)state;
	make(&table, 2, 4);
	struct per_class wide = table.view;
	wide.narrow = NULL;
	wide.wide = table.wide;
	for (uint64_t block = 0; block < 50; block++)
		for (uint32_t row = 0; row < 8; row++)
			assert_int_equal(per_class_sample(&wide, SEED, block, row),
				per_class_sample(&table.view, SEED, block, row));
}

static void substitutes_are_of_the_class(void **state)
{
	struct table table;
	(void)state;
	make(&table, 5, 4);
	for (uint64_t block = 0; block < 40; block++)
		for (uint32_t row = 0; row < 20; row++) {
			const uint64_t own = per_class_sample(&table.view, SEED, block, row);
			const uint64_t class = own / 100;
			uint32_t shown = 0, tried = 1u << own % 100;
			uint64_t other;
			for (uint32_t i = 0; i < 4; i++)
				shown |= 1u << per_class_sample(
						       &table.view, SEED, block, row / 4 * 4 + i) %
						       100;
			for (uint32_t attempt = 1; attempt < sizes[class]; attempt++) {
				assert_true(per_class_substitute(
					&table.view, SEED, block, row, attempt, &other));
				assert_int_equal(other / 100, class);
				assert_false(tried >> other % 100 & 1);
				if (attempt + 4 <= sizes[class])
					assert_false(shown >> other % 100 & 1);
				tried |= 1u << other % 100;
			}
			assert_false(per_class_substitute(
				&table.view, SEED, block, row, (uint32_t)sizes[class], &other));
		}
}

/* Blocks are numbered through all epochs, and another seed has another order. */
static void epochs_continue(void **state)
{
	struct table table;
	(void)state;
	make(&table, 2, 4);
	const struct order order = {.samples = SAMPLES, .seed = SEED, .shuffle = true};
	struct sampler sampler = sampler_plain(&order);
	sampler.per_class = table.view;
	sampler.endless = true;
	sampler.length = 16;
	uint32_t same = 0;
	for (uint32_t epoch = 0; epoch < 5; epoch++)
		for (uint64_t p = 0; p < 16; p++) {
			const uint64_t block = epoch * 2 + p / 8;
			uint64_t number = sampler_pick(&sampler, epoch, p).number;
			assert_int_equal(number, per_class_sample(&table.view, SEED, block, p % 8));
			same += number == per_class_sample(&table.view, SEED + 1, block, p % 8);
		}
	assert_true(same < 40);
	/* A class with one sample: any other sample replaces it. */
	sampler.length = 8;
	for (uint32_t epoch = 0; epoch < 50; epoch++)
		for (uint64_t p = 0; p < 8; p++)
			if (sampler_pick(&sampler, epoch, p).number == 0)
				assert_true(
					sampler_substitute(&sampler, epoch, p, 1).number < SAMPLES);
	/* The largest numbers do not overflow. */
	sampler.length = SAMPLER_LENGTH_MAX;
	(void)sampler_pick(&sampler, UINT32_MAX, SAMPLER_LENGTH_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_have_classes),
		cmocka_unit_test(samples_come_equally_often),
		cmocka_unit_test(numbers_may_be_wide),
		cmocka_unit_test(substitutes_are_of_the_class),
		cmocka_unit_test(epochs_continue),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

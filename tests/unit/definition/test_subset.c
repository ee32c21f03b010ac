/* subset: lists of samples from files: kept once, counted in the ledger, refused in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "definition/subset.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUDGET ((uint64_t)1 << 20)

struct place {
	char folder[32], path[64];
	struct ledger ledger;
	struct list_shelf shelf;
};

static uint64_t budget_for(void *context, uint64_t bytes_more)
{
	(void)context;
	return BUDGET + bytes_more;
}

static int set_up(void **state)
{
	struct place *place = calloc(1, sizeof *place);
	assert_non_null(place);
	(void)snprintf(place->folder, sizeof place->folder, "/tmp/penstock-unit-XXXXXX");
	assert_non_null(mkdtemp(place->folder));
	(void)snprintf(place->path, sizeof place->path, "%s/list.npy", place->folder);
	ledger_init(&place->ledger, BUDGET);
	list_shelf_init(&place->shelf, &place->ledger, budget_for, NULL);
	*state = place;
	return 0;
}

static int tear_down(void **state)
{
	struct place *place = *state;
	assert_int_equal(ledger_free(&place->ledger), BUDGET);
	list_shelf_deinit(&place->shelf);
	ledger_deinit(&place->ledger);
	(void)unlink(place->path);
	assert_int_equal(rmdir(place->folder), 0);
	free(place);
	return 0;
}

/* A file of `count` values of this type, as memory has them. */
static void write_list(const struct place *place, const char *type, uint64_t count,
	const void *values, size_t size)
{
	char dict[128];
	FILE *file = fopen(place->path, "wb");
	assert_non_null(file);
	int text = snprintf(dict, sizeof dict,
		"{'descr': '%s', 'fortran_order': False, 'shape': (%llu,), }\n", type,
		(unsigned long long)count);
	const uint8_t head[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (uint8_t)text, 0};
	assert_int_equal(fwrite(head, sizeof head, 1, file), 1);
	assert_int_equal(fwrite(dict, (size_t)text, 1, file), 1);
	assert_true(!size || fwrite(values, size, 1, file) == 1);
	assert_int_equal(fclose(file), 0);
}

static struct list *open_list(struct place *place)
{
	struct list *subset;
	struct fault fault = {{0}};
	if (subset_open(&place->shelf, place->path, NULL, &subset, &fault))
		fail_msg("%s", fault.text);
	return subset;
}

static void refuses(struct place *place, int code, const char *words)
{
	struct list *subset;
	struct fault fault = {{0}};
	assert_int_equal(subset_open(&place->shelf, place->path, NULL, &subset, &fault), code);
	if (!strstr(fault.text, words) || !strstr(fault.text, place->path))
		fail_msg("expected \"%s\" and the path in \"%s\"", words, fault.text);
}

static void keeps_numbers_in_four_bytes_where_they_fit(void **state)
{
	struct place *place = *state;
	static uint64_t wide[20000];
	static uint32_t narrow[20000];
	for (uint32_t i = 0; i < UTIL_COUNT(wide); i++)
		wide[i] = narrow[i] = i * 2654435761u;
	write_list(place, "<i8", UTIL_COUNT(wide), wide, sizeof wide);
	struct list *one = open_list(place);
	assert_int_equal(one->count, UTIL_COUNT(wide));
	assert_int_equal(BUDGET - ledger_free(&place->ledger), sizeof narrow);
	assert_int_equal(one->bytes, sizeof narrow);
	assert_memory_equal(subset_numbers(one).narrow, narrow, sizeof narrow);
	/* Another file, another type, the same numbers: the same memory. */
	write_list(place, "<u4", UTIL_COUNT(narrow), narrow, sizeof narrow);
	struct list *two = open_list(place);
	assert_ptr_equal(one, two);
	assert_int_equal(BUDGET - ledger_free(&place->ledger), sizeof narrow);
	/* The same numbers in another order are another subset. */
	narrow[7] = (uint32_t)wide[8];
	narrow[8] = (uint32_t)wide[7];
	write_list(place, "<u4", UTIL_COUNT(narrow), narrow, sizeof narrow);
	struct list *three = open_list(place);
	assert_true(one != three && one->hash != three->hash);
	wide[9] = (uint64_t)1 << 32;
	write_list(place, "<u8", UTIL_COUNT(wide), wide, sizeof wide);
	struct list *four = open_list(place);
	assert_int_equal(four->bytes, sizeof wide);
	assert_memory_equal(subset_numbers(four).wide, wide, sizeof wide);
	list_close(&place->shelf, one);
	assert_int_equal(subset_numbers(two).narrow[7], wide[7]);
	list_close(&place->shelf, two);
	list_close(&place->shelf, three);
	list_close(&place->shelf, four);
	list_close(&place->shelf, NULL);
}

static void knows_itself_by_its_content(void **state)
{
	static const uint64_t lists[][3] = {
		{0, 0, 0}, {0, 0, 1}, {1, 0, 0}, {0, 1, 0}, {2, 1, 0}, {0, 1, 2}};
	struct place *place = *state;
	uint64_t seen[UTIL_COUNT(lists)];
	for (size_t i = 0; i < UTIL_COUNT(lists); i++) {
		write_list(place, "<i8", 3, lists[i], sizeof lists[i]);
		struct list *subset = open_list(place);
		seen[i] = subset->hash;
		list_close(&place->shelf, subset);
		for (size_t k = 0; k < i; k++)
			assert_true(seen[k] != seen[i]);
	}
	/* Part of the promise that a state goes on with a later release. */
	static const uint64_t fixed[] = {3, 1, 4, 1, 5, 9, 2, 6};
	write_list(place, "<i8", UTIL_COUNT(fixed), fixed, sizeof fixed);
	struct list *subset = open_list(place);
	assert_int_equal(subset->hash, 0xc81a3e29dd54e77c);
	list_close(&place->shelf, subset);
}

static void changes_nothing_when_the_file_does(void **state)
{
	struct place *place = *state;
	static const uint32_t list[] = {5, 6, 7};
	write_list(place, "<u4", 3, list, sizeof list);
	struct list *subset = open_list(place);
	assert_int_equal(truncate(place->path, 3), 0);
	assert_memory_equal(subset_numbers(subset).narrow, list, sizeof list);
	list_close(&place->shelf, subset);
}

static void refuses_what_is_no_list(void **state)
{
	static const int64_t list[] = {4, 5, -6, 7};
	struct place *place = *state;
	refuses(place, -ENOENT, "must be able to read the file");
	assert_int_equal(mkfifo(place->path, 0600), 0);
	refuses(place, -EINVAL, "not a regular file");
	assert_int_equal(unlink(place->path), 0);
	write_list(place, "<f8", 4, list, sizeof list);
	refuses(place, -EINVAL, "<f8");
	write_list(place, "<i8", 0, list, 0);
	refuses(place, -EINVAL, "an epoch needs at least one sample");
	write_list(place, "<i8", 4, list, sizeof list - 1);
	refuses(place, -EINVAL, "cut off or damaged: its header says 4 numbers of 8 bytes");
	write_list(place, "<i8", 3, list, sizeof list);
	refuses(place, -EINVAL, "cut off or damaged");
	write_list(place, "<i8", (uint64_t)1 << 61, list, sizeof list);
	refuses(place, -EINVAL, "cut off or damaged");
	write_list(place, "<i8", UINT64_MAX / 8 + 1, list, sizeof list);
	refuses(place, -EINVAL, "cut off or damaged");
	write_list(place, "<i8", 4, list, sizeof list);
	refuses(place, -EINVAL, "[2] is -6: expected the numbers of samples");
	assert_int_equal(truncate(place->path, 0), 0);
	refuses(place, -EINVAL, "does not begin with");
}

static void refuses_numbers_beyond_the_dataset(void **state)
{
	static const uint64_t list[] = {4, 99, 100, 7, 3000};
	struct place *place = *state;
	struct fault fault = {{0}};
	write_list(place, "<u8", 5, list, sizeof list);
	struct list *subset = open_list(place);
	assert_int_equal(subset_fits(subset, "f.npy", 3001, &fault), 0);
	assert_int_equal(subset_fits(subset, "f.npy", 3000, &fault), -EINVAL);
	assert_string_equal(fault.text, "indices: f.npy: [4] is 3000, but the dataset has 3000 "
					"samples: expected numbers from 0 to 2999");
	assert_int_equal(subset_fits(subset, "f.npy", 100, &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "[2] is 100"));
	list_close(&place->shelf, subset);
}

static void refuses_what_does_not_fit(void **state)
{
	struct place *place = *state;
	size_t count = BUDGET / 4 + 1000;
	uint64_t *list = calloc(count, sizeof *list);
	assert_non_null(list);
	write_list(place, "<u8", count, list, count * sizeof *list);
	refuses(place, -ENOMEM, "enough for 262144 numbers: start penstockd with --memory 2M");
	write_list(place, "<u8", BUDGET / 4, list, BUDGET / 4 * sizeof *list);
	struct list *subset = open_list(place);
	list_close(&place->shelf, subset);
	free(list);
}

/* A file of holes has any size; to read it all takes hours. */
static void refuses_what_never_fits_before_it_reads_it(void **state)
{
	struct place *place = *state;
	struct list *subset;
	struct fault fault = {{0}};
	struct stat st;
	atomic_bool cancel = true;
	uint64_t count = (uint64_t)1 << 37;
	write_list(place, "<i8", count, NULL, 0);
	assert_int_equal(stat(place->path, &st), 0);
	assert_int_equal(truncate(place->path, st.st_size + (off_t)(count * 8)), 0);
	assert_int_equal(
		subset_open(&place->shelf, place->path, &cancel, &subset, &fault), -ENOMEM);
	assert_non_null(strstr(fault.text, "its 137438953472 numbers need"));
}

static void gives_up_when_told_to(void **state)
{
	static const uint32_t list[] = {5, 6, 7};
	struct place *place = *state;
	struct list *subset;
	struct fault fault = {{0}};
	atomic_bool cancel = true;
	write_list(place, "<u4", 3, list, sizeof list);
	assert_int_equal(
		subset_open(&place->shelf, place->path, &cancel, &subset, &fault), -ECANCELED);
}

/* Tools count no memory. */
static void opens_without_a_ledger(void **state)
{
	static const uint32_t list[] = {5, 6, 7};
	struct place *place = *state;
	struct list_shelf shelf;
	struct list *subset;
	struct fault fault = {{0}};
	write_list(place, "<u4", 3, list, sizeof list);
	list_shelf_init(&shelf, NULL, NULL, NULL);
	assert_int_equal(subset_open(&shelf, place->path, NULL, &subset, &fault), 0);
	assert_int_equal(subset->count, 3);
	list_close(&shelf, subset);
	list_shelf_deinit(&shelf);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(keeps_numbers_in_four_bytes_where_they_fit),
		TEST(knows_itself_by_its_content),
		TEST(changes_nothing_when_the_file_does),
		TEST(refuses_what_is_no_list),
		TEST(refuses_numbers_beyond_the_dataset),
		TEST(refuses_what_does_not_fit),
		TEST(refuses_what_never_fits_before_it_reads_it),
		TEST(gives_up_when_told_to),
		TEST(opens_without_a_ledger),
	};
	return cmocka_run_group_tests_name("subset", tests, NULL, NULL);
}

/* members: compared with a plain list of classes. */
#include "order/members.h"

#include "proto/philox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { PLACES_MOST = 9001 };

/* Uneven classes: class 0 is the most frequent one, and some classes stay empty. */
static uint32_t class_of(uint64_t place, uint32_t classes)
{
	struct philox r = philox_draw(5, classes, place, PHILOX_SHUFFLE, 0);
	uint64_t a = philox_below(r.word[0], r.word[1], classes),
		 b = philox_below(r.word[2], r.word[3], classes);
	return (uint32_t)(a < b ? a : b);
}

static void assert_table(uint64_t places, uint32_t classes)
{
	static uint64_t at[MEMBERS_CLASSES][PLACES_MOST];
	uint64_t count[MEMBERS_CLASSES] = {0}, counted[MEMBERS_CLASSES];
	uint64_t *memory = calloc(members_words(places, classes), sizeof *memory);
	struct members members = members_lay(places, classes, memory);
	for (uint64_t place = 0; place < places; place++) {
		/* A place may be set again. */
		members_set(&members, place, classes - 1);
		members_set(&members, place, class_of(place, classes));
	}
	members_count(&members, counted);
	for (uint64_t place = 0; place < places; place++) {
		uint32_t class_number = class_of(place, classes);
		assert_int_equal(members_get(&members, place), class_number);
		for (uint32_t c = 0; c < classes; c++)
			assert_int_equal(members_rank(&members, c, place), count[c]);
		at[class_number][count[class_number]++] = place;
	}
	for (uint32_t c = 0; c < classes; c++) {
		assert_int_equal(counted[c], count[c]);
		for (uint64_t rank = 0; rank < count[c]; rank++)
			assert_int_equal(members_find(&members, c, rank), at[c][rank]);
	}
	free(memory);
}

static void finds_every_member(void **state)
{
	(void)state;
	static const uint64_t places[] = {
		1, 2, 63, 64, 65, 200, 4095, 4096, 4097, 8192, PLACES_MOST};
	static const uint32_t classes[] = {1, 2, 3, 4, 5, 64};
	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		for (size_t k = 0; k < sizeof classes / sizeof *classes; k++)
			if (places[i] < 300 || classes[k] < 5 || places[i] == PLACES_MOST)
				assert_table(places[i], classes[k]);
}

static void is_small(void **state)
{
	(void)state;
	/* Bytes per 1,000 places. */
	assert_true(members_words(1000000, 2) * 8 / 1000 <= 130);
	assert_true(members_words(1000000, 3) * 8 / 1000 <= 257);
	assert_true(members_words(1000000, 64) * 8 / 1000 <= 876);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_every_member),
		cmocka_unit_test(is_small),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

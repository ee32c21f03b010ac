/* ledger: reservations never exceed the budget, and a refusal says which lines hold how much. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/host/ledger.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)

static void reserves_and_releases(void **state)
{
	struct ledger ledger;
	struct ledger_line lines[LEDGER_LINES];
	struct fault fault;
	int a, b;
	(void)state;
	ledger_init(&ledger, 100 * MIB);
	assert_int_equal(ledger_reserve(&ledger, 60 * MIB, "slots of train", &a, &fault), 0);
	assert_int_equal(ledger_reserve(&ledger, 40 * MIB, "read buffers", &b, &fault), 0);
	assert_int_not_equal(a, b);
	assert_int_equal(ledger_free(&ledger), 0);
	assert_int_equal(ledger_snapshot(&ledger, lines), 2);
	assert_string_equal(lines[0].name, "slots of train");
	assert_int_equal(lines[1].bytes, 40 * MIB);
	ledger_release(&ledger, a);
	assert_int_equal(ledger_free(&ledger), 60 * MIB);
	assert_int_equal(ledger_snapshot(&ledger, lines), 1);
	assert_int_equal(ledger_reserve(&ledger, 60 * MIB, "again", &a, &fault), 0);
	ledger_release(&ledger, a);
	ledger_release(&ledger, b);
	assert_int_equal(ledger_free(&ledger), 100 * MIB);
	ledger_deinit(&ledger);
}

static void refuses_with_a_sentence(void **state)
{
	struct ledger ledger;
	struct fault fault;
	int line = -7, first;
	(void)state;
	ledger_init(&ledger, 100 * MIB);
	assert_int_equal(ledger_reserve(&ledger, 101 * MIB, "slots", &line, &fault), -ENOMEM);
	assert_non_null(strstr(fault.text, "nothing is reserved"));
	assert_int_equal(ledger_reserve(&ledger, 90 * MIB, "slots of train", &first, &fault), 0);
	assert_int_equal(ledger_reserve(&ledger, 11 * MIB, "slots of val", &line, &fault), -ENOMEM);
	assert_string_equal(fault.text,
		"slots of val needs 11.0 MiB, but 10.0 MiB of the memory budget of 100.0 MiB is "
		"free (slots of train 90.0 MiB)");
	assert_int_equal(ledger_reserve(&ledger, UINT64_MAX, "everything", &line, &fault), -ENOMEM);
	assert_int_equal(ledger_reserve(&ledger, UINT64_MAX, "everything", &line, NULL), -ENOMEM);
	assert_int_equal(line, -7);
	assert_int_equal(ledger_free(&ledger), 10 * MIB);
	ledger_deinit(&ledger);
}

static void refuses_more_lines_than_it_has(void **state)
{
	struct ledger ledger;
	struct fault fault;
	char name[2 * LEDGER_NAME];
	int line;
	(void)state;
	ledger_init(&ledger, MIB);
	memset(name, 'n', sizeof name - 1);
	name[sizeof name - 1] = 0;
	for (int i = 0; i < LEDGER_LINES - 1; i++) {
		assert_int_equal(ledger_reserve(&ledger, 1, name, &line, &fault), 0);
		assert_int_equal(line, i);
	}
	assert_int_equal(ledger_reserve(&ledger, 1, "one more", &line, &fault), -ENOMEM);
	assert_non_null(strstr(fault.text, "255 entries"));
	/* The refusal of a full ledger with long names has to cut its list. */
	ledger_release(&ledger, 5);
	assert_int_equal(ledger_reserve(&ledger, 2 * MIB, "too much", &line, &fault), -ENOMEM);
	assert_int_equal(ledger_reserve(&ledger, 0, "nothing", &line, &fault), 0);
	assert_int_equal(line, 5);
	ledger_deinit(&ledger);
}

/* Returns what the ledger asks for, except what it cannot part with. */
struct borrower {
	struct ledger *ledger;
	uint64_t has, keeps;
	int calls;
};

static bool called(void *context)
{
	struct borrower *b = context;
	uint64_t excess = ledger_excess(b->ledger);
	uint64_t gives = excess < b->has - b->keeps ? excess : b->has - b->keeps;
	/* Memory that is being reserved cannot be borrowed in the meantime. */
	assert_false(ledger_borrow(b->ledger, 1));
	b->calls++;
	b->has -= gives;
	ledger_return(b->ledger, gives);
	return ledger_excess(b->ledger) == 0;
}

static void lends_what_is_free(void **state)
{
	struct ledger ledger;
	struct ledger_line lines[LEDGER_LINES];
	struct fault fault;
	struct borrower b = {.ledger = &ledger};
	int first, second = -7;
	(void)state;
	ledger_init(&ledger, 100 * MIB);
	ledger_set_borrower(&ledger, "cache", called, &b);
	assert_int_equal(ledger_reserve(&ledger, 30 * MIB, "slots", &first, &fault), 0);
	assert_true(ledger_borrow(&ledger, 60 * MIB));
	assert_false(ledger_borrow(&ledger, 11 * MIB));
	assert_true(ledger_borrow(&ledger, 10 * MIB));
	b.has = 70 * MIB;
	assert_int_equal(ledger_free(&ledger), 70 * MIB);
	assert_int_equal(ledger_excess(&ledger), 0);
	assert_int_equal(ledger_snapshot(&ledger, lines), 2);
	assert_string_equal(lines[1].name, "cache");
	assert_int_equal(lines[1].bytes, 70 * MIB);
	/* The borrower returns as much as is needed, and no more. */
	assert_int_equal(ledger_reserve(&ledger, 50 * MIB, "more", &second, &fault), 0);
	assert_int_equal(b.calls, 1);
	assert_int_equal(b.has, 20 * MIB);
	ledger_release(&ledger, second);
	/* The borrower cannot return enough: the reservation leaves nothing behind. */
	b.keeps = 5 * MIB;
	second = -7;
	assert_int_equal(ledger_reserve(&ledger, 66 * MIB, "more", &second, &fault), -ENOMEM);
	assert_string_equal(fault.text,
		"more needs memory, and the cache has not yet returned 1.0 MiB of it: try again");
	assert_int_equal(second, -7);
	assert_int_equal(ledger_free(&ledger), 70 * MIB);
	assert_int_equal(ledger_snapshot(&ledger, lines), 2);
	/* More than is free is refused without asking the borrower. */
	b.calls = 0;
	assert_int_equal(ledger_reserve(&ledger, 71 * MIB, "more", &second, &fault), -ENOMEM);
	assert_int_equal(b.calls, 0);
	ledger_return(&ledger, b.has);
	ledger_set_borrower(&ledger, NULL, NULL, NULL);
	assert_int_equal(ledger_snapshot(&ledger, lines), 1);
	ledger_deinit(&ledger);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reserves_and_releases),
		cmocka_unit_test(refuses_with_a_sentence),
		cmocka_unit_test(refuses_more_lines_than_it_has),
		cmocka_unit_test(lends_what_is_free),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

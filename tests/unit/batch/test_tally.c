/* tally: the states of a slot step by step, joining late, leaving, and that each step that the
 * header does not allow aborts. tests/model tries all orders of steps. */
#include "batch/tally.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Assigns and completes `count` batches. */
static void fill(struct tally *tally, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		int slot = tally_assign(tally);
		assert_true(slot >= 0);
		assert_true(tally_filled(tally, (uint32_t)slot));
	}
}

static uint32_t lease(struct tally *tally, struct tally_reader *reader)
{
	int slot = tally_due(tally, reader);
	assert_true(slot >= 0);
	tally_lease(tally, reader, (uint32_t)slot);
	return (uint32_t)slot;
}

static void one_batch_goes_through_every_state(void **state)
{
	(void)state;
	struct tally tally;
	struct tally_reader reader = {0};
	tally_init(&tally, 1);
	tally_join(&tally, &reader, 0, UINT64_MAX);
	assert_int_equal(tally_count(&tally, SLOT_FREE), 1);
	assert_int_equal(tally_assign(&tally), 0);
	assert_int_equal(tally.state[0], SLOT_FILLING);
	assert_int_equal(tally_assign(&tally), -1);
	assert_int_equal(tally_due(&tally, &reader), -1);
	assert_true(tally_filled(&tally, 0));
	assert_int_equal(tally.state[0], SLOT_READY);
	assert_int_equal(tally.owed[0], 1);
	assert_int_equal(lease(&tally, &reader), 0);
	assert_int_equal(tally.state[0], SLOT_LEASED);
	assert_true(tally_holds(&tally, &reader, 0, 0));
	assert_int_equal(tally_due(&tally, &reader), -1);
	assert_true(tally_release(&tally, &reader, 0));
	assert_int_equal(tally.state[0], SLOT_FREE);
	assert_false(tally_holds(&tally, &reader, 0, 0));
	assert_int_equal(tally_assign(&tally), 0);
	assert_int_equal(tally.serial[0], 1);
}

static void only_a_held_batch_counts_as_held(void **state)
{
	(void)state;
	struct tally tally;
	struct tally_reader a = {0}, b = {0};
	tally_init(&tally, 2);
	tally_join(&tally, &a, 0, UINT64_MAX);
	tally_join(&tally, &b, 0, UINT64_MAX);
	fill(&tally, 2);
	lease(&tally, &a);
	assert_true(tally_holds(&tally, &a, 0, 0));
	assert_false(tally_holds(&tally, &a, 0, 1));
	assert_false(tally_holds(&tally, &a, 1, 1));
	assert_false(tally_holds(&tally, &b, 0, 0));
	assert_false(tally_holds(&tally, &a, 2, 0));
	assert_false(tally_holds(&tally, &a, 64, 0));
	assert_false(tally_holds(&tally, &a, UINT32_MAX, UINT64_MAX));
}

static void batches_complete_in_any_order_and_are_leased_in_order(void **state)
{
	(void)state;
	struct tally tally;
	struct tally_reader reader = {0};
	tally_init(&tally, 3);
	tally_join(&tally, &reader, 0, UINT64_MAX);
	for (int i = 0; i < 3; i++)
		assert_int_equal(tally_assign(&tally), i);
	assert_true(tally_filled(&tally, 2));
	assert_true(tally_filled(&tally, 1));
	assert_int_equal(tally_due(&tally, &reader), -1);
	assert_true(tally_filled(&tally, 0));
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(lease(&tally, &reader), i);
	assert_true(tally_release(&tally, &reader, 1));
	assert_int_equal(tally_assign(&tally), 1);
	assert_int_equal(tally.serial[1], 3);
}

static void a_slot_waits_for_every_reader(void **state)
{
	(void)state;
	struct tally tally;
	struct tally_reader a = {0}, b = {0}, c = {0};
	tally_init(&tally, 1);
	tally_join(&tally, &a, 0, UINT64_MAX);
	tally_join(&tally, &b, 0, UINT64_MAX);
	tally_join(&tally, &c, 0, UINT64_MAX);
	fill(&tally, 1);
	assert_int_equal(tally.owed[0], 3);
	lease(&tally, &a);
	assert_false(tally_release(&tally, &a, 0));
	assert_int_equal(tally.state[0], SLOT_LEASED);
	lease(&tally, &b);
	assert_int_equal(tally_leave(&tally, &c), 0);
	assert_int_equal(tally.owed[0], 1);
	assert_int_equal(tally_leave(&tally, &b), 1);
	assert_int_equal(tally.state[0], SLOT_FREE);
	assert_ptr_equal(tally.readers, &a);
}

static void a_late_reader_begins_after_the_last_gap(void **state)
{
	(void)state;
	struct tally tally;
	struct tally_reader a = {0}, late = {0};
	tally_init(&tally, 4);
	assert_int_equal(tally_first(&tally), 0);
	tally_join(&tally, &a, 0, UINT64_MAX);
	fill(&tally, 3);
	assert_int_equal(tally_first(&tally), 0);
	for (int i = 0; i < 3; i++)
		lease(&tally, &a);
	assert_true(tally_release(&tally, &a, 1));
	/* Batch 0 is still in a slot, but 1 is not. */
	assert_int_equal(tally_first(&tally), 2);
	assert_int_equal(tally_assign(&tally), 1);
	tally_join(&tally, &late, 2, UINT64_MAX);
	assert_int_equal(tally.owed[0], 1);
	assert_int_equal(tally.owed[2], 2);
	assert_int_equal(lease(&tally, &late), 2);
	assert_true(tally_filled(&tally, 1));
	assert_int_equal(tally.owed[1], 2);
	assert_int_equal(tally_leave(&tally, &a), 1 << 0);
	assert_int_equal(lease(&tally, &late), 1);
	assert_int_equal(tally_leave(&tally, &late), 1 << 1 | 1 << 2);
	assert_int_equal(tally_count(&tally, SLOT_FREE), 4);
	assert_int_equal(tally_first(&tally), 4);
}

static void leaving_gives_back_what_was_held_and_what_was_due(void **state)
{
	(void)state;
	struct tally tally;
	struct tally_reader a = {0}, b = {0};
	tally_init(&tally, 4);
	tally_join(&tally, &a, 0, UINT64_MAX);
	fill(&tally, 2);
	tally_join(&tally, &b, 1, UINT64_MAX);
	assert_int_equal(tally_assign(&tally), 2);
	lease(&tally, &a);
	assert_int_equal(tally_leave(&tally, &a), 1 << 0);
	assert_int_equal(tally.state[1], SLOT_READY);
	assert_int_equal(tally.owed[1], 1);
	assert_int_equal(tally_leave(&tally, &b), 1 << 1);
	assert_int_equal(tally.state[2], SLOT_FILLING);
	assert_null(tally.readers);
	assert_false(tally_filled(&tally, 2));
	assert_int_equal(tally_count(&tally, SLOT_FREE), 4);
	/* A reader that left may come back. */
	tally_join(&tally, &b, tally_first(&tally), UINT64_MAX);
	fill(&tally, 1);
	assert_int_equal(b.next, 3);
	assert_int_equal(lease(&tally, &b), 0);
}

static void a_batch_that_no_reader_wants_is_not_kept(void **state)
{
	(void)state;
	struct tally tally;
	struct tally_reader first = {0}, ahead = {0};
	tally_init(&tally, 3);
	/* Two readers come back at different batches. */
	tally_join(&tally, &ahead, 4, UINT64_MAX);
	tally_join(&tally, &first, 0, UINT64_MAX);
	fill(&tally, 2);
	assert_int_equal(tally_assign(&tally), 2);
	assert_int_equal(tally.owed[0], 1);
	assert_int_equal(tally_leave(&tally, &first), 1 << 0 | 1 << 1);
	assert_false(tally_filled(&tally, 2));
	assert_int_equal(tally.state[2], SLOT_FREE);
	assert_int_equal(tally_first(&tally), 3);
	/* Batch 3 is dropped too; the reader waits for 4. */
	assert_int_equal(tally_assign(&tally), 0);
	assert_int_equal(tally_assign(&tally), 1);
	assert_false(tally_filled(&tally, 0));
	assert_true(tally_filled(&tally, 1));
	assert_int_equal(lease(&tally, &ahead), 1);
	/* A batch that completes after all readers left is dropped. */
	assert_int_equal(tally_assign(&tally), 0);
	assert_int_equal(tally_leave(&tally, &ahead), 1 << 1);
	assert_false(tally_filled(&tally, 0));
	assert_int_equal(tally_count(&tally, SLOT_FREE), 3);
}

static void a_reader_at_its_end_is_owed_no_more(void **state)
{
	(void)state;
	struct tally tally;
	struct tally_reader a = {0}, b = {0};
	tally_init(&tally, 3);
	tally_join(&tally, &a, 0, 1);
	tally_join(&tally, &b, 0, UINT64_MAX);
	fill(&tally, 3);
	lease(&tally, &a);
	assert_int_equal(tally_due(&tally, &a), -1);
	assert_int_equal(tally.owed[0], 2);
	assert_int_equal(tally.owed[1], 1);
	for (int i = 0; i < 3; i++)
		lease(&tally, &b);
	assert_false(tally_release(&tally, &b, 0));
	assert_true(tally_release(&tally, &b, 1));
	assert_true(tally_release(&tally, &b, 2));
	assert_false(tally_blocks(&tally, &a)); /* two slots are free */
	fill(&tally, 2);
	assert_false(tally_blocks(&tally, &a)); /* b has two to read */
	lease(&tally, &b);
	tally_release(&tally, &b, 1);
	fill(&tally, 1);
	assert_int_equal(tally_leave(&tally, &a), 1);
	assert_int_equal(tally_leave(&tally, &b), 1 << 1 | 1 << 2);
}

static void a_reader_that_keeps_batches_while_another_has_none_blocks(void **state)
{
	(void)state;
	struct tally tally;
	struct tally_reader a = {0}, b = {0}, c = {0};
	tally_init(&tally, 2);
	tally_join(&tally, &a, 0, UINT64_MAX);
	tally_join(&tally, &b, 0, UINT64_MAX);
	tally_join(&tally, &c, 0, UINT64_MAX);
	fill(&tally, 2);
	assert_false(tally_blocks(&tally, &a)); /* all have batches left to read */
	for (int i = 0; i < 2; i++) {
		lease(&tally, &a);
		lease(&tally, &c);
		tally_release(&tally, &c, (uint32_t)i);
	}
	/* a holds both, b has taken none, c has none left to read. */
	assert_true(tally_blocks(&tally, &a));
	assert_true(tally_blocks(&tally, &b));
	assert_false(tally_blocks(&tally, &c));
	/* One slot each is enough to stop the third reader. */
	lease(&tally, &b);
	lease(&tally, &b);
	assert_false(tally_release(&tally, &a, 0));
	assert_false(tally_release(&tally, &b, 1));
	assert_false(tally_blocks(&tally, &a)); /* it gave the oldest one back */
	assert_true(tally_blocks(&tally, &b));
	assert_true(tally_release(&tally, &a, 1));
	assert_false(tally_blocks(&tally, &b)); /* a slot is free */
	assert_int_equal(tally_assign(&tally), 1);
	assert_false(tally_blocks(&tally, &b)); /* a batch is coming */
	assert_true(tally_filled(&tally, 1));
	assert_true(tally_blocks(&tally, &b)); /* c may keep its last batch until it has another */
	tally_leave(&tally, &c);
	tally_leave(&tally, &a);
	assert_false(tally_blocks(&tally, &b)); /* the only reader */
}

static void all_64_slots_are_used(void **state)
{
	(void)state;
	struct tally tally;
	struct tally_reader reader = {0};
	tally_init(&tally, TALLY_SLOTS_MAX);
	tally_join(&tally, &reader, 0, UINT64_MAX);
	fill(&tally, TALLY_SLOTS_MAX);
	for (uint32_t i = 0; i < TALLY_SLOTS_MAX; i++)
		assert_int_equal(lease(&tally, &reader), i);
	assert_true(reader.held == UINT64_MAX);
	assert_true(tally_holds(&tally, &reader, 63, 63));
	assert_true(tally_leave(&tally, &reader) == UINT64_MAX);
	assert_int_equal(tally_count(&tally, SLOT_FREE), TALLY_SLOTS_MAX);
}

static void states_have_names(void **state)
{
	(void)state;
	assert_string_equal(slot_state_name(SLOT_FREE), "free");
	assert_string_equal(slot_state_name(SLOT_FILLING), "filling");
	assert_string_equal(slot_state_name(SLOT_READY), "ready");
	assert_string_equal(slot_state_name(SLOT_LEASED), "leased");
}

/* ---- steps that must abort ---- */

/* Slot 0 is leased to a, slot 1 READY, slot 2 FILLING, slot 3 FREE; b joined late, at batch 1. */
struct scene {
	struct tally tally;
	struct tally_reader a, b, stranger;
};

static void scene_set(struct scene *s)
{
	*s = (struct scene){0};
	tally_init(&s->tally, 4);
	tally_join(&s->tally, &s->a, 0, UINT64_MAX);
	fill(&s->tally, 2);
	assert_int_equal(tally_assign(&s->tally), 2);
	tally_join(&s->tally, &s->b, 1, UINT64_MAX);
	lease(&s->tally, &s->a);
}

#define STEP(name, ...)                      \
	static void name(struct scene *s)    \
	{                                    \
		struct tally *t = &s->tally; \
		__VA_ARGS__;                 \
		(void)t;                     \
	}
STEP(nothing, (void)s)
STEP(init_none, tally_init(t, 0))
STEP(init_many, tally_init(t, TALLY_SLOTS_MAX + 1))
STEP(fill_leased, tally_filled(t, 0))
STEP(fill_ready, tally_filled(t, 1))
STEP(fill_free, tally_filled(t, 3))
STEP(fill_none, tally_filled(t, 4))
STEP(lease_again, tally_lease(t, &s->a, 0))
STEP(lease_filling, tally_lease(t, &s->a, 2))
STEP(lease_early, tally_lease(t, &s->b, 0))
STEP(lease_none, tally_lease(t, &s->b, 4))
STEP(release_ready, tally_release(t, &s->a, 1))
STEP(release_others, tally_release(t, &s->b, 0))
STEP(release_none, tally_release(t, &s->a, 64))
STEP(release_twice, tally_release(t, &s->a, 0), tally_release(t, &s->a, 0))
STEP(leave_stranger, tally_leave(t, &s->stranger))
STEP(join_holding, s->stranger.held = 1, tally_join(t, &s->stranger, 1, UINT64_MAX))
STEP(join_before_first, tally_release(t, &s->a, 0), tally_join(t, &s->stranger, 0, UINT64_MAX))
#undef STEP

static bool aborts(void (*step)(struct scene *))
{
	pid_t pid = fork();
	if (pid == 0) {
		struct scene scene;
		(void)close(STDERR_FILENO);
		(void)alarm(20);
		scene_set(&scene);
		signal(SIGABRT, SIG_DFL);
		step(&scene);
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void steps_out_of_turn_abort(void **state)
{
	(void)state;
	static void (*const steps[])(struct scene *) = {init_none, init_many, fill_leased,
		fill_ready, fill_free, fill_none, lease_again, lease_filling, lease_early,
		lease_none, release_ready, release_others, release_none, release_twice,
		leave_stranger, join_holding, join_before_first};
	assert_false(aborts(nothing));
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
		if (!aborts(steps[i]))
			fail_msg("step %zu of the list passed", i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_batch_goes_through_every_state),
		cmocka_unit_test(only_a_held_batch_counts_as_held),
		cmocka_unit_test(batches_complete_in_any_order_and_are_leased_in_order),
		cmocka_unit_test(a_slot_waits_for_every_reader),
		cmocka_unit_test(a_late_reader_begins_after_the_last_gap),
		cmocka_unit_test(leaving_gives_back_what_was_held_and_what_was_due),
		cmocka_unit_test(a_batch_that_no_reader_wants_is_not_kept),
		cmocka_unit_test(a_reader_at_its_end_is_owed_no_more),
		cmocka_unit_test(a_reader_that_keeps_batches_while_another_has_none_blocks),
		cmocka_unit_test(all_64_slots_are_used),
		cmocka_unit_test(states_have_names),
		cmocka_unit_test(steps_out_of_turn_abort),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

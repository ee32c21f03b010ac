/* story: how a trainer left, how the daemon ended, and who ended together: told from made-up
 * records. */
#include "unit/why/story_fixture.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- how it left ---- */

static void leaving_is_told_from_ending(void **state)
{
	(void)state;
	struct book *b = book_new();
	(void)book_attach(b, 1, 1, TRAINER_PID);
	(void)book_trainer(b, 2, 1, GIB);
	(void)expect(b, TRAINER_PID, STORY_RUNNING, STORY_CERTAIN, "trainer 4121 is running");
	assert_false(story_matters(book_find(b, TRAINER_PID)));
	book_leave(b, 3, 1, RECORD_HUNG_UP);
	(void)expect(b, TRAINER_PID, STORY_ENDED, STORY_POSSIBLE,
		"trainer 4121 hung up without closing its stream; the record does not say yet "
		"whether its process ended, too");
	b->now.time_ns += 2 * SECOND;
	(void)expect(b, TRAINER_PID, STORY_HUNG_UP, STORY_CERTAIN,
		"trainer 4121 hung up without closing its stream; its process is still running");
	b->record[b->count - 1].body.leave.how = RECORD_CLOSED;
	(void)expect(b, TRAINER_PID, STORY_ORDER, STORY_CERTAIN,
		"trainer 4121 ended normally: it closed its stream");
	(void)book_attach(b, 4, 2, TRAINER_PID); /* it opens the next */
	(void)expect(b, TRAINER_PID, STORY_RUNNING, STORY_CERTAIN, "trainer 4121 is running");
	assert_int_equal(b->story.count, 2); /* and is one process still, beside the daemon */
	book_leave(b, 5, 2, RECORD_EXPELLED);
	const struct story_end *end = expect(b, TRAINER_PID, STORY_EXPELLED, STORY_CERTAIN,
		"trainer 4121 was disconnected by the daemon: it held the group up for 30 s");
	contains(end->advice, "what the daemon reports");
	(void)book_exit(b, 6, 2, 1 << 8);
	contains(
		expect(b, TRAINER_PID, STORY_EXPELLED, STORY_CERTAIN, "trainer 4121 was")->sentence,
		"then it ended with exit code 1");
	book_free(b);
}

static void a_process_that_closes_and_ends_well_is_in_order(void **state)
{
	(void)state;
	struct book *b = book_new();
	(void)book_attach(b, 1, 1, TRAINER_PID);
	book_leave(b, 5, 1, RECORD_CLOSED);
	struct record_exit *e = book_exit(b, 6, 1, 0);
	(void)expect(b, TRAINER_PID, STORY_ORDER, STORY_CERTAIN,
		"trainer 4121 ended normally: it closed its stream, and its exit code was 0");
	e->status = 3 << 8;
	(void)expect(b, TRAINER_PID, STORY_EXIT_CODE, STORY_CERTAIN,
		"trainer 4121 ended with exit code 3 after closing its stream");
	/* The same number, another process. */
	struct record_attach *a = book_attach(b, 7, 2, TRAINER_PID);
	a->start_ticks++;
	book_tell(b);
	assert_int_equal(b->story.count, 3);
	book_free(b);
}

static void an_arrival_that_was_pushed_out_of_the_file_is_no_obstacle(void **state)
{
	(void)state;
	struct book *b = book_new();
	(void)book_trainer(b, 2, 9, GIB);
	book_leave(b, 3, 9, RECORD_PROCESS_ENDED);
	(void)book_exit(b, 3, 9, SIGSEGV);
	(void)expect(b, TRAINER_PID, STORY_CRASH, STORY_CERTAIN, "trainer 4121 crashed");
	book_leave(b, 4, 10, RECORD_CLOSED); /* of this one not even the number is known */
	book_tell(b);
	assert_int_equal(b->story.count, 2);
	book_free(b);
}

/* ---- the daemon ---- */

static void each_end_of_the_daemon_is_told(void **state)
{
	(void)state;
	static const struct {
		const char *why; /* NULL: it said nothing */
		int status;
		enum story_cause cause;
		const char *begins;
	} cases[] = {
		{"asked: by signal 15 from pid 7", 0, STORY_ASKED,
			"penstockd 812 ended on request: by signal 15 from pid 7"},
		{"idle: no client for 10 s", 0, STORY_IDLE,
			"penstockd 812 ended because no trainer needed it: no client for 10 s"},
		{"failed: cannot listen", 1 << 8, STORY_FAILED,
			"penstockd 812 failed: cannot listen; exit code 1"},
		{NULL, 1 << 8, STORY_EXIT_CODE, "penstockd 812 ended with exit code 1"},
		{NULL, 0, STORY_ENDED, "penstockd 812 ended and gave no reason"},
		{NULL, SIGKILL, STORY_SIGNAL,
			"penstockd 812 was killed by SIGKILL, which the kernel's"},
		{NULL, SIGABRT | 0x80, STORY_CRASH, "penstockd 812 crashed with SIGABRT"},
		{NULL, SIGXCPU, STORY_TIME,
			"penstockd 812 was ended by SIGXCPU: it used up its CPU time"},
		{"asked: by signal 15 from pid 7", SIGKILL, STORY_SIGNAL,
			"penstockd 812 was killed by SIGKILL"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct book *b = book_new();
		book_daemon(b, 1);
		if (cases[i].why)
			book_end(b, 2, cases[i].why);
		(void)book_exit(b, 3, 0, cases[i].status);
		b->now.daemon_lives = false;
		const struct story_end *end =
			expect(b, DAEMON_PID, cases[i].cause, STORY_CERTAIN, cases[i].begins);
		assert_true(story_matters(end));
		if (cases[i].why && cases[i].cause == STORY_SIGNAL)
			assert_string_equal(line_of(end, "it said"), cases[i].why);
		book_free(b);
	}
}

static void the_daemon_s_oom_kill_tells_its_budget(void **state)
{
	(void)state;
	struct book *b = book_new();
	book_daemon(b, 1);
	(void)book_machine(b, 1, 30 * GIB, &container);
	book_exit(b, 2, 0, SIGKILL)->oom_kills = 1;
	b->now.daemon_lives = false;
	const struct story_end *end = expect(b, DAEMON_PID, STORY_CGROUP_OOM, STORY_CERTAIN,
		"penstockd 812 was killed: the container's OOM killer (+1); its memory was 2.0 "
		"GiB; "
		"the container's limit is 16.0 GiB; it held 1.9 GiB of its 2.0 GiB");
	contains(end->advice, "--memory below 2.0 GiB");
	book_free(b);
}

static void the_daemon_s_time_is_told(void **state)
{
	(void)state;
	struct book *b = book_new();
	struct record_start *s = &b->record[0].body.start;
	(void)snprintf(s->parent_command, sizeof s->parent_command, "timeout -s KILL 2 penstockd");
	(void)book_exit(b, 2, 0, SIGKILL);
	(void)expect(b, DAEMON_PID, STORY_TIME, STORY_LIKELY,
		"penstockd 812 was killed by SIGKILL 2 s after its start: most likely `timeout` "
		"ended it");
	book_free(b);
}

static void a_record_that_stops_is_read_with_what_is_known_of_now(void **state)
{
	(void)state;
	struct book *b = book_new();
	(void)book_attach(b, 1, 1, TRAINER_PID);
	book_daemon(b, 2);
	(void)expect(b, DAEMON_PID, STORY_RUNNING, STORY_CERTAIN, "penstockd 812 is running");
	b->now.daemon_lives = false;
	(void)expect(b, DAEMON_PID, STORY_VANISHED, STORY_CERTAIN,
		"penstockd 812 vanished: the record stops");
	(void)expect(b, TRAINER_PID, STORY_VANISHED, STORY_POSSIBLE,
		"trainer 4121 was running when the record stopped");
	(void)book_machine(b, 2.5, 30 * GIB, &container);
	contains(expect(b, DAEMON_PID, STORY_VANISHED, STORY_CERTAIN, "penstockd 812 vanished")
			 ->sentence,
		"; the container had 15.0 GiB of its 16.0 GiB in use");
	contains(book_find(b, DAEMON_PID)->advice, "OOMKilled");
	b->now.boot_id = "boot-2";
	(void)expect(b, DAEMON_PID, STORY_REBOOT, STORY_LIKELY,
		"penstockd 812 went down with the machine");
	(void)expect(b, TRAINER_PID, STORY_REBOOT, STORY_POSSIBLE,
		"trainer 4121 went down with the machine");
	b->record[0].body.start.host[0] = 0; /* it may be another machine's */
	contains(
		expect(b, DAEMON_PID, STORY_REBOOT, STORY_POSSIBLE, "penstockd 812 went")->sentence,
		"or the file comes from another machine");
	(void)snprintf(b->record[0].body.start.host, RECORD_NAME, "node9");
	(void)expect(b, DAEMON_PID, STORY_RUNNING, STORY_CERTAIN, "penstockd 812 is running");
	b->now.time_ns += 60 * SECOND;
	(void)expect(b, DAEMON_PID, STORY_VANISHED, STORY_POSSIBLE,
		"penstockd 812 ran on node9; its record stops without reporting an end");
	book_free(b);
}

/* ---- together ---- */

static void those_who_die_together_are_one_event(void **state)
{
	(void)state;
	char text[256];
	struct book *b = book_new();
	for (uint64_t i = 0; i < 3; i++) {
		struct record_attach *a = book_attach(b, 1 + (double)i, 1 + i, (int32_t)(100 + i));
		a->world_size = 3;
		a->rank = (uint32_t)i;
	}
	(void)book_attach(b, 5, 9, 200);
	book_exit(b, 50, 9, SIGSEGV)->pid = 200; /* long before */
	book_exit(b, 100.0, 2, SIGKILL)->pid = 101;
	book_exit(b, 100.4, 1, 1 << 8)->pid = 100;
	book_exit(b, 101.2, 3, 1 << 8)->pid = 102;
	(void)expect(b, 101, STORY_SIGNAL, STORY_CERTAIN, "trainer 101 (rank 1) was killed");
	assert_int_equal(b->story.events, 2);
	const struct story_end *end = b->story.end;
	assert_int_equal(end[0].pid, 101);
	assert_int_equal(end[1].pid, 100);
	assert_int_equal(end[2].pid, 102);
	assert_int_equal(end[3].pid, 200);
	assert_true(end[2].event == 0 && end[3].event == 1);
	assert_true(end[4].daemon && end[4].event == -1);
	assert_true(story_event(&b->story, 0, text, sizeof text));
	assert_string_equal(
		text, "3 trainers ended within 1.2 s; the first was trainer 101 (rank 1)");
	assert_false(story_event(&b->story, 1, text, sizeof text));
	assert_false(story_event(&b->story, 2, text, sizeof text));
	book_free(b);
}

static void who_follows_the_daemon_is_told_so(void **state)
{
	(void)state;
	char text[256];
	struct book *b = book_new();
	(void)book_attach(b, 1, 1, TRAINER_PID);
	(void)book_exit(b, 10, 0, SIGSEGV);
	(void)book_exit(b, 10.5, 1, 3 << 8);
	b->now.daemon_lives = false;
	const struct story_end *end = expect(b, TRAINER_PID, STORY_DAEMON_GONE, STORY_LIKELY,
		"trainer 4121 ended with exit code 3, 0.5 s after penstockd ended, most likely "
		"because of that");
	contains(end->advice, "reconnect_ms");
	assert_true(story_event(&b->story, 0, text, sizeof text));
	assert_string_equal(
		text, "1 trainer and penstockd ended within 0.5 s; the first was penstockd 812");
	book_free(b);
}

/* A daemon that was asked to end tells its trainers so, and waits for them. */
static void who_leaves_as_the_daemon_ends_is_no_culprit(void **state)
{
	(void)state;
	struct book *b = book_new();
	(void)book_attach(b, 1, 1, TRAINER_PID);
	(void)book_attach(b, 1, 2, 200);
	book_end(b, 10, "asked: by signal 15 from pid 7");
	book_leave(b, 10.1, 1, RECORD_HUNG_UP);
	book_leave(b, 10.1, 2, RECORD_HUNG_UP);
	book_exit(b, 10.2, 2, 1 << 8)->pid = 200;
	(void)book_exit(b, 10.3, 0, 0);
	b->now.daemon_lives = false;
	(void)expect(b, TRAINER_PID, STORY_OUTLIVED, STORY_CERTAIN,
		"trainer 4121 was connected when penstockd ended, and may have continued with "
		"the next daemon");
	/* A signal such as Ctrl-C's may have been for both. */
	(void)expect(b, 200, STORY_DAEMON_GONE, STORY_POSSIBLE,
		"trainer 200 ended with exit code 1, 0.2 s after penstockd began to end, "
		"possibly because of that");
	b->record[b->count - 2].body.exit.status = (128 + SIGTERM) << 8;
	(void)expect(b, 200, STORY_EXIT_CODE, STORY_CERTAIN,
		"trainer 200 ended with exit code 143 without closing its stream = 128 + 15: "
		"SIGTERM ended it, or a program that it ran");
	b->record[b->count - 2].body.exit.status = 1 << 8;
	(void)snprintf(b->record[3].body.note.text, RECORD_TEXT, "asked: by penstock stop");
	(void)expect(b, 200, STORY_DAEMON_GONE, STORY_LIKELY, "trainer 200 ended");
	book_free(b);
}

/* One went on with the next daemon, one lives, of the others nothing is known. */
static struct story_fate fate_of(void *context, const struct record_start *start,
	const struct record_attach *attach, uint64_t since_ns)
{
	const int32_t *next = context;
	assert_int_equal(start->pid, DAEMON_PID);
	assert_int_equal(since_ns, BEGAN * SECOND + 10 * SECOND);
	return (struct story_fate){
		.daemon = attach->pid == TRAINER_PID ? *next : 0, .lives = attach->pid == 200};
}

static const char *trainers_of_daemon(struct book *b)
{
	return line_of(book_find(b, DAEMON_PID), "trainers");
}

static void who_outlives_the_daemon_belongs_under_its_entry(void **state)
{
	(void)state;
	static const int how[] = {RECORD_DRAINED, 0}; /* SIGTERM; SIGKILL: nobody says goodbye */
	for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
		struct book *b = book_new();
		int32_t next = 900;
		char text[160];
		(void)book_attach(b, 1, 1, TRAINER_PID);
		if (how[i])
			book_leave(b, 10, 1, RECORD_DRAINED);
		(void)book_exit(b, 10, 0, how[i] ? 0 : SIGKILL);
		if (how[i])
			book_end(b, 10, "asked: by signal 15 from pid 7");
		b->now.daemon_lives = false;
		const struct story_end *end = expect(b, TRAINER_PID, STORY_OUTLIVED, STORY_CERTAIN,
			"trainer 4121 was connected when penstockd ended, and may have continued");
		assert_string_equal(end->advice, "");
		assert_false(story_matters(end));
		assert_int_equal(end->event, -1);
		assert_false(story_event(&b->story, 0, text, sizeof text));
		assert_string_equal(trainers_of_daemon(b),
			"1 trainer was connected; it may have continued with the next daemon");
		b->now.fate = fate_of;
		b->now.fate_context = &next;
		(void)expect(b, TRAINER_PID, STORY_OUTLIVED, STORY_CERTAIN,
			"trainer 4121 was connected when penstockd ended, and continued with "
			"penstockd 900");
		assert_string_equal(trainers_of_daemon(b),
			"1 trainer was connected; it continued with penstockd 900");
		(void)book_attach(b, 2, 2, 200);
		(void)book_attach(b, 2, 3, 201);
		b->now.time_ns += 20 * SECOND;
		(void)expect(b, 200, STORY_OUTLIVED, STORY_CERTAIN,
			"trainer 200 was connected when penstockd ended, and its "
			"process is still running");
		assert_string_equal(trainers_of_daemon(b),
			"3 trainers were connected; 1 continued with penstockd 900, 1 kept "
			"running, 1 may have continued with the next daemon");
		book_free(b);
	}
}

static void who_is_only_disconnected_is_not_counted_among_the_ended(void **state)
{
	(void)state;
	struct book *b = book_new();
	char text[160];
	(void)book_attach(b, 1, 1, TRAINER_PID);
	(void)book_attach(b, 1, 2, 200);
	book_leave(b, 9.9, 1, RECORD_EXPELLED);
	book_leave(b, 10, 2, RECORD_PROCESS_ENDED);
	book_exit(b, 10, 2, SIGKILL)->pid = 200;
	b->now.time_ns += 20 * SECOND;
	(void)expect(b, TRAINER_PID, STORY_EXPELLED, STORY_CERTAIN, "trainer 4121 was disc");
	for (int event = 0; event < b->story.events; event++)
		assert_false(story_event(&b->story, event, text, sizeof text));
	book_exit(b, 10, 1, 1 << 8)->known = 1;
	(void)expect(b, TRAINER_PID, STORY_EXPELLED, STORY_CERTAIN, "trainer 4121 was disc");
	assert_true(story_event(&b->story, 0, text, sizeof text));
	contains(text, "2 trainers ended at once");
	book_free(b);
}

static void cpu_time_is_told_to_the_tenth(void **state)
{
	(void)state;
	struct book *b = book_new();
	(void)book_attach(b, 1, 1, TRAINER_PID);
	struct record_exit *e = book_exit(b, 13, 1, SIGTERM);
	contains(line_of(book_find(b, TRAINER_PID), "lived"), "used 7 s of CPU time");
	e->cpu_s = 0;
	e->cpu_ns = 440000000;
	contains(line_of(book_find(b, TRAINER_PID), "lived"), "used 0.4 s of CPU time");
	e->cpu_s = NONE;
	assert_null(strstr(line_of(book_find(b, TRAINER_PID), "lived"), "CPU"));
	book_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leaving_is_told_from_ending),
		cmocka_unit_test(a_process_that_closes_and_ends_well_is_in_order),
		cmocka_unit_test(an_arrival_that_was_pushed_out_of_the_file_is_no_obstacle),
		cmocka_unit_test(each_end_of_the_daemon_is_told),
		cmocka_unit_test(the_daemon_s_oom_kill_tells_its_budget),
		cmocka_unit_test(the_daemon_s_time_is_told),
		cmocka_unit_test(a_record_that_stops_is_read_with_what_is_known_of_now),
		cmocka_unit_test(those_who_die_together_are_one_event),
		cmocka_unit_test(who_follows_the_daemon_is_told_so),
		cmocka_unit_test(who_leaves_as_the_daemon_ends_is_no_culprit),
		cmocka_unit_test(who_outlives_the_daemon_belongs_under_its_entry),
		cmocka_unit_test(who_is_only_disconnected_is_not_counted_among_the_ended),
		cmocka_unit_test(cpu_time_is_told_to_the_tenth),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

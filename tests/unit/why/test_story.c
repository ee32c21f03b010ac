/* story: what must be told of made-up records: the cause, how sure it is, the numbers, and how the
 * sentence begins. Who else ended then, and the daemon, are in test_story_ends.c. */
#include "client/cli/watch/why/cause.h"
#include "client/cli/watch/why/words.h"
#include "record/ring.h"
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

/* ---- memory ---- */

static void an_oom_kill_is_told_with_its_numbers(void **state)
{
	(void)state;
	struct book *b = book_new();
	book_hour(b);
	struct record_exit *e = book_exit(b, 3600.5, 1, SIGKILL);
	e->oom_kills = 1;
	e->cgroup.oom_kills = 4;
	book_leave(b, 3600.6, 1, RECORD_PROCESS_ENDED);
	const struct story_end *end = expect(b, TRAINER_PID, STORY_CGROUP_OOM, STORY_CERTAIN,
		"trainer 4121 was killed: the container's OOM killer (+1); its memory rose from "
		"3.1 GiB to 11.8 GiB; the container's limit is 16.0 GiB; penstock held 1.9 GiB "
		"of its 2.0 GiB");
	const struct story_numbers *n = &end->numbers;
	assert_int_equal(n->oom_kills, 1);
	assert_int_equal(n->cgroup.used, 15 * GIB);
	assert_int_equal(n->cgroup_used_after, 4 * GIB);
	assert_int_equal(n->given, 1234);
	assert_int_equal(n->batch, 12);
	assert_true(n->grows && n->growth_per_hour > 8.6 * (double)GIB &&
		    n->growth_per_hour < 8.8 * (double)GIB);
	assert_true(n->memory_before < n->memory_last && n->memory_before > n->memory_first);
	assert_true(n->waits > 0.24F && n->waits < 0.26F);
	assert_string_equal(line_of(end, "memory"),
		"3.1 GiB at the start, 10.3 GiB ten minutes before its end, 11.8 GiB at the "
		"end (11.3 GiB of it anonymous); it grew by 8.7 GiB per hour; peak "
		"11.8 GiB");
	assert_string_equal(line_of(end, "cgroup"),
		"15.0 GiB in use of 16.0 GiB, 4.0 GiB after its "
		"end; OOM kills so far: 4; /docker/7e");
	assert_string_equal(line_of(end, "machine"),
		"30.0 GiB of 62.0 GiB memory left, 0 B of swap; 100.0 GiB free on the disk of "
		"the recorder");
	assert_string_equal(line_of(end, "pressure"),
		"memory 40 %, memory for all 12 %, disk 1 %, CPU 5 % of its last ten seconds");
	assert_string_equal(line_of(end, "batches"),
		"1234 received; the last was batch 12 of epoch 3; it held 2 of 4");
	assert_string_equal(line_of(end, "waited"), "for data during 25 % of its last minute");
	contains(end->advice, "find what the trainer keeps from batch to batch");
	book_free(b);
}

static void the_machine_s_killer_is_told_from_a_cgroup_s(void **state)
{
	(void)state;
	struct book *b = book_new();
	(void)book_attach(b, 1, 1, TRAINER_PID);
	(void)book_trainer(b, 2, 1, 5 * GIB);
	struct record_machine *m = book_machine(b, 2, GIB, &unlimited);
	struct record_exit *e = book_exit(b, 3, 1, SIGKILL);
	e->oom_kills = 2;
	e->cgroup = unlimited;
	const struct story_end *end = expect(b, TRAINER_PID, STORY_MACHINE_OOM, STORY_CERTAIN,
		"trainer 4121 was killed: the machine's OOM killer (+2); its memory was 5.0 GiB; "
		"the "
		"machine had 1.0 GiB of 62.0 GiB left");
	contains(end->advice, "run less on this machine");
	/* Plenty was left: no limit is known that it could have been. */
	m->available = 40 * GIB;
	(void)expect(b, TRAINER_PID, STORY_MACHINE_OOM, STORY_LIKELY,
		"trainer 4121 was killed: most likely the machine's OOM killer (+2)");
	/* Both were near. */
	m->available = GIB;
	m->cgroup = e->cgroup = container;
	(void)expect(b, TRAINER_PID, STORY_CGROUP_OOM, STORY_LIKELY,
		"trainer 4121 was killed: most likely the container's OOM killer (+2)");
	/* A limit that was far, on a machine that was short. */
	m->cgroup.used = e->cgroup.used = 2 * GIB;
	(void)expect(b, TRAINER_PID, STORY_MACHINE_OOM, STORY_CERTAIN, "trainer 4121 was killed");
	book_free(b);
}

/* A launcher that kills the other ranks as soon as one has died. */
static void a_kill_beside_an_oom_kill_is_not_one_for_certain(void **state)
{
	(void)state;
	struct book *b = book_new();
	struct record_exit *e[2];
	for (int i = 0; i < 2; i++)
		(void)book_attach(b, 1, 1 + (uint64_t)i, 100 + i);
	for (int i = 0; i < 2; i++) {
		e[i] = book_exit(b, 50 + i * 0.4, 1 + (uint64_t)i, SIGKILL);
		e[i]->pid = 100 + i;
		e[i]->oom_kills = 1;
		e[i]->cgroup.oom_kills = 4;
	}
	(void)expect(b, 100, STORY_CGROUP_OOM, STORY_CERTAIN, "trainer 100 was killed");
	(void)expect(b, 101, STORY_CGROUP_OOM, STORY_LIKELY,
		"trainer 101 was killed: most likely the container's OOM killer (+1)");
	e[1]->cgroup.oom_kills = 5; /* it was counted on its own */
	(void)expect(b, 101, STORY_CGROUP_OOM, STORY_CERTAIN, "trainer 101 was killed");
	e[0]->cgroup.oom_kills = 5; /* both were, before either was looked at */
	e[0]->oom_kills = e[1]->oom_kills = 2;
	(void)expect(b, 100, STORY_CGROUP_OOM, STORY_CERTAIN, "trainer 100 was killed");
	(void)expect(b, 101, STORY_CGROUP_OOM, STORY_CERTAIN, "trainer 101 was killed");
	book_free(b);
}

static void a_status_that_nobody_told_stays_a_likelihood(void **state)
{
	(void)state;
	struct book *b = book_new();
	(void)book_attach(b, 1, 1, TRAINER_PID);
	struct record_exit *e = book_exit(b, 30, 1, 0);
	e->known = 0;
	e->oom_kills = 1;
	(void)expect(b, TRAINER_PID, STORY_CGROUP_OOM, STORY_LIKELY,
		"trainer 4121 ended: most likely the container's OOM killer (+1)");
	e->oom_kills = 0;
	(void)expect(b, TRAINER_PID, STORY_ENDED, STORY_CERTAIN,
		"trainer 4121 ended without closing its stream; the reason is unknown: kernels "
		"before 6.15 tell only the parent process");
	(void)snprintf(b->record[1].body.attach.parent_command, RECORD_TEXT, "timeout 30 ./train");
	(void)expect(b, TRAINER_PID, STORY_TIME, STORY_POSSIBLE,
		"trainer 4121 ended 30 s after its start: possibly `timeout` ended it");
	book_leave(b, 31, 1, RECORD_CLOSED);
	(void)expect(b, TRAINER_PID, STORY_ORDER, STORY_LIKELY, "trainer 4121 ended normally");
	book_free(b);
}

/* ---- time ---- */

static void what_timeout_was_told_is_read(void **state)
{
	(void)state;
	static const struct {
		const char *command;
		double seconds, kill; /* 0: no timeout */
	} cases[] = {{"timeout 3600 python train.py", 3600, 0}, {"/usr/bin/timeout 2 x", 2, 0},
		{"timeout -s KILL 2 x", 2, 0}, {"timeout -k 5 1.5h x", 5400, 5},
		{"timeout -k5 1m x", 60, 5},
		{"timeout --kill-after=1m --signal=INT 2d x", 172800, 60},
		{"timeout --foreground --preserve-status -v 0.5 x", 0.5, 0},
		{"timeout --signal TERM 10 x", 10, 0}, {"timeout", 0, 0}, {"timeout x 10", 0, 0},
		{"timeout -1 x", 0, 0}, {"timeout 0 x", 0, 0}, {"timeouts 10 x", 0, 0},
		{"bash -c timeout 10", 0, 0}, {"timeout -k", 0, 0}, {"timeout nan x", 0, 0},
		{"timeout inf x", 0, 0}, {"timeout 10y x", 0, 0}, {"", 0, 0}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		double seconds = 0, kill = 0;
		bool is = cause_timeout(cases[i].command, &seconds, &kill);
		if (is != (cases[i].seconds > 0) ||
			(is && (seconds != cases[i].seconds || kill != cases[i].kill)))
			fail_msg("%s: %g, %g", cases[i].command, seconds, kill);
	}
}

static void time_that_was_up_is_told_from_a_signal(void **state)
{
	(void)state;
	struct book *b = book_new();
	struct record_attach *a = book_attach(b, 1, 1, TRAINER_PID);
	struct record_exit *e = book_exit(b, 3600, 1, SIGTERM);
	(void)snprintf(a->parent_command, sizeof a->parent_command, "timeout -k 60 1h ./train");
	const struct story_end *end = expect(b, TRAINER_PID, STORY_TIME, STORY_LIKELY,
		"trainer 4121 was ended by SIGTERM 1 h 0 min after its start: most likely "
		"`timeout` ended it after 1 h 0 min");
	assert_int_equal(end->limit, STORY_LIMIT_TIMEOUT);
	assert_int_equal(end->limit_s, 3600);
	e->lived_s = 3660; /* it did not listen */
	e->status = SIGKILL;
	(void)expect(
		b, TRAINER_PID, STORY_TIME, STORY_LIKELY, "trainer 4121 was killed by SIGKILL");
	e->lived_s = 1800; /* long before */
	(void)expect(b, TRAINER_PID, STORY_SIGNAL, STORY_CERTAIN,
		"trainer 4121 was killed by SIGKILL, which the kernel's OOM killer did not "
		"send: another process did");
	a->deadline_s = (int64_t)BEGAN + 3570;
	end = expect(b, TRAINER_PID, STORY_TIME, STORY_LIKELY,
		"trainer 4121 was killed by SIGKILL 30 min 0 s after its start: most likely "
		"its job ran out of time: the deadline had passed 30 s earlier");
	assert_int_equal(end->limit, STORY_LIMIT_DEADLINE);
	contains(end->advice, "--time");
	a->deadline_s = (int64_t)BEGAN + 9000;
	(void)snprintf(a->parent_command, sizeof a->parent_command, "slurmstepd: [77.0]");
	end = expect(b, TRAINER_PID, STORY_SIGNAL, STORY_CERTAIN, "trainer 4121 was killed");
	contains(end->advice, "sacct");
	a->cpu_limit_s = 7;
	e->status = SIGXCPU;
	end = expect(b, TRAINER_PID, STORY_TIME, STORY_CERTAIN,
		"trainer 4121 was ended by SIGXCPU: it used up its CPU time (RLIMIT_CPU): the "
		"limit is 7 s");
	assert_int_equal(end->limit, STORY_LIMIT_CPU);
	contains(end->advice, "ulimit -t");
	book_free(b);
}

/* ---- statuses ---- */

static void each_status_has_its_sentence(void **state)
{
	(void)state;
	static const struct {
		int status;
		enum story_cause cause;
		const char *begins, *advice;
	} cases[] = {
		{SIGTERM, STORY_SIGNAL, "was ended by SIGTERM: another process asked it to end",
			"scheduler"},
		{SIGINT, STORY_SIGNAL, "was ended by SIGINT: a user interrupted it (Ctrl-C)",
			"output"},
		{SIGHUP, STORY_SIGNAL, "was ended by SIGHUP: its terminal", "setsid"},
		{SIGXFSZ, STORY_SIGNAL, "was ended by SIGXFSZ: a file grew beyond its limit",
			"ulimit -f"},
		{35, STORY_SIGNAL, "was ended by signal 35", "output"},
		{SIGSEGV | 0x80, STORY_CRASH,
			"crashed with SIGSEGV: it used memory that is not mapped; it dumped "
			"core",
			"coredumpctl gdb 4121"},
		{SIGABRT, STORY_CRASH, "crashed with SIGABRT: it aborted", "coredumpctl"},
		{SIGBUS, STORY_CRASH, "crashed with SIGBUS: a mapped file", "/dev/shm"},
		{SIGFPE, STORY_CRASH, "crashed with SIGFPE", "FAULTHANDLER"},
		{SIGILL, STORY_CRASH, "crashed with SIGILL", "FAULTHANDLER"},
		{1 << 8, STORY_EXIT_CODE,
			"ended with exit code 1 without closing its stream: an exception",
			"traceback"},
		{2 << 8, STORY_EXIT_CODE, "ended with exit code 2 without closing its stream",
			"output"},
		{124 << 8, STORY_EXIT_CODE,
			"ended with exit code 124 without closing its stream, by which timeout",
			"output"},
		{127 << 8, STORY_EXIT_CODE,
			"ended with exit code 127 without closing its stream, by which a shell "
			"reports that a command could not be found",
			"output"},
		{137 << 8, STORY_EXIT_CODE,
			"ended with exit code 137 without closing its stream = 128 + 9: "
			"SIGKILL ended it, or a program that it ran",
			"the programs that it runs"},
		{139 << 8, STORY_EXIT_CODE,
			"ended with exit code 139 without closing its stream = 128 + 11: "
			"SIGSEGV ended it, or a program that it ran",
			"the programs that it runs"},
		{143 << 8, STORY_EXIT_CODE,
			"ended with exit code 143 without closing its stream = 128 + 15: "
			"SIGTERM ended it, or a program that it ran",
			"the programs that it runs"},
		{0, STORY_UNCLOSED, "ended with exit code 0 without closing its stream",
			"penstock_stream_close"},
	};
	char begins[256];
	struct book *b = book_new();
	(void)book_attach(b, 1, 1, TRAINER_PID);
	struct record_exit *e = book_exit(b, 30, 1, 0);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		e->status = cases[i].status;
		(void)snprintf(begins, sizeof begins, "trainer 4121 %s", cases[i].begins);
		contains(expect(b, TRAINER_PID, cases[i].cause, STORY_CERTAIN, begins)->advice,
			cases[i].advice);
		assert_true(story_matters(book_find(b, TRAINER_PID)));
	}
	book_free(b);
}

static void a_child_that_the_oom_killer_took_is_told_beside_the_code(void **state)
{
	(void)state;
	struct book *b = book_new();
	(void)book_attach(b, 1, 1, TRAINER_PID);
	book_exit(b, 30, 1, 1 << 8)->oom_kills = 2;
	contains(expect(b, TRAINER_PID, STORY_EXIT_CODE, STORY_CERTAIN, "trainer 4121 ended")
			 ->sentence,
		"the OOM killer ended 2 other processes of its cgroup in its last seconds");
	book_free(b);
}

static void a_full_device_is_suggested_before_an_exit_code(void **state)
{
	(void)state;
	struct book *b = book_new();
	(void)book_attach(b, 1, 1, TRAINER_PID);
	for (uint32_t i = 0; i < 2; i++) {
		struct record_gpu *g = &book_add(b, RECORD_GPU, 10)->body.gpu;
		*g = (struct record_gpu){
			.device = i, .name = "H100", .used = (i ? 79 : 3) * GIB, .total = 80 * GIB};
	}
	struct record_trainer *t = book_trainer(b, 10.5, 1, GIB);
	(void)book_exit(b, 11, 1, 1 << 8);
	/* Where the driver does not say whose memory it is, it may be another's. */
	(void)expect(b, TRAINER_PID, STORY_GPU_OOM, STORY_POSSIBLE,
		"trainer 4121 ended with exit code 1, possibly because GPU 1 was out of memory");
	t->gpu_bytes = 70 * GIB;
	const struct story_end *end = expect(b, TRAINER_PID, STORY_GPU_OOM, STORY_LIKELY,
		"trainer 4121 ended with exit code 1, most likely because GPU 1 was out of "
		"memory: 79.0 GiB of 80.0 GiB were in use");
	assert_string_equal(
		line_of(end, "device 1"), "79.0 GiB of 80.0 GiB in use, busy 0 %; H100");
	contains(end->advice, "nvidia-smi");
	/* What is known to hold nothing there did not fail for it. */
	t->gpu_bytes = 0;
	(void)expect(b, TRAINER_PID, STORY_EXIT_CODE, STORY_CERTAIN, "trainer 4121 ended");
	book_free(b);
}

/* A clock that is set while they run: what was written last is last. */
static void a_clock_that_is_set_back_hides_nothing(void **state)
{
	(void)state;
	struct book *b = book_new();
	(void)book_attach(b, 7200, 1, TRAINER_PID);
	(void)book_trainer(b, 7201, 1, GIB);
	(void)book_trainer(b, 3601, 1, 3 * GIB); /* an hour back */
	(void)book_exit(b, 3602, 1, SIGTERM);
	const struct story_end *end = expect(b, TRAINER_PID, STORY_SIGNAL, STORY_CERTAIN,
		"trainer 4121 was ended by SIGTERM: another process asked it to end; its "
		"memory rose from 1.0 GiB to 3.0 GiB");
	assert_false(end->numbers.grows);
	/* Another process of that number begins as it did, and is not it. */
	book_attach(b, 3610, 2, TRAINER_PID)->start_ticks++;
	(void)book_trainer(b, 3611, 2, 5 * GIB);
	(void)book_exit(b, 3612, 2, SIGTERM);
	book_tell(b);
	assert_int_equal(b->story.count, 3);
	for (size_t i = 0; i < 3; i++)
		if (!b->story.end[i].daemon)
			assert_true(b->story.end[i].numbers.memory_first ==
				    (b->story.end[i].attach->trainer == 2 ? 5 : 1) * GIB);
	book_free(b);
}

/* ---- what is no good ---- */

static void nothing_is_told_of_nothing(void **state)
{
	(void)state;
	struct story_now now = {.boot_id = "", .host = ""};
	struct story story;
	assert_int_equal(story_tell(NULL, 0, &now, &story), 0);
	assert_int_equal(story.count, 0);
	assert_null(story_start(NULL, 0));
	story_free(&story);
}

/* Whatever bytes a file keeps, every text ends, and nothing else is touched (for the sanitizers).
 */
static void any_bytes_make_a_story(void **state)
{
	(void)state;
	uint32_t x = 1;
	for (int round = 0; round < 10; round++) {
		char path[] = "/tmp/penstock-test-story-XXXXXX";
		struct record *records, record;
		struct fault fault;
		struct story story;
		struct ring *ring;
		size_t count;
		const struct story_now now = {.boot_id = "boot-1", .host = "node7"};
		assert_non_null(mkdtemp(path));
		char file[64];
		(void)snprintf(file, sizeof file, "%s/r", path);
		assert_int_equal(ring_create(file, RING_LEAST, &ring, &fault), 0);
		for (int i = 0; i < 200; i++) {
			unsigned char *bytes = (void *)&record;
			for (size_t k = 0; k < sizeof record; k++) {
				x = x * 1664525 + 1013904223;
				bytes[k] = round % 2 ? 'x' : (unsigned char)(x >> 24);
			}
			record.kind = 1 + (x >> 8) % (RECORD_KINDS - 1);
			record.bytes = sizeof record.body;
			if (record.kind == RECORD_EXIT)
				record.body.exit.trainer = (x >> 16) % 4;
			assert_int_equal(ring_append(ring, &record), 0);
		}
		ring_free(ring);
		assert_int_equal(ring_read(file, &records, &count, &fault), 0);
		assert_true(count > 100);
		assert_int_equal(story_tell(records, count, &now, &story), 0);
		for (size_t i = 0; i < story.count; i++) {
			const struct story_end *end = &story.end[i];
			assert_true(strnlen(end->sentence, STORY_SENTENCE) < STORY_SENTENCE);
			assert_true(end->lines <= STORY_LINES && end->sentence[0]);
		}
		story_free(&story);
		free(records);
		assert_int_equal(unlink(file) | rmdir(path), 0);
	}
}

static void durations_read_well(void **state)
{
	(void)state;
	static const struct {
		double seconds;
		const char *text;
	} cases[] = {{-1, "0 s"}, {7, "7 s"}, {0.44, "0.4 s"}, {9.9, "9.9 s"}, {59.4, "59 s"},
		{59.6, "1 min 0 s"}, {200, "3 min 20 s"}, {7500, "2 h 5 min"}, {273600, "3 d 4 h"},
		{1e300, "0 s"}};
	char text[WORDS_NUMBER];
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_string_equal(
			words_duration(cases[i].seconds, text, sizeof text), cases[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_oom_kill_is_told_with_its_numbers),
		cmocka_unit_test(the_machine_s_killer_is_told_from_a_cgroup_s),
		cmocka_unit_test(a_kill_beside_an_oom_kill_is_not_one_for_certain),
		cmocka_unit_test(a_status_that_nobody_told_stays_a_likelihood),
		cmocka_unit_test(what_timeout_was_told_is_read),
		cmocka_unit_test(time_that_was_up_is_told_from_a_signal),
		cmocka_unit_test(each_status_has_its_sentence),
		cmocka_unit_test(a_child_that_the_oom_killer_took_is_told_beside_the_code),
		cmocka_unit_test(a_full_device_is_suggested_before_an_exit_code),
		cmocka_unit_test(a_clock_that_is_set_back_hides_nothing),
		cmocka_unit_test(nothing_is_told_of_nothing),
		cmocka_unit_test(any_bytes_make_a_story),
		cmocka_unit_test(durations_read_well),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

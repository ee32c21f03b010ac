/* Values that come from the job: the rank of a split stream, and the name of a group that the
 * application did not name. */
#include "client/fake.h"
#include "client/lib/job.h"
#include "client/lib/open.h"
#include "penstock/penstock.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const variables[] = {"RANK", "WORLD_SIZE", "PENSTOCK_JOB", "TORCHELASTIC_RUN_ID",
	"SLURM_JOB_ID", "MASTER_ADDR", "MASTER_PORT"};

static void set(const char *name, const char *value)
{
	if (value)
		assert_int_equal(setenv(name, value, 1), 0);
	else
		assert_int_equal(unsetenv(name), 0);
}

static int clear(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
		set(variables[i], NULL);
	return 0;
}

/* ---- ranks ---- */

static void split_options(struct penstock_options *options)
{
	penstock_options_init(options);
	options->source = "/data";
	options->share = "split";
}

static void test_ranks_of_the_environment(void **state)
{
	(void)state;
	struct penstock_options options, mine;
	split_options(&options);
	set("RANK", "2");
	set("WORLD_SIZE", "4");
	assert_int_equal(open_take_options(&options, &mine), 0);
	assert_int_equal(mine.rank, 2);
	assert_int_equal(mine.world_size, 4);
	set("RANK", "4294967294");
	set("WORLD_SIZE", "4294967295"); /* the daemon's to refuse */
	assert_int_equal(open_take_options(&options, &mine), 0);
	assert_int_equal(mine.rank, 4294967294u);

	/* Explicit ones win. */
	options.rank = 1;
	options.world_size = 2;
	assert_int_equal(open_take_options(&options, &mine), 0);
	assert_int_equal(mine.rank, 1);
	assert_int_equal(mine.world_size, 2);

	/* Nothing but "split" asks for them. */
	options.rank = options.world_size = 0;
	options.share = "all";
	assert_int_equal(open_take_options(&options, &mine), 0);
	assert_int_equal(mine.world_size, 0);
	options.share = NULL;
	assert_int_equal(open_take_options(&options, &mine), 0);
	assert_int_equal(mine.world_size, 0);
}

static void test_ranks_refused(void **state)
{
	(void)state;
	static const struct {
		const char *rank, *world_size, *sentence;
	} cases[] = {
		{NULL, NULL, "environment's RANK is not set"},
		{"", "2", "environment's RANK is not set"},
		{"0", NULL, "environment's WORLD_SIZE is not set"},
		{"0", "", "environment's WORLD_SIZE is not set"},
		{"zero", "2", "RANK is \"zero\": expected a number from 0 to WORLD_SIZE - 1"},
		{"-1", "2", "RANK is \"-1\""},
		{"+1", "2", "RANK is \"+1\""},
		{" 1", "2", "RANK is \" 1\""},
		{"1 ", "2", "RANK is \"1 \""},
		{"0x1", "2", "RANK is \"0x1\""},
		{"1.0", "2", "RANK is \"1.0\""},
		{"1\n\033[31m", "2", "RANK is \"1  [31m\": expected"},
		{"4294967296", "2", "RANK is \"4294967296\""},
		{"18446744073709551617", "2", "RANK is \"18446744073709551617\""},
		{"0", "two", "WORLD_SIZE is \"two\": expected the number of ranks, 1 or more"},
		{"0", "0", "WORLD_SIZE is 0: expected the number of ranks"},
		{"2", "2", "RANK is 2 and WORLD_SIZE 2: expected a rank from 0 to 1"},
		{"7", "4", "RANK is 7 and WORLD_SIZE 4: expected a rank from 0 to 3"},
	};
	struct penstock_options options, mine;
	split_options(&options);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		set("RANK", cases[i].rank);
		set("WORLD_SIZE", cases[i].world_size);
		assert_int_equal(open_take_options(&options, &mine), -EINVAL);
		if (!strstr(penstock_error(), cases[i].sentence))
			fail_msg("said \"%s\", wanted \"%s\"", penstock_error(), cases[i].sentence);
	}
	set("RANK", "0");
	set("WORLD_SIZE", "2");
	options.rank = 1; /* of how many? */
	assert_int_equal(open_take_options(&options, &mine), -EINVAL);
	assert_non_null(
		strstr(penstock_error(), "options.rank is 1 and options.world_size is not"));
	options.rank = 3;
	options.world_size = 3;
	assert_int_equal(open_take_options(&options, &mine), -EINVAL);
	assert_non_null(strstr(penstock_error(), "options.rank is 3 and options.world_size 3"));
	struct penstock_stream *stream = NULL;
	assert_int_equal(penstock_stream_open(&options, &stream), -EINVAL);
	assert_null(stream);
}

/* ---- names ---- */

static void want_group(uint64_t hash, uint64_t ordinal, const char *job)
{
	char name[JOB_GROUP], wanted[JOB_GROUP];
	uint64_t got;
	assert_int_equal(job_group(hash, name, &got), 0);
	(void)snprintf(wanted, sizeof wanted, "%s/%016llx/%llu", job, (unsigned long long)hash,
		(unsigned long long)ordinal);
	assert_string_equal(name, wanted);
	assert_int_equal(got, ordinal);
}

static void test_which_job(void **state)
{
	(void)state;
	char name[JOB_GROUP], again[JOB_GROUP], own[64];
	uint64_t ordinal;
	/* From the last resort to the first, each beats the ones before. */
	assert_int_equal(job_group(1, name, &ordinal), 0);
	(void)snprintf(own, sizeof own, "process-%d-", (int)getpid());
	assert_int_equal(strncmp(name, own, strlen(own)), 0);
	set("MASTER_ADDR", "node-1");
	assert_int_equal(job_group(1, again, &ordinal), 0); /* an address without a port */
	assert_int_equal(strncmp(name, again, strrchr(name, '/') - name), 0);
	set("MASTER_PORT", "29500");
	want_group(1, 2, "master-node-1:29500");
	set("SLURM_JOB_ID", "77");
	want_group(1, 3, "slurm-77");
	set("TORCHELASTIC_RUN_ID", "none"); /* torchrun without --rdzv-id */
	want_group(1, 4, "slurm-77");
	set("TORCHELASTIC_RUN_ID", "");
	want_group(1, 5, "slurm-77");
	set("TORCHELASTIC_RUN_ID", "run 9");
	want_group(1, 6, "torch-run 9");
	set("PENSTOCK_JOB", "");
	want_group(1, 7, "torch-run 9");
	set("PENSTOCK_JOB", "m\xc3\xbchle");
	want_group(1, 8, "job-m\xc3\xbchle");
}

/* Without a job no other process could join, so waiting for others would never end. */
static void test_waiting_for_nobody(void **state)
{
	(void)state;
	struct penstock_options options;
	struct open_group group;
	split_options(&options);
	options.source = "/waiting"; /* other tests count */
	options.world_size = 2;
	options.wait_for = 2;
	set("TORCHELASTIC_RUN_ID", "none");
	set("MASTER_ADDR", "node-1");
	assert_int_equal(open_make_group(&options, &group), -EINVAL);
	assert_non_null(
		strstr(penstock_error(), "options.wait_for is 2, but no other trainer can join"));
	assert_false(group.made);
	static const char *const names[] = {
		"PENSTOCK_JOB", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "MASTER_PORT"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct penstock_options mine = options;
		set(names[i], "1");
		assert_int_equal(open_make_group(&mine, &group), 0);
		assert_true(group.made);
		set(names[i], NULL);
	}
	/* A stream of the configuration is its own group: all trainers that open it meet. */
	struct penstock_options named = options;
	named.source = "stream:imagenet";
	named.wait_for = 2;
	assert_int_equal(open_make_group(&named, &group), 0);
	assert_null(named.group);
	assert_false(group.made);
	options.group = "g";
	assert_int_equal(open_make_group(&options, &group), 0);
	options.group = NULL;
	options.wait_for = 1;
	assert_int_equal(open_make_group(&options, &group), 0);
	assert_true(group.made);
}

/* Names that a daemon would not accept unchanged. */
static void test_odd_jobs(void **state)
{
	(void)state;
	char name[JOB_GROUP], longest[5000], before[JOB_GROUP] = "";
	uint64_t ordinal;
	static const char *const odd[] = {"a\nb", "a\tb", "\x7f", "\xff", "\xc3", NULL};
	memset(longest, 'x', sizeof longest);
	longest[sizeof longest - 1] = '\0';
	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		set("PENSTOCK_JOB", odd[i] ? odd[i] : longest);
		assert_int_equal(job_group(UINT64_MAX, name, &ordinal), 0);
		assert_int_equal(strspn(name, "job-0123456789abcdef/"), strlen(name));
		assert_int_equal(strchr(name, '/') - name, strlen("job-") + 16);
		assert_string_not_equal(name, before); /* each has its own hash */
		memcpy(before, name, sizeof name);
	}
	/* The longest that fits, and one more; with the longest ordinal still within the room. */
	enum { ROOM = JOB_GROUP - 1 - (1 + 16 + 1 + 20) };
	longest[ROOM - 4] = '\0';
	set("PENSTOCK_JOB", longest);
	assert_int_equal(job_group(3, name, &ordinal), 0);
	assert_int_equal(strncmp(name + 4, longest, ROOM - 4), 0);
	assert_int_equal(strlen(name), ROOM + 1 + 16 + 1 + 1);
	longest[ROOM - 4] = 'x';
	longest[ROOM - 3] = '\0';
	set("PENSTOCK_JOB", longest);
	assert_int_equal(job_group(3, name, &ordinal), 0);
	assert_int_equal(strlen(name), strlen("job-") + 16 + 1 + 16 + 1 + 1);
	set("PENSTOCK_JOB", NULL);
	set("MASTER_ADDR", "a\nb");
	set("MASTER_PORT", "1");
	assert_int_equal(job_group(3, name, &ordinal), 0);
	assert_null(strchr(name, '\n'));
	memcpy(before, name, sizeof name);
	set("MASTER_PORT", "2");
	assert_int_equal(job_group(3, name, &ordinal), 0);
	assert_int_not_equal(strncmp(name, before, strlen("master-") + 16), 0);
}

static void test_counting(void **state)
{
	(void)state;
	set("PENSTOCK_JOB", "j");
	want_group(100, 0, "job-j");
	want_group(100, 1, "job-j");
	want_group(200, 0, "job-j");
	want_group(100, 2, "job-j");
	job_take_back(100, 2); /* it was not opened after all */
	want_group(100, 2, "job-j");
	want_group(100, 3, "job-j");
	job_take_back(100, 2); /* too late: 3 is out */
	want_group(100, 4, "job-j");
	job_take_back(999, 0); /* never made */
	want_group(999, 0, "job-j");
}

/* A forked child starts again; as a separate job it has another name. */
FAKE_TEST(fork)
{
	char name[JOB_GROUP], mine[JOB_GROUP];
	uint64_t ordinal;
	int status;
	FAKE_WANT(job_group(7, name, &ordinal) == 0 && ordinal == 0);
	FAKE_WANT(job_group(7, name, &ordinal) == 0 && ordinal == 1);
	pid_t pid = fork();
	if (pid == 0) {
		FAKE_WANT(job_group(7, mine, &ordinal) == 0 && ordinal == 0);
		FAKE_WANT(strncmp(name, mine, strlen("process-")) == 0);
		FAKE_WANT(strcmp(strchr(name, '/') - 16, strchr(mine, '/') - 16) != 0);
		exit(0);
	}
	FAKE_WANT(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	FAKE_WANT(job_group(7, name, &ordinal) == 0 && ordinal == 2);
}

enum { THREADS = 4, EACH = 500 };

static void *count_up(void *argument)
{
	uint8_t *seen = argument;
	char name[JOB_GROUP];
	uint64_t ordinal;
	for (int i = 0; i < EACH; i++) {
		if (job_group(12345, name, &ordinal) == 0 && ordinal < (uint64_t)THREADS * EACH)
			__atomic_fetch_add(&seen[ordinal], 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Each thread gets numbers that no other thread gets. */
static void test_threads(void **state)
{
	(void)state;
	static uint8_t seen[THREADS * EACH];
	pthread_t thread[THREADS];
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, count_up, seen), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	for (size_t i = 0; i < sizeof seen; i++)
		assert_int_equal(seen[i], 1);
}

/* ---- which streams are the same one ---- */

static void made(struct penstock_options options, struct open_group *group)
{
	assert_int_equal(open_make_group(&options, group), 0);
	assert_true(group->made);
	assert_ptr_equal(options.group, group->name);
}

static void test_definitions(void **state)
{
	(void)state;
	struct penstock_options options;
	struct open_group first, group;
	set("PENSTOCK_JOB", "j");
	split_options(&options);
	options.world_size = 2;
	made(options, &first);

	/* Options in which readers may differ. */
	options.rank = 1;
	options.world_size = 4;
	options.wait_for = 4;
	options.laggard = "detach";
	options.laggard_timeout_s = 9;
	options.epochs = 3;
	options.prefetch = 8;
	options.state = "{\"epoch\":2}";
	options.reconnect_ms = 1000;
	options.timeout_ms = 5;
	options.daemon_memory = "1G";
	made(options, &group);
	assert_int_equal(group.hash, first.hash);
	assert_int_equal(group.ordinal, 1);
	open_drop_group(&group);
	made(options, &group);
	assert_int_equal(group.ordinal, 1);

	/* Options that determine the batches. */
	struct penstock_options other[] = {
		options, options, options, options, options, options, options};
	other[0].seed = 1;
	other[1].source = "/data2";
	other[2].batch_size = 8;
	other[3].share = "all";
	other[4].train = 0;
	other[5].decode = "fast";
	other[6].labels = "cls";
	for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
		made(other[i], &group);
		assert_int_not_equal(group.hash, first.hash);
		assert_int_equal(group.ordinal, 0);
	}

	/* A name given by the application, and a stream that is not shared. */
	options.group = "mine";
	assert_int_equal(open_make_group(&options, &group), 0);
	assert_false(group.made);
	assert_string_equal(options.group, "mine");
	open_drop_group(&group);
	options.group = options.share = NULL;
	assert_int_equal(open_make_group(&options, &group), 0);
	assert_false(group.made);
	assert_null(options.group);
	options.share = "all";
	options.source = "/\xff";
	assert_int_equal(open_make_group(&options, &group), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_ranks_of_the_environment, clear),
		cmocka_unit_test_setup(test_ranks_refused, clear),
		cmocka_unit_test_setup(test_which_job, clear),
		cmocka_unit_test_setup(test_waiting_for_nobody, clear),
		cmocka_unit_test_setup(test_odd_jobs, clear),
		cmocka_unit_test_setup(test_counting, clear),
		cmocka_unit_test_setup(test_fork, clear),
		cmocka_unit_test_setup(test_threads, clear),
		cmocka_unit_test_setup(test_definitions, clear),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* verdict: made-up windows and the verdict on each; then impossible numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "stats/verdict.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)

/* Ten seconds of an idle daemon with four slots, two workers and two processors. */
static const struct verdict_input idle = {
	.seconds = 10,
	.started = true,
	.trainers = 1,
	.present = 1,
	.wait_for = 1,
	.slots = 4,
	.slots_wanted = 4,
	.held_pid = 77,
	.held_usual_s = 0.1,
	.threads = 2,
	.cpus = 2,
	.workers_idle_s = 20,
	.images = 1000,
	.read_threads = 1,
	.budget = 64 * MIB,
	.budget_slots = 96 * MIB,
	.budget_images = 128 * MIB,
	.budget_buffers = 256 * MIB,
};

static struct verdict find(const struct verdict_input *in)
{
	struct verdict verdict;
	memset(&verdict, 0xa5, sizeof verdict);
	verdict_find(in, &verdict);
	return verdict;
}

static struct verdict expect(
	const struct verdict_input *in, enum verdict_kind kind, const char *begins)
{
	struct verdict verdict = find(in);
	if (verdict.kind != kind || strncmp(verdict.sentence, begins, strlen(begins)) != 0)
		fail_msg("expected %s \"%s...\", got %s \"%s\"", verdict_kind_name(kind), begins,
			verdict_kind_name(verdict.kind), verdict.sentence);
	/* A sentence is short, and the remedy is a line of its own. */
	assert_true(strlen(verdict.sentence) < 100 && strlen(verdict.remedy) < 120);
	return verdict;
}

static void remedy(const struct verdict_input *in, const char *is)
{
	struct verdict verdict = find(in);
	if (strcmp(verdict.remedy, is) != 0)
		fail_msg("after \"%s\": expected \"%s\", got \"%s\"", verdict.sentence, is,
			verdict.remedy);
}

/* The trainer waits for this share; the test adds what keeps it waiting. */
static struct verdict_input starved(double share)
{
	struct verdict_input in = idle;
	in.trainer_wait_s = share * in.seconds;
	return in;
}

static void without_trainers_there_is_none(void **state)
{
	struct verdict_input in = idle;
	(void)state;
	in.trainers = 0;
	(void)expect(&in, VERDICT_NONE, "no trainer");
	in = idle;
	in.started = false;
	in.present = 2;
	in.wait_for = 4;
	(void)expect(&in, VERDICT_WAITING, "the group waits for trainers: 2 of 4 are here");
	in.wait_for = 1; /* all of them had joined before the daemon was restarted */
	(void)expect(&in, VERDICT_WAITING, "the group waits for trainers that return: 2 here");
	in.opening = true;
	(void)expect(&in, VERDICT_UNKNOWN, "not measured yet: the stream is being opened");
	in = idle;
	in.seconds = 0.1;
	(void)expect(&in, VERDICT_UNKNOWN, "not measured yet");
}

/* An evaluation that has ended, beside a training that keeps all processors busy, lacks none. */
static void who_has_all_lacks_nothing(void **state)
{
	struct verdict_input in = idle;
	(void)state;
	in.images = 0;
	in.workers_idle_s = 0;
	in.cpu_s = 20;
	in.ended = 1;
	(void)expect(&in, VERDICT_NONE, "nothing to do: every trainer has received its last");
	in.trainers = 2;
	(void)expect(&in, VERDICT_DECODE, "decode-bound: ");
	/* It has just ended: the verdict still says what slowed it down until then. */
	in.trainers = 1;
	in.images = 1000;
	in.trainer_wait_s = 6;
	(void)expect(&in, VERDICT_DECODE, "decode-bound: ");
}

static void trainers(void **state)
{
	struct verdict_input in = idle;
	(void)state;
	in.complete_s = 9.7;
	in.slots_full_s = 6;
	struct verdict verdict = expect(
		&in, VERDICT_TRAINER, "trainer-bound, 97 %: complete batches wait for the trainer");
	assert_true(fabs(verdict.share - 0.97) < 1e-9 && fabs(verdict.slots_full - 0.6) < 1e-9);
	assert_true(verdict.more_cpus < 0 && verdict.pid == 0);
	/* Another busy stage does not slow it down. */
	in.workers_idle_s = 0;
	in.cpu_s = 20;
	(void)expect(&in, VERDICT_TRAINER, "trainer-bound, 97 %");
	/* But where slots are never full, the trainer keeps its batches and does wait. */
	in.slots_full_s = 0.1;
	verdict = expect(&in, VERDICT_DECODE, "decode-bound: 2 of 2 cores busy");
	assert_true(verdict.more_cpus < 0);
	remedy(&in, "use more cores; penstock pack or decode: fast makes decoding cheaper");
	in.fast = true;
	remedy(&in, "use more cores; penstock pack makes decoding cheaper");
	in.fast = false;
	in.workers_idle_s = 10;
	in.cpu_s = 10;
	(void)expect(&in, VERDICT_TRAINER, "trainer-bound, 97 %");
	/* A trainer that keeps a batch while it waits for the next does not seem to wait. */
	in = idle;
	(void)expect(&in, VERDICT_TRAINER, "trainer-bound: no trainer waits, and no stage is busy");
	in.workers_idle_s = 0;
	in.cpu_s = 20;
	(void)expect(&in, VERDICT_DECODE, "decode-bound: 2 of 2 cores busy");
	in.threads = 1; /* all threads are busy, though not all processors */
	in.cpu_s = 10;
	(void)expect(&in, VERDICT_DECODE, "decode-bound: 1 of 2 cores busy with 1 decoding");
	in = idle;
	in.read_busy_s = 10;
	(void)expect(&in, VERDICT_READ, "disk-bound: ");
}

static void holders(void **state)
{
	struct verdict_input in = idle;
	(void)state;
	in.trainers = 3;
	in.trainer_wait_s = 9;
	in.slots_full_s = 9;
	in.held_most = 4;
	in.held_quiet_s = 12;
	struct verdict verdict = expect(&in, VERDICT_HELD,
		"one trainer holds its batches: pid 77 has 4 of 4 and has returned none for 12 s");
	remedy(&in, "find out why pid 77 has stopped; laggard: detach lets the others go on");
	assert_int_equal(verdict.pid, 77);
	in.held_quiet_s = 0.2;
	(void)expect(&in, VERDICT_HELD, "one trainer holds its batches: pid 77 has 4 of 4");
	/* A single trainer has to hold them for long, and for longer than ever before. */
	in = idle;
	in.slots_full_s = in.complete_s = 10;
	in.held_most = 4;
	in.held_quiet_s = 4;
	(void)expect(&in, VERDICT_TRAINER, "trainer-bound, 100 %");
	in.held_quiet_s = 12;
	verdict = expect(&in, VERDICT_HELD,
		"trainer-bound: pid 77 holds all 4 batches and has returned none for 12 s");
	assert_int_equal(verdict.pid, 77);
	in.held_usual_s = 11; /* its steps take that long */
	(void)expect(&in, VERDICT_TRAINER, "trainer-bound, 100 %");
	in.held_usual_s = 0;
	in.held_most = 3;
	(void)expect(&in, VERDICT_TRAINER, "trainer-bound, 100 %");
}

static void processors(void **state)
{
	struct verdict_input in = starved(0.6);
	(void)state;
	in.workers_idle_s = 0.4;
	in.workers_cpu_s = 19;
	in.cpu_s = 20;
	struct verdict verdict = expect(&in, VERDICT_DECODE, "decode-bound: 2 of 2 cores busy");
	remedy(&in, "3 more cores would feed this trainer; penstock pack or decode: fast makes "
		    "decoding cheaper");
	assert_true(verdict.more_cpus == 3 && fabs(verdict.share - 0.6) < 1e-9);
	/* A loop that hardly computes: no number of cores is enough. */
	for (double wait = 0.76; wait < 1; wait += 0.03) {
		in = starved(wait);
		in.workers_idle_s = 0;
		in.cpu_s = 20;
		verdict = expect(&in, VERDICT_DECODE, "decode-bound: 2 of 2 cores busy");
		assert_true(verdict.more_cpus < 0);
		remedy(&in, "use more cores; penstock pack or decode: fast makes decoding cheaper");
	}
	/* Slots were full half of the time: in the other half the workers were busy. */
	in = starved(0.45);
	in.slots_full_s = 4;
	in.workers_idle_s = 8;
	in.cpu_s = 12;
	(void)expect(&in, VERDICT_DECODE, "decode-bound: ");
	/* Fewer threads than processors. */
	in = starved(0.5);
	in.threads = 1;
	in.cpus = 8;
	in.workers_idle_s = 0.2;
	in.cpu_s = 10;
	(void)expect(&in, VERDICT_DECODE, "decode-bound: 1 of 8 cores busy with 1 decoding thread");
	/* More threads than processors: most wait, since the processors are busy with the others.
	 */
	in = starved(0.5);
	in.threads = 64;
	in.workers_idle_s = 400;
	in.cpu_s = 19;
	(void)expect(&in, VERDICT_DECODE, "decode-bound: 2 of 2 cores busy");
	assert_true(find(&in).more_cpus == 2);
}

/* With fewer threads than processors, the remedy is as many threads as find one idle. */
static void idle_processors(void **state)
{
	static const struct {
		unsigned threads, cpus;
		double own, idle, wait;
		const char *remedy;
	} cases[] = {
		{1, 2, 1, 1, 0.9, "try --threads 2, in Python threads=2"},
		{1, 2, 1, 0.6, 0.9, "try --threads 2, in Python threads=2"},
		/* Not known: what the daemon does not use. */
		{1, 2, 1, -1, 0.9, "try --threads 2, in Python threads=2"},
		{1, 8, 1, 7, 0.9, "try --threads 8, in Python threads=8"},
		{1, 8, 1, 3, 0.9, "try --threads 4, in Python threads=4"},
		/* No more than the trainer needs. */
		{1, 8, 1, 7, 0.5, "try --threads 2, in Python threads=2"},
		/* The trainer itself uses the other one. */
		{1, 2, 1, 0.1, 0.9,
			"use more cores; penstock pack or decode: fast makes decoding cheaper"},
		{2, 2, 2, 0, 0.9,
			"use more cores; penstock pack or decode: fast makes decoding cheaper"},
		/* A host's idle processors beyond the quota. */
		{2, 2, 2, 60, 0.9,
			"use more cores; penstock pack or decode: fast makes decoding cheaper"},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct verdict_input in = starved(cases[i].wait);
		in.threads = cases[i].threads;
		in.cpus = cases[i].cpus;
		in.workers_idle_s = 0;
		in.cpu_s = cases[i].own * in.seconds;
		in.cpus_idle_s = cases[i].idle * in.seconds;
		(void)expect(&in, VERDICT_DECODE, "decode-bound: ");
		remedy(&in, cases[i].remedy);
	}
}

static void others(void **state)
{
	struct verdict_input in = starved(0.5);
	(void)state;
	/* Even where workers seem to wait for storage. */
	in.threads = in.cpus = 1;
	in.workers_idle_s = 4;
	in.workers_cpu_s = 2.5;
	in.cpu_s = 3;
	in.delay_s = 6;
	in.read_busy_s = 10;
	in.read_depth_s = 80;
	struct verdict verdict = expect(&in, VERDICT_DECODE,
		"decode-bound: other programs took 67 % of the CPU time that penstock needs");
	remedy(&in, "run fewer other programs on its 1 core; OMP_NUM_THREADS limits threads of a "
		    "trainer's libraries");
	assert_true(fabs(verdict.cpu_stolen - 0.6) < 1e-9);
	/* The kernel does not report it: the rest of the workers' time counts. */
	in.delay_s = -1;
	in.workers_idle_s = 0.5;
	(void)expect(&in, VERDICT_DECODE, "decode-bound: other programs took 70 % of the CPU time");
	/* Threads that compete only with each other lose nothing to other programs. */
	in = starved(0.5);
	in.threads = 8;
	in.workers_idle_s = 0;
	in.cpu_s = 20;
	in.delay_s = 60;
	verdict = expect(&in, VERDICT_DECODE, "decode-bound: 2 of 2 cores busy");
	assert_true(verdict.cpu_stolen == 0);
	in.throttled_s = 8;
	(void)expect(&in, VERDICT_DECODE,
		"decode-bound: the cgroup's CPU quota holds penstock back 40 % of the time");
	remedy(&in, "raise the cgroup's CPU quota, or run fewer processes within it");
	/* The reading threads lack a processor. */
	in = starved(0.9);
	in.read_busy_s = 10;
	in.read_delay_s = 8;
	(void)expect(&in, VERDICT_DECODE,
		"decode-bound: reading threads wait 80 % of their time for a processor");
	remedy(&in, "run fewer other programs on its 2 cores; OMP_NUM_THREADS limits threads of a "
		    "trainer's libraries");
	/* Sixteen of them, late by a little each, with a slow disk. */
	in.read_threads = 16;
	in.read_depth_s = 160;
	(void)expect(&in, VERDICT_READ, "disk-bound: ");
}

static void storage(void **state)
{
	struct verdict_input in = starved(0.8);
	(void)state;
	in.workers_idle_s = 17;
	in.cpu_s = 3;
	in.read_busy_s = 9.9;
	in.read_depth_s = 300;
	in.read_bytes = 2.1e9;
	struct verdict verdict = expect(&in, VERDICT_READ, "disk-bound: reads bring 210 MB/s");
	remedy(&in,
		"use faster storage, or more memory for the cache; penstock pack makes large files "
		"of small ones");
	assert_true(fabs(verdict.read_bytes_per_s - 2.1e8) < 1 && fabs(verdict.share - 0.8) < 1e-9);
	in.read_best = 2.2e8;
	(void)expect(&in, VERDICT_READ, "disk-bound: reads bring 210 MB/s, at best 220");
	in.read_bytes = 2.1e6;
	in.read_best = 2.2e5;
	(void)expect(&in, VERDICT_READ, "disk-bound: reads bring 210 kB/s, at best 220");
	/* With many reads at a time, it does not matter that some wait for buffers. */
	in.buffers_full_s = 9;
	(void)expect(&in, VERDICT_READ, "disk-bound: ");
}

/* A trainer that waits for an object store, which answers slowly. */
static struct verdict_input remote(double wait)
{
	struct verdict_input in = starved(wait);
	in.workers_idle_s = 17;
	in.cpu_s = 3;
	in.read_busy_s = 9.9;
	in.read_depth_s = 300;
	in.read_bytes = 2.1e9;
	in.remote = (struct verdict_remote){
		.store = "S3",
		.waiting = "",
		.connections = 38.2,
		.limit = 64,
		.requests = 1000,
		.slowdowns = 20,
		.first_byte_p99_s = 0.9,
	};
	return in;
}

static void remote_storage(void **state)
{
	struct verdict_input in = remote(0.345);
	(void)state;
	struct verdict verdict = expect(
		&in, VERDICT_READ, "S3-bound: 38 connections, first byte p99 900 ms, 2 % SlowDown");
	assert_true(verdict.more_connections == 21 && verdict.more_cpus < 0);
	assert_true(fabs(verdict.slowdowns - 0.02) < 1e-9 && verdict.first_byte_p99_s == 0.9);
	remedy(&in, "21 more connections would feed this trainer: raise prefetch, which uses more "
		    "of them");
	/* All that are allowed are in use. */
	in.remote.connections = 60;
	remedy(&in, "32 more connections would feed this trainer: set connections: 96 in remote:");
	/* Nobody knows how many a trainer that only waits could use. */
	in.trainer_wait_s = 9;
	verdict = expect(&in, VERDICT_READ, "S3-bound: 60 connections, ");
	assert_true(verdict.more_connections < 0);
	remedy(&in, "raise connections in remote:; a cache_dir keeps what was read; shuffle: "
		    "blocks reads larger pieces");
	in.remote.connections = 4;
	remedy(&in, "raise prefetch; a cache_dir keeps what was read; shuffle: blocks reads larger "
		    "pieces");
	in.remote.slowdowns = 60;
	(void)expect(
		&in, VERDICT_READ, "S3-bound: 4 connections, first byte p99 900 ms, 6 % SlowDown");
	remedy(&in, "the store wants fewer requests: shuffle: blocks makes them larger, a "
		    "cache_dir saves them");
	in.remote.throttled_s = 5;
	remedy(&in, "raise bandwidth, which limits what is received, in remote:");
}

static void remote_words(void **state)
{
	struct verdict_input in = remote(0.8);
	(void)state;
	in.remote.store = "HTTP";
	in.remote.connections = 0.3;
	in.remote.slowdowns = 0;
	in.remote.first_byte_p99_s = 12;
	(void)expect(&in, VERDICT_READ, "HTTP-bound: 1 connection, first byte p99 12 s");
	/* No answer has come in the window. */
	in.remote.requests = in.remote.first_byte_p99_s = 0;
	struct verdict verdict = expect(&in, VERDICT_READ, "HTTP-bound: 1 connection");
	assert_string_equal(verdict.sentence, "HTTP-bound: 1 connection");
	/* All of it is in the cache, or another stream makes the requests. */
	in.remote.connections = 0;
	(void)expect(&in, VERDICT_READ, "disk-bound: ");
	in = remote(0.8);
	in.remote.store = NULL;
	(void)expect(&in, VERDICT_READ, "disk-bound: ");
	/* Requests wait for buffers: more memory would use more connections. */
	in = remote(0.8);
	in.buffers_full_s = 9;
	(void)expect(&in, VERDICT_MEMORY, "memory-bound: reads wait ");
	in.read_depth_s = 64 * 10;
	(void)expect(&in, VERDICT_READ, "S3-bound: ");
	/* Storage that nobody waits for. */
	in.trainer_wait_s = 0.1;
	in.complete_s = 9;
	in.slots_full_s = 8;
	(void)expect(&in, VERDICT_TRAINER, "trainer-bound");
}

static void a_server_is_gone(void **state)
{
	static const char sentence[] = "waiting for https://host: connection refused for 12 s";
	struct verdict_input in = remote(0.95);
	(void)state;
	in.remote.waiting = sentence;
	(void)expect(&in, VERDICT_READ, sentence);
	remedy(&in, "find out why the server does not answer this machine; reading goes on when it "
		    "does");
	/* Before the first batch, and while indexing. */
	in.started = false;
	(void)expect(&in, VERDICT_READ, sentence);
	in.opening = true;
	(void)expect(&in, VERDICT_READ, sentence);
	/* The other trainers are missing too. */
	in.opening = false;
	in.wait_for = 2;
	(void)expect(&in, VERDICT_WAITING, "the group waits for trainers: 1 of 2");
	/* The trainer still has batches. */
	in = remote(0.2);
	in.remote.waiting = sentence;
	in.complete_s = 8;
	in.slots_full_s = 5;
	(void)expect(&in, VERDICT_TRAINER, "trainer-bound");
	/* It is not this stream's server. */
	in = starved(0.8);
	in.workers_idle_s = 17;
	in.read_busy_s = 9.9;
	in.remote.waiting = sentence;
	(void)expect(&in, VERDICT_READ, "disk-bound: ");
}

static void memory(void **state)
{
	struct verdict_input in = starved(0.8);
	(void)state;
	in.workers_idle_s = 17;
	in.read_busy_s = 9.9;
	in.read_depth_s = 30;
	in.buffers_full_s = 8;
	(void)expect(&in, VERDICT_MEMORY, "memory-bound: reads wait 80 % of the time for buffers");
	remedy(&in, "raise memory to 256M");
	in.budget_buffers = 0; /* there is no such budget */
	struct verdict verdict = expect(&in, VERDICT_MEMORY, "memory-bound: reads wait 80 %");
	remedy(&in, "use fewer threads: each then has more memory");
	in = starved(0.8);
	in.workers_idle_s = 2;
	in.permit_wait_s = 9;
	in.cpu_s = 9;
	verdict = expect(&in, VERDICT_MEMORY,
		"memory-bound: decoders wait 45 % of their time for the memory of large images");
	remedy(&in, "raise memory to 128M");
	assert_true(fabs(verdict.permit_wait - 0.45) < 1e-9);
	in.cpu_s = 19; /* and yet the processors are busy */
	(void)expect(&in, VERDICT_DECODE, "decode-bound: ");
	in.cpu_s = 5; /* or busy with other programs */
	in.delay_s = 14;
	(void)expect(&in, VERDICT_DECODE, "decode-bound: other programs took ");
	in.permit_wait_s = 12;
	(void)expect(&in, VERDICT_MEMORY, "memory-bound: decoders wait 60 %");
	in = starved(0.4);
	in.slots = 2;
	in.slots_wanted = 8;
	in.slots_full_s = 6;
	in.complete_s = 6;
	(void)expect(&in, VERDICT_MEMORY, "memory-bound: 2 of 8 batches fit the budget");
	remedy(&in, "raise memory to 96M");
	in.slots_limited = true;
	remedy(&in, "raise stream_memory to 96M");
	in.slots_wanted = 2;
	(void)expect(&in, VERDICT_TRAINER, "trainer-bound, 60 %");
}

/* Each number in turn is nonsense, in every window: there is a sentence, and shares are valid. */
static void nonsense(void **state)
{
	static const double bad[] = {0, -1, 1e-300, 1e300, DBL_MAX, INFINITY, -INFINITY, NAN};
	static const size_t numbers[] = {offsetof(struct verdict_input, seconds),
		offsetof(struct verdict_input, trainer_wait_s),
		offsetof(struct verdict_input, complete_s),
		offsetof(struct verdict_input, slots_full_s),
		offsetof(struct verdict_input, held_quiet_s),
		offsetof(struct verdict_input, held_usual_s),
		offsetof(struct verdict_input, workers_idle_s),
		offsetof(struct verdict_input, permit_wait_s),
		offsetof(struct verdict_input, workers_cpu_s),
		offsetof(struct verdict_input, cpu_s), offsetof(struct verdict_input, delay_s),
		offsetof(struct verdict_input, cpus_idle_s),
		offsetof(struct verdict_input, read_delay_s),
		offsetof(struct verdict_input, throttled_s),
		offsetof(struct verdict_input, read_busy_s),
		offsetof(struct verdict_input, read_depth_s),
		offsetof(struct verdict_input, buffers_full_s),
		offsetof(struct verdict_input, read_bytes),
		offsetof(struct verdict_input, read_best),
		offsetof(struct verdict_input, remote.connections),
		offsetof(struct verdict_input, remote.requests),
		offsetof(struct verdict_input, remote.slowdowns),
		offsetof(struct verdict_input, remote.first_byte_p99_s),
		offsetof(struct verdict_input, remote.throttled_s)};
	static const unsigned few[] = {0, 1, 1000000};
	uint64_t random = 1;
	(void)state;
	for (unsigned round = 0; round < 200000; round++) {
		struct verdict_input in = starved((double)(round % 11) / 10);
		for (unsigned changes = 0; changes < 1 + round % 6; changes++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			size_t at = numbers[(random >> 33) % UTIL_COUNT(numbers)];
			double value = bad[(random >> 50) % UTIL_COUNT(bad)];
			memcpy((char *)&in + at, &value, sizeof value);
		}
		in.threads = few[(random >> 20) % UTIL_COUNT(few)];
		in.cpus = few[(random >> 24) % UTIL_COUNT(few)];
		in.slots = few[(random >> 28) % UTIL_COUNT(few)];
		in.trainers = few[(random >> 30) % UTIL_COUNT(few)];
		in.remote.limit = few[(random >> 18) % UTIL_COUNT(few)];
		in.remote.store = random >> 63 ? "S3" : NULL;
		struct verdict verdict = find(&in);
		const double shares[] = {verdict.share, verdict.trainer_wait, verdict.slots_full,
			verdict.workers_idle, verdict.permit_wait, verdict.cpu_busy,
			verdict.cpu_stolen, verdict.read_busy, verdict.buffers_full,
			verdict.slowdowns};
		for (size_t i = 0; i < UTIL_COUNT(shares); i++)
			if (!(shares[i] >= 0 && shares[i] <= 1))
				fail_msg("round %u: share %zu is %g", round, i, shares[i]);
		assert_true(isfinite(verdict.read_bytes_per_s) && verdict.read_bytes_per_s >= 0);
		assert_true(isfinite(verdict.read_bytes_per_s_best) &&
			    verdict.read_bytes_per_s_best >= 0);
		assert_true(isfinite(verdict.reads_under_way) && isfinite(verdict.more_cpus));
		assert_true(strlen(verdict.sentence) > 0);
		assert_null(strstr(verdict.sentence, "nan"));
		assert_null(strstr(verdict.sentence, "inf"));
		assert_true(strlen(verdict.remedy) < 120);
		assert_null(strpbrk(verdict.sentence, "()[]"));
		assert_null(strpbrk(verdict.remedy, "()[]"));
		assert_true(isfinite(verdict.cpus_idle) && isfinite(verdict.more_connections));
		assert_true(verdict.connections >= 0 && verdict.connections <= 1e6);
		assert_true(verdict.first_byte_p99_s >= 0 && verdict.first_byte_p99_s <= 1e6);
	}
}

static void kinds_have_names(void **state)
{
	(void)state;
	assert_string_equal(verdict_kind_name(VERDICT_READ), "read");
	assert_string_equal(verdict_kind_name(VERDICT_HELD), "held");
	for (int kind = 0; kind < VERDICT_KINDS; kind++)
		assert_non_null(verdict_kind_name((enum verdict_kind)kind));
	assert_string_equal(verdict_kind_name(VERDICT_KINDS), "unknown");
	struct verdict_input nothing = {0};
	(void)expect(&nothing, VERDICT_NONE, "no trainer");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_trainers_there_is_none),
		cmocka_unit_test(who_has_all_lacks_nothing),
		cmocka_unit_test(trainers),
		cmocka_unit_test(holders),
		cmocka_unit_test(processors),
		cmocka_unit_test(idle_processors),
		cmocka_unit_test(others),
		cmocka_unit_test(storage),
		cmocka_unit_test(remote_storage),
		cmocka_unit_test(remote_words),
		cmocka_unit_test(a_server_is_gone),
		cmocka_unit_test(memory),
		cmocka_unit_test(nonsense),
		cmocka_unit_test(kinds_have_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

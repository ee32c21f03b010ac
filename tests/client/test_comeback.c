/* libpenstock and penstockd itself: the test kills a private daemon repeatedly, and the streams
 * must read what an undisturbed stream reads, batch for batch, byte for byte: single streams,
 * ranks that split a stream, and a group that shares all of it. */
#include "client/fake.h"
#include "penstock/penstock.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { TRAINERS = 2, BATCHES = 40, BATCH_SIZE = 5, SIZE = 32, SAMPLES = 6 * 9 };

static char folder[64], data[80], socket_path[96];

/* ---- a dataset, and a folder for a daemon ---- */

__attribute__((format(printf, 1, 2))) static int run(const char *format, ...)
{
	char command[512];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(command, sizeof command, format, args);
	va_end(args);
	return system(command);
}

static int make_place(void **state)
{
	(void)state;
	(void)snprintf(folder, sizeof folder, "/tmp/penstock-comeback-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	(void)snprintf(data, sizeof data, "%s/data", folder);
	(void)snprintf(socket_path, sizeof socket_path, "%s/run/p.sock", folder);
	(void)setenv("PENSTOCKD", REAL_PENSTOCKD, 1);
	(void)setenv("XDG_CACHE_HOME", folder, 1);
	return run("%s %s --per-class %d --min-side 40 --max-side 80 >%s/made 2>&1", MAKE_DATASET,
		data, SAMPLES / 6, folder);
}

static int remove_place(void **state)
{
	(void)state;
	return run("rm -rf %s", folder);
}

/* ---- reading ---- */

struct seen {
	uint64_t epoch, batch, hash;
};

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
	const uint8_t *b = bytes;
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ b[i]) * 0x100000001b3;
	return hash;
}

static struct seen look(const struct penstock_batch *batch)
{
	uint64_t hash = hash_bytes(1, batch->images, batch->image_bytes * batch->count);
	hash = hash_bytes(hash, batch->labels, sizeof *batch->labels * batch->count);
	hash = hash_bytes(hash, batch->samples, sizeof *batch->samples * batch->count);
	return (struct seen){batch->epoch, batch->batch, hash};
}

static void default_options(struct penstock_options *options)
{
	penstock_options_init(options);
	options->source = data;
	options->socket = socket_path;
	options->batch_size = BATCH_SIZE;
	options->image_size = SIZE;
	options->seed = 3;
	options->daemon_memory = "256M";
	options->daemon_threads = 2;
	options->reconnect_ms = 20000;
}

static struct penstock_stream *open_stream(const struct penstock_options *options)
{
	struct penstock_stream *stream = NULL;
	int result = penstock_stream_open(options, &stream);
	if (result < 0)
		(void)fprintf(stderr, "open: %d: %s\n", result, penstock_error());
	FAKE_WANT(result == 0);
	return stream;
}

static void next(struct penstock_stream *stream, struct penstock_batch *batch)
{
	int result = penstock_stream_next(stream, batch, 30000);
	if (result != 0)
		(void)fprintf(stderr, "next: %d: %s\n", result, penstock_error());
	FAKE_WANT(result == 0);
}

static void want_same(const struct seen *got, const struct seen *wanted)
{
	if (memcmp(got, wanted, sizeof *got) != 0)
		(void)fprintf(stderr, "got batch %llu of epoch %llu, wanted %llu of %llu%s\n",
			(unsigned long long)got->batch, (unsigned long long)got->epoch,
			(unsigned long long)wanted->batch, (unsigned long long)wanted->epoch,
			got->batch == wanted->batch ? ", with other bytes" : "");
	FAKE_WANT(memcmp(got, wanted, sizeof *got) == 0);
}

/* The batches that the trainers get when no daemon dies. */
static void read_undisturbed(
	const struct penstock_options options[TRAINERS], struct seen seen[TRAINERS][BATCHES])
{
	struct penstock_stream *stream[TRAINERS];
	struct penstock_batch batch;
	for (int t = 0; t < TRAINERS; t++)
		stream[t] = open_stream(&options[t]);
	for (int i = 0; i < BATCHES; i++) {
		for (int t = 0; t < TRAINERS; t++) {
			next(stream[t], &batch);
			seen[t][i] = look(&batch);
			FAKE_WANT(penstock_batch_release(stream[t], &batch) == 0);
		}
	}
	for (int t = 0; t < TRAINERS; t++)
		penstock_stream_close(stream[t]);
}

/* Takes the next batch of a trainer that holds the batch before it. False: none has come. */
static bool take(struct penstock_stream *stream, struct penstock_batch held[2],
	const struct seen *seen, int i)
{
	int result = penstock_stream_next(stream, &held[i % 2], 10);
	if (result == -ETIMEDOUT)
		return false;
	if (result != 0)
		(void)fprintf(stderr, "next: %d: %s\n", result, penstock_error());
	FAKE_WANT(result == 0);
	struct seen now = look(&held[i % 2]);
	want_same(&now, &seen[i]);
	if (i == 0)
		return true;
	now = look(&held[1 - i % 2]); /* a batch that is held stays as it was */
	want_same(&now, &seen[i - 1]);
	FAKE_WANT(penstock_batch_release(stream, &held[1 - i % 2]) == 0);
	return true;
}

/* The daemon would wait up to a minute for a group of known size; not here. */
static bool all_read(const int done[TRAINERS])
{
	for (int t = 0; t < TRAINERS; t++)
		if (done[t] == BATCHES)
			return false;
	return true;
}

/* The daemon dies after every eleventh batch, as long as all trainers read. When `apart`, the last
 * trainer reads only when the others cannot go on without it. */
static void read_disturbed(const struct penstock_options options[TRAINERS], bool apart,
	struct seen seen[TRAINERS][BATCHES])
{
	struct penstock_stream *stream[TRAINERS];
	struct penstock_batch held[TRAINERS][2];
	int done[TRAINERS] = {0}, total = 0;
	bool stalled = false;
	for (int t = 0; t < TRAINERS; t++)
		stream[t] = open_stream(&options[t]);
	while (total < TRAINERS * BATCHES) {
		bool moved = false;
		for (int t = 0; t < TRAINERS; t++) {
			bool lags = apart && t == TRAINERS - 1 && !stalled;
			if (lags || done[t] == BATCHES ||
				!take(stream[t], held[t], seen[t], done[t]))
				continue;
			moved = true;
			done[t]++;
			if (++total % 11 == 0 && all_read(done))
				FAKE_WANT(
					kill(penstock_stream_daemon_pid(stream[t]), SIGKILL) == 0);
		}
		stalled = !moved;
	}
	for (int t = 0; t < TRAINERS; t++)
		penstock_stream_close(stream[t]);
}

struct kind {
	const char *name, *share;
	bool apart;
};

static void run_kind(const void *argument)
{
	static struct seen seen[TRAINERS][BATCHES];
	const struct kind *kind = argument;
	struct penstock_options options[TRAINERS];
	(void)alarm(100); /* instead of the 40 s of other tests: daemons start here */
	for (uint32_t t = 0; t < TRAINERS; t++) {
		default_options(&options[t]);
		options[t].share = kind->share;
		options[t].group = kind->share ? "comeback" : NULL;
		options[t].wait_for = kind->share ? TRAINERS : 0;
		bool split = kind->share && strcmp(kind->share, "split") == 0;
		options[t].rank = split ? t : 0;
		options[t].world_size = split ? TRAINERS : 0;
	}
	read_undisturbed(options, seen);
	for (int i = 1; i < BATCHES; i++)
		FAKE_WANT(seen[0][i].hash != seen[0][i - 1].hash);
	read_disturbed(options, kind->apart, seen);
	/* The last kill may have come after all batches were announced. */
	int result = penstock_daemon_stop(socket_path);
	FAKE_WANT(result == 0 || result == -ECONNREFUSED);
}

static void test_alone(void **state)
{
	(void)state;
	static const struct kind kind = {"alone", NULL, true};
	fake_check(run_kind, &kind, kind.name);
}

static void test_split(void **state)
{
	(void)state;
	static const struct kind level = {"split", "split", false},
				 apart = {"split, differently far", "split", true};
	fake_check(run_kind, &level, level.name);
	fake_check(run_kind, &apart, apart.name);
}

static void test_all(void **state)
{
	(void)state;
	static const struct kind level = {"all", "all", false},
				 apart = {"all, differently far", "all", true};
	fake_check(run_kind, &level, level.name);
	fake_check(run_kind, &apart, apart.name);
}

/* A group's name that the library makes: two processes of one job share, by RANK and WORLD_SIZE. */
FAKE_TEST(job)
{
	struct penstock_stream *stream;
	struct penstock_options options;
	struct penstock_batch batch;
	bool shown[SAMPLES] = {false};
	(void)setenv("PENSTOCK_JOB", "comeback", 1);
	(void)setenv("WORLD_SIZE", "2", 1);
	default_options(&options);
	options.share = "split";
	options.epochs = 1;
	options.train = 0;
	/* Two streams of one process would be two of the job's: its second rank is a child. */
	int pipes[2], status = 0;
	FAKE_WANT(pipe(pipes) == 0);
	pid_t pid = fork();
	(void)setenv("RANK", pid ? "0" : "1", 1);
	stream = open_stream(&options);
	struct penstock_stream_info info;
	penstock_stream_info(stream, &info);
	FAKE_WANT(info.world_size == 2 && info.rank == (pid ? 0 : 1));
	int result;
	while ((result = penstock_stream_next(stream, &batch, 30000)) == 0) {
		for (uint32_t i = 0; i < batch.count; i++) {
			uint32_t index = (uint32_t)batch.samples[i].index;
			if (batch.samples[i].flags & PENSTOCK_PADDED)
				continue;
			FAKE_WANT(index < SAMPLES && !shown[index]);
			shown[index] = true;
		}
		FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
	}
	FAKE_WANT(result == PENSTOCK_END);
	penstock_stream_close(stream);
	if (pid == 0)
		exit(write(pipes[1], shown, sizeof shown) == sizeof shown ? 0 : 1);
	bool theirs[SAMPLES];
	FAKE_WANT(waitpid(pid, &status, 0) == pid && status == 0);
	FAKE_WANT(read(pipes[0], theirs, sizeof theirs) == sizeof theirs);
	(void)close(pipes[0]);
	(void)close(pipes[1]);
	for (int i = 0; i < SAMPLES; i++)
		FAKE_WANT(shown[i] != theirs[i]); /* each once, in one of them */
	FAKE_WANT(penstock_daemon_stop(socket_path) == 0);
}

/* A trainer of a group keeps its batches. After a second the others continue without it, and it
 * learns which of its batches it must not use. */
FAKE_TEST(laggard)
{
	enum { SLOTS = 3 };
	struct penstock_stream *stream[TRAINERS];
	struct penstock_options options;
	struct penstock_batch batch, kept[2];
	default_options(&options);
	options.share = "all";
	options.group = "laggard";
	options.laggard = "detach";
	options.laggard_timeout_s = 1;
	options.wait_for = TRAINERS;
	options.prefetch = SLOTS;
	options.epochs = 3;
	for (int t = 0; t < TRAINERS; t++)
		stream[t] = open_stream(&options);
	next(stream[1], &kept[0]);
	next(stream[1], &kept[1]);
	int result;
	unsigned batches = 0;
	while ((result = penstock_stream_next(stream[0], &batch, 30000)) == 0) {
		batches++;
		FAKE_WANT(penstock_batch_release(stream[0], &batch) == 0);
	}
	FAKE_WANT(result == PENSTOCK_END && batches == 3 * (SAMPLES / BATCH_SIZE));
	FAKE_WANT(penstock_batch_release(stream[1], &kept[0]) == -ECANCELED);
	FAKE_WANT(strstr(penstock_error(), "batch 0 of epoch 0"));
	FAKE_WANT(penstock_stream_next(stream[1], &batch, 30000) == -ECANCELED);
	FAKE_WANT(strstr(penstock_error(), "batch 0 of epoch 0"));
	FAKE_WANT(penstock_batch_release(stream[1], &kept[1]) == -ECANCELED);
	for (int t = 0; t < TRAINERS; t++)
		penstock_stream_close(stream[t]);
	FAKE_WANT(penstock_daemon_stop(socket_path) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_laggard),
		cmocka_unit_test(test_job),
	};
	return cmocka_run_group_tests(tests, make_place, remove_place);
}

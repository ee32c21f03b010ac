/* options.restarts: a private daemon that dies is restarted this many times, and no more. */
#include "client/fake.h"
#include "client/place.h"
#include "penstock/penstock.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROUND = 6 }; /* batches between two deaths: more than there are slots */

static struct penstock_options begin(void)
{
	place_make();
	FAKE_WANT(mkdir(place.run, 0700) == 0);
	struct penstock_options options = place_options();
	options.reconnect_ms = 20000;
	return options;
}

/* All daemons are dead by now: their pids may belong to other processes. */
static void finish(void)
{
	(void)unlink(place.facts);
	place_remove();
}

static int take(struct penstock_stream *stream, uint64_t ordinal)
{
	struct penstock_batch batch;
	int result = penstock_stream_next(stream, &batch, 20000);
	if (result != 0)
		return result;
	FAKE_WANT(batch.labels[1] == fake_label(ordinal, 1));
	FAKE_WANT(batch.epoch * 3 + batch.batch == ordinal);
	FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
	return 0;
}

static void take_round(struct penstock_stream *stream, uint64_t *ordinal)
{
	for (unsigned i = 0; i < ROUND; i++) {
		int result = take(stream, *ordinal);
		if (result != 0)
			(void)fprintf(stderr, "next: %d: %s\n", result, penstock_error());
		FAKE_WANT(result == 0);
		++*ordinal;
	}
}

static void want_had_enough(struct penstock_stream *stream, uint64_t ordinal, const char *times)
{
	int result;
	do { /* next still gives the batches that came before it died */
		result = take(stream, ordinal++);
	} while (result == 0);
	for (int i = 0; i < 2; i++) { /* and it stays so */
		if (result != -EPIPE || !strstr(penstock_error(), times))
			(void)fprintf(stderr, "next: %d: %s\n", result, penstock_error());
		FAKE_WANT(result == -EPIPE && strstr(penstock_error(), times));
		FAKE_WANT(strstr(penstock_error(), place.log));
		FAKE_WANT(strstr(penstock_error(), "ends with: fake: serving; `penstock why`"));
		FAKE_WANT(strstr(penstock_error(), "options.restarts"));
		result = take(stream, ordinal);
	}
}

/* Killed four times: three times it goes on with exactly the next batch. */
FAKE_TEST(three)
{
	struct penstock_options options = begin();
	struct penstock_stream *stream;
	uint64_t ordinal = 0;
	pid_t last;
	(void)setenv("FAKE_MODE", "says", 1);
	options.restarts = 3;
	FAKE_WANT(penstock_stream_open(&options, &stream) == 0);
	for (unsigned i = 0; i < 4; i++) {
		take_round(stream, &ordinal);
		FAKE_WANT(place_starts(&last) == 1 + i);
		place_kill(&stream, 1);
	}
	want_had_enough(stream, ordinal, "restarted 3 times,");
	FAKE_WANT(place_starts(&last) == 4);
	penstock_stream_close(stream);
	finish();
}

FAKE_TEST(once)
{
	struct penstock_options options = begin();
	struct penstock_stream *stream;
	uint64_t ordinal = 0;
	(void)setenv("FAKE_MODE", "says", 1);
	options.restarts = 1;
	FAKE_WANT(penstock_stream_open(&options, &stream) == 0);
	for (unsigned i = 0; i < 2; i++) {
		take_round(stream, &ordinal);
		place_kill(&stream, 1);
	}
	want_had_enough(stream, ordinal, "restarted 1 time,");
	penstock_stream_close(stream);
	finish();
}

/* Daemons that another stream has started do not count. */
FAKE_TEST(others)
{
	struct penstock_options options = begin();
	struct penstock_stream *stream[2];
	uint64_t ordinal[2] = {0, 0};
	pid_t last;
	FAKE_WANT(penstock_stream_open(&options, &stream[0]) == 0);
	options.restarts = 1;
	FAKE_WANT(penstock_stream_open(&options, &stream[1]) == 0);
	for (unsigned i = 0; i < 4; i++) {
		take_round(stream[0], &ordinal[0]);
		take_round(stream[1], &ordinal[1]);
		FAKE_WANT(place_starts(&last) == 1 + i);
		place_kill(stream, 2);
	}
	penstock_stream_close(stream[1]);
	take_round(stream[0], &ordinal[0]);
	place_kill(stream, 1);
	penstock_stream_close(stream[0]);
	finish();
}

/* A start that failed because another daemon has the socket does not count. */
FAKE_TEST(taken)
{
	struct penstock_options options = begin();
	struct penstock_stream *stream;
	struct penstock_batch batch;
	char lock[128];
	uint64_t ordinal = 0;
	pid_t last;
	(void)setenv("FAKE_MODE", "locks", 1);
	options.restarts = 1;
	FAKE_WANT(penstock_stream_open(&options, &stream) == 0);
	take_round(stream, &ordinal);
	place_kill(&stream, 1);
	(void)snprintf(lock, sizeof lock, "%s.lock", place.socket);
	pid_t other = fork();
	if (other == 0) { /* it ends slowly */
		int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		FAKE_WANT(fd >= 0 && flock(fd, LOCK_EX) == 0);
		(void)pause();
	}
	int result;
	do {
		result = penstock_stream_next(stream, &batch, 50);
		ordinal += result == 0;
		FAKE_WANT(result == 0 || result == -ETIMEDOUT);
	} while (place_starts(&last) < 4);
	FAKE_WANT(kill(other, SIGKILL) == 0);
	take_round(stream, &ordinal);
	place_kill(&stream, 1);
	do {
		result = take(stream, ordinal++);
	} while (result == 0);
	FAKE_WANT(result == -EPIPE && strstr(penstock_error(), "restarted 1 time,"));
	penstock_stream_close(stream);
	finish();
}

static void put_deaths(unsigned deaths)
{
	char path[128];
	(void)snprintf(path, sizeof path, "%s.deaths", place.socket);
	FILE *file = fopen(path, "we");
	FAKE_WANT(file && fprintf(file, "%u\n", deaths) > 0);
	FAKE_WANT(fclose(file) == 0);
}

/* A daemon that dies while it opens the stream counts like the others. */
FAKE_TEST(opening)
{
	struct penstock_options options = begin();
	struct penstock_stream *stream;
	uint64_t ordinal = 0;
	pid_t last;
	(void)setenv("FAKE_MODE", "opening", 1);
	options.restarts = 3;
	put_deaths(2);
	FAKE_WANT(penstock_stream_open(&options, &stream) == 0);
	FAKE_WANT(place_starts(&last) == 3);
	take_round(stream, &ordinal);
	place_kill(&stream, 1);
	take_round(stream, &ordinal);
	place_kill(&stream, 1);
	int result;
	do {
		result = take(stream, ordinal++);
	} while (result == 0);
	FAKE_WANT(result == -EPIPE && strstr(penstock_error(), "restarted 3 times,"));
	penstock_stream_close(stream);
	finish();
}

/* No more often than allowed, and not at all if the loss of a daemon ends the stream. */
FAKE_TEST(opening_too_often)
{
	struct penstock_options options = begin();
	struct penstock_stream *stream;
	pid_t last;
	(void)setenv("FAKE_MODE", "opening", 1);
	options.restarts = 2;
	put_deaths(4);
	FAKE_WANT(penstock_stream_open(&options, &stream) == -EPIPE);
	FAKE_WANT(place_starts(&last) == 3);
	options.reconnect_ms = 0;
	FAKE_WANT(penstock_stream_open(&options, &stream) == -EPIPE);
	FAKE_WANT(place_starts(&last) == 4);
	FAKE_WANT(penstock_stream_open(&options, &stream) == 0);
	FAKE_WANT(place_starts(&last) == 5);
	place_kill(&stream, 1);
	penstock_stream_close(stream);
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_three),
		cmocka_unit_test(test_once),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_taken),
		cmocka_unit_test(test_opening),
		cmocka_unit_test(test_opening_too_often),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

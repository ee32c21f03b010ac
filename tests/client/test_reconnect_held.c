/* A stream that outlives its daemon: batches that the application holds of the dead daemon, and
 * calls that it may make in between. */
#include "client/reconnect.h"

#include "client/lib/stream.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct fake_shape two_epochs = {
	.batch_size = 4, .side = 8, .slots = 4, .batches = 3, .epochs = 2, .first_serial = 1};

FAKE_TEST(restart)
{
	struct fake fake;
	struct penstock_batch held[2], batch;
	char *text = NULL, state[512], before[512];
	fake_start(&fake, fake_serve_well, &endless);
	struct penstock_stream *stream = open_stream(&fake, PENSTOCK_FOREVER);
	int fd = penstock_stream_fd(stream);
	want_next(stream, &held[0], 0);
	want_next(stream, &held[1], 1);
	FAKE_WANT(penstock_stream_classes(stream, &text) == 0);
	free(text);
	text = NULL;
	fake_kill(&fake);
	/* The other two have arrived; no more will come. */
	for (uint64_t i = 2; i < 4; i++) {
		want_next(stream, &batch, i);
		FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
	}
	FAKE_WANT(penstock_stream_state(stream, before, sizeof before) > 0);
	want_timeout(
		stream, "the daemon is gone; waiting for one to come: no penstockd is running");
	want_timeout(stream, fake.socket);
	FAKE_WANT(penstock_stream_next(stream, &batch, 0) == -EAGAIN);
	FAKE_WANT(strstr(penstock_error(), "waiting for one to come"));
	FAKE_WANT(penstock_stream_stats(stream, &text) == -EPIPE && !text);
	FAKE_WANT(strstr(penstock_error(), "has ended or closed the connection"));
	FAKE_WANT(penstock_stream_state(stream, state, sizeof state) > 0);
	FAKE_WANT(strcmp(state, before) == 0);

	/* The descriptor wakes a waiting application to try again, but not all the time. */
	int64_t woke = 0, begin_ns = wait_deadline(0), took_ms = 0;
	while (took_ms < 400 || woke < 2) {
		FAKE_WANT(polls(fd, 20000));
		FAKE_WANT(penstock_stream_next(stream, &batch, 0) == -EAGAIN);
		woke++;
		took_ms = (wait_deadline(0) - begin_ns) / 1000000;
	}
	FAKE_WANT(woke <= took_ms / 10);

	fake_restart(&fake, fake_serve_well, &endless);
	int result;
	do {
		FAKE_WANT(polls(fd, 10000));
		result = penstock_stream_next(stream, &batch, 0);
	} while (result == -EAGAIN);
	FAKE_WANT(result == 0 && penstock_stream_fd(stream) == fd);
	want_content(&batch, 4);
	FAKE_WANT(penstock_stream_daemon_pid(stream) == fake.pid);
	FAKE_WANT(penstock_batch_ready_ns(stream, &batch) == fake_ready_ns(4));

	/* The batch that was held all the time. */
	FAKE_WANT(penstock_batch_ready_ns(stream, &held[1]) == fake_ready_ns(1));
	for (uint64_t i = 0; i < 2; i++) {
		want_content(&held[i], i);
		FAKE_WANT(penstock_batch_release(stream, &held[i]) == 0);
		FAKE_WANT(penstock_batch_release(stream, &held[i]) == -EINVAL);
	}
	FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
	for (uint64_t i = 5; i < 20; i++) {
		want_next(stream, &batch, i);
		FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
	}
	FAKE_WANT(fake_count_memfds() == 1);
	fake_close(&fake, stream);
}

/* An old batch and a new one with the same slot and serial: each release counts for its own
 * batch. */
FAKE_TEST(alike)
{
	static const struct script script = {
		"alike", .life = {{.end = AT_BATCH, .batches = 1}, {.end = STAYS}}, .lives = 2};
	struct fake fake;
	struct penstock_batch old, new, copy;
	fake_start(&fake, serve_script, &script);
	struct penstock_stream *stream = open_stream(&fake, 10000);
	want_next(stream, &old, 0);
	want_next(stream, &new, 1);
	FAKE_WANT(old.slot == new.slot &&old.serial == new.serial &&old.extent != new.extent);
	copy = old;
	FAKE_WANT(penstock_batch_release(stream, &old) == 0);
	FAKE_WANT(penstock_batch_release(stream, &copy) == -EINVAL);
	want_content(&new, 1);
	copy = new;
	FAKE_WANT(penstock_batch_release(stream, &new) == 0); /* the daemon checks */
	FAKE_WANT(penstock_batch_release(stream, &copy) == -EINVAL);
	for (uint64_t i = 2; i < 12; i++) {
		want_next(stream, &new, i);
		FAKE_WANT(penstock_batch_release(stream, &new) == 0);
	}
	fake_close(&fake, stream);
}

/* The memory of that many daemons is kept, and no more. */
FAKE_TEST(hoard)
{
	static const struct script script = {
		"hoard", .life = {{.end = AT_BATCH, .batches = 1}}, .lives = 1};
	static struct penstock_batch held[WIRE_EXTENTS_MAX];
	struct fake fake;
	fake_start(&fake, serve_script, &script);
	struct penstock_stream *stream = open_stream(&fake, 10000);
	for (uint64_t i = 0; i < WIRE_EXTENTS_MAX; i++)
		want_next(stream, &held[i], i);
	want_over(stream, -EDEADLK, "holds batches of 64 daemons that have gone");
	for (uint64_t i = 0; i < WIRE_EXTENTS_MAX; i++) {
		want_content(&held[i], i);
		FAKE_WANT(penstock_batch_release(stream, &held[i]) == 0);
	}
	FAKE_WANT(fake_count_memfds() == 0);
	fake_close(&fake, stream);
}

/* A daemon that has lost this client may go on writing: a batch that is held then is refused. */
FAKE_TEST(overwritten)
{
	static const struct script script = {"overwritten",
		.life = {{.end = OVERWRITES, .batches = 2}, {.end = STAYS}}, .lives = 2};
	struct fake fake;
	struct penstock_batch held[2], batch;
	fake_start(&fake, serve_script, &script);
	struct penstock_stream *stream = open_stream(&fake, 10000);
	/* It may have been overwritten by now, and comes from the next daemon; or it is being
	 * overwritten. */
	FAKE_WANT(penstock_stream_next(stream, &held[0], 20000) == 0 && held[0].batch == 0);
	bool first = held[0].extent == 1;
	want_next(stream, &held[1], 1);
	want_next(stream, &batch, 2);
	FAKE_WANT(batch.extent == 2);
	if (first) {
		FAKE_WANT(penstock_batch_release(stream, &held[0]) == -ECANCELED);
		FAKE_WANT(strstr(penstock_error(),
			"batch 0 of epoch 0 was leased from a daemon that has lost this client"));
		FAKE_WANT(!held[0].images);
		FAKE_WANT(penstock_batch_release(stream, &held[0]) == -EINVAL);
	}
	FAKE_WANT(penstock_batch_release(stream, &held[1]) == 0);
	want_next(stream, &held[0], 3); /* the stream goes on */
	fake_close(&fake, stream);
}

/* The last batches were unread at that time: they come from the next daemon, followed by the
 * end. */
FAKE_TEST(overwritten_end)
{
	static const struct script script = {"overwritten after the end",
		.life = {{.end = ENDS_AND_OVERWRITES, .batches = 2}, {.end = STAYS}}, .lives = 2};
	struct fake fake;
	struct penstock_batch batch;
	char *text = NULL;
	fake_start(&fake, serve_script, &script);
	struct penstock_stream *stream = open_stream(&fake, 10000);
	FAKE_WANT(penstock_stream_stats(stream, &text) == -EPIPE && !text);
	for (uint64_t i = 0; i < 4; i++)
		want_next(stream, &batch, i);
	fake_close(&fake, stream);
}

/* Between two daemons there is none. */
FAKE_TEST(pid)
{
	static const struct script script = {
		"opens and dies", .life = {{.end = AT_OPENED}, {.end = AT_OPEN}}, .lives = 2};
	struct fake fake;
	struct penstock_batch batch;
	fake_start(&fake, serve_script, &script);
	struct penstock_stream *stream = open_stream(&fake, 10000);
	FAKE_WANT(penstock_stream_daemon_pid(stream) == fake.pid);
	do {
		FAKE_WANT(polls(penstock_stream_fd(stream), 20000));
		FAKE_WANT(penstock_stream_next(stream, &batch, 0) == -EAGAIN);
	} while (!strstr(penstock_error(), "waiting for one to come"));
	FAKE_WANT(penstock_stream_daemon_pid(stream) == 0);
	fake_close(&fake, stream);
}

FAKE_TEST(end)
{
	struct fake fake;
	struct penstock_batch batch;
	fake_start(&fake, fake_serve_well, &two_epochs);
	struct penstock_stream *stream = open_stream(&fake, 10000);
	for (uint64_t i = 0; i < 3; i++) {
		want_next(stream, &batch, i);
		FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
	}
	fake_kill(&fake);
	fake_restart(&fake, fake_serve_well, &two_epochs);
	for (uint64_t i = 3; i < 6; i++) {
		want_next(stream, &batch, i);
		FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
	}
	FAKE_WANT(penstock_stream_next(stream, &batch, 5000) == PENSTOCK_END);
	fake_kill(&fake);
	FAKE_WANT(penstock_stream_next(stream, &batch, 5000) == PENSTOCK_END);
	FAKE_WANT(polls(penstock_stream_fd(stream), 0));
	fake_close(&fake, stream);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_restart),
		cmocka_unit_test(test_alike),
		cmocka_unit_test(test_hoard),
		cmocka_unit_test(test_overwritten),
		cmocka_unit_test(test_overwritten_end),
		cmocka_unit_test(test_pid),
		cmocka_unit_test(test_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A stream that outlives its daemon for a limited time: time without a daemon, and daemons that are
 * slow. */
#include "client/reconnect.h"

#include "client/lib/stream.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

FAKE_TEST(time_up)
{
	struct fake fake;
	struct penstock_batch held, batch;
	char *text = NULL;
	fake_start(&fake, fake_serve_well, &endless);
	struct penstock_stream *stream = open_stream(&fake, 300);
	want_next(stream, &held, 0);
	/* When the answer comes, all batches have been announced. */
	FAKE_WANT(penstock_stream_classes(stream, &text) == 0);
	free(text);
	fake_kill(&fake);
	for (uint64_t i = 1; i < 4; i++)
		want_next(stream, &batch, i);
	int64_t begin_ns = wait_deadline(0);
	want_over(stream, -EPIPE,
		"within the 0.3 s of options.reconnect_ms no daemon could be reached again: no "
		"penstockd is running");
	int64_t took_ms = (wait_deadline(0) - begin_ns) / 1000000;
	FAKE_WANT(took_ms >= 290);
	FAKE_WANT(strstr(penstock_error(), "has ended or closed the connection"));
	want_content(&held, 0);
	FAKE_WANT(penstock_batch_release(stream, &held) == 0);
	fake_restart(&fake, fake_serve_well, &endless); /* too late */
	want_over(stream, -EPIPE, "no daemon could be reached again");
	fake_close(&fake, stream);
}

/* A late application still gets one attempt. */
FAKE_TEST(late)
{
	struct fake fake;
	struct penstock_batch batch;
	fake_start(&fake, fake_serve_well, &endless);
	struct penstock_stream *stream = open_stream(&fake, 500);
	lose(&fake, stream, &batch);
	FAKE_WANT(penstock_stream_next(stream, &batch, 0) == -EAGAIN); /* the loss is noticed */
	(void)usleep(700000);
	fake_restart(&fake, fake_serve_well, &endless);
	want_next(stream, &batch, 4);
	fake_close(&fake, stream);
}

/* Two daemons that die in turn without a batch do not keep the stream alive forever. */
static void run_crash_loop(const void *argument)
{
	struct fake fake;
	struct penstock_batch batch;
	fake_start(&fake, serve_script, argument);
	struct penstock_stream *stream = open_stream(&fake, 500);
	want_next(stream, &batch, 0);
	want_over(stream, -EPIPE, "the daemons that came gave no batch");
	fake_close(&fake, stream);
}

/* A new daemon that is stopped: the call, and in the end the stream, keeps its time limit. */
FAKE_TEST(stopped)
{
	struct fake fake;
	struct penstock_batch batch;
	int status;
	fake_start(&fake, fake_serve_well, &endless);
	struct penstock_stream *stream = open_stream(&fake, 600);
	lose(&fake, stream, &batch);
	fake_restart(&fake, fake_serve_well, &endless);
	FAKE_WANT(kill(fake.pid, SIGSTOP) == 0);
	FAKE_WANT(waitpid(fake.pid, &status, WUNTRACED) == fake.pid && WIFSTOPPED(status));
	want_timeout(stream, "has not answered yet");
	FAKE_WANT(penstock_stream_next(stream, &batch, 0) == -EAGAIN);
	want_over(stream, -EPIPE, "does not answer: is it stopped?");
	fake_close(&fake, stream);
}

/* A daemon that opens slowly: the call keeps its time limit, and the stream's time is not used
 * up. */
static void serve_slow_open(int fd, const void *argument)
{
	(void)argument;
	fake_welcome(fd);
	const struct conn_message *open = fake_expect(fd, WIRE_OPEN);
	struct wire_opened opened = fake_opened_at(open, &endless, fake_resume(open, &endless));
	(void)usleep(600000);
	fake_send(fd, &opened.head, sizeof opened, NULL, 0, -1);
	while (fake_receive(fd))
		continue;
}

FAKE_TEST(slow_open)
{
	struct fake fake;
	struct penstock_batch batch;
	fake_start(&fake, fake_serve_well, &endless);
	struct penstock_stream *stream = open_stream(&fake, 100);
	lose(&fake, stream, &batch);
	fake_restart(&fake, serve_slow_open, NULL);
	want_timeout(stream, "is opening the stream again");
	FAKE_WANT(penstock_stream_next(stream, &batch, 0) == -EAGAIN);
	/* Opened at last, but without a batch: as in any other stream. */
	FAKE_WANT(penstock_stream_next(stream, &batch, 1500) == -ETIMEDOUT);
	FAKE_WANT(strstr(penstock_error(), "did not say why in time"));
	fake_close(&fake, stream);
}

/* Daemons that are slow and die, before or after they have opened: their time does not count,
 * and the stream looks for others. */
static void serve_slow_deaths(int fd, const void *argument)
{
	static unsigned connections;
	(void)argument;
	fake_welcome(fd);
	if (connections == 2) {
		serve_life(fd, &(struct life){.end = STAYS}, true);
		return;
	}
	const struct conn_message *open = fake_expect(fd, WIRE_OPEN);
	struct wire_opened opened = fake_opened_at(open, &endless, fake_resume(open, &endless));
	(void)usleep(1200000);
	if (connections++)
		fake_send(fd, &opened.head, sizeof opened, NULL, 0, -1);
}

FAKE_TEST(slow_deaths)
{
	struct fake fake;
	struct penstock_batch batch;
	fake_start(&fake, fake_serve_well, &endless);
	struct penstock_stream *stream = open_stream(&fake, 1000);
	lose(&fake, stream, &batch);
	fake_restart(&fake, serve_slow_deaths, NULL);
	want_next(stream, &batch, 4);
	fake_close(&fake, stream);
}

static void serve_without_hangup(int fd, const void *argument)
{
	(void)argument;
	fake_welcome(fd);
	serve_life(fd, &(struct life){.end = AT_BATCH, .batches = 1}, false);
	fake_die_without_hangup(fd);
}

FAKE_TEST(without_hangup)
{
	struct fake fake;
	struct penstock_batch batch;
	(void)signal(SIGCHLD, SIG_IGN); /* a zombie would still be a process */
	fake_start(&fake, serve_without_hangup, NULL);
	struct penstock_stream *stream = open_stream(&fake, 10000);
	want_next(stream, &batch, 0);
	while (kill(fake.pid, 0) == 0)
		(void)usleep(1000);
	fake_restart(&fake, fake_serve_well, &endless);
	want_next(stream, &batch, 1);
	fake_close(&fake, stream);
}

static void test_crash_loop(void **state)
{
	(void)state;
	static const struct script opened = {"opens and dies",
					   .life = {{.end = AT_BATCH, .batches = 1},
						   {.end = AT_OPENED}},
					   .lives = 2},
				   begun = {"begins and dies",
					   .life = {{.end = AT_BATCH, .batches = 1},
						   {.end = AT_EXTENT}},
					   .lives = 2};
	fake_check(run_crash_loop, &opened, opened.name);
	fake_check(run_crash_loop, &begun, begun.name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_time_up),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_crash_loop),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_slow_open),
		cmocka_unit_test(test_slow_deaths),
		cmocka_unit_test(test_without_hangup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

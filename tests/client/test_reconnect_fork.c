/* A stream that outlives its daemon, in a process that forks, or closes the stream meanwhile. */
#include "client/reconnect.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

FAKE_TEST(fork)
{
	struct fake fake;
	struct penstock_batch batch, mine;
	int status;
	fake_start(&fake, fake_serve_well, &endless);
	struct penstock_stream *stream = open_stream(&fake, 10000);
	int fd = penstock_stream_fd(stream);
	for (uint64_t i = 0; i < 4; i++)
		want_next(stream, &batch, i);
	/* A child that keeps its copies while the parent loses its daemon, and then closes. */
	pid_t keeper = fork();
	if (keeper == 0) {
		(void)pause();
		_exit(0);
	}
	fake_kill(&fake);
	want_timeout(stream, "waiting for one to come");
	pid_t pid = fork();
	if (pid == 0) {
		int fds = fake_count_fds();
		FAKE_WANT(penstock_stream_next(stream, &mine, 1000) == -EBADF);
		FAKE_WANT(penstock_batch_release(stream, &batch) == -EBADF);
		penstock_stream_close(stream);
		FAKE_WANT(fake_count_fds() == fds - 3 && fake_count_memfds() == 0);
		exit(0);
	}
	FAKE_WANT(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	fake_restart(&fake, fake_serve_well, &endless);
	for (uint64_t i = 4; i < 8; i++)
		want_next(stream, &mine, i);
	/* The old connection leaves nothing that could wake the child. */
	FAKE_WANT(penstock_stream_next(stream, &mine, 0) == -EAGAIN);
	FAKE_WANT(!polls(fd, 100));
	FAKE_WANT(kill(keeper, SIGKILL) == 0 && waitpid(keeper, &status, 0) == keeper);
	fake_close(&fake, stream);
}

/* The application closes the stream in each stage of the reconnection. */
static void run_close(const void *argument)
{
	struct fake fake;
	struct penstock_batch batch;
	fake_start(&fake, fake_serve_well, &endless);
	struct penstock_stream *stream = open_stream(&fake, 10000);
	lose(&fake, stream, &batch);
	if (argument) {
		fake_restart(&fake, serve_script, argument);
		(void)usleep(50000);
	}
	int result = penstock_stream_next(stream, &batch, 200);
	FAKE_WANT(result == -ETIMEDOUT);
	penstock_stream_close(stream);
	FAKE_WANT(!argument || fake_stop(&fake));
	if (!argument) {
		fake_restart(&fake, fake_serve_well, &endless);
		FAKE_WANT(fake_stop(&fake));
	}
}

static void test_close(void **state)
{
	(void)state;
	static const struct script refusing = {
		"is ending all the time", .life = {{.end = REFUSES_HELLO}}, .lives = 1};
	fake_check(run_close, NULL, "nobody is there");
	fake_check(run_close, &refusing, refusing.name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_close),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

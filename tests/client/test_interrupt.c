/* options.interrupt: wherever a call blocks, the library asks the application, in the calling
 * thread. The call ends, and nothing else changes. */
#include "client/place.h"
#include "client/reconnect.h"

#include "client/lib/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

/* An application that interrupts at its `after`th question. */
struct user {
	pthread_t thread;
	unsigned asked, after;
};

static int ask(void *data)
{
	struct user *user = data;
	FAKE_WANT(pthread_equal(user->thread, pthread_self()));
	return ++user->asked >= user->after;
}

static struct user user_make(unsigned after)
{
	return (struct user){.thread = pthread_self(), .after = after};
}

static void user_again(struct user *user, unsigned after)
{
	user->asked = 0;
	user->after = after;
}

static struct penstock_options options_asking(const struct fake *fake, struct user *user)
{
	struct penstock_options options = fake_options(fake);
	options.interrupt = ask;
	options.interrupt_data = user;
	return options;
}

static void want_interrupted(int result, const struct user *user)
{
	if (result != -EINTR)
		(void)fprintf(stderr, "%d: %s\n", result, penstock_error());
	FAKE_WANT(result == -EINTR && strstr(penstock_error(), "options.interrupt"));
	FAKE_WANT(user->asked == user->after);
}

/* Opens; requires that it is interrupted and leaves no descriptor. */
static void want_no_stream(const struct penstock_options *options)
{
	struct penstock_stream *stream = NULL;
	int fds = fake_count_fds(), memfds = fake_count_memfds();
	want_interrupted(penstock_stream_open(options, &stream), options->interrupt_data);
	FAKE_WANT(!stream && fake_count_fds() == fds && fake_count_memfds() == memfds);
}

/* ---- opening ---- */

static void serve_nothing(int fd, const void *argument)
{
	(void)argument;
	while (fake_receive(fd))
		continue;
}

/* Builds an index without end. */
static void serve_index(int fd, const void *argument)
{
	(void)argument;
	fake_welcome(fd);
	(void)fake_expect(fd, WIRE_OPEN);
	FAKE_WANT(!fake_receive(fd)); /* no CLOSE: there is nothing to close */
}

FAKE_TEST(opening)
{
	static fake_serve *const mute[] = {serve_nothing, serve_index};
	for (unsigned i = 0; i < 2; i++) {
		struct fake fake;
		struct user user = user_make(3);
		fake_start(&fake, mute[i], NULL);
		struct penstock_options options = options_asking(&fake, &user);
		want_no_stream(&options);
		user_again(&user, 1); /* the daemon has seen the first one go, or this waits */
		want_no_stream(&options);
		FAKE_WANT(fake_stop(&fake));
	}
}

/* A listener that is stopped: its backlog is full, and nothing can be polled for. */
FAKE_TEST(backlog)
{
	struct fake fake;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct user user = user_make(3);
	fake_start(&fake, serve_nothing, NULL);
	FAKE_WANT(unlink(fake.socket) == 0);
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int waiting = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	(void)snprintf(address.sun_path, sizeof address.sun_path, "%s", fake.socket);
	FAKE_WANT(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
	FAKE_WANT(listen(listener, 0) == 0);
	FAKE_WANT(connect(waiting, (struct sockaddr *)&address, sizeof address) == 0);
	struct penstock_options options = options_asking(&fake, &user);
	want_no_stream(&options);
	(void)close(waiting);
	(void)close(listener);
	FAKE_WANT(fake_stop(&fake));
}

/* A number that counts openings is part of the group's name, so all ranks must count alike. */
struct ordinals {
	int file; /* what each OPEN said */
};

static void serve_once(int fd, const void *argument)
{
	static unsigned connections;
	const struct ordinals *ordinals = argument;
	fake_welcome(fd);
	const struct conn_message *open = fake_expect(fd, WIRE_OPEN);
	const char *group = memmem(open->bytes, open->size, "\"group\":\"", 9);
	FAKE_WANT(group);
	const char *end = memchr(group + 9, '"', 200);
	FAKE_WANT(end && write(ordinals->file, group, (size_t)(end - group)) == end - group);
	FAKE_WANT(write(ordinals->file, "\n", 1) == 1);
	struct wire_opened opened = fake_opened_at(open, &endless, 0);
	if (connections++ > 0)
		fake_send(fd, &opened.head, sizeof opened, NULL, 0, -1);
	while (fake_receive(fd))
		continue;
}

FAKE_TEST(ordinal)
{
	struct fake fake;
	struct user user = user_make(1);
	char text[512];
	int file = memfd_create("ordinals", MFD_CLOEXEC);
	struct ordinals ordinals = {.file = file};
	(void)setenv("PENSTOCK_JOB", "j", 1);
	fake_start(&fake, serve_once, &ordinals);
	struct penstock_options options = options_asking(&fake, &user);
	options.share = "all";
	want_no_stream(&options);
	options.interrupt = NULL;
	struct penstock_stream *stream = fake_open_stream(&options);
	penstock_stream_close(stream);
	ssize_t n = pread(file, text, sizeof text - 1, 0);
	FAKE_WANT(n > 0);
	text[n] = '\0';
	char *second = strchr(text, '\n');
	FAKE_WANT(second && strstr(text, "/0\n"));
	*second++ = '\0';
	FAKE_WANT(strncmp(text, second, strlen(text)) == 0 && strstr(second, "/0\n"));
	(void)close(file);
	FAKE_WANT(fake_stop(&fake));
}

/* ---- opening, with a daemon that must be started ---- */

static struct penstock_options begin(struct user *user)
{
	place_make();
	FAKE_WANT(mkdir(place.run, 0700) == 0);
	struct penstock_options options = place_options();
	options.interrupt = ask;
	options.interrupt_data = user;
	return options;
}

/* All daemons are dead by now: their pids may belong to other processes. */
static void finish(void)
{
	(void)unlink(place.facts);
	place_remove();
}

static int lock_take(void)
{
	int fd = open(place.spawn_lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	FAKE_WANT(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
	return fd;
}

/* Another process is starting it. */
FAKE_TEST(lock)
{
	struct user user = user_make(3);
	struct penstock_options options = begin(&user);
	int lock = lock_take();
	want_no_stream(&options);
	FAKE_WANT(access(place.facts, F_OK) < 0);
	(void)close(lock);
	finish();
}

/* A daemon that was started here does not get ready: others may start another one, and it lives on
 * until it ends by itself. */
FAKE_TEST(starting)
{
	struct user user = user_make(4);
	struct penstock_options options = begin(&user);
	(void)setenv("FAKE_MODE", "stuck", 1);
	want_no_stream(&options);
	(void)close(lock_take());
	pid_t pid;
	FAKE_WANT(place_starts(&pid) == 1);
	FAKE_WANT(kill(pid, 0) == 0 && kill(pid, SIGKILL) == 0);
	finish();
}

/* ---- a stream that continues ---- */

/* Answers a question only when the next one has been asked, and sends no batch before it was
 * asked three. */
static void serve_late_answers(int fd, const void *argument)
{
	(void)argument;
	const struct conn_message *message;
	uint32_t last = 0;
	unsigned questions = 0;
	fake_welcome(fd);
	fake_open(fd, &endless);
	struct fake_memory memory = fake_send_memory(fd, &endless);
	while ((message = fake_receive(fd))) {
		if (message->head.type != WIRE_QUERY)
			continue;
		uint32_t request = message->head.request;
		if (last)
			fake_send_answer(fd, last, "late");
		if (++questions == 3) {
			fake_send_answer(fd, request, "in time");
			fake_send_batch(fd, &endless, &memory, 0, 0);
		}
		last = request;
	}
}

FAKE_TEST(questions_and_batches)
{
	struct fake fake;
	struct user user = user_make(2);
	struct penstock_batch batch;
	char *text = NULL;
	fake_start(&fake, serve_late_answers, NULL);
	struct penstock_options options = options_asking(&fake, &user);
	options.timeout_ms = PENSTOCK_FOREVER;
	struct penstock_stream *stream = fake_open_stream(&options);

	user_again(&user, 3);
	want_interrupted(penstock_stream_next(stream, &batch, PENSTOCK_TIMEOUT_DEFAULT), &user);
	user_again(&user, 2);
	want_interrupted(penstock_stream_next(stream, &batch, 20000), &user);
	FAKE_WANT(penstock_stream_next(stream, &batch, 0) == -EAGAIN);
	for (unsigned i = 1; i <= 2; i++) {
		user_again(&user, i);
		want_interrupted(penstock_stream_classes(stream, &text), &user);
		FAKE_WANT(!text);
	}
	user_again(&user, 1000000);
	FAKE_WANT(penstock_stream_classes(stream, &text) == 0 && strcmp(text, "in time") == 0);
	free(text);
	FAKE_WANT(penstock_stream_next(stream, &batch, 20000) == 0);
	want_content(&batch, 0);
	FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
	fake_close(&fake, stream);
}

/* The question to the daemon when the time is up, or no batch can come, blocks too. */
static void serve_no_answers(int fd, const void *argument)
{
	const unsigned *batches = argument;
	fake_welcome(fd);
	fake_open(fd, &endless);
	struct fake_memory memory = fake_send_memory(fd, &endless);
	for (uint32_t i = 0; i < *batches; i++) {
		fake_send_batch(fd, &endless, &memory, i, i);
	}
	while (fake_receive(fd))
		continue;
}

static void run_figuring_out(const void *argument)
{
	unsigned batches = *(const unsigned *)argument;
	struct fake fake;
	struct user user = user_make(1);
	struct penstock_batch batch;
	fake_start(&fake, serve_no_answers, argument);
	struct penstock_options options = options_asking(&fake, &user);
	struct penstock_stream *stream = fake_open_stream(&options);
	for (uint64_t i = 0; i < batches; i++)
		want_next(stream, &batch, i);
	for (int i = 0; i < 3; i++) {
		user_again(&user, 1);
		want_interrupted(penstock_stream_next(stream, &batch, 1), &user);
	}
	fake_close(&fake, stream);
}

/* The daemon is gone: interrupts while there is none, while one does not answer, and while one
 * opens the stream; then the stream goes on with the next batch. */
FAKE_TEST(reconnecting)
{
	static fake_serve *const mute[] = {serve_nothing, serve_index};
	struct fake fake;
	struct user user = user_make(1000000);
	struct penstock_batch batch;
	fake_start(&fake, fake_serve_well, &endless);
	struct penstock_options options = options_asking(&fake, &user);
	options.reconnect_ms = PENSTOCK_FOREVER;
	struct penstock_stream *stream = fake_open_stream(&options);
	lose(&fake, stream, &batch);
	for (unsigned i = 1; i <= 3; i++) {
		user_again(&user, i);
		want_interrupted(penstock_stream_next(stream, &batch, PENSTOCK_FOREVER), &user);
	}
	for (unsigned i = 0; i < 2; i++) {
		fake_restart(&fake, mute[i], NULL);
		for (unsigned n = 3; n; n--) {
			user_again(&user, n);
			want_interrupted(
				penstock_stream_next(stream, &batch, PENSTOCK_FOREVER), &user);
		}
		fake_kill(&fake);
	}
	user_again(&user, 1000000);
	fake_restart(&fake, fake_serve_well, &endless);
	for (uint64_t i = 4; i < 12; i++) {
		want_next(stream, &batch, i);
		FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
	}
	fake_close(&fake, stream);
}

/* ---- when the library asks ---- */

static volatile sig_atomic_t signals;

static void on_signal(int number)
{
	(void)number;
	signals++;
}

/* A handler has run and may have left word: not after the rest of a tick, at once. */
FAKE_TEST(signal)
{
	struct user user = user_make(1000000);
	struct wait wait = {
		.interrupt = ask, .data = &user, .asked_ns = wait_deadline(0) + 1000000000};
	struct sigaction action = {.sa_handler = on_signal};
	const struct itimerval once = {.it_value = {.tv_usec = 10000}};
	(void)sigaction(SIGALRM, &action, NULL);
	FAKE_WANT(setitimer(ITIMER_REAL, &once, NULL) == 0);
	while (!signals)
		FAKE_WANT(wait_poll(&wait, -1, 0, INT64_MAX) == 0);
	/* It was asked a second ago in the future: nothing but the signal can be why. */
	FAKE_WANT(user.asked == 1);
	FAKE_WANT(wait_poll(NULL, -1, 0, 0) == 0);
}

/* No more often than documented. */
FAKE_TEST(how_often)
{
	struct user user = user_make(1000000);
	struct wait wait = {.interrupt = ask, .data = &user};
	int64_t begin_ns = wait_deadline(0), end_ns = wait_deadline(350);
	while (wait_left_ms(end_ns, 1)) {
		int64_t pause_ns = wait_deadline(7);
		FAKE_WANT(wait_poll(&wait, -1, 0, pause_ns < end_ns ? pause_ns : end_ns) == 0);
	}
	FAKE_WANT(user.asked >= 1);
	FAKE_WANT((int64_t)user.asked <= (wait_deadline(0) - begin_ns) / 100000000 + 1);
}

static void test_figuring_out(void **state)
{
	(void)state;
	static const unsigned none = 0, all = 4;
	fake_check(run_figuring_out, &none, "time out");
	fake_check(run_figuring_out, &all, "dead lock");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_opening),
		cmocka_unit_test(test_backlog),
		cmocka_unit_test(test_ordinal),
		cmocka_unit_test(test_lock),
		cmocka_unit_test(test_starting),
		cmocka_unit_test(test_questions_and_batches),
		cmocka_unit_test(test_figuring_out),
		cmocka_unit_test(test_reconnecting),
		cmocka_unit_test(test_signal),
		cmocka_unit_test(test_how_often),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

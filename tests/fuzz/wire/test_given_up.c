/* A client that asks, does not read, and is dropped by the daemon or detached from its group. Its
 * leases end while announcements are still in its socket, their slots are filled again for the
 * others, and then it reads. The model judges the messages by PROTOCOL.md. libpenstock must give no
 * batch that was overwritten, and must report one that the application holds.
 *
 * The daemon is in this process: the test turns its event loop, or a thread does while the
 * library waits. */
#include "trainer.h"

#include "penstock/penstock.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

enum { GROUP = 9, IMPATIENT = 10, SLOTS = 4, QUESTIONS_MOST = 400, LIMIT_S = 60, FDS = 1024 };

static struct world world;

static int begin(void **state)
{
	(void)state;
	(void)alarm(LIMIT_S);
	world = (struct world){0};
	world_make(&world);
	return 0;
}

/* ---- the daemon's thread ---- */

static atomic_bool stop;
static pthread_t turner;
static bool turns;

static void *turn_main(void *argument)
{
	(void)argument;
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		world_turn(&world, 5);
	return NULL;
}

static void turn_begin(void)
{
	atomic_store(&stop, false);
	turns = pthread_create(&turner, NULL, turn_main, NULL) == 0;
	assert_true(turns);
}

static void turn_end(void)
{
	atomic_store(&stop, true);
	if (turns)
		(void)pthread_join(turner, NULL);
	turns = false;
}

static int end(void **state)
{
	(void)state;
	turn_end();
	world_remove(&world);
	(void)alarm(0);
	return 0;
}

/* ---- on the wire ---- */

static void asks_until_given_up(struct model *m)
{
	for (uint32_t i = 0; world.server->client_count > 1; i++) {
		struct wire_query query = {
			.head = {WIRE_QUERY, sizeof query, 3 + i, 0}, .kind = WIRE_QUERY_STATUS};
		assert_true(i < QUESTIONS_MOST);
		trainer_say(m, &query, sizeof query);
		world_turn(&world, 0);
	}
}

/* Both hold the batch that was announced last; the idle one has not read the announcement. */
static void begins_idle(struct model *idle, struct model *busy, int definition)
{
	trainer_open(idle, &world, definition);
	trainer_open(busy, &world, definition);
	trainer_read(idle, SLOTS);
	trainer_read(busy, SLOTS);
	idle->reads = false;
	trainer_release(idle);
	trainer_release(busy);
	trainer_read(busy, 2 * SLOTS);
}

/* `busy` has been given other batches in those slots. */
static void reads_of_none_that_is_left(struct model *idle, struct model *busy)
{
	uint64_t before = model_figures.overwritten;
	trainer_release(busy);
	trainer_read(busy, 3 * SLOTS);
	idle->reads = true;
	model_read(idle);
	assert_int_equal(model_stream(idle, 1)->count, 2 * SLOTS);
	assert_int_equal(model_stream(idle, 1)->held, 0);
	assert_int_equal(model_figures.overwritten - before, SLOTS);
}

static void is_given_up(void **state)
{
	(void)state;
	struct model idle, busy;
	begins_idle(&idle, &busy, GROUP);
	asks_until_given_up(&idle);
	reads_of_none_that_is_left(&idle, &busy);
	assert_true(idle.told); /* the hang-up, after it */
	model_hang_up(&idle);
	model_hang_up(&busy);
	world_calm(&world, 0, 0);
}

/* After a second in which its group waited. */
static void is_detached(void **state)
{
	(void)state;
	struct model idle, busy;
	begins_idle(&idle, &busy, IMPATIENT);
	reads_of_none_that_is_left(&idle, &busy);
	assert_int_equal(model_stream(&idle, 1)->state, MODEL_OVER); /* ERROR, after it */
	assert_false(idle.told);
	model_hang_up(&idle);
	model_hang_up(&busy);
	world_calm(&world, 0, 0);
}

/* ---- libpenstock ---- */

/* Marks this process's connections to the daemon. */
static void mark_connections(bool marks[FDS])
{
	for (int fd = 0; fd < FDS; fd++) {
		struct sockaddr_un name = {0};
		socklen_t size = sizeof name;
		marks[fd] = getpeername(fd, (struct sockaddr *)&name, &size) == 0 &&
			    strcmp(name.sun_path, world.config.socket) == 0;
	}
}

static struct penstock_stream *opens(int32_t reconnect_ms, int *ret_fd)
{
	struct penstock_options options;
	struct penstock_stream *stream = NULL;
	bool before[FDS], after[FDS];
	char source[128];
	(void)snprintf(source, sizeof source, "%s/data", world.root);
	penstock_options_init(&options);
	options.socket = world.config.socket;
	options.private_daemon = 0;
	options.reconnect_ms = reconnect_ms;
	options.source = source;
	options.batch_size = 2;
	options.image_size = 8;
	options.prefetch = SLOTS;
	options.group = "given-up";
	mark_connections(before);
	assert_int_equal(penstock_stream_open(&options, &stream), 0);
	mark_connections(after);
	*ret_fd = -1;
	for (int fd = 0; fd < FDS; fd++)
		if (after[fd] && !before[fd])
			*ret_fd = fd;
	assert_true(*ret_fd >= 0);
	return stream;
}

/* Adds answers that the library does not wait for. */
static void fill_socket(int fd)
{
	struct wire_query query = {
		.head = {WIRE_QUERY, sizeof query, 1, 0}, .kind = WIRE_QUERY_STATUS};
	struct pollfd hung_up = {.fd = fd, .events = POLLRDHUP};
	while (poll(&hung_up, 1, 0) == 0)
		(void)send(fd, &query, sizeof query, MSG_NOSIGNAL);
}

static void goes_on(struct penstock_stream *stream, unsigned batches)
{
	for (; batches; batches--) {
		struct penstock_batch batch;
		assert_int_equal(penstock_stream_next(stream, &batch, LIMIT_S * 1000), 0);
		assert_int_equal(penstock_batch_release(stream, &batch), 0);
	}
}

/* `code`, `sentence`: the expected result of `next`. */
static void is_told(int32_t reconnect_ms, int code, const char *sentence)
{
	struct penstock_batch batch, more;
	int idle_fd, busy_fd;
	turn_begin();
	struct penstock_stream *idle = opens(reconnect_ms, &idle_fd);
	struct penstock_stream *busy = opens(0, &busy_fd);
	assert_int_equal(penstock_stream_next(idle, &batch, LIMIT_S * 1000), 0);
	goes_on(busy, SLOTS); /* the rest wait in the socket of the idle client */
	fill_socket(idle_fd);
	goes_on(busy, 2 * SLOTS); /* every slot has another batch */

	for (int again = 0; again < 2; again++) {
		assert_int_equal(penstock_stream_next(idle, &more, LIMIT_S * 1000), code);
		assert_non_null(strstr(penstock_error(), sentence));
	}
	assert_int_equal(penstock_batch_release(idle, &batch), -ECANCELED);
	assert_non_null(strstr(penstock_error(), "filled again"));
	goes_on(busy, SLOTS);
	penstock_stream_close(idle);
	penstock_stream_close(busy);
	turn_end();
	world_calm(&world, 0, 0);
}

static void the_library_gives_nothing_of_it(void **state)
{
	(void)state;
	is_told(0, -EPIPE, "closed the connection");
}

/* Its group has continued without it and says so when it comes back. */
static void the_library_comes_back_too_late(void **state)
{
	(void)state;
	is_told(PENSTOCK_FOREVER, -ESTALE, "its group has passed");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(is_given_up, begin, end),
		cmocka_unit_test_setup_teardown(is_detached, begin, end),
		cmocka_unit_test_setup_teardown(the_library_gives_nothing_of_it, begin, end),
		cmocka_unit_test_setup_teardown(the_library_comes_back_too_late, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

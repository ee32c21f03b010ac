/* Storage that hangs under the daemon's own files stops no trainer: while a line of the quarantine
 * file is written, and while the files of a stream that has ended are closed, the event loop turns,
 * and trainers get their batches.
 *
 * The daemon is in this process, and the test itself turns its event loop: a loop that waited
 * for the hanging storage would hang the test (alarm). */
#include "trainer.h"

#include "base/util.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { EVALUATION = 0, BROKEN = 14, LIMIT_S = 60 };

static struct world world;

/* ---- the hanging storage ---- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t ends;
	const char *what; /* a part of its path; NULL: nothing */
	unsigned waiting; /* now */
} hang = {.lock = PTHREAD_MUTEX_INITIALIZER, .ends = PTHREAD_COND_INITIALIZER};

static void hang_at(const char *path)
{
	pthread_mutex_lock(&hang.lock);
	hang.waiting++;
	while (hang.what && strstr(path, hang.what))
		pthread_cond_wait(&hang.ends, &hang.lock);
	hang.waiting--;
	pthread_mutex_unlock(&hang.lock);
}

static void hang_set(const char *what)
{
	pthread_mutex_lock(&hang.lock);
	hang.what = what;
	pthread_cond_broadcast(&hang.ends);
	pthread_mutex_unlock(&hang.lock);
}

static unsigned hang_count(void)
{
	pthread_mutex_lock(&hang.lock);
	unsigned count = hang.waiting;
	pthread_mutex_unlock(&hang.lock);
	return count;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	va_list arguments;
	va_start(arguments, flags);
	mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	hang_at(path);
	return __real_open(path, flags, mode);
}

static void hang_at_fd(int fd)
{
	char link[40], path[4096];
	(void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof path - 1);
	path[n > 0 ? n : 0] = 0;
	hang_at(path);
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
	hang_at_fd(fd);
	return __real_close(fd);
}

ssize_t __real_pread(int fd, void *bytes, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *bytes, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *bytes, size_t size, off_t offset)
{
	hang_at_fd(fd);
	return __real_pread(fd, bytes, size, offset);
}

/* ---- a trainer ---- */

/* Reads all of its epochs, then hangs up. */
static void reads_all_of(int definition)
{
	struct model m;
	trainer_open(&m, &world, definition);
	while (!model_stream(&m, 1)->ended) {
		world_turn(&world, 20);
		model_read(&m);
		trainer_release(&m);
	}
	model_hang_up(&m);
}

static int begin(void **state)
{
	(void)state;
	(void)alarm(LIMIT_S);
	world = (struct world){0};
	world_make(&world);
	return 0;
}

static int end(void **state)
{
	(void)state;
	world_remove(&world);
	(void)alarm(0);
	return 0;
}

static void waits_for_hanging(void)
{
	while (!hang_count())
		world_turn(&world, 20);
}

/* ---- */

static void a_quarantine_file_that_hangs(void **state)
{
	(void)state;
	char path[128], line[4096] = "";
	(void)snprintf(path, sizeof path, "%s/cache/quarantine.tsv", world.root);
	hang_set("/quarantine.tsv");
	reads_all_of(BROKEN);
	waits_for_hanging();
	reads_all_of(EVALUATION);
	reads_all_of(BROKEN);
	assert_int_equal(access(path, F_OK), -1);
	hang_set(NULL);
	world_calm(&world, 0, 0);

	cleanup(close_file) FILE *in = fopen(path, "r");
	assert_non_null(in);
	for (int stream = 0; stream < 2; stream++) {
		assert_non_null(fgets(line, sizeof line, in));
		assert_non_null(strstr(line, "/bad/a/2.jpg\t"));
		assert_non_null(strchr(line, '\n'));
	}
	assert_null(fgets(line, sizeof line, in));
}

static void an_index_that_hangs_when_it_is_closed(void **state)
{
	(void)state;
	hang_set(".idx");
	/* Opening it hangs too, in a thread. */
	struct model m;
	trainer_open(&m, &world, EVALUATION);
	waits_for_hanging();
	hang_set(NULL);
	trainer_read(&m, 1);
	hang_set(".idx");
	model_hang_up(&m);
	waits_for_hanging();
	const struct list_head *closings = &world.server->tasks.closings;
	assert_non_null(closings->first);
	assert_null(closings->first->next);
	assert_true(world.server->peers.held[PEER_KEPT] == 1);

	/* Other clients do not notice: neither one that asks a question nor one that reads other
	 * storage. */
	struct model other;
	struct wire_query query = {
		.head = {WIRE_QUERY, sizeof query, 3, 0}, .kind = WIRE_QUERY_STATUS};
	trainer_open(&other, &world, EVALUATION);
	for (int i = 0; i < 20; i++)
		world_turn(&world, 1);
	model_read(&other);
	trainer_say(&other, &query, sizeof query);
	world_settle(&world, other.fd);
	model_read(&other);
	model_settled(&other);
	hang_set(NULL);
	world_calm(&world, 1, 1);
	model_hang_up(&other);
	world_calm(&world, 0, 0);
	assert_true(world.server->peers.held[PEER_KEPT] == 0);
}

static void asks(struct model *m, uint32_t request, uint32_t kind, uint64_t argument)
{
	struct wire_query query = {
		.head = {WIRE_QUERY, sizeof query, request, kind != WIRE_QUERY_STATUS},
		.kind = kind,
		.argument = argument};
	trainer_say(m, &query, sizeof query);
}

static void is_left_with(struct model *m, unsigned questions)
{
	do {
		world_turn(&world, 20);
		model_read(m);
	} while (m->count != questions);
}

static void an_index_that_hangs_when_a_path_is_asked_for(void **state)
{
	(void)state;
	struct model m, gone;
	trainer_open(&m, &world, EVALUATION);
	trainer_read(&m, 2);
	trainer_open(&gone, &world, EVALUATION);
	trainer_read(&gone, 1);
	hang_set(".idx");
	for (uint32_t i = 0; i < 3; i++)
		asks(&m, 10 + i, WIRE_QUERY_PATH, i);
	asks(&gone, 10, WIRE_QUERY_PATH, 0);
	waits_for_hanging();
	model_hang_up(&gone);
	/* The daemon answers other questions, also about a sample without a path, and batches
	 * come. */
	asks(&m, 20, WIRE_QUERY_STATUS, 0);
	asks(&m, 21, WIRE_QUERY_PATH, WORLD_IMAGES);
	is_left_with(&m, 3);
	trainer_release(&m);
	trainer_read(&m, 4);
	hang_set(NULL);
	is_left_with(&m, 0);
	/* Its stream may end before the answer comes. */
	hang_set(".idx");
	asks(&m, 30, WIRE_QUERY_PATH, 1);
	waits_for_hanging();
	struct wire_close bye = {.head = {WIRE_CLOSE, sizeof bye, 0, 1}};
	trainer_say(&m, &bye, sizeof bye);
	for (int i = 0; i < 20; i++)
		world_turn(&world, 1);
	assert_int_equal(m.count, 1);
	hang_set(NULL);
	is_left_with(&m, 0);
	model_hang_up(&m);
	world_calm(&world, 0, 0);
}

static void a_configuration_that_hangs_when_it_is_read_again(void **state)
{
	(void)state;
	struct config *config = &world.config;
	(void)snprintf(config->file, sizeof config->file, "%s/p.yaml", world.root);
	FILE *out = fopen(config->file, "w");
	assert_non_null(out);
	(void)fputs("max_clients: 77\n", out);
	(void)fclose(out);
	hang_set("/p.yaml");
	for (int times = 0; times < 3; times++) { /* all after the first count as one */
		assert_int_equal(kill(getpid(), SIGHUP), 0);
		waits_for_hanging();
	}
	reads_all_of(EVALUATION);
	assert_int_equal(config->max_clients, 256);
	assert_int_equal(hang_count(), 1);
	hang_set(NULL);
	while (config->max_clients != 77 || world.server->tasks.reload.task.running)
		world_turn(&world, 20);
	world_calm(&world, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_quarantine_file_that_hangs, begin, end),
		cmocka_unit_test_setup_teardown(an_index_that_hangs_when_it_is_closed, begin, end),
		cmocka_unit_test_setup_teardown(
			an_index_that_hangs_when_a_path_is_asked_for, begin, end),
		cmocka_unit_test_setup_teardown(
			a_configuration_that_hangs_when_it_is_read_again, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* remote: the process's instance with the client, credentials and cache, against the fault server
 * (a STAND-IN for a server). What these parts do by themselves is in their own tests. */
#include "remote/remote.h"

#include "base/clock.h"
#include "base/whole.h"
#include "client_fixture.h"
#include "remote/object.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>

static char cache_dir[512];

static int setup(void **state)
{
	const int code = fixture_setup(state);
	(void)snprintf(cache_dir, sizeof cache_dir, "%s/cache", fixture.folder);
	return code;
}

static void start(const char *folder)
{
	struct remote_options options;
	struct fault fault;
	remote_options_default(&options);
	options.cache_dir = folder;
	options.cache_size = 8 << 20;
	options.timeout_s = 10;
	if (remote_start(&options, &fault) != 0)
		fail_msg("%s", fault.text);
	assert_int_equal(remote_start(&options, &fault), -EALREADY);
}

static struct remote_object *open_url(const char *append)
{
	struct remote_object *object;
	struct fault fault;
	if (remote_object_open(fixture_url(append), &object, &fault) != 0)
		fail_msg("%s", fault.text);
	return object;
}

static void check_read(struct remote_object *object, uint64_t offset, size_t size)
{
	struct fault fault;
	int fd;
	memset(fixture_buffer, 0, size);
	if (remote_object_local(object, offset, size, &fd))
		assert_int_equal(whole_read(fd, fixture_buffer, size, offset), size);
	else if (remote_object_read(object, fixture_buffer, size, offset, &fault) != 0)
		fail_msg("%s", fault.text);
	assert_memory_equal(fixture_buffer, fixture_object + offset, size);
}

static void test_cold_and_warm(void **state)
{
	struct remote_stats stats;
	remote_stats_read(&stats);
	assert_false(stats.started);
	for (int warm = 0; warm < 2; warm++) {
		start(cache_dir);
		struct remote_object *object = open_url("");
		assert_int_equal(remote_object_size(object), OBJECT_SIZE);
		for (uint64_t at = 0; at < OBJECT_SIZE; at += 50000)
			check_read(object, at, at + 70000 < OBJECT_SIZE ? 70000 : OBJECT_SIZE - at);
		check_read(object, 0, OBJECT_SIZE);
		remote_stats_read(&stats);
		assert_true(stats.started && stats.cache && stats.requests > 0);
		assert_int_equal(stats.bytes, warm ? 0 : OBJECT_SIZE);
		assert_int_equal(stats.cache_size, 8 << 20);
		assert_true(stats.cache_used >= OBJECT_SIZE && stats.cache_used <= 8 << 20);
		remote_object_unref(object);
		remote_stop();
	}
}

static void *open_late(void *context)
{
	remote_object_unref(open_url(""));
	return context;
}

/* Statistics do not wait for an instance that opens its cache folder: another process keeps the
 * lock of the folder's account, for which the instance waits. */
static void test_starting(void **state)
{
	struct remote_stats stats;
	char path[600];
	pthread_t thread;
	assert_int_equal(mkdir(cache_dir, 0700), 0);
	(void)snprintf(path, sizeof path, "%s/remote", cache_dir);
	assert_int_equal(mkdir(path, 0700), 0);
	(void)snprintf(path, sizeof path, "%s/remote/account", cache_dir);
	const int fd = open(path, O_RDWR | O_CREAT, 0600);
	struct flock lock = {.l_type = F_WRLCK, .l_start = (off_t)1 << 40, .l_len = 1};
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
	start(cache_dir);
	const uint64_t begun = clock_ns();
	assert_int_equal(pthread_create(&thread, NULL, open_late, NULL), 0);
	unsigned reads = 0;
	do {
		remote_stats_read(&stats);
		reads++;
		(void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	} while (!stats.started);
	(void)pthread_join(thread, NULL);
	/* It has waited, and was looked at meanwhile. */
	assert_true(clock_ns() - begun > UINT64_C(300000000));
	assert_true(reads > 3);
	assert_false(stats.cache);
	remote_stop();
	(void)close(fd);
}

/* The server gives another ETag once, as if the object were replaced after that. */
static void test_replaced(void **state)
{
	struct fault fault;
	start(cache_dir);
	struct remote_object *object = open_url("?fault=etag");
	const int64_t stamp = remote_object_stamp(object);
	assert_string_equal(remote_object_etag(object), "\"another\"");
	assert_int_equal(remote_object_read(object, fixture_buffer, 10, 500000, &fault), -ESTALE);
	assert_non_null(strstr(fault.text, "/object"));
	remote_object_unref(object);
	object = open_url("?fault=etag");
	assert_true(remote_object_stamp(object) != stamp);
	check_read(object, 0, OBJECT_SIZE);
	remote_object_unref(object);
	remote_stop();
}

static void test_head_refused(void **state)
{
	start(NULL);
	struct remote_object *object = open_url("?fault=status:405");
	assert_int_equal(remote_object_size(object), OBJECT_SIZE);
	check_read(object, 1000, 100);
	remote_object_unref(object);
	remote_stop();
}

static void test_bad(void **state)
{
	struct remote_object *object = NULL;
	struct fault fault;
	/* A cache that cannot be made: streams go on without it. */
	start("/proc/penstock");
	assert_int_equal(remote_object_open(fixture_url("-absent"), &object, &fault), -ENOENT);
	assert_non_null(strstr(fault.text, "object-absent"));
	assert_true(remote_object_open("s3:/nothing", &object, &fault) < 0);
	assert_true(remote_object_open("ftp://host/x", &object, &fault) < 0);
	object = open_url("");
	check_read(object, 70000, 100000);
	struct remote_stats stats;
	remote_stats_read(&stats);
	assert_false(stats.cache);
	remote_object_unref(object);
	remote_stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_cold_and_warm, setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_starting, setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_replaced, setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_head_refused, setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_bad, setup, fixture_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

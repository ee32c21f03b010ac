/* limits: processes that start with small limits; each case in a child with limits of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/host/limits.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB ((rlim_t)1 << 10)

/* What `check` tells a child with this limit, and which soft limit the child has afterwards. */
struct answer {
	int result;
	struct fault fault;
	struct rlimit limit;
	size_t thread_stack;
};

static struct answer ask(
	__rlimit_resource_t resource, rlim_t soft, rlim_t hard, int (*check)(struct fault *fault))
{
	struct answer answer = {0};
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	pid_t child = fork();
	if (child == 0) {
		const struct rlimit limit = {soft, hard};
		pthread_attr_t attr;
		if (setrlimit(resource, &limit))
			_exit(1);
		answer.result = check(&answer.fault);
		(void)getrlimit(resource, &answer.limit);
		(void)pthread_getattr_default_np(&attr);
		(void)pthread_attr_getstacksize(&attr, &answer.thread_stack);
		_exit(write(ends[1], &answer, sizeof answer) != sizeof answer);
	}
	assert_true(child > 0);
	int status;
	assert_int_equal(read(ends[0], &answer, sizeof answer), sizeof answer);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	(void)close(ends[0]);
	(void)close(ends[1]);
	return answer;
}

static void files(void **state)
{
	(void)state;
	struct answer few = ask(RLIMIT_NOFILE, 16, 16, limits_files);
	assert_int_equal(few.result, -EMFILE);
	assert_non_null(strstr(few.fault.text, "RLIMIT_NOFILE) is 16, but penstock needs 32"));
	assert_non_null(strstr(few.fault.text, "ulimit -n"));
	struct answer raised = ask(RLIMIT_NOFILE, 16, 200, limits_files);
	assert_int_equal(raised.result, 0);
	assert_int_equal(raised.limit.rlim_cur, 200);
	struct answer kept = ask(RLIMIT_NOFILE, 40, 200, limits_files);
	assert_int_equal(kept.result, 0);
	assert_int_equal(kept.limit.rlim_cur, 40);
}

static void stack(void **state)
{
	(void)state;
	struct answer small = ask(RLIMIT_STACK, 64 * KIB, 64 * KIB, limits_stack);
	assert_int_equal(small.result, -ENOMEM);
	assert_non_null(strstr(small.fault.text, "64.0 KiB, but penstock needs 1.0 MiB"));
	assert_non_null(strstr(small.fault.text, "ulimit -s"));
	struct answer raised = ask(RLIMIT_STACK, 64 * KIB, 4096 * KIB, limits_stack);
	assert_int_equal(raised.result, 0);
	assert_int_equal(raised.limit.rlim_cur, 4096 * KIB);
	assert_true(raised.thread_stack >= 2048 * KIB);
	struct answer kept = ask(RLIMIT_STACK, 1024 * KIB, RLIM_INFINITY, limits_stack);
	assert_int_equal(kept.limit.rlim_cur, 1024 * KIB);
}

static void kernels(void **state)
{
	(void)state;
	struct fault fault = {{0}};
	static const char *const good[] = {
		"5.4.0-216-generic", "5.4", "5.15.0", "6.1.0-44-amd64", "10.0.1", "", "linux", "5"};
	static const char *const old[] = {"5.3.18-150300", "4.19.0-27-amd64", "3.10.0", "2.6.78"};
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
		assert_int_equal(limits_kernel_release(good[i], &fault), 0);
	assert_string_equal(fault.text, "");
	for (size_t i = 0; i < sizeof old / sizeof old[0]; i++)
		assert_int_equal(limits_kernel_release(old[i], &fault), -ENOSYS);
	assert_string_equal(
		fault.text, "this kernel is Linux 2.6.78, but penstock needs Linux 5.4 or later");
	assert_int_equal(limits_kernel(&fault), 0);
	/* The kernel then says of itself that it is Linux 2.6. */
	int before = personality(0xffffffff);
	assert_true(before >= 0 && personality((unsigned long)before | UNAME26) >= 0);
	assert_int_equal(limits_kernel(&fault), -ENOSYS);
	assert_true(personality((unsigned long)before) >= 0);
	assert_non_null(strstr(fault.text, "Linux 2.6."));
}

static void hints(void **state)
{
	(void)state;
	assert_non_null(strstr(limits_hint(EMFILE), "ulimit -n"));
	assert_non_null(strstr(limits_hint(ENFILE), "ulimit -n"));
	assert_non_null(strstr(limits_hint(EFBIG), "ulimit -f"));
	assert_non_null(strstr(limits_hint(EAGAIN), "ulimit -u"));
	assert_non_null(strstr(limits_hint(ENOSYS), "sandbox"));
	assert_string_equal(limits_hint(EIO), "");
	assert_non_null(strstr(limits_thread_hint(EPERM), "clone3"));
	assert_non_null(strstr(limits_thread_hint(EAGAIN), "pids.max"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(files), cmocka_unit_test(stack),
		cmocka_unit_test(kernels), cmocka_unit_test(hints)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

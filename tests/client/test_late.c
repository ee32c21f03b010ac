/* libpenstock in a program that loads it late, as Python does, and whose threads have no memory
 * left: a failure is still a code and a sentence, and never ends the process. */
#include "penstock/penstock.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- memory: every library's calls come here, and fail for a thread that is starved ---- */

static _Thread_local bool starved;

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

static bool none(void)
{
	if (starved)
		errno = ENOMEM;
	return starved;
}

/* The C library names their parameters otherwise.
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */
#pragma GCC visibility push(default)

void *malloc(size_t size)
{
	return none() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return none() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	return none() ? NULL : __libc_realloc(old, size);
}

#pragma GCC visibility pop
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

/* ---- the library, as dlopen gives it ---- */

struct late {
	void *library;
	const char *(*error)(void);
	void (*error_set)(const char *);
	int (*open)(const struct penstock_options *, struct penstock_stream **);
	void (*options_init)(struct penstock_options *, size_t);
};

static void late_take(struct late *late, const char *name, void *ret_function)
{
	void *found = dlsym(late->library, name);
	if (!found)
		fail_msg("%s", dlerror());
	memcpy(ret_function, &found, sizeof found);
}

static void late_open(struct late *late)
{
	late->library = dlopen(LIBPENSTOCK, RTLD_NOW | RTLD_LOCAL);
	if (!late->library)
		fail_msg("%s", dlerror());
	late_take(late, "penstock_error", (void *)&late->error);
	late_take(late, "penstock_error_set", (void *)&late->error_set);
	late_take(late, "penstock_stream_open", (void *)&late->open);
	late_take(late, "penstock_options_init_size", (void *)&late->options_init);
}

/* The sentences that a thread received; the first thread checks them. */
struct heard {
	const struct late *late;
	int code;
	char text[3][64];
};

static void hear(struct heard *heard, int n)
{
	(void)snprintf(heard->text[n], sizeof heard->text[n], "%s", heard->late->error());
}

static struct heard in_thread(void *(*run)(void *), const struct late *late)
{
	pthread_t thread;
	struct heard heard = {.late = late};
	assert_int_equal(pthread_create(&thread, NULL, run, &heard), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return heard;
}

static void *run_silent(void *argument)
{
	hear(argument, 0);
	return NULL;
}

static void *run_starved(void *argument)
{
	struct heard *heard = argument;
	struct penstock_options options;
	struct penstock_stream *stream = NULL;
	heard->late->options_init(&options, sizeof options);
	starved = true;
	heard->code = heard->late->open(&options, &stream); /* of no source */
	hear(heard, 0);
	heard->late->error_set("another");
	hear(heard, 1);
	starved = false;
	heard->late->error_set("of its own");
	hear(heard, 2);
	return NULL;
}

static void *run_own(void *argument)
{
	struct heard *heard = argument;
	heard->late->error_set("this thread's");
	hear(heard, 0);
	return NULL;
}

static void test_no_memory(void **state)
{
	(void)state;
	struct late late;
	late_open(&late);
	late.error_set("the first thread's");
	assert_string_equal(in_thread(run_silent, &late).text[0], "");
	struct heard heard = in_thread(run_starved, &late);
	assert_true(heard.code < 0);
	assert_non_null(strstr(heard.text[0], "no memory"));
	assert_non_null(strstr(heard.text[1], "no memory"));
	assert_string_equal(heard.text[2], "of its own");
	assert_string_equal(in_thread(run_own, &late).text[0], "this thread's");
	assert_string_equal(late.error(), "the first thread's");
	assert_int_equal(dlclose(late.library), 0);
}

/* A process has a thousand keys: a library that kept one each time would soon be without. */
static void test_again_and_again(void **state)
{
	(void)state;
	struct late late;
	for (int i = 0; i < 1100; i++) {
		late_open(&late);
		assert_string_equal(late.error(), "");
		late.error_set("kept");
		assert_string_equal(late.error(), "kept");
		assert_int_equal(dlclose(late.library), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_again_and_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* words: signals get the names that glibc gives them, and their number where they have no name. */
#include "client/cli/watch/why/words.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void signals_are_named(void **state)
{
	(void)state;
	for (int sig = -1; sig <= SIGRTMAX + 1; sig++) {
		char expected[WORDS_NUMBER], buffer[WORDS_NUMBER];
		const char *name = sigabbrev_np(sig);
		if (name)
			(void)snprintf(expected, sizeof expected, "SIG%s", name);
		else
			(void)snprintf(expected, sizeof expected, "signal %d", sig);
		assert_string_equal(words_signal(sig, buffer), expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(signals_are_named)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

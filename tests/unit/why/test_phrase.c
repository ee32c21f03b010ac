/* Signals are named as glibc names them, with the number where they have no name. */
#include "client/cli/watch/why/phrase.h"

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
		char expected[PHRASE_NUMBER], buffer[PHRASE_NUMBER];
		const char *name = sigabbrev_np(sig);
		if (name)
			(void)snprintf(expected, sizeof expected, "SIG%s", name);
		else
			(void)snprintf(expected, sizeof expected, "signal %d", sig);
		assert_string_equal(phrase_signal(sig, buffer), expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(signals_are_named)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

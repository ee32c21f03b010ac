/* verdict: made waits, and the sentence each must give. */
#include "stats/verdict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct verdict_input idle_machine = {
	.seconds = 10, .threads = 2, .cpus = 2, .trainers = 1, .slots = 4, .held_pid = 42};

static void expect(struct verdict_input input, const char *begins)
{
	char text[256];
	assert_string_equal(verdict_write(&input, text, sizeof text), text);
	if (strncmp(text, begins, strlen(begins)) != 0)
		fail_msg("expected \"%s...\", got \"%s\"", begins, text);
}

static void each_bottleneck_is_named(void **state)
{
	(void)state;
	struct verdict_input in = idle_machine;
	in.slots_full_s = 9.7;
	in.workers_idle_s = 19;
	expect(in, "trainer-bound, 97 %");
	in = idle_machine;
	in.trainer_wait_s = 9;
	in.workers_idle_s = 0.4;
	expect(in, "decode-bound: 2 decoding threads on 2 CPUs, 98 % busy; the trainer waits 90 %");
	in.threads = 64; /* most of them wait, since the CPUs are busy with the others */
	in.workers_idle_s = 400;
	in.decode_cpu_s = 18;
	expect(in, "decode-bound: 64 decoding threads on 2 CPUs, 90 % busy");
	in.threads = 2;
	in.workers_idle_s = 0.4;
	in.decode_cpu_s = 0;
	in.cpus = 16;
	expect(in, "decode-bound: 2 of 2 decoding threads busy; 18 more would feed this trainer");
	in.trainer_wait_s = 9.9;
	expect(in, "decode-bound: 2 of 2 decoding threads busy; the trainer only waits");
	in.trainer_wait_s = 9;
	in.workers_idle_s = 17;
	expect(in, "read-bound: decoding threads idle 85 %");
	in = idle_machine;
	in.trainers = 3;
	in.trainer_wait_s = 9;
	in.slots_full_s = 8;
	in.held_most = 4;
	expect(in, "one trainer holds its batches: pid 42 has 4 of 4");
}

static void nothing_is_claimed_without_a_measurement(void **state)
{
	(void)state;
	struct verdict_input in = {0};
	expect(in, "no trainer");
	in.trainers = 1;
	expect(in, "not measured yet");
	in.seconds = 10; /* and no threads: no division by zero */
	expect(in, "trainer-bound, 0 %");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_bottleneck_is_named),
		cmocka_unit_test(nothing_is_claimed_without_a_measurement),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

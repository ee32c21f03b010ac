/* libpenstock against daemons that break the protocol in every way that a message can. Each call
 * must return the documented error with a sentence, and return it again at the next call; there
 * must be no leak, no crash and no hang. The faults are in fault_*.c (fault.h). */
#include "client/fault.h"
#include "penstock/penstock.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void test_faults(void **state)
{
	static const struct fault *const tables[] = {
		faults_of_opening, faults_of_extent, faults_of_batch};
	(void)state;
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		for (const struct fault *fault = tables[i]; fault->name; fault++)
			fake_check(fault_run, fault, fault->name);
}

/* ---- answers ---- */

struct answer {
	const char *name;
	uint64_t total;
	uint32_t text_bytes;
	size_t sent; /* inline */
	size_t memory; /* bytes of a memfd; 0: none */
	int seals;
	int result;
};

static void serve_answer(int fd, const void *argument)
{
	const struct answer *answer = argument;
	const struct conn_message *message;
	static char text[40000];
	memset(text, 'a', sizeof text);
	fake_welcome(fd);
	fake_open(fd, &fault_shape);
	while ((message = fake_receive(fd))) {
		struct wire_answer reply = {
			.head = {.type = WIRE_ANSWER, .request = message->head.request},
			.total_bytes = answer->total,
			.text_bytes = answer->text_bytes};
		if (message->head.type != WIRE_QUERY)
			break;
		int memory = -1;
		if (answer->memory) {
			memory = memfd_create("fake-answer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
			for (size_t left = answer->memory; left;) {
				ssize_t n = write(
					memory, text, left < sizeof text ? left : sizeof text);
				left -= n > 0 ? (size_t)n : 0;
			}
			(void)fcntl(memory, F_ADD_SEALS, answer->seals);
		}
		fake_send(fd, &reply.head, sizeof reply, text, answer->sent, memory);
		if (memory >= 0)
			(void)close(memory);
	}
}

static void run_answer(const void *argument)
{
	const struct answer *answer = argument;
	struct fake fake;
	char *text = NULL;
	fake_start(&fake, serve_answer, answer);
	struct penstock_options options = fake_options(&fake);
	struct penstock_stream *stream = fake_open_stream(&options);
	for (int i = 0; i < 2; i++) { /* a bad answer spoils nothing but itself */
		int result = penstock_stream_stats(stream, &text);
		if (result != answer->result)
			(void)fprintf(
				stderr, "%s: %d: %s\n", answer->name, result, penstock_error());
		FAKE_WANT(result == answer->result);
		FAKE_WANT(!text == (result < 0));
		FAKE_WANT(!text ||
			  (strlen(text) == answer->total && strspn(text, "a") == answer->total));
		free(text);
		text = NULL;
	}
	fake_close(&fake, stream);
}

static void test_answers(void **state)
{
	(void)state;
	static const struct answer answers[] = {
		{"empty", 0, 0, 0, 0, 0, 0},
		{"inline", 100, 100, 100, 0, 0, 0},
		{"longest inline", WIRE_INLINE_MAX, WIRE_INLINE_MAX, WIRE_INLINE_MAX, 0, 0, 0},
		{"memfd", 1000000, 0, 0, 1000000, FAKE_SEALS, 0},
		{"memfd larger than the text", 1000000, 0, 0, 1000448, FAKE_SEALS, 0},
		{"memfd sealed against all writing", 5000, 0, 0, 5000, FAKE_SEALS | F_SEAL_WRITE,
			0},
		{"less than said", 100, 100, 99, 0, 0, -EPROTO},
		{"more than said", 100, 100, 101, 0, 0, -EPROTO},
		{"total is another", 101, 100, 100, 0, 0, -EPROTO},
		{"neither text nor memfd", 100, 0, 0, 0, 0, -EPROTO},
		{"both", 100, 100, 100, 100, FAKE_SEALS, -EPROTO},
		{"memfd too small", 5000, 0, 0, 4999, FAKE_SEALS, -EPROTO},
		{"memfd unsealed", 5000, 0, 0, 5000, 0, -EPROTO},
		{"beyond the limit", UINT64_MAX, 0, 0, 5000, FAKE_SEALS, -EPROTO},
	};
	for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
		fake_check(run_answer, &answers[i], answers[i].name);
}

/* A daemon that is stopped: neither the greeting nor a question hangs for ever. Its own limits are
 * long, so only one is waited for. */
FAKE_TEST(stopped)
{
	struct fake fake;
	struct penstock_batch batch[4];
	fake_start(&fake, fake_serve_well, &fault_shape);
	struct penstock_options options = fake_options(&fake);
	struct penstock_stream *stream = fake_open_stream(&options);
	/* All batches that it can announce: otherwise it might be stopped between two. */
	for (int i = 0; i < 4; i++)
		FAKE_WANT(penstock_stream_next(stream, &batch[i], 5000) == 0);
	FAKE_WANT(kill(fake.pid, SIGSTOP) == 0);
	int status;
	FAKE_WANT(waitpid(fake.pid, &status, WUNTRACED) == fake.pid && WIFSTOPPED(status));
	for (int i = 0; i < 4; i++)
		FAKE_WANT(penstock_batch_release(stream, &batch[i]) == 0);
	FAKE_WANT(penstock_stream_next(stream, &batch[0], 100) == -ETIMEDOUT);
	FAKE_WANT(strstr(penstock_error(), "did not say why"));
	fake_close(&fake, stream);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_stopped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

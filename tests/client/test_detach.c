/* A trainer kept its batches too long, and the daemon took them back: which batches were read
 * unchanged, and which must not be used. */
#include "client/fake.h"
#include "penstock/penstock.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static const struct fake_shape shape = FAKE_SHAPE;

static const char sentence[] = "this trainer held batch 1 of epoch 0 for 60 s and was detached";

/* Announces `batches`; then, when asked (a question for the classes), detaches the trainer and
 * overwrites the slots of the mask. The answer comes last, so that the client has read
 * everything. */
struct plan {
	const char *name;
	unsigned batches;
	uint32_t overwritten;
	int code; /* of the ERROR; 0: none, the daemon is broken */
	bool answers; /* the question, before the ERROR: the client has not seen that */
	bool ends; /* the stream, with the last batch */
};

static void detach(
	int fd, const struct plan *plan, const struct fake_memory *memory, uint32_t request)
{
	if (plan->answers)
		fake_send_answer(fd, request, "");
	if (plan->code)
		fake_send_error(fd, 0, 1, plan->code, sentence);
	for (uint32_t slot = 0; slot < shape.slots; slot++) {
		if (plan->overwritten & (1u << slot))
			(void)fake_fill(&shape, memory, slot, 100 + slot);
	}
	if (!plan->answers)
		fake_send_answer(fd, request, "");
}

static void serve_plan(int fd, const void *argument)
{
	const struct plan *plan = argument;
	const struct conn_message *message;
	bool detached = false;
	fake_welcome(fd);
	fake_open(fd, &shape);
	struct fake_memory memory = fake_send_memory(fd, &shape);
	for (uint32_t i = 0; i < plan->batches; i++) {
		fake_send_batch(fd, &shape, &memory, i, i);
	}
	struct wire_end end = {.head = {.type = WIRE_END, .stream = 1}, .epochs = 1};
	if (plan->ends)
		fake_send(fd, &end.head, sizeof end, NULL, 0, -1);
	while ((message = fake_receive(fd))) {
		/* Ignored while the ERROR is in flight; a client that has read it sends none. */
		FAKE_WANT(message->head.type != WIRE_RELEASE || !detached || plan->answers ||
			  !plan->code);
		if (message->head.type == WIRE_QUERY && !detached) {
			detached = true;
			detach(fd, plan, &memory, message->head.request);
		}
	}
	(void)munmap(memory.bytes, memory.size);
	(void)close(memory.fd);
}

static struct penstock_stream *open_stream(const struct fake *fake)
{
	struct penstock_options options = fake_options(fake);
	options.share = "all";
	options.group = "g";
	options.laggard = "detach";
	options.reconnect_ms = 10000; /* a client that was detached does not reconnect */
	return fake_open_stream(&options);
}

static void provoke(struct penstock_stream *stream, int wanted)
{
	char *text = NULL;
	int result = penstock_stream_classes(stream, &text);
	FAKE_WANT(result == wanted);
	FAKE_WANT(!text == (result < 0));
	if (text)
		free(text);
}

static void want_detached(struct penstock_stream *stream)
{
	struct penstock_batch batch;
	struct pollfd ready = {.fd = penstock_stream_fd(stream), .events = POLLIN};
	FAKE_WANT(poll(&ready, 1, 10000) == 1);
	for (int i = 0; i < 2; i++) {
		FAKE_WANT(penstock_stream_next(stream, &batch, 5000) == -ECANCELED);
		FAKE_WANT(strcmp(penstock_error(), sentence) == 0);
	}
	FAKE_WANT(poll(&ready, 1, 0) == 1);
}

static void want_release(struct penstock_stream *stream, struct penstock_batch *batch, int wanted)
{
	int result = penstock_batch_release(stream, batch);
	if (result != wanted)
		(void)fprintf(stderr, "release: %d: %s\n", result, penstock_error());
	FAKE_WANT(result == wanted);
	FAKE_WANT(wanted == 0 || strcmp(penstock_error(), sentence) == 0);
	FAKE_WANT(!batch->images && !batch->labels && !batch->samples);
	FAKE_WANT(penstock_batch_release(stream, batch) == -EINVAL);
}

/* Holds two of three, of which one is overwritten, knowing of the detachment or not. */
static void run_holding(const void *argument)
{
	const struct plan *plan = argument;
	struct fake fake;
	struct penstock_batch batch[2];
	fake_start(&fake, serve_plan, plan);
	struct penstock_stream *stream = open_stream(&fake);
	for (int i = 0; i < 2; i++)
		FAKE_WANT(penstock_stream_next(stream, &batch[i], 5000) == 0);
	provoke(stream, plan->answers ? 0 : -ECANCELED);
	if (!plan->answers)
		want_detached(stream); /* the third, which waited, is not given */
	while (batch[1].labels[0] != fake_label(101, 0))
		(void)usleep(1000);
	want_release(stream, &batch[0], 0);
	want_release(stream, &batch[1], -ECANCELED);
	want_detached(stream);
	FAKE_WANT(fake_count_memfds() == 0); /* nothing is held, nothing mapped */
	penstock_stream_close(stream);
	penstock_stream_close(open_stream(&fake)); /* by now it has judged all that was sent */
	FAKE_WANT(fake_stop(&fake));
}

/* An announcement that is read when its slot holds another batch. */
static void run_announced(const void *argument)
{
	struct fake fake;
	struct penstock_batch batch[2];
	fake_start(&fake, serve_plan, argument);
	struct penstock_stream *stream = open_stream(&fake);
	FAKE_WANT(penstock_stream_next(stream, &batch[0], 5000) == 0);
	provoke(stream, 0);
	while (batch[0].labels[0] != fake_label(100, 0))
		(void)usleep(1000);
	(void)usleep(20000); /* the rest is overwritten at once */
	FAKE_WANT(penstock_stream_next(stream, &batch[1], 5000) == -ECANCELED);
	want_detached(stream);
	want_release(stream, &batch[0], -ECANCELED);
	fake_close(&fake, stream);
}

/* Closes while it holds batches whose leases have ended. */
static void run_close(const void *argument)
{
	struct fake fake;
	struct penstock_batch batch;
	fake_start(&fake, serve_plan, argument);
	struct penstock_stream *stream = open_stream(&fake);
	FAKE_WANT(penstock_stream_next(stream, &batch, 5000) == 0);
	provoke(stream, -ECANCELED);
	fake_close(&fake, stream);
}

/* Also after END: a client that has all batches reaches the end, and one that has not gets an
 * error. */
static void run_ended(const void *argument)
{
	enum { ASKED = 2 };
	const struct plan *plan = argument;
	struct fake fake;
	struct penstock_batch batch[ASKED], none;
	int wanted = plan->batches > ASKED ? -ECANCELED : PENSTOCK_END;
	fake_start(&fake, serve_plan, plan);
	struct penstock_stream *stream = open_stream(&fake);
	for (int i = 0; i < ASKED; i++)
		FAKE_WANT(penstock_stream_next(stream, &batch[i], 5000) == 0);
	provoke(stream, plan->answers ? 0 : -ECANCELED);
	while (batch[1].labels[0] != fake_label(101, 0))
		(void)usleep(1000);
	want_release(stream, &batch[1], -ECANCELED);
	want_release(stream, &batch[0], 0);
	for (int i = 0; i < 2; i++)
		FAKE_WANT(penstock_stream_next(stream, &none, 5000) == wanted);
	FAKE_WANT(wanted == PENSTOCK_END || strcmp(penstock_error(), sentence) == 0);
	fake_close(&fake, stream);
}

/* A daemon that overwrites a leased slot without an ERROR is broken. */
static void run_broken(const void *argument)
{
	struct fake fake;
	struct penstock_batch batch[2];
	fake_start(&fake, serve_plan, argument);
	struct penstock_stream *stream = open_stream(&fake);
	for (int i = 0; i < 2; i++)
		FAKE_WANT(penstock_stream_next(stream, &batch[i], 5000) == 0);
	provoke(stream, 0);
	FAKE_WANT(penstock_batch_release(stream, &batch[0]) == 0);
	FAKE_WANT(penstock_batch_release(stream, &batch[1]) == -EPROTO);
	FAKE_WANT(strstr(penstock_error(), "filled batch 1 of epoch 0 again while it was leased"));
	FAKE_WANT(penstock_stream_next(stream, &batch[0], 5000) == -EPROTO);
	fake_close(&fake, stream);
}

static void test_holding(void **state)
{
	(void)state;
	static const struct plan known = {"known", 3, 1u << 1, -ECANCELED, false, false},
				 unknown = {"unknown", 2, 1u << 1, -ECANCELED, true, false};
	fake_check(run_holding, &known, known.name);
	fake_check(run_holding, &unknown, unknown.name);
}

static void test_announced(void **state)
{
	(void)state;
	static const struct plan plan = {"announced", 3, 7, -ECANCELED, true, false};
	fake_check(run_announced, &plan, plan.name);
}

static void test_ended(void **state)
{
	(void)state;
	static const struct plan plans[] = {
		{"has all, knows", 2, 1u << 1, -ECANCELED, false, .ends = true},
		{"has all, does not know", 2, 1u << 1, -ECANCELED, true, .ends = true},
		{"has not all, knows", 3, 1u << 1, -ECANCELED, false, .ends = true},
		{"has not all, does not know", 3, 1u << 1, -ECANCELED, true, .ends = true},
	};
	for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
		fake_check(run_ended, &plans[i], plans[i].name);
}

static void test_close(void **state)
{
	(void)state;
	static const struct plan plan = {"close", 2, 0, -ECANCELED, false, false};
	fake_check(run_close, &plan, plan.name);
}

static void test_broken(void **state)
{
	(void)state;
	static const struct plan plan = {"broken", 2, 1u << 1, 0, false, false};
	fake_check(run_broken, &plan, plan.name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_holding),
		cmocka_unit_test(test_announced),
		cmocka_unit_test(test_ended),
		cmocka_unit_test(test_close),
		cmocka_unit_test(test_broken),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A stream that outlives its daemon: daemons that die at every step of the protocol, and daemons
 * that cannot continue the stream. */
#include "client/reconnect.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* The daemon dies as the script says, and the stream goes on: each batch once, two always held. */
static void run_deaths(const void *argument)
{
	enum { BATCHES = 24 };
	struct fake fake;
	struct penstock_batch held[2];
	fake_start(&fake, serve_script, argument);
	struct penstock_stream *stream = open_stream(&fake, 10000);
	int fd = penstock_stream_fd(stream);
	int32_t gone_pid = -1, pid = -1;
	FAKE_WANT(penstock_stream_replaced(stream, &gone_pid, &pid) == 0);
	FAKE_WANT(gone_pid == -1 && pid == -1);
	for (uint64_t i = 0; i < BATCHES; i++) {
		struct penstock_batch *batch = &held[i % 2];
		if (i >= 2) {
			want_content(batch, i - 2);
			FAKE_WANT(penstock_batch_release(stream, batch) == 0);
			FAKE_WANT(penstock_batch_release(stream, batch) == -EINVAL);
		}
		want_next(stream, batch, i);
		FAKE_WANT(penstock_stream_fd(stream) == fd);
	}
	FAKE_WANT(penstock_stream_daemon_pid(stream) == fake.pid);
	/* All lives are the same process. */
	FAKE_WANT(penstock_stream_replaced(stream, &gone_pid, &pid) >= 1);
	FAKE_WANT(gone_pid == fake.pid && pid == fake.pid);
	fake_close(&fake, stream);
}

static void test_deaths(void **state)
{
	(void)state;
#define ONCE(first, n, ...) \
	.life = {{.end = (first), .batches = (n)}, {__VA_ARGS__}, {.end = STAYS}}, .lives = 3
	static const struct script scripts[] = {
		{"dies before its first batch", ONCE(AT_EXTENT, 0, .end = STAYS)},
		{"dies as soon as it has opened", ONCE(AT_OPENED, 0, .end = STAYS)},
		{"dies after one batch", ONCE(AT_BATCH, 1, .end = STAYS)},
		{"dies with all slots out", ONCE(AT_BATCH, 4, .end = STAYS)},
		{"dies at the end of an epoch", ONCE(AT_BATCH, 6, .end = STAYS)},
		{"dies after many", ONCE(AT_BATCH, 11, .end = STAYS)},
		{"dies again when reached", ONCE(AT_BATCH, 5, .end = AT_ACCEPT)},
		{"dies again at hello", ONCE(AT_BATCH, 5, .end = AT_HELLO)},
		{"is still ending", ONCE(AT_BATCH, 5, .end = REFUSES_HELLO)},
		{"dies again after welcome", ONCE(AT_BATCH, 5, .end = AT_WELCOME)},
		{"dies again at open", ONCE(AT_BATCH, 5, .end = AT_OPEN)},
		{"is ending, at open", ONCE(AT_BATCH, 5, .end = REFUSES_OPEN, .code = -ESHUTDOWN)},
		{"dies again when opened", ONCE(AT_BATCH, 5, .end = AT_OPENED)},
		{"dies again before a batch", ONCE(AT_BATCH, 5, .end = AT_EXTENT)},
		{"dies again after a batch", ONCE(AT_BATCH, 5, .end = AT_BATCH, .batches = 1)},
		{"shuts down", ONCE(SHUTS_DOWN, 5, .end = STAYS)},
		{"shuts down at once", ONCE(SHUTS_DOWN, 0, .end = STAYS)},
		{"dies of everything",
			.life = {{.end = AT_BATCH, .batches = 3}, {.end = AT_ACCEPT},
				{.end = AT_HELLO}, {.end = AT_OPEN}, {.end = AT_OPENED},
				{.end = SHUTS_DOWN, .batches = 2}, {.end = AT_EXTENT},
				{.end = STAYS}},
			.lives = 8},
		{"dies after each batch",
			.life = {{.end = AT_BATCH, .batches = 3}, {.end = AT_BATCH, .batches = 1}},
			.lives = 2},
	};
	for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
		fake_check(run_deaths, &scripts[i], scripts[i].name);
}

/* ---- losses that end the stream ---- */

struct refusal {
	struct script script;
	int code;
	const char *sentence;
};

static void run_refused(const void *argument)
{
	const struct refusal *refusal = argument;
	struct fake fake;
	struct penstock_batch held;
	fake_start(&fake, serve_script, &refusal->script);
	struct penstock_stream *stream = open_stream(&fake, 10000);
	want_next(stream, &held, 0);
	want_over(stream, refusal->code, refusal->sentence);
	want_content(&held, 0); /* still readable */
	FAKE_WANT(penstock_batch_release(stream, &held) == 0);
	fake_close(&fake, stream);
}

#define CHANGE(field, value)                                   \
	static void change_##field(struct wire_opened *opened) \
	{                                                      \
		opened->field = (value);                       \
	}
CHANGE(fingerprint, 1)
CHANGE(order, 1)
CHANGE(transform, 1)
CHANGE(seed, 1)
CHANGE(batch_size, 3)
CHANGE(height, 9)
CHANGE(width, 9)
CHANGE(views, 2)
CHANGE(pixel_type, SLOTS_F16)
CHANGE(pixel_layout, SLOTS_NCHW)
CHANGE(label_type, SLOTS_LABEL_F32)
CHANGE(epoch, 1)
CHANGE(position, 8)
CHANGE(channels, 1)
CHANGE(slots, 0)
#undef CHANGE

static void change_rank(struct wire_opened *opened)
{
	opened->rank = 1;
	opened->world_size = 2;
}

static void change_world_size(struct wire_opened *opened)
{
	opened->world_size = 2;
}

/* The shape of the stream stays as it was when the application opened it: with a manifest that has
 * more classes now, it would read beyond the labels. */
static void change_label_width(struct wire_opened *opened)
{
	opened->label_type = SLOTS_LABEL_F32;
	opened->label_width = 12;
}

static void test_refusals(void **state)
{
	(void)state;
#define THEN(name, ...)                                                                     \
	{                                                                                   \
		name, .life = {{.end = AT_BATCH, .batches = 1}, {__VA_ARGS__}}, .lives = 2, \
	}
#define CHANGED(field) THEN(#field, .end = OPENS_ANOTHER, .change = change_##field)
	static const struct refusal refusals[] = {
		{CHANGED(fingerprint), -ESTALE, "fingerprint is 1, expected 12648430"},
		{CHANGED(order), -ESTALE, "order is 1, expected 291"},
		{CHANGED(transform), -ESTALE, "transform is 1"},
		{CHANGED(seed), -ESTALE, "seed is 1, expected 7"},
		{CHANGED(batch_size), -ESTALE, "batch_size is 3, expected 4"},
		{CHANGED(height), -ESTALE, "height is 9, expected 8"},
		{CHANGED(width), -ESTALE, "width is 9, expected 8"},
		{CHANGED(views), -ESTALE, "views is 2, expected 1"},
		{CHANGED(pixel_type), -ESTALE, "pixel_type is 3, expected 1"},
		{CHANGED(pixel_layout), -ESTALE, "pixel_layout is 2, expected 1"},
		{CHANGED(label_width), -ESTALE, "label_width is 12, expected 1"},
		{CHANGED(label_type), -ESTALE, "label_type is 2, expected 1"},
		{CHANGED(rank), -ESTALE, "rank is 1, expected 0"},
		{CHANGED(world_size), -ESTALE, "world_size is 2, expected 1"},
		{CHANGED(epoch), -ESTALE, "epoch is 1, expected 0"},
		{CHANGED(position), -ESTALE, "position is 8, expected 4"},
		{CHANGED(channels), -ENOTSUP, "1 channels"},
		{CHANGED(slots), -EPROTO, "impossible shape"},
		{THEN("stale", .end = REFUSES_OPEN, .code = -ESTALE), -ESTALE,
			"it cannot be opened"},
		{THEN("busy", .end = REFUSES_OPEN, .code = -EBUSY), -EBUSY, "it cannot be opened"},
		{THEN("invalid", .end = REFUSES_OPEN, .code = -EINVAL), -EINVAL,
			"it cannot be opened"},
		{THEN("no source", .end = REFUSES_OPEN, .code = -ENOENT), -ENOENT,
			"it cannot be opened"},
		{THEN("garbage", .end = SENDS_GARBAGE), -EPROTO, "malformed message"},
	};
	for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
		fake_check(run_refused, &refusals[i], refusals[i].script.name);
}

/* ---- a stream of a configuration: another daemon at its socket is not its own ---- */

static void run_strangers(const void *argument)
{
	struct fake fake;
	struct penstock_batch batch;
	fake_start(&fake, serve_script, argument);
	struct penstock_stream *stream = open_named(&fake, 10000);
	for (uint64_t i = 0; i < 4; i++) {
		want_next(stream, &batch, i);
		FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
	}
	fake_close(&fake, stream);
}

static void test_strangers(void **state)
{
	(void)state;
#define AFTER(...) .life = { {.end = AT_BATCH, .batches = 1}, __VA_ARGS__, {.end = STAYS} }
	static const struct script scripts[] = {
		{"does not know the stream",
			AFTER({.end = ANOTHER_REFUSES, .code = -ENOENT},
				{.end = ANOTHER_REFUSES, .code = -ENOENT}),
			.lives = 4},
		{"does not know the stream yet", AFTER({.end = REFUSES_OPEN, .code = -ENOENT}),
			.lives = 3},
	};
#undef AFTER
	for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
		fake_check(run_strangers, &scripts[i], scripts[i].name);
}

/* When the time is up, the error reports the loss and names the daemon at the socket. */
FAKE_TEST(stranger_stays)
{
	static const struct script script = {"stays",
		.life = {{.end = AT_BATCH, .batches = 1},
			{.end = ANOTHER_REFUSES, .code = -ENOENT}},
		.lives = 2};
	struct fake fake;
	struct penstock_batch batch;
	char says[160];
	fake_start(&fake, serve_script, &script);
	struct penstock_stream *stream = open_named(&fake, 700);
	want_next(stream, &batch, 0);
	(void)snprintf(says, sizeof says,
		"its own daemon did not return: the daemon that listens now (pid %d) does not open "
		"it (it cannot be opened); if it is not the stream's own, end it (penstock stop) "
		"and start that one (penstockd --config FILE)",
		(int)getpid());
	want_over(stream, -EPIPE, says);
	FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
	fake_close(&fake, stream);
}

/* A refusal of the state is final, whichever daemon sends it: the group has passed the batch, or
 * the configuration has changed. */
static void run_named_refused(const void *argument)
{
	const struct refusal *refusal = argument;
	struct fake fake;
	struct penstock_batch batch;
	fake_start(&fake, serve_script, &refusal->script);
	struct penstock_stream *stream = open_named(&fake, PENSTOCK_FOREVER);
	want_next(stream, &batch, 0);
	want_over(stream, refusal->code, refusal->sentence);
	fake_close(&fake, stream);
}

static void test_named_refusals(void **state)
{
	(void)state;
	static const struct refusal refusals[] = {
		{THEN("passed", .end = REFUSES_OPEN, .code = -ESTALE), -ESTALE,
			"it cannot be opened"},
		{THEN("changed", .end = ANOTHER_REFUSES, .code = -ESTALE), -ESTALE,
			"it cannot be opened"},
		{THEN("busy", .end = ANOTHER_REFUSES, .code = -EBUSY), -EBUSY,
			"it cannot be opened"},
	};
	for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
		fake_check(run_named_refused, &refusals[i], refusals[i].script.name);
}

/* A private daemon would have no configuration, and would occupy the socket of the daemon that
 * has one. */
FAKE_TEST(starts_none)
{
	static const struct script script = {
		"none", .life = {{.end = AT_BATCH, .batches = 1}, {.end = STAYS}}, .lives = 2};
	struct fake fake;
	struct penstock_batch batch;
	fake_start(&fake, serve_script, &script);
	struct penstock_options options = fake_options(&fake);
	options.source = "stream:mix";
	options.private_daemon = 1;
	options.reconnect_ms = 400;
	FAKE_WANT(setenv("PENSTOCKD", "/bin/false", 1) == 0);
	struct penstock_stream *stream = fake_open_stream(&options);
	want_next(stream, &batch, 0);
	fake_kill(&fake);
	want_over(stream, -EPIPE, "its own daemon did not return: no penstockd is running at ");
	FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
	penstock_stream_close(stream);
	(void)fake_stop(&fake);
}

/* A first opening does not wait for a daemon. */
FAKE_TEST(unknown_at_first)
{
	static const struct script script = {
		"unknown", .life = {{.end = REFUSES_OPEN, .code = -ENOENT}}, .lives = 1};
	struct fake fake;
	struct penstock_stream *stream = NULL;
	fake_start(&fake, serve_script, &script);
	struct penstock_options options = fake_options(&fake);
	options.source = "stream:mix";
	options.reconnect_ms = PENSTOCK_FOREVER;
	FAKE_WANT(penstock_stream_open(&options, &stream) == -ENOENT);
	FAKE_WANT(strcmp(penstock_error(), "it cannot be opened") == 0);
	FAKE_WANT(fake_stop(&fake));
}

/* No daemon listens: the sentence says which one knows the stream. */
FAKE_TEST(absent_at_first)
{
	struct fake fake;
	struct penstock_stream *stream = NULL;
	static const struct script script = {"none", .life = {{.end = STAYS}}, .lives = 1};
	fake_start(&fake, serve_script, &script);
	fake_kill(&fake);
	struct penstock_options options = fake_options(&fake);
	options.source = "stream:mix";
	FAKE_WANT(penstock_stream_open(&options, &stream) == -ECONNREFUSED);
	FAKE_WANT(strstr(penstock_error(),
		"(start the one that knows stream:mix: penstockd --config FILE; how"));
	(void)fake_stop(&fake);
}

/* The daemon that comes back may have more slots, or fewer. */
static void change_slots_to_two(struct wire_opened *opened)
{
	opened->slots = 2;
}

FAKE_TEST(fewer_slots)
{
	static const struct script script = {"fewer slots",
		.life = {{.end = AT_BATCH, .batches = 4},
			{.end = OPENS_ANOTHER, .batches = 2, .change = change_slots_to_two},
			{.end = STAYS}},
		.lives = 3};
	struct fake fake;
	struct penstock_batch held[4], batch[2];
	struct penstock_stream_info info;
	fake_start(&fake, serve_script, &script);
	struct penstock_stream *stream = open_stream(&fake, 10000);
	for (uint64_t i = 0; i < 4; i++)
		want_next(stream, &held[i], i);
	/* Holding all batches of the old daemon is not a deadlock: the new one does not wait for
	 * them. */
	want_next(stream, &batch[0], 4);
	want_next(stream, &batch[1], 5);
	penstock_stream_info(stream, &info);
	FAKE_WANT(info.slots == 2);
	for (uint64_t i = 0; i < 4; i++) {
		want_content(&held[i], i);
		FAKE_WANT(penstock_batch_release(stream, &held[i]) == 0);
	}
	fake_close(&fake, stream);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deaths),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_stranger_stays),
		cmocka_unit_test(test_named_refusals),
		cmocka_unit_test(test_starts_none),
		cmocka_unit_test(test_unknown_at_first),
		cmocka_unit_test(test_absent_at_first),
		cmocka_unit_test(test_fewer_slots),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

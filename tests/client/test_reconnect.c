/* A stream that is to outlive its daemon: whatever a daemon dies of, and wherever in the protocol,
 * each batch is given once and in order, and what the application holds stays as it was. */
#include "client/fake.h"
#include "client/lib/stream.h"
#include "penstock/penstock.h"

#include <errno.h>
#include <poll.h>
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

static const struct fake_shape endless = FAKE_SHAPE;
static const struct fake_shape two_epochs = {
	.batch_size = 4, .side = 8, .slots = 4, .batches = 3, .epochs = 2, .first_serial = 1};

/* ---- a daemon whose every connection has its own end ---- */

enum end {
	AT_ACCEPT,
	AT_HELLO, /* after it was read */
	REFUSES_HELLO, /* as a daemon that is ending does */
	AT_WELCOME, /* after it was sent */
	AT_OPEN,
	REFUSES_OPEN, /* with .code */
	AT_OPENED,
	AT_EXTENT,
	AT_BATCH, /* after .batches of them */
	SHUTS_DOWN, /* the same, with ERROR -ESHUTDOWN, and then it stays for the releases */
	OPENS_ANOTHER, /* OPENED is .change'd */
	SENDS_GARBAGE, /* for WELCOME */
	OVERWRITES, /* after .batches, fills slot 0 with another and hangs up */
	ENDS_AND_OVERWRITES, /* the same, after END */
	STAYS,
};

struct life {
	enum end end;
	unsigned batches;
	int code;
	void (*change)(struct wire_opened *opened);
};

struct script {
	const char *name;
	struct life life[8]; /* of one connection after the other; the last for all further ones */
	unsigned lives;
};

struct serving {
	int fd;
	const struct life *life;
	struct fake_shape shape;
	struct fake_memory memory;
	uint64_t next;
	uint32_t busy;
	unsigned sent;
};

static void serve_batches(struct serving *s)
{
	for (uint32_t slot = 0; slot < s->shape.slots; slot++) {
		if (s->busy & (1u << slot) ||
			(s->life->end != STAYS && s->sent == s->life->batches))
			continue;
		struct wire_batch batch = fake_fill(&s->shape, &s->memory, slot, s->next++);
		s->busy |= 1u << slot;
		s->sent++;
		fake_send(s->fd, &batch.head, sizeof batch, NULL, 0, -1);
	}
}

/* Until the batches that this life has are sent, or the client goes. */
static void serve_loop(struct serving *s)
{
	const struct conn_message *message;
	serve_batches(s);
	while ((s->life->end == STAYS || s->sent < s->life->batches) &&
		(message = fake_receive(s->fd))) {
		if (message->head.type == WIRE_RELEASE) {
			const struct wire_release *release =
				conn_view(message, WIRE_RELEASE, sizeof *release, 0);
			FAKE_WANT(release && release->extent == 0);
			FAKE_WANT(fake_slot(&s->memory, release->slot)->serial == release->serial);
			FAKE_WANT(s->busy & (1u << release->slot));
			s->busy &= ~(1u << release->slot);
		}
		serve_batches(s);
	}
}

static void serve_end(struct serving *s)
{
	if (s->life->end == SHUTS_DOWN) {
		fake_send_error(s->fd, 0, 1, -ESHUTDOWN, "it was sent SIGTERM");
		while (fake_receive(s->fd))
			continue;
	}
	if (s->life->end == ENDS_AND_OVERWRITES) {
		struct wire_end end = {.head = {.type = WIRE_END, .stream = 1}};
		fake_send(s->fd, &end.head, sizeof end, NULL, 0, -1);
	}
	if (s->life->end == OVERWRITES || s->life->end == ENDS_AND_OVERWRITES)
		(void)fake_fill(&s->shape, &s->memory, 0, s->next + 100);
}

static void serve_stream(struct serving *s)
{
	struct wire_extent extent = fake_extent(&s->shape, &s->memory);
	fake_send(s->fd, &extent.head, sizeof extent, NULL, 0, s->memory.fd);
	if (s->life->end != AT_EXTENT) {
		serve_loop(s);
		serve_end(s);
	}
}

static void serve_open(struct serving *s, bool again)
{
	static const char key[] = "\"reconnect\":true";
	const struct conn_message *open = fake_expect(s->fd, WIRE_OPEN);
	bool asked = memmem(open->bytes, open->size, key, sizeof key - 1) != NULL;
	FAKE_WANT(asked == again);
	s->next = fake_resume(open, &s->shape);
	/* Its first batch has a serial that the daemon before it used too. */
	s->shape.first_serial = 1 - s->next;
	if (s->life->end == REFUSES_OPEN) {
		fake_send_error(s->fd, open->head.request, 1, s->life->code, "it cannot be opened");
		while (fake_receive(s->fd)) /* the connection lives on */
			continue;
	}
	if (s->life->end == AT_OPEN || s->life->end == REFUSES_OPEN)
		return;
	struct wire_opened opened = fake_opened_at(open, &s->shape, s->next);
	if (s->life->end == OPENS_ANOTHER)
		s->life->change(&opened);
	fake_send(s->fd, &opened.head, sizeof opened, NULL, 0, -1);
	if (s->life->end == AT_OPENED)
		return;
	s->memory = fake_memory(&s->shape, FAKE_SEALS);
	serve_stream(s);
	(void)munmap(s->memory.bytes, s->memory.size);
	(void)close(s->memory.fd);
}

static void serve_script(int fd, const void *argument)
{
	static unsigned connections; /* of this process */
	const struct script *script = argument;
	unsigned n = connections++;
	struct serving s = {.fd = fd,
		.life = &script->life[n < script->lives ? n : script->lives - 1],
		.shape = endless};
	switch (s.life->end) {
	case AT_ACCEPT:
		return;
	case AT_HELLO:
		(void)fake_expect(fd, WIRE_HELLO);
		return;
	case REFUSES_HELLO:
		fake_send_error(fd, fake_expect(fd, WIRE_HELLO)->head.request, 0, -ESHUTDOWN,
			"this daemon is ending");
		return;
	case SENDS_GARBAGE:
		(void)fake_expect(fd, WIRE_HELLO);
		fake_send_raw(fd, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 35, -1);
		return;
	default:
		fake_welcome(fd);
	}
	if (s.life->end != AT_WELCOME)
		serve_open(&s, n > 0);
}

/* ---- the application ---- */

static struct penstock_stream *open_stream(
	const struct fake *fake, int32_t reconnect_ms, int32_t timeout_ms)
{
	struct penstock_stream *stream = NULL;
	struct penstock_options options;
	penstock_options_init(&options);
	options.source = "/data";
	options.socket = fake->socket;
	options.private_daemon = 0;
	options.reconnect_ms = reconnect_ms;
	options.timeout_ms = timeout_ms;
	int result = penstock_stream_open(&options, &stream);
	if (result != 0)
		(void)fprintf(stderr, "open: %d: %s\n", result, penstock_error());
	FAKE_WANT(result == 0 && stream);
	return stream;
}

static void want_content(const struct penstock_batch *batch, uint64_t ordinal)
{
	const uint8_t *images = batch->images;
	FAKE_WANT(batch->epoch == ordinal / endless.batches &&
		  batch->batch == ordinal % endless.batches);
	for (uint32_t row = 0; row < batch->count; row++) {
		FAKE_WANT(images[row * batch->image_bytes] == fake_pixel(ordinal, row));
		FAKE_WANT(images[(row + 1) * batch->image_bytes - 1] == fake_pixel(ordinal, row));
		FAKE_WANT(batch->labels[row] == fake_label(ordinal, row));
	}
}

static void want_next(
	struct penstock_stream *stream, struct penstock_batch *batch, uint64_t ordinal)
{
	int result = penstock_stream_next(stream, batch, 20000);
	if (result != 0)
		(void)fprintf(stderr, "batch %llu: %d: %s\n", (unsigned long long)ordinal, result,
			penstock_error());
	FAKE_WANT(result == 0);
	want_content(batch, ordinal);
}

static void want_over(struct penstock_stream *stream, int code, const char *sentence)
{
	struct penstock_batch batch;
	for (int i = 0; i < 3; i++) { /* and it stays so */
		int result = penstock_stream_next(stream, &batch, 20000);
		if (result != code || !strstr(penstock_error(), sentence))
			(void)fprintf(stderr, "%d: %s\n", result, penstock_error());
		FAKE_WANT(result == code && strstr(penstock_error(), sentence));
	}
	struct pollfd ready = {.fd = penstock_stream_fd(stream), .events = POLLIN};
	FAKE_WANT(poll(&ready, 1, 0) == 1);
}

/* The daemon dies as the script says, the stream goes on: each batch once, two of them always held.
 */
static void run_deaths(const void *argument)
{
	enum { BATCHES = 24 };
	struct fake fake;
	struct penstock_batch held[2];
	fake_start(&fake, serve_script, argument);
	struct penstock_stream *stream = open_stream(&fake, 10000, 0);
	int fd = penstock_stream_fd(stream);
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
	penstock_stream_close(stream);
	FAKE_WANT(fake_stop(&fake));
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

/* ---- what ends the stream all the same ---- */

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
	struct penstock_stream *stream = open_stream(&fake, 10000, 0);
	want_next(stream, &held, 0);
	want_over(stream, refusal->code, refusal->sentence);
	want_content(&held, 0); /* still readable */
	FAKE_WANT(penstock_batch_release(stream, &held) == 0);
	penstock_stream_close(stream);
	FAKE_WANT(fake_stop(&fake));
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
		{CHANGED(rank), -ESTALE, "rank is 1, expected 0"},
		{CHANGED(world_size), -ESTALE, "world_size is 2, expected 1"},
		{CHANGED(epoch), -ESTALE, "epoch is 1, expected 0"},
		{CHANGED(position), -ESTALE, "position is 8, expected 4"},
		{CHANGED(channels), -ENOTSUP, "uint8 NHWC"},
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

/* The daemon that comes back may have more slots, or fewer. */
static void change_slots_to_two(struct wire_opened *opened)
{
	opened->slots = 2;
}

static void run_fewer_slots(const void *argument)
{
	(void)argument;
	static const struct script script = {"fewer slots",
		.life = {{.end = AT_BATCH, .batches = 4},
			{.end = OPENS_ANOTHER, .batches = 2, .change = change_slots_to_two},
			{.end = STAYS}},
		.lives = 3};
	struct fake fake;
	struct penstock_batch held[4], batch[2];
	struct penstock_stream_info info;
	fake_start(&fake, serve_script, &script);
	struct penstock_stream *stream = open_stream(&fake, 10000, 0);
	for (uint64_t i = 0; i < 4; i++)
		want_next(stream, &held[i], i);
	/* Holding all of the old one's is no dead lock: nobody waits for them. */
	want_next(stream, &batch[0], 4);
	want_next(stream, &batch[1], 5);
	penstock_stream_info(stream, &info);
	FAKE_WANT(info.slots == 2);
	for (uint64_t i = 0; i < 4; i++) {
		want_content(&held[i], i);
		FAKE_WANT(penstock_batch_release(stream, &held[i]) == 0);
	}
	penstock_stream_close(stream);
	FAKE_WANT(fake_stop(&fake));
}

/* ---- a process that is killed, and another in its place ---- */

static bool polls(int fd, int ms)
{
	struct pollfd wanted = {.fd = fd, .events = POLLIN};
	return poll(&wanted, 1, ms) == 1;
}

static void want_timeout(struct penstock_stream *stream, const char *sentence)
{
	struct penstock_batch batch;
	int64_t begin_ns = connection_deadline(0);
	int result = penstock_stream_next(stream, &batch, 120);
	int64_t took_ms = (connection_deadline(0) - begin_ns) / 1000000;
	if (result != -ETIMEDOUT || !strstr(penstock_error(), sentence))
		(void)fprintf(stderr, "%d: %s\n", result, penstock_error());
	FAKE_WANT(result == -ETIMEDOUT && strstr(penstock_error(), "no batch within 0.1 s: "));
	FAKE_WANT(strstr(penstock_error(), sentence));
	FAKE_WANT(took_ms >= 119);
}

static void run_restart(const void *argument)
{
	(void)argument;
	struct fake fake;
	struct penstock_batch held[2], batch;
	char *text = NULL, state[512], before[512];
	fake_start(&fake, fake_serve_well, &endless);
	struct penstock_stream *stream = open_stream(&fake, PENSTOCK_FOREVER, 0);
	int fd = penstock_stream_fd(stream);
	want_next(stream, &held[0], 0);
	want_next(stream, &held[1], 1);
	FAKE_WANT(penstock_stream_classes(stream, &text) == 0);
	free(text);
	text = NULL;
	fake_kill(&fake);
	/* The other two had come; nothing else will. */
	for (uint64_t i = 2; i < 4; i++) {
		want_next(stream, &batch, i);
		FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
	}
	FAKE_WANT(penstock_stream_state(stream, before, sizeof before) > 0);
	want_timeout(stream, "the daemon is gone and is being waited for: no penstockd is running");
	want_timeout(stream, fake.socket);
	FAKE_WANT(penstock_stream_next(stream, &batch, 0) == -EAGAIN);
	FAKE_WANT(strstr(penstock_error(), "is being waited for"));
	FAKE_WANT(penstock_stream_stats(stream, &text) == -EPIPE && !text);
	FAKE_WANT(strstr(penstock_error(), "has ended or closed the connection"));
	FAKE_WANT(penstock_stream_state(stream, state, sizeof state) > 0);
	FAKE_WANT(strcmp(state, before) == 0);

	/* Whoever waits on the descriptor wakes to try, again and again, and not all the time. */
	int64_t woke = 0, begin_ns = connection_deadline(0), took_ms = 0;
	while (took_ms < 400 || woke < 2) {
		FAKE_WANT(polls(fd, 20000));
		FAKE_WANT(penstock_stream_next(stream, &batch, 0) == -EAGAIN);
		woke++;
		took_ms = (connection_deadline(0) - begin_ns) / 1000000;
	}
	FAKE_WANT(woke <= took_ms / 10);

	fake_restart(&fake, fake_serve_well, &endless);
	int result;
	do {
		FAKE_WANT(polls(fd, 10000));
		result = penstock_stream_next(stream, &batch, 0);
	} while (result == -EAGAIN);
	FAKE_WANT(result == 0 && penstock_stream_fd(stream) == fd);
	want_content(&batch, 4);
	FAKE_WANT(penstock_stream_daemon_pid(stream) == fake.pid);
	FAKE_WANT(penstock_batch_ready_ns(stream, &batch) == fake_ready_ns(4));

	/* What was held all the time. */
	FAKE_WANT(penstock_batch_ready_ns(stream, &held[1]) == fake_ready_ns(1));
	for (uint64_t i = 0; i < 2; i++) {
		want_content(&held[i], i);
		FAKE_WANT(penstock_batch_release(stream, &held[i]) == 0);
		FAKE_WANT(penstock_batch_release(stream, &held[i]) == -EINVAL);
	}
	FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
	for (uint64_t i = 5; i < 20; i++) {
		want_next(stream, &batch, i);
		FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
	}
	FAKE_WANT(fake_count_memfds() == 1);
	penstock_stream_close(stream);
	FAKE_WANT(fake_stop(&fake));
}

/* An old batch and a new one of the same slot and serial: each is released for itself. */
static void run_alike(const void *argument)
{
	(void)argument;
	static const struct script script = {
		"alike", .life = {{.end = AT_BATCH, .batches = 1}, {.end = STAYS}}, .lives = 2};
	struct fake fake;
	struct penstock_batch old, new, copy;
	fake_start(&fake, serve_script, &script);
	struct penstock_stream *stream = open_stream(&fake, 10000, 0);
	want_next(stream, &old, 0);
	want_next(stream, &new, 1);
	FAKE_WANT(old.slot == new.slot &&old.serial == new.serial &&old.extent != new.extent);
	copy = old;
	FAKE_WANT(penstock_batch_release(stream, &old) == 0);
	FAKE_WANT(penstock_batch_release(stream, &copy) == -EINVAL);
	want_content(&new, 1);
	copy = new;
	FAKE_WANT(penstock_batch_release(stream, &new) == 0); /* the daemon checks */
	FAKE_WANT(penstock_batch_release(stream, &copy) == -EINVAL);
	for (uint64_t i = 2; i < 12; i++) {
		want_next(stream, &new, i);
		FAKE_WANT(penstock_batch_release(stream, &new) == 0);
	}
	penstock_stream_close(stream);
	FAKE_WANT(fake_stop(&fake));
}

/* The memory of so many is kept, and no more. */
static void run_hoard(const void *argument)
{
	(void)argument;
	static const struct script script = {
		"hoard", .life = {{.end = AT_BATCH, .batches = 1}}, .lives = 1};
	static struct penstock_batch held[WIRE_EXTENTS_MAX];
	struct fake fake;
	fake_start(&fake, serve_script, &script);
	struct penstock_stream *stream = open_stream(&fake, 10000, 0);
	for (uint64_t i = 0; i < WIRE_EXTENTS_MAX; i++)
		want_next(stream, &held[i], i);
	want_over(stream, -EDEADLK, "holds batches of 64 daemons that have gone");
	for (uint64_t i = 0; i < WIRE_EXTENTS_MAX; i++) {
		want_content(&held[i], i);
		FAKE_WANT(penstock_batch_release(stream, &held[i]) == 0);
	}
	FAKE_WANT(fake_count_memfds() == 0);
	penstock_stream_close(stream);
	FAKE_WANT(fake_stop(&fake));
}

/* A daemon that gave this client up may go on writing: what is held then is refused. */
static void run_overwritten(const void *argument)
{
	(void)argument;
	static const struct script script = {"overwritten",
		.life = {{.end = OVERWRITES, .batches = 2}, {.end = STAYS}}, .lives = 2};
	struct fake fake;
	struct penstock_batch held[2], batch;
	fake_start(&fake, serve_script, &script);
	struct penstock_stream *stream = open_stream(&fake, 10000, 0);
	/* Perhaps it has been overwritten by now, and comes from the next daemon; or is just being.
	 */
	FAKE_WANT(penstock_stream_next(stream, &held[0], 20000) == 0 && held[0].batch == 0);
	bool first = held[0].extent == 1;
	want_next(stream, &held[1], 1);
	want_next(stream, &batch, 2);
	FAKE_WANT(batch.extent == 2);
	if (first) {
		FAKE_WANT(penstock_batch_release(stream, &held[0]) == -ECANCELED);
		FAKE_WANT(strstr(penstock_error(),
			"batch 0 of epoch 0 was lent by a daemon that has given this client up"));
		FAKE_WANT(!held[0].images);
		FAKE_WANT(penstock_batch_release(stream, &held[0]) == -EINVAL);
	}
	FAKE_WANT(penstock_batch_release(stream, &held[1]) == 0);
	want_next(stream, &held[0], 3); /* the stream goes on */
	penstock_stream_close(stream);
	FAKE_WANT(fake_stop(&fake));
}

/* The last batches lay unread when it did so: they come from the next daemon, and then the end. */
static void run_overwritten_end(const void *argument)
{
	(void)argument;
	static const struct script script = {"overwritten after the end",
		.life = {{.end = ENDS_AND_OVERWRITES, .batches = 2}, {.end = STAYS}}, .lives = 2};
	struct fake fake;
	struct penstock_batch batch;
	char *text = NULL;
	fake_start(&fake, serve_script, &script);
	struct penstock_stream *stream = open_stream(&fake, 10000, 0);
	FAKE_WANT(penstock_stream_stats(stream, &text) == -EPIPE && !text);
	for (uint64_t i = 0; i < 4; i++)
		want_next(stream, &batch, i);
	penstock_stream_close(stream);
	FAKE_WANT(fake_stop(&fake));
}

/* Between two daemons there is none. */
static void run_pid(const void *argument)
{
	(void)argument;
	static const struct script script = {
		"opens and dies", .life = {{.end = AT_OPENED}, {.end = AT_OPEN}}, .lives = 2};
	struct fake fake;
	struct penstock_batch batch;
	fake_start(&fake, serve_script, &script);
	struct penstock_stream *stream = open_stream(&fake, 10000, 0);
	FAKE_WANT(penstock_stream_daemon_pid(stream) == fake.pid);
	do {
		FAKE_WANT(polls(penstock_stream_fd(stream), 20000));
		FAKE_WANT(penstock_stream_next(stream, &batch, 0) == -EAGAIN);
	} while (!strstr(penstock_error(), "is being waited for"));
	FAKE_WANT(penstock_stream_daemon_pid(stream) == 0);
	penstock_stream_close(stream);
	FAKE_WANT(fake_stop(&fake));
}

/* ---- when the time is up ---- */

static void run_time_up(const void *argument)
{
	(void)argument;
	struct fake fake;
	struct penstock_batch held, batch;
	char *text = NULL;
	fake_start(&fake, fake_serve_well, &endless);
	struct penstock_stream *stream = open_stream(&fake, 300, 0);
	want_next(stream, &held, 0);
	/* With the answer, all that there is was announced. */
	FAKE_WANT(penstock_stream_classes(stream, &text) == 0);
	free(text);
	fake_kill(&fake);
	for (uint64_t i = 1; i < 4; i++)
		want_next(stream, &batch, i);
	int64_t begin_ns = connection_deadline(0);
	want_over(stream, -EPIPE,
		"within the 0.3 s of options.reconnect_ms none could be reached again: no "
		"penstockd is running");
	int64_t took_ms = (connection_deadline(0) - begin_ns) / 1000000;
	FAKE_WANT(took_ms >= 290);
	FAKE_WANT(strstr(penstock_error(), "has ended or closed the connection"));
	want_content(&held, 0);
	FAKE_WANT(penstock_batch_release(stream, &held) == 0);
	fake_restart(&fake, fake_serve_well, &endless); /* too late */
	want_over(stream, -EPIPE, "none could be reached again");
	penstock_stream_close(stream);
	FAKE_WANT(fake_stop(&fake));
}

/* An application that is late has its try all the same. */
static void run_late(const void *argument)
{
	(void)argument;
	struct fake fake;
	struct penstock_batch batch;
	fake_start(&fake, fake_serve_well, &endless);
	struct penstock_stream *stream = open_stream(&fake, 500, 0);
	for (uint64_t i = 0; i < 4; i++)
		want_next(stream, &batch, i);
	fake_kill(&fake);
	FAKE_WANT(penstock_stream_next(stream, &batch, 0) == -EAGAIN); /* the loss is noticed */
	(void)usleep(700000);
	fake_restart(&fake, fake_serve_well, &endless);
	want_next(stream, &batch, 4);
	penstock_stream_close(stream);
	FAKE_WANT(fake_stop(&fake));
}

/* Two that die in turn without ever giving a batch do not keep the stream for ever. */
static void run_crash_loop(const void *argument)
{
	struct fake fake;
	struct penstock_batch batch;
	fake_start(&fake, serve_script, argument);
	struct penstock_stream *stream = open_stream(&fake, 500, 0);
	want_next(stream, &batch, 0);
	want_over(stream, -EPIPE, "those that came gave no batch");
	penstock_stream_close(stream);
	FAKE_WANT(fake_stop(&fake));
}

/* A new daemon that is stopped: the call's time is kept, and in the end the stream's. */
static void run_stopped(const void *argument)
{
	(void)argument;
	struct fake fake;
	struct penstock_batch batch;
	int status;
	fake_start(&fake, fake_serve_well, &endless);
	struct penstock_stream *stream = open_stream(&fake, 600, 0);
	for (uint64_t i = 0; i < 4; i++)
		want_next(stream, &batch, i);
	fake_kill(&fake);
	fake_restart(&fake, fake_serve_well, &endless);
	FAKE_WANT(kill(fake.pid, SIGSTOP) == 0);
	FAKE_WANT(waitpid(fake.pid, &status, WUNTRACED) == fake.pid && WIFSTOPPED(status));
	want_timeout(stream, "has yet to answer");
	FAKE_WANT(penstock_stream_next(stream, &batch, 0) == -EAGAIN);
	want_over(stream, -EPIPE, "does not answer: is it stopped?");
	penstock_stream_close(stream);
	FAKE_WANT(fake_stop(&fake));
}

/* One that takes its time to open: the call's time is kept, the stream's is not used up. */
static void serve_slow_open(int fd, const void *argument)
{
	(void)argument;
	fake_welcome(fd);
	const struct conn_message *open = fake_expect(fd, WIRE_OPEN);
	struct wire_opened opened = fake_opened_at(open, &endless, fake_resume(open, &endless));
	(void)usleep(600000);
	fake_send(fd, &opened.head, sizeof opened, NULL, 0, -1);
	while (fake_receive(fd))
		continue;
}

static void run_slow_open(const void *argument)
{
	(void)argument;
	struct fake fake;
	struct penstock_batch batch;
	fake_start(&fake, fake_serve_well, &endless);
	struct penstock_stream *stream = open_stream(&fake, 100, 0);
	for (uint64_t i = 0; i < 4; i++)
		want_next(stream, &batch, i);
	fake_kill(&fake);
	fake_restart(&fake, serve_slow_open, NULL);
	want_timeout(stream, "is opening the stream again");
	FAKE_WANT(penstock_stream_next(stream, &batch, 0) == -EAGAIN);
	/* Open at last, and without a batch: as in any other stream. */
	FAKE_WANT(penstock_stream_next(stream, &batch, 1500) == -ETIMEDOUT);
	FAKE_WANT(strstr(penstock_error(), "did not say why in time"));
	penstock_stream_close(stream);
	FAKE_WANT(fake_stop(&fake));
}

/* Those that take their time and die of it, before they have opened and after: the time is theirs,
 * and others are looked for. */
static void serve_slow_deaths(int fd, const void *argument)
{
	static unsigned connections;
	struct serving s = {.fd = fd, .life = &(struct life){.end = STAYS}, .shape = endless};
	(void)argument;
	fake_welcome(fd);
	if (connections == 2) {
		serve_open(&s, true);
		return;
	}
	const struct conn_message *open = fake_expect(fd, WIRE_OPEN);
	struct wire_opened opened = fake_opened_at(open, &endless, fake_resume(open, &endless));
	(void)usleep(1200000);
	if (connections++)
		fake_send(fd, &opened.head, sizeof opened, NULL, 0, -1);
}

static void run_slow_deaths(const void *argument)
{
	(void)argument;
	struct fake fake;
	struct penstock_batch batch;
	fake_start(&fake, fake_serve_well, &endless);
	struct penstock_stream *stream = open_stream(&fake, 1000, 0);
	for (uint64_t i = 0; i < 4; i++)
		want_next(stream, &batch, i);
	fake_kill(&fake);
	fake_restart(&fake, serve_slow_deaths, NULL);
	want_next(stream, &batch, 4);
	penstock_stream_close(stream);
	FAKE_WANT(fake_stop(&fake));
}

/* Its process has died, and a child keeps the socket open: no hang-up. */
static void serve_without_hangup(int fd, const void *argument)
{
	(void)argument;
	struct serving s = {
		.fd = fd, .life = &(struct life){.end = AT_BATCH, .batches = 1}, .shape = endless};
	fake_welcome(fd);
	serve_open(&s, false);
	if (fork() == 0) {
		(void)sleep(8);
		_exit(0);
	}
	_exit(0);
}

static void run_without_hangup(const void *argument)
{
	(void)argument;
	struct fake fake;
	struct penstock_batch batch;
	(void)signal(SIGCHLD, SIG_IGN); /* a zombie would still be a process */
	fake_start(&fake, serve_without_hangup, NULL);
	struct penstock_stream *stream = open_stream(&fake, 10000, 0);
	want_next(stream, &batch, 0);
	while (kill(fake.pid, 0) == 0)
		(void)usleep(1000);
	fake_restart(&fake, fake_serve_well, &endless);
	want_next(stream, &batch, 1);
	penstock_stream_close(stream);
	FAKE_WANT(fake_stop(&fake));
}

/* ---- the end of the stream ---- */

static void run_end(const void *argument)
{
	(void)argument;
	struct fake fake;
	struct penstock_batch batch;
	fake_start(&fake, fake_serve_well, &two_epochs);
	struct penstock_stream *stream = open_stream(&fake, 10000, 0);
	for (uint64_t i = 0; i < 3; i++) {
		want_next(stream, &batch, i);
		FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
	}
	fake_kill(&fake);
	fake_restart(&fake, fake_serve_well, &two_epochs);
	for (uint64_t i = 3; i < 6; i++) {
		want_next(stream, &batch, i);
		FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
	}
	FAKE_WANT(penstock_stream_next(stream, &batch, 5000) == PENSTOCK_END);
	fake_kill(&fake);
	FAKE_WANT(penstock_stream_next(stream, &batch, 5000) == PENSTOCK_END);
	FAKE_WANT(polls(penstock_stream_fd(stream), 0));
	penstock_stream_close(stream);
	FAKE_WANT(fake_stop(&fake));
}

/* ---- fork ---- */

static void run_fork(const void *argument)
{
	(void)argument;
	struct fake fake;
	struct penstock_batch batch, mine;
	int status;
	fake_start(&fake, fake_serve_well, &endless);
	struct penstock_stream *stream = open_stream(&fake, 10000, 0);
	int fd = penstock_stream_fd(stream);
	for (uint64_t i = 0; i < 4; i++)
		want_next(stream, &batch, i);
	/* A child that keeps its copies while the parent loses its daemon, and then closes. */
	pid_t keeper = fork();
	if (keeper == 0) {
		(void)pause();
		_exit(0);
	}
	fake_kill(&fake);
	want_timeout(stream, "is being waited for");
	pid_t pid = fork();
	if (pid == 0) {
		int fds = fake_count_fds();
		FAKE_WANT(penstock_stream_next(stream, &mine, 1000) == -EBADF);
		FAKE_WANT(penstock_batch_release(stream, &batch) == -EBADF);
		penstock_stream_close(stream);
		FAKE_WANT(fake_count_fds() == fds - 3 && fake_count_memfds() == 0);
		exit(0);
	}
	FAKE_WANT(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	fake_restart(&fake, fake_serve_well, &endless);
	for (uint64_t i = 4; i < 8; i++)
		want_next(stream, &mine, i);
	/* Nothing of the old connection is left that would ring. */
	FAKE_WANT(penstock_stream_next(stream, &mine, 0) == -EAGAIN);
	FAKE_WANT(!polls(fd, 100));
	FAKE_WANT(kill(keeper, SIGKILL) == 0 && waitpid(keeper, &status, 0) == keeper);
	penstock_stream_close(stream);
	FAKE_WANT(fake_stop(&fake));
}

/* Closed in each stage of coming back. */
static void run_close(const void *argument)
{
	struct fake fake;
	struct penstock_batch batch;
	fake_start(&fake, fake_serve_well, &endless);
	struct penstock_stream *stream = open_stream(&fake, 10000, 0);
	for (uint64_t i = 0; i < 4; i++)
		want_next(stream, &batch, i);
	fake_kill(&fake);
	if (argument) {
		fake_restart(&fake, serve_script, argument);
		(void)usleep(50000);
	}
	int result = penstock_stream_next(stream, &batch, 200);
	FAKE_WANT(result == -ETIMEDOUT);
	penstock_stream_close(stream);
	FAKE_WANT(!argument || fake_stop(&fake));
	if (!argument) {
		fake_restart(&fake, fake_serve_well, &endless);
		FAKE_WANT(fake_stop(&fake));
	}
}

#define CHECKED(function, argument)                              \
	static void test_##function(void **state)                \
	{                                                        \
		(void)state;                                     \
		fake_check(run_##function, argument, #function); \
	}

CHECKED(fewer_slots, NULL)
CHECKED(restart, NULL)
CHECKED(alike, NULL)
CHECKED(hoard, NULL)
CHECKED(overwritten, NULL)
CHECKED(overwritten_end, NULL)
CHECKED(pid, NULL)
CHECKED(time_up, NULL)
CHECKED(late, NULL)
CHECKED(stopped, NULL)
CHECKED(slow_open, NULL)
CHECKED(slow_deaths, NULL)
CHECKED(without_hangup, NULL)
CHECKED(end, NULL)
CHECKED(fork, NULL)

static void test_crash_loop(void **state)
{
	(void)state;
	static const struct script opened = {"opens and dies",
					   .life = {{.end = AT_BATCH, .batches = 1},
						   {.end = AT_OPENED}},
					   .lives = 2},
				   begun = {"begins and dies",
					   .life = {{.end = AT_BATCH, .batches = 1},
						   {.end = AT_EXTENT}},
					   .lives = 2};
	fake_check(run_crash_loop, &opened, opened.name);
	fake_check(run_crash_loop, &begun, begun.name);
}

static void test_close(void **state)
{
	(void)state;
	static const struct script refusing = {
		"is ending all the time", .life = {{.end = REFUSES_HELLO}}, .lives = 1};
	fake_check(run_close, NULL, "nobody is there");
	fake_check(run_close, &refusing, refusing.name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deaths),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_fewer_slots),
		cmocka_unit_test(test_restart),
		cmocka_unit_test(test_alike),
		cmocka_unit_test(test_hoard),
		cmocka_unit_test(test_overwritten),
		cmocka_unit_test(test_overwritten_end),
		cmocka_unit_test(test_pid),
		cmocka_unit_test(test_time_up),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_crash_loop),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_slow_open),
		cmocka_unit_test(test_slow_deaths),
		cmocka_unit_test(test_without_hangup),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_close),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

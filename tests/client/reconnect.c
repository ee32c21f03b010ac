/* reconnect: see reconnect.h. */
#include "client/reconnect.h"

#include "client/lib/stream.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const struct fake_shape endless = FAKE_SHAPE;

/* ---- the daemon ---- */

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

/* Until all batches of this life are sent, or the client hangs up. */
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
	bool refuses = s->life->end == REFUSES_OPEN || s->life->end == ANOTHER_REFUSES;
	if (refuses) {
		fake_send_error(s->fd, open->head.request, 1, s->life->code, "it cannot be opened");
		while (fake_receive(s->fd)) /* the connection lives on */
			continue;
	}
	if (s->life->end == AT_OPEN || refuses)
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

void serve_life(int fd, const struct life *life, bool again)
{
	struct serving s = {.fd = fd, .life = life, .shape = endless};
	serve_open(&s, again);
}

void serve_script(int fd, const void *argument)
{
	static unsigned connections; /* of this process */
	const struct script *script = argument;
	unsigned n = connections++;
	const struct life *life = &script->life[n < script->lives ? n : script->lives - 1];
	switch (life->end) {
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
	case ANOTHER_REFUSES:
		fake_welcome_as(fd, getppid()); /* one that lives */
		break;
	default:
		fake_welcome(fd);
	}
	if (life->end != AT_WELCOME)
		serve_life(fd, life, n > 0);
}

/* ---- the application ---- */

struct penstock_stream *open_stream(const struct fake *fake, int32_t reconnect_ms)
{
	struct penstock_options options = fake_options(fake);
	options.reconnect_ms = reconnect_ms;
	return fake_open_stream(&options);
}

struct penstock_stream *open_named(const struct fake *fake, int32_t reconnect_ms)
{
	struct penstock_options options = fake_options(fake);
	options.source = "stream:mix";
	options.reconnect_ms = reconnect_ms;
	return fake_open_stream(&options);
}

void want_content(const struct penstock_batch *batch, uint64_t ordinal)
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

void want_next(struct penstock_stream *stream, struct penstock_batch *batch, uint64_t ordinal)
{
	int result = penstock_stream_next(stream, batch, 20000);
	if (result != 0)
		(void)fprintf(stderr, "batch %llu: %d: %s\n", (unsigned long long)ordinal, result,
			penstock_error());
	FAKE_WANT(result == 0);
	want_content(batch, ordinal);
}

void want_over(struct penstock_stream *stream, int code, const char *sentence)
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

bool polls(int fd, int ms)
{
	struct pollfd wanted = {.fd = fd, .events = POLLIN};
	return poll(&wanted, 1, ms) == 1;
}

void want_timeout(struct penstock_stream *stream, const char *sentence)
{
	struct penstock_batch batch;
	int64_t begin_ns = wait_deadline(0);
	int result = penstock_stream_next(stream, &batch, 120);
	int64_t took_ms = (wait_deadline(0) - begin_ns) / 1000000;
	if (result != -ETIMEDOUT || !strstr(penstock_error(), sentence))
		(void)fprintf(stderr, "%d: %s\n", result, penstock_error());
	FAKE_WANT(result == -ETIMEDOUT && strstr(penstock_error(), "no batch within 0.120 s: "));
	FAKE_WANT(strstr(penstock_error(), sentence));
	FAKE_WANT(took_ms >= 119);
}

void lose(struct fake *fake, struct penstock_stream *stream, struct penstock_batch *batch)
{
	for (uint64_t i = 0; i < endless.slots; i++)
		want_next(stream, batch, i);
	fake_kill(fake);
}

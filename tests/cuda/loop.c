/* loop: see loop.h. */
#include "cuda/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const struct fake_shape loop_shape = {
	.batch_size = 4, .side = 16, .slots = 4, .batches = 3, .first_serial = 1};

const uint32_t loop_modes[LOOP_MODES] = {PENSTOCK_CUDA_REGISTERED, PENSTOCK_CUDA_RING};

enum { LOOP_TURN_MS = 2, LOOP_JUNK = 0xee, LOOP_EXTENTS = 2 };

/* ---- the daemon ---- */

struct loop_connection {
	struct loop_daemon daemon;
	int fd;
	int seals;
	struct fake_memory memory[LOOP_EXTENTS]; /* by the extent's number mod LOOP_EXTENTS */
	uint32_t extent; /* the newest */
	uint32_t busy[LOOP_EXTENTS]; /* bit per slot */
	uint64_t next;
	bool open, ended, over;
};

uint8_t loop_pixel(uint64_t ordinal, uint32_t row, size_t i)
{
	return (uint8_t)(ordinal * 37 + row * 11 + i * 5 + i / 256);
}

static void daemon_paint(const struct fake_shape *shape, struct slots_head *head, uint64_t ordinal)
{
	uint8_t *slot = (uint8_t *)head;
	struct slots_record *records = (struct slots_record *)(void *)(slot + head->records_offset);
	for (uint32_t row = 0; row < shape->batch_size; row++) {
		uint8_t *pixels = slot + head->images_offset + row * head->row_bytes;
		for (size_t i = 0; i < head->row_bytes; i++)
			pixels[i] = loop_pixel(ordinal, row, i);
		records[row].position = head->position + row;
	}
}

static void daemon_announce(struct loop_connection *c, uint32_t slot)
{
	const struct fake_shape *shape = c->daemon.shape;
	const struct fake_memory *memory = &c->memory[c->extent % LOOP_EXTENTS];
	struct wire_batch batch = fake_fill(shape, memory, slot, c->next);
	batch.extent = c->extent;
	daemon_paint(shape, fake_slot(memory, slot), c->next++);
	c->busy[c->extent % LOOP_EXTENTS] |= 1U << slot;
	fake_send(c->fd, &batch.head, sizeof batch, NULL, 0, -1);
	atomic_fetch_add(&c->daemon.page->sent, 1);
}

static uint32_t daemon_busy(const struct loop_connection *c)
{
	return (uint32_t)__builtin_popcount(c->busy[0]) + (uint32_t)__builtin_popcount(c->busy[1]);
}

static void daemon_push(struct loop_connection *c)
{
	const struct fake_shape *shape = c->daemon.shape;
	uint64_t last = shape->epochs ? shape->epochs * shape->batches : UINT64_MAX;
	for (uint32_t slot = 0; slot < shape->slots && c->next < last; slot++) {
		bool full = daemon_busy(c) == shape->slots;
		if (full || c->busy[c->extent % LOOP_EXTENTS] & (1U << slot))
			continue;
		if (c->daemon.page->sent >= c->daemon.page->allowed)
			return;
		daemon_announce(c, slot);
	}
	if (c->next == last && !c->ended) {
		struct wire_end end = {.head = {.type = WIRE_END, .stream = 1},
			.epochs = shape->epochs,
			.batches = c->next};
		c->ended = true;
		fake_send(c->fd, &end.head, sizeof end, NULL, 0, -1);
	}
}

static void daemon_add_extent(struct loop_connection *c)
{
	struct fake_memory *memory = &c->memory[c->extent % LOOP_EXTENTS];
	*memory = fake_memory(c->daemon.shape, c->seals);
	struct wire_extent extent = fake_extent(c->daemon.shape, memory);
	extent.extent = c->extent;
	fake_send(c->fd, &extent.head, sizeof extent, NULL, 0, memory->fd);
}

static void daemon_on_open(struct loop_connection *c, const struct conn_message *message)
{
	static const char pinned[] = "\"pin_memory\":true";
	bool pin = memmem(message->bytes, message->size, pinned, sizeof pinned - 1);
	c->seals = pin ? FAKE_SEALS & ~F_SEAL_FUTURE_WRITE : FAKE_SEALS;
	c->next = fake_resume(message, c->daemon.shape);
	struct wire_opened opened = fake_opened_at(message, c->daemon.shape, c->next);
	fake_send(c->fd, &opened.head, sizeof opened, NULL, 0, -1);
	daemon_add_extent(c);
	c->open = true;
}

/* Fills what was given back with junk at once: a test that reads it later sees that. */
static void daemon_on_release(struct loop_connection *c, const struct conn_message *message)
{
	const struct wire_release *release = conn_view(message, WIRE_RELEASE, sizeof *release, 0);
	/* Leases that were taken back are nobody's. */
	if (c->daemon.page->detach == 2)
		return;
	if (!release || release->slot >= c->daemon.shape->slots)
		_exit(99);
	struct fake_memory *memory = &c->memory[release->extent % LOOP_EXTENTS];
	uint32_t *busy = &c->busy[release->extent % LOOP_EXTENTS];
	struct slots_head *slot = fake_slot(memory, release->slot);
	if (!(*busy & (1U << release->slot)) || slot->serial != release->serial) {
		(void)fprintf(stderr, "loop's daemon: what was released was not held\n");
		_exit(99);
	}
	*busy &= ~(1U << release->slot);
	memset(slot, LOOP_JUNK, memory->stride);
	atomic_fetch_add(&c->daemon.page->released, 1);
}

static void daemon_detach(struct loop_connection *c)
{
	const struct fake_memory *memory = &c->memory[c->extent % LOOP_EXTENTS];
	fake_send_error(c->fd, 0, 1, -ECANCELED, "this trainer was detached from its group");
	for (uint32_t slot = 0; slot < c->daemon.shape->slots; slot++)
		memset(fake_slot(memory, slot), LOOP_JUNK, memory->stride);
	c->open = false;
	c->daemon.page->detach = 2;
}

static void daemon_unmap(struct fake_memory *memory)
{
	if (memory->fd < 0)
		return;
	(void)munmap(memory->bytes, memory->size);
	(void)close(memory->fd);
	memory->fd = -1;
}

/* Not before the extent before is all given back. */
static bool daemon_may_withdraw(const struct loop_connection *c)
{
	return c->daemon.page->withdraw == 1 && !c->busy[(c->extent + 1) % LOOP_EXTENTS];
}

static void daemon_withdraw(struct loop_connection *c)
{
	struct wire_withdrawn message = {
		.head = {.type = WIRE_WITHDRAWN, .stream = 1}, .extent = c->extent};
	c->extent++;
	daemon_unmap(&c->memory[c->extent % LOOP_EXTENTS]);
	fake_send(c->fd, &message.head, sizeof message, NULL, 0, -1);
	daemon_add_extent(c);
	c->daemon.page->withdraw = 0;
}

static void daemon_answer(struct loop_connection *c, const struct conn_message *message)
{
	const struct wire_query *query = conn_view(message, WIRE_QUERY, sizeof *query, 0);
	if (query && query->kind == WIRE_QUERY_PATH)
		fake_send_answer(c->fd, query->head.request, "/data/x.jpg");
	else if (query && query->kind == WIRE_QUERY_SAMPLES)
		fake_send_answer(c->fd, query->head.request, "1 /data/3.jpg\n");
	else
		fake_send_answer(c->fd, message->head.request, "{\"stage\":\"made up\"}");
}

static void daemon_receive(struct loop_connection *c)
{
	const struct conn_message *message = fake_receive(c->fd);
	if (!message || message->head.type == WIRE_CLOSE)
		c->over = true;
	else if (message->head.type == WIRE_OPEN)
		daemon_on_open(c, message);
	else if (message->head.type == WIRE_RELEASE)
		daemon_on_release(c, message);
	else if (message->head.type == WIRE_QUERY)
		daemon_answer(c, message);
	else
		_exit(99);
}

void loop_serve(int fd, const void *argument)
{
	struct loop_connection c = {.daemon = *(const struct loop_daemon *)argument, .fd = fd};
	for (int i = 0; i < LOOP_EXTENTS; i++)
		c.memory[i].fd = -1;
	c.daemon.page->sent = c.daemon.page->released = 0;
	atomic_fetch_add(&c.daemon.page->connections, 1);
	fake_welcome(fd);
	while (!c.over) {
		struct pollfd ready = {.fd = fd, .events = POLLIN};
		if (poll(&ready, 1, LOOP_TURN_MS) > 0)
			daemon_receive(&c);
		if (c.open && !c.over && c.daemon.page->detach == 1)
			daemon_detach(&c);
		if (c.open && !c.over && daemon_may_withdraw(&c))
			daemon_withdraw(&c);
		if (c.open && !c.over)
			daemon_push(&c);
	}
	for (int i = 0; i < LOOP_EXTENTS; i++)
		daemon_unmap(&c.memory[i]);
}

/* ---- the loop ---- */

void loop_want(int result, int code, const char *text, const char *what, const char *file, int line)
{
	bool good = result == code && (!text || strstr(penstock_error(), text));
	if (!good)
		(void)fprintf(stderr, "%s:%d: %s: returned %d: %s\nwanted %d: %s\n", file, line,
			what, result, penstock_error(), code, text ? text : "(anything)");
	fake_want(good, what, file, line);
}

void loop_await(_Atomic uint32_t *counter, uint32_t value)
{
	while (*counter < value)
		(void)usleep(1000);
}

void loop_begin(struct loop *loop, const struct fake_shape *shape, uint32_t memory)
{
	memset(loop, 0, sizeof *loop);
	loop->shape = shape ? *shape : loop_shape;
	loop->page = mmap(NULL, sizeof *loop->page, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	FAKE_WANT(loop->page != MAP_FAILED);
	loop->page->allowed = UINT32_MAX;
	loop->pin_memory = 1;
	loop->daemon = (struct loop_daemon){&loop->shape, loop->page};
	fake_start(&loop->fake, loop_serve, &loop->daemon);
	gpu_load(&loop->gpu);
	penstock_cuda_options_init(&loop->options);
	loop->options.memory = memory;
}

struct penstock_stream *loop_stream(struct loop *loop, const char *state, int32_t reconnect_ms)
{
	struct penstock_stream *stream = NULL;
	struct penstock_options options;
	penstock_options_init(&options);
	options.source = "/data";
	options.socket = loop->fake.socket;
	options.private_daemon = 0;
	options.pin_memory = loop->pin_memory;
	options.state = state;
	options.reconnect_ms = reconnect_ms;
	options.interrupt = loop->stream_interrupt;
	LOOP_WANT(penstock_stream_open(&options, &stream), 0, NULL);
	return stream;
}

void loop_open(struct loop *loop)
{
	loop->stream = loop_stream(loop, NULL, 0);
	gpu_begin(&loop->gpu);
	loop->queue = gpu_stream(&loop->gpu);
}

void loop_attach(struct loop *loop)
{
	LOOP_WANT(penstock_cuda_attach(loop->stream, &loop->options, &loop->cuda), 0, NULL);
}

void loop_start(struct loop *loop, const struct fake_shape *shape, uint32_t memory)
{
	loop_begin(loop, shape, memory);
	loop_open(loop);
	loop_attach(loop);
}

static void loop_close(struct loop *loop)
{
	penstock_cuda_detach(loop->cuda);
	penstock_stream_close(loop->stream);
	if (loop->queue)
		(void)loop->gpu.driver.stream_destroy(loop->queue);
	if (loop->gpu.context[0])
		gpu_end(&loop->gpu);
	(void)munmap(loop->page, sizeof *loop->page);
}

void loop_end(struct loop *loop)
{
	loop_close(loop);
	FAKE_WANT(fake_stop(&loop->fake));
}

void loop_end_killed(struct loop *loop)
{
	loop_close(loop);
	(void)fake_stop(&loop->fake);
}

void loop_next(struct loop *loop, struct penstock_cuda_batch *ret_batch)
{
	const struct fake_shape *shape = &loop->shape;
	uint64_t ordinal = loop->next++;
	LOOP_WANT(penstock_cuda_next(loop->cuda, ret_batch, 30000), 0, NULL);
	FAKE_WANT(ret_batch->epoch == ordinal / shape->batches);
	FAKE_WANT(ret_batch->batch == ordinal % shape->batches);
	FAKE_WANT(ret_batch->count == shape->batch_size);
	FAKE_WANT(ret_batch->payload == PENSTOCK_CUDA_PIXELS);
	FAKE_WANT((ret_batch->flags == PENSTOCK_LAST) == (ret_batch->batch + 1 == shape->batches));
	for (uint32_t row = 0; row < ret_batch->count; row++) {
		uint64_t position = ret_batch->batch * shape->batch_size + row;
		FAKE_WANT(ret_batch->host_labels[row] == fake_label(ordinal, row));
		FAKE_WANT(ret_batch->samples[row].label == fake_label(ordinal, row));
		FAKE_WANT(ret_batch->samples[row].position == position);
		FAKE_WANT(ret_batch->host_rows[row].position == position);
	}
}

static void want_pixels(const struct loop *loop, const uint8_t *images, uint64_t ordinal)
{
	size_t row_bytes = (size_t)loop->shape.side * loop->shape.side * 3;
	for (uint32_t row = 0; row < loop->shape.batch_size; row++)
		for (size_t i = 0; i < row_bytes; i++)
			FAKE_WANT(images[row * row_bytes + i] == loop_pixel(ordinal, row, i));
}

void loop_want_device(struct loop *loop, const struct penstock_cuda_batch *batch)
{
	size_t image_bytes = (size_t)loop->shape.side * loop->shape.side * 3 * batch->count;
	size_t label_bytes = batch->count * sizeof *batch->labels;
	size_t row_bytes = batch->count * sizeof *batch->rows;
	GPU_WANT(loop->gpu.driver.stream_wait_event(loop->queue, batch->ready, 0));
	uint8_t *images = gpu_look(&loop->gpu, loop->queue, batch->images, image_bytes);
	int64_t *labels = gpu_look(&loop->gpu, loop->queue, batch->labels, label_bytes);
	void *rows = gpu_look(&loop->gpu, loop->queue, batch->rows, row_bytes);
	want_pixels(loop, images, batch->epoch * loop->shape.batches + batch->batch);
	FAKE_WANT(memcmp(labels, batch->host_labels, label_bytes) == 0);
	FAKE_WANT(memcmp(rows, batch->host_rows, row_bytes) == 0);
	free(images);
	free(labels);
	free(rows);
}

void loop_release(struct loop *loop, struct penstock_cuda_batch *batch)
{
	LOOP_WANT(penstock_cuda_release(loop->cuda, batch, loop->queue), 0, NULL);
	FAKE_WANT(!batch->images && !batch->labels && !batch->rows && !batch->ready);
	FAKE_WANT(!batch->host_labels && !batch->samples && !batch->host_rows);
}

void loop_train(struct loop *loop, int batches)
{
	struct penstock_cuda_batch batch;
	for (int i = 0; i < batches; i++) {
		loop_next(loop, &batch);
		loop_want_device(loop, &batch);
		loop_release(loop, &batch);
	}
}

/* A stream against a daemon that does everything right: batches, release, END, state, queries,
 * descriptor, fork, time-outs. */
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
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct penstock_stream *open_pinned(const struct fake *fake, int32_t pin_memory)
{
	struct penstock_options options = fake_options(fake);
	options.pin_memory = pin_memory;
	return fake_open_stream(&options);
}

static struct penstock_stream *open_stream(const struct fake *fake)
{
	return open_pinned(fake, 0);
}

static void want_batch(
	const struct penstock_batch *batch, const struct fake_shape *shape, uint64_t ordinal)
{
	const uint8_t *images = batch->images;
	FAKE_WANT(batch->epoch == ordinal / shape->batches &&
		  batch->batch == ordinal % shape->batches);
	FAKE_WANT(batch->count == shape->batch_size);
	FAKE_WANT(batch->image_bytes == (size_t)shape->side * shape->side * 3);
	FAKE_WANT((batch->flags == PENSTOCK_LAST) == (batch->batch + 1 == shape->batches));
	for (uint32_t row = 0; row < batch->count; row++) {
		FAKE_WANT(images[row * batch->image_bytes] == fake_pixel(ordinal, row));
		FAKE_WANT(images[(row + 1) * batch->image_bytes - 1] == fake_pixel(ordinal, row));
		FAKE_WANT(batch->labels[row] == fake_label(ordinal, row));
		FAKE_WANT(batch->samples[row].label == fake_label(ordinal, row));
		FAKE_WANT(batch->samples[row].flags == PENSTOCK_FLIPPED);
	}
}

static void want_state(struct penstock_stream *stream, uint64_t epoch, uint64_t position)
{
	char state[512], wanted[512];
	(void)snprintf(wanted, sizeof wanted,
		"{\"version\":1,\"fingerprint\":\"0000000000c0ffee\",\"order\":"
		"\"0000000000000123\","
		"\"transform\":\"fedcba9876543210\",\"seed\":7,\"epoch\":%llu,\"position\":%llu}",
		(unsigned long long)epoch, (unsigned long long)position);
	FAKE_WANT(penstock_stream_state(stream, state, sizeof state) == (int)strlen(wanted));
	FAKE_WANT(strcmp(state, wanted) == 0);
	FAKE_WANT(penstock_stream_state(stream, state, strlen(wanted)) == -ENOSPC);
	FAKE_WANT(penstock_stream_state(stream, state, strlen(wanted) + 1) == (int)strlen(wanted));
}

static const struct fake_shape endless = FAKE_SHAPE;
static const struct fake_shape two_epochs = {.batch_size = 4,
	.side = 8,
	.slots = 4,
	.batches = 3,
	.epochs = 2,
	.first_serial = UINT64_MAX - 2};

FAKE_TEST(epochs)
{
	struct fake fake;
	struct penstock_batch batch;
	struct penstock_stream_info info;
	fake_start(&fake, fake_serve_well, &two_epochs); /* serials pass through 2^64 - 1 to 0 */
	struct penstock_stream *stream = open_stream(&fake);
	penstock_stream_info(stream, &info);
	FAKE_WANT(info.samples == 12 && info.batches == 3 && info.fingerprint == 0xc0ffee &&
		  info.seed == 7);
	FAKE_WANT(
		info.batch_size == 4 && info.height == 8 && info.width == 8 && info.channels == 3);
	FAKE_WANT(info.classes == 2 && info.slots == 4 && info.rank == 0 && info.world_size == 1 &&
		  info.train == 1);
	FAKE_WANT(penstock_stream_daemon_pid(stream) == fake.pid);
	FAKE_WANT(penstock_stream_timeout_ms(stream) > 0);
	want_state(stream, 0, 0);
	for (uint64_t i = 0; i < 6; i++) {
		FAKE_WANT(penstock_stream_next(stream, &batch, PENSTOCK_TIMEOUT_DEFAULT) == 0);
		want_batch(&batch, &two_epochs, i);
		want_state(stream, (i + 1) / 3, (i + 1) % 3 * 4);
		FAKE_WANT(penstock_batch_ready_ns(stream, &batch) == fake_ready_ns(i));
		const void *base;
		size_t bytes;
		FAKE_WANT(penstock_batch_memory(stream, &batch, &base, &bytes) == 0);
		FAKE_WANT((const char *)batch.images > (const char *)base &&
			  (const char *)batch.images < (const char *)base + bytes);
		FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
		FAKE_WANT(penstock_batch_ready_ns(stream, &batch) == 0);
		FAKE_WANT(penstock_batch_memory(stream, &batch, &base, &bytes) == -EINVAL);
		FAKE_WANT(!batch.images && !batch.labels && !batch.samples);
		FAKE_WANT(penstock_batch_release(stream, &batch) == -EINVAL);
	}
	for (int i = 0; i < 3; i++)
		FAKE_WANT(penstock_stream_next(stream, &batch, 5000) == PENSTOCK_END);
	want_state(stream, 2, 0);
	fake_close(&fake, stream);
}

/* Slots go back in another order than they came, many times. */
FAKE_TEST(many)
{
	struct fake fake;
	struct penstock_batch held[4];
	fake_start(&fake, fake_serve_well, &endless);
	struct penstock_stream *stream = open_stream(&fake);
	uint64_t given = 0;
	for (int round = 0; round < 200; round++) {
		int n = 1 + round % 4;
		for (int i = 0; i < n; i++) {
			FAKE_WANT(penstock_stream_next(stream, &held[i], 5000) == 0);
			want_batch(&held[i], &endless, given++);
		}
		for (int i = n; i-- > 0;)
			FAKE_WANT(penstock_batch_release(stream, &held[i]) == 0);
	}
	fake_close(&fake, stream);
}

FAKE_TEST(deadlock)
{
	struct fake fake;
	struct penstock_batch held[4], batch;
	fake_start(&fake, fake_serve_well, &endless);
	struct penstock_stream *stream = open_stream(&fake);
	for (int i = 0; i < 4; i++)
		FAKE_WANT(penstock_stream_next(stream, &held[i], 5000) == 0);
	FAKE_WANT(penstock_stream_next(stream, &batch, PENSTOCK_FOREVER) == -EDEADLK);
	FAKE_WANT(strstr(penstock_error(), "holds all 4 batches"));
	FAKE_WANT(penstock_stream_next(stream, &batch, 0) ==
		  -EAGAIN); /* would not wait, so it cannot wait for itself */
	/* The stream goes on: batches can be released, except one that was never given, or one of
	 * another serial. */
	batch = held[2];
	batch.serial += 100;
	FAKE_WANT(penstock_batch_release(stream, &batch) == -EINVAL);
	batch = held[2];
	batch.slot = 17;
	FAKE_WANT(penstock_batch_release(stream, &batch) == -EINVAL);
	batch = held[2];
	batch.extent = 9;
	FAKE_WANT(penstock_batch_release(stream, &batch) == -EINVAL);
	FAKE_WANT(penstock_batch_release(stream, &held[2]) == 0);
	FAKE_WANT(penstock_stream_next(stream, &batch, 5000) == 0);
	want_batch(&batch, &endless, 4);
	penstock_stream_close(stream); /* with four held: allowed */
	FAKE_WANT(fake_stop(&fake));
}

static bool polls(int fd)
{
	struct pollfd wanted = {.fd = fd, .events = POLLIN};
	return poll(&wanted, 1, 200) == 1;
}

/* A query takes the announcements out of the socket; the descriptor must stay readable. */
FAKE_TEST(queries)
{
	struct fake fake;
	struct penstock_batch batch;
	char *text = NULL;
	fake_start(&fake, fake_serve_well, &two_epochs);
	struct penstock_stream *stream = open_stream(&fake);
	int fd = penstock_stream_fd(stream);
	FAKE_WANT(polls(fd));
	FAKE_WANT(penstock_stream_classes(stream, &text) == 0 && strcmp(text, "cat\ndog\n") == 0);
	free(text);
	FAKE_WANT(penstock_stream_path(stream, 3, &text) == 0 && strcmp(text, "/data/3.jpg") == 0);
	free(text);
	FAKE_WANT(penstock_stream_samples(stream, 3, &text) == 0);
	FAKE_WANT(strcmp(text, "1 /data/3.jpg\n") == 0);
	free(text);
	text = NULL;
	FAKE_WANT(penstock_stream_config(stream, &text) == -EINVAL && !text);
	FAKE_WANT(strcmp(penstock_error(), "this daemon does not know that") == 0);
	for (uint64_t i = 0; i < 4; i++) {
		FAKE_WANT(polls(fd));
		FAKE_WANT(penstock_stream_next(stream, &batch, 0) == 0);
		want_batch(&batch, &two_epochs, i);
		/* The first four are ready; nothing is released, so the daemon has no more. */
	}
	FAKE_WANT(penstock_stream_next(stream, &batch, 0) == -EAGAIN);
	FAKE_WANT(!polls(fd));
	FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
	FAKE_WANT(polls(fd));
	FAKE_WANT(penstock_stream_next(stream, &batch, 0) == 0);
	FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
	FAKE_WANT(polls(fd));
	FAKE_WANT(penstock_stream_next(stream, &batch, 5000) == 0);
	FAKE_WANT(penstock_stream_next(stream, &batch, 5000) == PENSTOCK_END);
	FAKE_WANT(polls(fd) && polls(fd)); /* and stays so */
	FAKE_WANT(penstock_stream_classes(stream, &text) == 0);
	free(text);
	fake_close(&fake, stream);
}

FAKE_TEST(fork)
{
	struct fake fake;
	struct penstock_batch batch, mine;
	char text[512], *answer = NULL;
	int status;
	fake_start(&fake, fake_serve_well, &endless);
	struct penstock_stream *stream = open_stream(&fake);
	FAKE_WANT(penstock_stream_next(stream, &batch, 5000) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		int fds = fake_count_fds();
		mine = batch;
		FAKE_WANT(penstock_stream_next(stream, &mine, 1000) == -EBADF);
		FAKE_WANT(strstr(penstock_error(), "fork"));
		FAKE_WANT(penstock_batch_release(stream, &mine) == -EBADF);
		FAKE_WANT(penstock_stream_state(stream, text, sizeof text) == -EBADF);
		FAKE_WANT(penstock_stream_fd(stream) == -EBADF);
		FAKE_WANT(penstock_stream_classes(stream, &answer) == -EBADF);
		penstock_stream_close(stream);
		FAKE_WANT(fake_count_fds() == fds - 3 && fake_count_memfds() == 0);
		exit(0);
	}
	FAKE_WANT(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	/* The parent's stream did not notice. */
	want_batch(&batch, &endless, 0);
	FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
	for (uint64_t i = 1; i < 10; i++) {
		FAKE_WANT(penstock_stream_next(stream, &batch, 5000) == 0);
		want_batch(&batch, &endless, i);
		FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
	}
	fake_close(&fake, stream);
}

/* ---- a daemon that is slow ---- */

struct slow {
	const char *why; /* answer to WAIT; NULL: none */
	bool batch_instead; /* a batch comes before the answer */
	int64_t late_ms; /* sleeps before OPENED */
};

static void serve_slowly(int fd, const void *argument)
{
	const struct slow *slow = argument;
	const struct conn_message *message;
	uint64_t ordinal = 0;
	fake_welcome(fd);
	(void)usleep((useconds_t)slow->late_ms * 1000);
	fake_open(fd, &endless);
	struct fake_memory memory = fake_send_memory(fd, &endless);
	while ((message = fake_receive(fd))) {
		if (message->head.type != WIRE_QUERY)
			continue;
		uint32_t request = message->head.request;
		if (slow->batch_instead) {
			struct wire_batch batch =
				fake_fill(&endless, &memory, (uint32_t)ordinal % 4, ordinal);
			ordinal++;
			fake_send(fd, &batch.head, sizeof batch, NULL, 0, -1);
		}
		if (slow->why)
			fake_send_answer(fd, request, slow->why);
	}
}

static int64_t now_ms(void)
{
	return wait_deadline(0) / 1000000;
}

static void run_timeout(const void *argument)
{
	const struct slow *slow = argument;
	struct fake fake;
	struct penstock_batch batch;
	fake_start(&fake, serve_slowly, slow);
	struct penstock_stream *stream = open_stream(&fake);
	for (int i = 0; i < 2; i++) {
		int64_t begin = now_ms();
		int result = penstock_stream_next(stream, &batch, 60);
		int64_t took = now_ms() - begin;
		FAKE_WANT(took >= 59 && took < 2000);
		if (slow->batch_instead) {
			FAKE_WANT(result == 0);
			want_batch(&batch, &endless, (uint64_t)i);
			continue;
		}
		FAKE_WANT(result == -ETIMEDOUT);
		FAKE_WANT(strstr(penstock_error(), "no batch within 0.060 s: "));
		FAKE_WANT(strstr(penstock_error(), slow->why ? slow->why : "did not say why"));
	}
	FAKE_WANT(penstock_stream_next(stream, &batch, -7) == -EINVAL);
	fake_close(&fake, stream);
}

static volatile sig_atomic_t ticks;

static void on_tick(int number)
{
	(void)number;
	ticks++;
}

/* Signals that the application handles end neither the opening nor the wait for a batch. */
static void run_signals(const void *argument)
{
	struct fake fake;
	struct penstock_batch batch;
	struct sigaction action = {
		.sa_handler = on_tick}; /* no SA_RESTART: every call is interrupted */
	struct itimerval often = {{0, 5000}, {0, 5000}}, never = {0};
	fake_start(&fake, serve_slowly, argument);
	(void)sigaction(SIGUSR1, &action, NULL);
	(void)sigaction(SIGALRM, &action, NULL);
	(void)setitimer(ITIMER_REAL, &often, NULL);
	struct penstock_stream *stream = open_stream(&fake);
	int64_t begin = now_ms();
	FAKE_WANT(penstock_stream_next(stream, &batch, 150) == -ETIMEDOUT);
	FAKE_WANT(now_ms() - begin >= 149);
	FAKE_WANT(ticks > 5);
	(void)setitimer(ITIMER_REAL, &never, NULL);
	fake_close(&fake, stream);
}

/* ---- extents that come and go ---- */

static void serve_withdrawing(int fd, const void *argument)
{
	(void)argument;
	const struct conn_message *message;
	fake_welcome(fd);
	fake_open(fd, &endless);
	for (uint32_t i = 0; i < 3; i++) {
		struct fake_memory memory = fake_memory(&endless, FAKE_SEALS);
		struct wire_extent extent = fake_extent(&endless, &memory);
		struct wire_withdrawn withdrawn = {
			.head = {.type = WIRE_WITHDRAWN, .stream = 1}, .extent = i};
		extent.extent = i;
		fake_send(fd, &extent.head, sizeof extent, NULL, 0, memory.fd);
		struct wire_batch batch = fake_fill(&endless, &memory, 1, i);
		batch.extent = i;
		fake_send(fd, &batch.head, sizeof batch, NULL, 0, -1);
		fake_send(fd, &withdrawn.head, sizeof withdrawn, NULL, 0, -1);
	}
	while ((message = fake_receive(fd))) {
		if (message->head.type == WIRE_QUERY)
			fake_send_answer(fd, message->head.request, "");
	}
}

FAKE_TEST(withdrawn)
{
	struct fake fake;
	struct penstock_batch batch[3];
	char *text;
	fake_start(&fake, serve_withdrawing, NULL);
	struct penstock_stream *stream = open_stream(&fake);
	for (uint64_t i = 0; i < 3; i++)
		FAKE_WANT(penstock_stream_next(stream, &batch[i], 5000) == 0);
	FAKE_WANT(penstock_stream_stats(stream, &text) == 0 &&
		  !*text); /* the last WITHDRAWN has come */
	free(text);
	FAKE_WANT(fake_count_memfds() == 3);
	for (uint64_t i = 0; i < 3; i++) {
		want_batch(&batch[i], &endless, i); /* still readable */
		FAKE_WANT(penstock_batch_release(stream, &batch[i]) == 0);
		FAKE_WANT(fake_count_memfds() == 2 - (int)i);
	}
	fake_close(&fake, stream);
}

/* ---- one of several ranks, started in the middle ---- */

static void serve_rank(int fd, const void *argument)
{
	(void)argument;
	fake_welcome(fd);
	const struct conn_message *message = fake_expect(fd, WIRE_OPEN);
	struct wire_opened opened = fake_opened(&endless);
	opened.head.request = message->head.request;
	opened.head.stream = message->head.stream;
	opened.rank = 2;
	opened.world_size = 4;
	opened.epoch = 5;
	opened.batch = 1;
	opened.position = 24;
	fake_send(fd, &opened.head, sizeof opened, NULL, 0, -1);
	struct fake_memory memory = fake_send_memory(fd, &endless);
	struct wire_batch batch = fake_fill(&endless, &memory, 0, 1);
	batch.epoch = fake_slot(&memory, 0)->epoch = 5;
	batch.position = fake_slot(&memory, 0)->position = 24 + 2 * 4;
	fake_send(fd, &batch.head, sizeof batch, NULL, 0, -1);
	while (fake_receive(fd))
		continue;
}

FAKE_TEST(rank)
{
	struct fake fake;
	struct penstock_batch batch;
	fake_start(&fake, serve_rank, NULL);
	struct penstock_stream *stream = open_stream(&fake);
	want_state(stream, 5, 24);
	FAKE_WANT(penstock_stream_next(stream, &batch, 5000) == 0);
	want_state(stream, 5, 24 + 4 * 4); /* the job's next batch, not the rank's */
	fake_close(&fake, stream);
}

/* ---- the daemon without a stream ---- */

FAKE_TEST(daemon_calls)
{
	struct fake fake;
	char *text = NULL;
	fake_start(&fake, fake_serve_well, &endless);
	FAKE_WANT(penstock_daemon_status(fake.socket, &text) == 0 &&
		  strcmp(text, "{\"pid\":1}") == 0);
	free(text);
	text = NULL;
	int64_t begin = now_ms();
	FAKE_WANT(penstock_daemon_stop(fake.socket) == 0);
	FAKE_WANT(now_ms() - begin < 5000);
	FAKE_WANT(waitpid(fake.pid, NULL, WNOHANG) == fake.pid); /* has ended already */
	FAKE_WANT(penstock_daemon_stop(fake.socket) == -ECONNREFUSED);
	FAKE_WANT(strstr(penstock_error(), fake.socket));
	FAKE_WANT(penstock_daemon_status(fake.socket, &text) == -ECONNREFUSED && !text);
	FAKE_WANT(penstock_daemon_status("/no/such/folder/p.sock", &text) == -ECONNREFUSED);
	(void)setenv("PENSTOCK_SOCKET", fake.socket, 1);
	FAKE_WANT(penstock_daemon_status(NULL, &text) == -ECONNREFUSED);
	FAKE_WANT(strstr(penstock_error(), fake.socket));
	char command[128];
	(void)snprintf(command, sizeof command, "rm -rf %s", fake.folder);
	FAKE_WANT(system(command) == 0);
}

static void test_timeouts(void **state)
{
	(void)state;
	static const struct slow says = {.why = "waits for source: /data/a.tar"}, mute = {0},
				 late = {.batch_instead = true},
				 both = {.why = "", .batch_instead = true};
	fake_check(run_timeout, &says, "says why");
	fake_check(run_timeout, &mute, "mute");
	fake_check(run_timeout, &late, "batch comes late, no answer");
	fake_check(run_timeout, &both, "batch comes late, before the answer");
}

static void test_signals(void **state)
{
	(void)state;
	static const struct slow slow = {.why = "reads", .late_ms = 200};
	fake_check(run_signals, &slow, "signals");
}

/* Another mapping of the batch's memory can be made writable only if that was asked for; the
 * mapping that the application reads cannot be written to by accident. */
static void run_pinned(const void *argument)
{
	const int32_t *pin_memory = argument;
	struct fake fake;
	struct penstock_batch batch;
	const void *base;
	size_t bytes;
	fake_start(&fake, fake_serve_well, &endless);
	struct penstock_stream *stream = open_pinned(&fake, *pin_memory);
	FAKE_WANT(penstock_stream_next(stream, &batch, PENSTOCK_TIMEOUT_DEFAULT) == 0);
	FAKE_WANT(penstock_batch_memory(stream, &batch, &base, &bytes) == 0);
	FAKE_WANT(penstock_stream_writable(stream) == *pin_memory);
	uint8_t *twin = mremap((void *)(uintptr_t)base, 0, bytes, MREMAP_MAYMOVE);
	FAKE_WANT(twin != MAP_FAILED);
	FAKE_WANT((mprotect(twin, bytes, PROT_READ | PROT_WRITE) == 0) == (*pin_memory == 1));
	FAKE_WANT(memcmp(twin, base, bytes) == 0);
	if (*pin_memory) {
		size_t image = (size_t)((const uint8_t *)batch.images - (const uint8_t *)base);
		twin[image] ^= 1;
		FAKE_WANT(*(const uint8_t *)batch.images == twin[image]);
	}
	penstock_stream_close(stream);
	FAKE_WANT(munmap(twin, bytes) == 0);
	FAKE_WANT(fake_stop(&fake));
}

static void test_pinned(void **state)
{
	static const int32_t yes = 1, no = 0;
	(void)state;
	fake_check(run_pinned, &yes, "pinned");
	fake_check(run_pinned, &no, "sealed");
}

/* Batches of every shape, as described by the stream's info and by the batch itself. */
static void run_shape(const void *argument)
{
	const struct fake_shape *shape = argument;
	struct fake fake;
	struct penstock_batch batch;
	struct penstock_stream_info info;
	fake_start(&fake, fake_serve_well, shape);
	struct penstock_stream *stream = open_stream(&fake);
	penstock_stream_info(stream, &info);
	FAKE_WANT(info.views == shape->views && info.height == shape->side);
	FAKE_WANT(info.dtype == shape->pixel_type - 1 && info.layout == shape->pixel_layout - 1);
	FAKE_WANT(info.label_type ==
		  (shape->label_width ? PENSTOCK_LABEL_FLOAT32 : PENSTOCK_LABEL_INT64));
	FAKE_WANT(info.label_width == (shape->label_width ? shape->label_width : 1));
	for (uint64_t ordinal = 0; ordinal < 5; ordinal++) {
		FAKE_WANT(penstock_stream_next(stream, &batch, 5000) == 0);
		uint32_t side = shape->side - shape->less;
		const uint8_t *images = batch.images;
		FAKE_WANT(batch.height == side && batch.width == side);
		FAKE_WANT(batch.image_bytes ==
			  (size_t)side * side * 3 * slots_pixel_bytes(shape->pixel_type));
		FAKE_WANT(!batch.labels == (shape->label_width > 0));
		FAKE_WANT(!batch.label_values == !shape->label_width);
		for (uint32_t row = 0; row < batch.count * info.views; row++) {
			uint32_t sample = row / info.views;
			FAKE_WANT(images[row * batch.image_bytes] == fake_pixel(ordinal, row));
			FAKE_WANT(images[(row + 1) * batch.image_bytes - 1] ==
				  fake_pixel(ordinal, row));
			FAKE_WANT(batch.samples[row].view == row % info.views);
			FAKE_WANT(batch.samples[row].label == fake_label(ordinal, sample));
			for (uint32_t i = 0; i < shape->label_width; i++)
				FAKE_WANT(batch.label_values[sample * shape->label_width + i] ==
					  (float)(fake_label(ordinal, sample) + i));
			FAKE_WANT(shape->label_width ||
				  batch.labels[sample] == fake_label(ordinal, sample));
		}
		FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
		FAKE_WANT(!batch.images && !batch.labels && !batch.label_values && !batch.samples);
	}
	fake_close(&fake, stream);
}

static void test_shapes(void **state)
{
	struct fake_shape shape = FAKE_SHAPE;
	(void)state;
	for (uint32_t i = 0; i < 16; i++) {
		shape.views = 1 + i * 7 % 8;
		shape.pixel_type = SLOTS_U8 + i % 4;
		shape.pixel_layout = i & 4 ? SLOTS_NCHW : SLOTS_NHWC;
		shape.label_width = i & 8 ? i : 0;
		shape.less = i % 8;
		fake_check(run_shape, &shape, "a shape");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_epochs),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_deadlock),
		cmocka_unit_test(test_queries),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_withdrawn),
		cmocka_unit_test(test_rank),
		cmocka_unit_test(test_daemon_calls),
		cmocka_unit_test(test_timeouts),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_pinned),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* loop: a trainer's loop over a made-up stream and the fake driver, for the tests of
 * libpenstock_cuda: a daemon that does what the test tells it while it runs, the stream, the
 * attachment, and what each batch must contain, on the host and on the device.
 *
 * For one process that fake_check forked. Whatever fails here fails the test. */
#pragma once

#include "client/fake.h"
#include "cuda/gpu.h"
#include "penstock/cuda.h"

#include <stdatomic.h>

/* What the daemon and the test share while both run. */
struct loop_page {
	_Atomic uint32_t allowed; /* batches that the daemon may announce in all */
	_Atomic uint32_t sent, released, connections;
	_Atomic uint32_t detach; /* 1: this trainer is detached, and its slots filled again; the
				    daemon makes it 2 when that is done */
	_Atomic uint32_t withdraw; /* 1: the next batch is in a new extent, and the one before is
				      withdrawn; the daemon makes it 0 */
};

struct loop_daemon {
	const struct fake_shape *shape;
	struct loop_page *page;
};

struct loop {
	struct gpu gpu;
	struct fake fake;
	struct fake_shape shape;
	struct loop_page *page;
	struct loop_daemon daemon;
	struct penstock_stream *stream;
	int32_t pin_memory; /* of streams; 1 */
	int (*stream_interrupt)(void *data); /* of streams; NULL, and its data */
	struct penstock_cuda_options options; /* the defaults, to be changed before loop_attach */
	struct penstock_cuda *cuda;
	CUstream queue; /* the trainer's */
	uint64_t next; /* the batch that comes next, from the first of the stream */
};

/* Four rows of 16 x 16 pixels in four slots, three batches to an epoch, without end. */
extern const struct fake_shape loop_shape;

/* Starts a daemon for streams of this shape (NULL: loop_shape), loads the driver, and sets
 * options.memory. */
void loop_begin(struct loop *loop, const struct fake_shape *shape, uint32_t memory);
/* ... and opens the stream, and begins with the device. */
void loop_open(struct loop *loop);
/* ... and attaches. */
void loop_attach(struct loop *loop);
/* loop_begin, loop_open and loop_attach. */
void loop_start(struct loop *loop, const struct fake_shape *shape, uint32_t memory);
/* Detaches if attached, closes, stops the daemon; nothing may be left, and no rule be broken. */
void loop_end(struct loop *loop);
/* The same where the daemon was killed by the test. */
void loop_end_killed(struct loop *loop);

/* A stream of the loop's daemon, from this state on (NULL: the beginning). */
struct penstock_stream *loop_stream(struct loop *loop, const char *state, int32_t reconnect_ms);

/* The next batch, which must come, and be the one that comes next on the host's side. */
void loop_next(struct loop *loop, struct penstock_cuda_batch *ret_batch);
/* Its bytes, labels and rows on the device are what the daemon served, when `queue` has come there.
 * Waits for that. */
void loop_want_device(struct loop *loop, const struct penstock_cuda_batch *batch);
void loop_release(struct loop *loop, struct penstock_cuda_batch *batch);
/* next, want_device, release: `batches` times. */
void loop_train(struct loop *loop, int batches);

/* What that daemon does, for fake_restart; the argument is loop->daemon. */
fake_serve loop_serve;

/* Waits until the counter has come so far; the test's alarm ends that where it never does. */
void loop_await(_Atomic uint32_t *counter, uint32_t value);

/* `code` was returned, and the sentence has this in it. */
#define LOOP_WANT(call, code, text) loop_want((call), (code), (text), #call, __FILE__, __LINE__)
void loop_want(
	int result, int code, const char *text, const char *what, const char *file, int line);

/* Defines the cmocka test test_NAME. The body that follows runs once with each `mode` of memory
 * (PENSTOCK_CUDA_REGISTERED, PENSTOCK_CUDA_RING), each time in a process that fake_check forks. */
#define LOOP_TEST(name)                                                  \
	static void run_##name(uint32_t mode);                           \
	static void check_##name(const void *mode)                       \
	{                                                                \
		run_##name(*(const uint32_t *)mode);                     \
	}                                                                \
	static void test_##name(void **state)                            \
	{                                                                \
		(void)state;                                             \
		for (size_t i = 0; i < LOOP_MODES; i++)                  \
			fake_check(check_##name, &loop_modes[i], #name); \
	}                                                                \
	static void run_##name(__attribute__((unused)) uint32_t mode)
enum { LOOP_MODES = 2 };
extern const uint32_t loop_modes[LOOP_MODES];

/* Byte `i` of a row's pixels. */
uint8_t loop_pixel(uint64_t ordinal, uint32_t row, size_t i);

/* fake: a daemon that follows a test's instructions, correctly or not.
 *
 * fake_start forks a process that listens on a socket of its own folder and runs `serve` for one
 * connection after the other. The functions below `serving` are for that process: they end it when
 * the client does not behave as the test expects, which the client then sees as a hang-up.
 * fake_stop ends it and returns whether everything went well.
 *
 * fake_check runs a test in a forked process with an alarm, and compares descriptors and mapped
 * memfds before and after. */
#pragma once

#include "penstock/penstock.h"
#include "proto/conn.h"
#include "proto/slots.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct fake {
	char folder[64], socket[96];
	pid_t pid;
};

/* The shape of a good stream. */
struct fake_shape {
	uint32_t batch_size, side, slots, batches; /* batches: of an epoch */
	uint64_t epochs; /* 0: endless */
	uint64_t first_serial;
	/* 0: one view, uint8, NHWC, one integer label, images of full size. */
	uint32_t views, pixel_type, pixel_layout, label_width; /* label_width: of floats */
	uint32_t less; /* pixels by which batches' images are smaller than the largest */
};

#define FAKE_SHAPE                                                                 \
	{                                                                          \
		.batch_size = 4, .side = 8, .slots = 4, .batches = 3, .epochs = 0, \
		.first_serial = 1                                                  \
	}

typedef void fake_serve(int fd, const void *argument);

/* Makes a folder and a listening socket, and forks the daemon. */
void fake_start(struct fake *fake, fake_serve *serve, const void *argument);

/* Kills the daemon as the kernel does; its socket stays. fake_restart starts another at the same
 * path. */
void fake_kill(struct fake *fake);
void fake_restart(struct fake *fake, fake_serve *serve, const void *argument);

/* Ends the daemon and removes the folder. False if a fake_* function in it gave up, or a check
 * in it failed. */
bool fake_stop(struct fake *fake);

/* ---- the application ---- */

/* Options that reach this daemon and start no private daemon instead. */
struct penstock_options fake_options(const struct fake *fake);

/* Requires the opening to succeed. */
struct penstock_stream *fake_open_stream(const struct penstock_options *options);

/* Closes the stream; requires fake_stop to succeed. */
void fake_close(struct fake *fake, struct penstock_stream *stream);

/* ---- serving ---- */

/* Receives one message of `type`; the pointer is valid until the next message. */
const struct conn_message *fake_expect(int fd, enum wire_type type);
/* The next message of any type; NULL on hang-up. */
const struct conn_message *fake_receive(int fd);

void fake_send(int fd, struct wire_head *head, size_t bytes, const void *text, size_t text_bytes,
	int pass_fd);
void fake_send_raw(int fd, const void *bytes, size_t size, int pass_fd);
void fake_send_error(int fd, uint32_t request, uint32_t stream, int code, const char *sentence);
void fake_send_answer(int fd, uint32_t request, const char *text);

/* Dies while a child keeps the connection open: no hang-up before the client closes its end. */
_Noreturn void fake_die_without_hangup(int fd);

/* HELLO .. WELCOME; then OPEN .. OPENED. */
void fake_welcome(int fd);
void fake_welcome_as(int fd, pid_t pid); /* another process's */
void fake_welcome_with(int fd, uint64_t features); /* those of `features` that are offered */
struct wire_opened fake_opened(const struct fake_shape *shape);
void fake_open(int fd, const struct fake_shape *shape);

/* The batch at which the state in an OPEN continues, counted from the stream's first. */
uint64_t fake_resume(const struct conn_message *open, const struct fake_shape *shape);
/* Answers this OPEN with the OPENED of a stream that begins with that batch. */
struct wire_opened fake_opened_at(
	const struct conn_message *open, const struct fake_shape *shape, uint64_t ordinal);

/* Shared memory: `slots` slots, sealed as the contract requires unless the flags say otherwise. */
struct fake_memory {
	int fd;
	uint8_t *bytes;
	uint64_t stride, size;
};
enum { FAKE_SEALS = 0x0001 | 0x0002 | 0x0004 | 0x0010 }; /* seal, shrink, grow, future write */
struct fake_memory fake_memory(const struct fake_shape *shape, int seals);
struct wire_extent fake_extent(const struct fake_shape *shape, const struct fake_memory *memory);
struct slots_head *fake_slot(const struct fake_memory *memory, uint32_t slot);

/* Fills a slot with batch number `ordinal` of the stream and returns the message that announces
 * it. */
struct wire_batch fake_fill(const struct fake_shape *shape, const struct fake_memory *memory,
	uint32_t slot, uint64_t ordinal);

/* Makes sealed memory and sends its EXTENT; fills a slot and sends its BATCH. */
struct fake_memory fake_send_memory(int fd, const struct fake_shape *shape);
void fake_send_batch(int fd, const struct fake_shape *shape, const struct fake_memory *memory,
	uint32_t slot, uint64_t ordinal);

/* Does everything right, from HELLO to the hang-up: states, batches, releases, queries, STOP. */
void fake_serve_well(int fd, const void *shape);

/* The contents of a row of batch `ordinal`. */
uint8_t fake_pixel(uint64_t ordinal, uint32_t row);
int64_t fake_label(uint64_t ordinal, uint32_t row);
/* The time at which that batch says that it was ready. */
uint64_t fake_ready_ns(uint64_t ordinal);

/* ---- checking ---- */

/* Runs `test` in a forked process; fails the cmocka test if it fails, crashes, hangs or leaks. */
void fake_check(void (*test)(const void *argument), const void *argument, const char *name);

/* Defines the cmocka test test_NAME; the body that follows runs in such a process. */
#define FAKE_TEST(name)                               \
	static void run_##name(const void *argument); \
	static void test_##name(void **state)         \
	{                                             \
		(void)state;                          \
		fake_check(run_##name, NULL, #name);  \
	}                                             \
	static void run_##name(__attribute__((unused)) const void *argument)

/* Inside such a process. */
#define FAKE_WANT(condition) fake_want((condition), #condition, __FILE__, __LINE__)
void fake_want(bool holds, const char *what, const char *file, int line);
int fake_count_fds(void);
int fake_count_memfds(void); /* mapped ones */

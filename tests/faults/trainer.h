/* trainer: a trainer that notes its batches and performs one action at a named step.
 *
 *   trainer.c   options, notes, and the steps with their actions
 *   raw.c       the protocol, message by message; can stop between any two messages
 *   lib.c       the same loop on libpenstock
 *
 * One thread. Every note is one write(2) to the file `out`, before the action of the next step,
 * so that SIGKILL loses no note. */
#pragma once

#include "proto/slots.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trainer_exit { TRAINER_DONE = 0, TRAINER_ERROR = 1, TRAINER_USAGE = 2, TRAINER_LOST = 3 };

enum { TRAINER_OPTIONS = 32 };

struct trainer {
	const char *socket, *out_path;
	const char *open; /* raw: the text of OPEN */
	const char *option[TRAINER_OPTIONS]; /* lib: KEY=VALUE of struct penstock_options */
	unsigned options;
	const char *at, *act; /* the step, and its action */
	uint64_t occurrence, seen;
	uint64_t batches; /* 0: until the stream ends */
	uint64_t hold; /* batches kept before one is returned */
	uint64_t newest; /* the newest is returned, not the oldest */
	uint64_t query; /* asks two questions, one of them unknown, after this many batches */
	uint64_t sleep_us; /* between batches */
	uint64_t linger; /* after its batches it waits until standard input ends */
	uint64_t states; /* lib: notes the state after each batch */
	uint64_t rows; /* notes each row of a batch too */
	int out;
	int fd; /* the connection's descriptor, if this program has it; otherwise -1 */
};

struct trainer_batch {
	uint64_t epoch, batch, position;
	uint32_t count, flags;
	const uint8_t *images, *labels, *records;
	size_t row_bytes, label_bytes;
};

/* Writes one line: the words, then the time in microseconds on CLOCK_MONOTONIC. */
__attribute__((format(printf, 2, 3))) void trainer_note(
	const struct trainer *t, const char *format, ...);

/* The trainer has reached this step: performs the action if it belongs to this step. */
void trainer_step(struct trainer *t, const char *step);

/* Reads a batch to its end and notes it, with the steps batch-received, reading and read. */
void trainer_read(struct trainer *t, const struct trainer_batch *batch);

/* Whether to stop after `given` batches. */
bool trainer_enough(const struct trainer *t, uint64_t given);

void trainer_pause(const struct trainer *t);

int raw_run(struct trainer *t);
int lib_run(struct trainer *t);

/* recorder: the flight recorder, as the event loop sees it: what the daemon tells its witness, and
 * what the witness measured. Event loop; nothing here waits.
 *
 * A trainer is a client that was answered a stream. From then on it has a number, and its end is
 * recorded, whatever else it opens. */
#pragma once

#include "record/record.h"
#include "serve/loop.h"

#include <stdbool.h>
#include <stdint.h>

struct client;
struct jsontext;
struct member;
struct server;
struct witness;

/* What is recorded of a client. */
struct client_record {
	uint64_t number; /* of trainers, never used twice; 0: no stream was answered to it */
	uint64_t given; /* batches in all */
	/* Of the batch announced last; `group` is the number of its extent. */
	uint64_t epoch, batch;
	uint32_t group;
	/* What the witness measured, once `measured`. */
	bool measured;
	uint64_t resident_bytes, gpu_bytes; /* UINT64_MAX: not known */
	float cpu; /* negative: not known */
	char command[RECORD_TEXT];
};

struct recorder {
	struct witness *witness; /* NULL: off, or it has died */
	struct watch watch;
	uint64_t trainers; /* that ever attached */
	uint64_t dropped; /* records, by a witness that is gone */
	bool ending; /* the reason was recorded */
	/* What the witness said. */
	bool writes; /* its file exists */
	bool has_machine;
	struct record_machine machine;
	uint64_t resident_bytes; /* of the daemon; UINT64_MAX: not known */
	unsigned gpus;
	struct record_gpu gpu[RECORD_GPUS];
};

/* Before any thread. `confine` confines the witness, in its process. */
void recorder_start(struct server *server, void (*confine)(void *server));
/* When everything that the record of the start tells is known. */
void recorder_watch(struct server *server);
void recorder_end(struct server *server);

/* Warns the operator: in the log, in the status and in the flight record. */
void recorder_notice(struct server *server, const char *text);
/* Why the daemon ends: the first reason counts. */
void recorder_ending(struct server *server, const char *kind, const char *why);
void recorder_signalled(struct server *server, uint32_t number, uint32_t pid);

void recorder_attach(const struct member *member); /* its stream was answered */
void recorder_announced(struct member *member); /* a batch */
void recorder_leave(const struct client *client, const char *why);
void recorder_tick(struct server *server); /* once a second */
void recorder_hear(struct server *server); /* the witness sent something */

uint64_t recorder_dropped(const struct recorder *recorder); /* never less than before */
/* Writes the keys `recorder`, `resident_bytes`, `machine` and `gpus`. */
void recorder_status(struct jsontext *json, const struct server *server);
/* Of a trainer: `resident_bytes`, `gpu_bytes`, `cpu` and `command`. */
void recorder_status_trainer(struct jsontext *json, const struct client *client);

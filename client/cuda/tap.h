/* tap: the stream of an attachment, which two threads use: the pump asks for batches; the
 * application's thread asks for a path, for statistics, or why no batch comes. If the latter
 * receives a batch, the tap keeps it for the pump.
 *
 * Thread: any; tap_init and tap_deinit only while no other thread uses the tap. Every call may
 * block for as long as another call does. */
#pragma once

#include "client/cuda/buffer.h"
#include "penstock/penstock.h"

#include <pthread.h>
#include <stdbool.h>

enum { TAP_E_FULL = 2 }; /* outcome: the attachment holds as many slots as it may */

struct tap_batch {
	struct penstock_batch batch;
	const void *base; /* of its extent */
	size_t extent_bytes;
	char loop[BUFFER_STATE_BYTES]; /* penstock_stream_state behind it */
};

struct tap {
	struct penstock_stream *stream;
	uint32_t height, width; /* of all images */
	uint32_t most; /* the most slots to hold */
	pthread_mutex_t lock; /* guards the stream and what follows */
	bool keeps;
	struct tap_batch kept;
	uint32_t held; /* slots held, including that of `kept` */
};

/* `info`: the stream's. */
void tap_init(
	struct tap *tap, struct penstock_stream *stream, const struct penstock_stream_info *info);

/* Returns the kept batch. The caller has returned all other batches. */
void tap_deinit(struct tap *tap);

/* Takes a batch if one is ready and the limit allows it; the caller returns it with
 * tap_give_back. 0; -EAGAIN; TAP_E_FULL; others as penstock_stream_next, with a sentence. */
int tap_take(struct tap *tap, struct tap_batch *ret_batch);

/* Asks for a batch and keeps it for tap_take. 0; TAP_E_FULL, also if a batch is kept already;
 * others as penstock_stream_next, with a sentence. */
int tap_ask(struct tap *tap, int32_t timeout_ms);

/* As penstock_batch_release, penstock_stream_path, _samples and _stats. */
int tap_give_back(struct tap *tap, struct penstock_batch *batch);
int tap_path(struct tap *tap, uint64_t index, char **ret_path);
int tap_samples(struct tap *tap, uint64_t first, char **ret_lines);
int tap_stats(struct tap *tap, char **ret_json);

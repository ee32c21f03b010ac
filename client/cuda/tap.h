/* tap: the stream of an attachment, which two threads ask: the pump for batches, the application's
 * for a path, figures, or why no batch comes. A batch that the latter brings up is kept for the
 * pump.
 *
 * Thread: any, but for tap_init and tap_deinit: where no other is. All may block for as long as
 * another call does. */
#pragma once

#include "client/cuda/buffer.h"
#include "penstock/penstock.h"

#include <pthread.h>
#include <stdbool.h>

enum { TAP_E_FULL = 2 }; /* outcome: as many slots as may be are held */

struct tap_batch {
	struct penstock_batch batch;
	const void *base; /* of its extent */
	size_t extent_bytes;
	char loop[BUFFER_STATE_BYTES]; /* penstock_stream_state behind it */
};

struct tap {
	struct penstock_stream *stream;
	uint32_t height, width; /* of all images */
	uint32_t most; /* slots that may be held */
	pthread_mutex_t lock; /* of the stream and of what follows */
	bool keeps;
	struct tap_batch kept;
	uint32_t held; /* slots, that of `kept` among them */
};

/* `info`: the stream's. */
void tap_init(
	struct tap *tap, struct penstock_stream *stream, const struct penstock_stream_info *info);

/* Gives back what was kept. All else that was taken must have been given back. */
void tap_deinit(struct tap *tap);

/* A batch, if one can be had at once and may be held; tap_give_back is the caller's then. 0;
 * -EAGAIN; TAP_E_FULL; others as of penstock_stream_next, with a sentence. */
int tap_take(struct tap *tap, struct tap_batch *ret_batch);

/* Asks for a batch, and keeps it for tap_take. 0; TAP_E_FULL, also where one is kept; others as of
 * penstock_stream_next, with a sentence. */
int tap_ask(struct tap *tap, int32_t timeout_ms);

/* As penstock_batch_release, penstock_stream_path and penstock_stream_stats. */
int tap_give_back(struct tap *tap, struct penstock_batch *batch);
int tap_path(struct tap *tap, uint64_t index, char **ret_path);
int tap_stats(struct tap *tap, char **ret_json);

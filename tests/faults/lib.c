/* lib: the same trainer on libpenstock. Steps: opened; for each batch batch-received, reading,
 * read, full, before-release, released; ended, closed. */
#include "faults/trainer.h"
#include "penstock/penstock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LIB_HELD = 64, LIB_STATE = 512 };

static bool lib_text(struct penstock_options *o, const char *key, const char *value)
{
	const struct {
		const char *key, **to;
	} texts[] = {{"source", &o->source}, {"group", &o->group}, {"state", &o->state},
		{"share", &o->share}, {"laggard", &o->laggard},
		{"daemon_memory", &o->daemon_memory}};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		if (strcmp(texts[i].key, key) == 0) {
			*texts[i].to = value;
			return true;
		}
	}
	return false;
}

static bool lib_number(struct penstock_options *o, const char *key, const char *value)
{
	const struct {
		const char *key;
		void *to;
		size_t bytes;
	} numbers[] = {
#define LIB_NUMBER(name) {#name, &o->name, sizeof o->name}
		LIB_NUMBER(batch_size), LIB_NUMBER(image_size), LIB_NUMBER(train),
		LIB_NUMBER(shuffle), LIB_NUMBER(drop_last), LIB_NUMBER(seed), LIB_NUMBER(epochs),
		LIB_NUMBER(prefetch), LIB_NUMBER(wait_for), LIB_NUMBER(timeout_ms),
		LIB_NUMBER(private_daemon), LIB_NUMBER(daemon_threads), LIB_NUMBER(rank),
		LIB_NUMBER(world_size), LIB_NUMBER(laggard_timeout_s), LIB_NUMBER(reconnect_ms)
#undef LIB_NUMBER
	};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		int64_t number = strtoll(value, NULL, 10);
		if (strcmp(numbers[i].key, key) == 0) {
			memcpy(numbers[i].to, &number, numbers[i].bytes); /* little-endian */
			return true;
		}
	}
	return false;
}

static bool lib_options(const struct trainer *t, struct penstock_options *o)
{
	char key[32];
	penstock_options_init(o);
	o->socket = t->socket;
	o->private_daemon = 0;
	for (unsigned i = 0; i < t->options; i++) {
		size_t length = strcspn(t->option[i], "=");
		memcpy(key, t->option[i], length);
		key[length] = 0;
		const char *value = t->option[i] + length + 1;
		if (!lib_text(o, key, value) && !lib_number(o, key, value))
			return trainer_note(t, "error: what is %s?", key), false;
	}
	return true;
}

static int lib_fail(const struct trainer *t, int code)
{
	trainer_note(t, "error %d %s", code, penstock_error());
	return code == -EPIPE ? TRAINER_LOST : TRAINER_ERROR;
}

static void lib_read(struct trainer *t, const struct penstock_batch *b)
{
	const struct trainer_batch batch = {
		.epoch = b->epoch,
		.batch = b->batch,
		.position = b->samples[0].position,
		.count = b->count,
		.flags = b->flags,
		.images = b->images,
		.labels = (const void *)b->labels,
		.records = (const void *)b->samples,
		.row_bytes = b->image_bytes,
		.label_bytes = sizeof *b->labels,
	};
	trainer_read(t, &batch);
}

static void lib_note_state(const struct trainer *t, const struct penstock_stream *stream)
{
	char state[LIB_STATE];
	if (t->states && penstock_stream_state(stream, state, sizeof state) > 0)
		trainer_note(t, "state %s", state);
}

struct lib_held {
	struct penstock_batch batch[LIB_HELD]; /* oldest first */
	uint32_t count, most;
};

static int lib_release(struct trainer *t, struct penstock_stream *stream, struct lib_held *held)
{
	uint32_t which = t->newest ? held->count - 1 : 0;
	struct penstock_batch batch = held->batch[which];
	memmove(held->batch + which, held->batch + which + 1,
		(--held->count - which) * sizeof *held->batch);
	trainer_step(t, "before-release");
	int result = penstock_batch_release(stream, &batch);
	trainer_step(t, "released");
	return result;
}

/* One batch: 0, PENSTOCK_END, or a negative errno. */
static int lib_batch(struct trainer *t, struct penstock_stream *stream, struct lib_held *held)
{
	struct penstock_batch batch;
	int result = penstock_stream_next(stream, &batch, PENSTOCK_TIMEOUT_DEFAULT);
	if (result)
		return result;
	held->batch[held->count++] = batch;
	lib_read(t, &batch);
	lib_note_state(t, stream);
	if (held->count == held->most)
		trainer_step(t, "full");
	trainer_pause(t);
	while (!result && (held->count > t->hold || held->count == held->most))
		result = lib_release(t, stream, held);
	return result;
}

int lib_run(struct trainer *t)
{
	struct penstock_options options;
	struct penstock_stream *stream;
	struct penstock_stream_info info;
	struct lib_held held = {.count = 0};
	uint64_t given = 0;
	if (!lib_options(t, &options))
		return TRAINER_USAGE;
	int result = penstock_stream_open(&options, &stream);
	if (result)
		return lib_fail(t, result);
	penstock_stream_info(stream, &info);
	held.most = info.slots < LIB_HELD ? info.slots : LIB_HELD;
	trainer_note(t, "opened %016" PRIx64 " %" PRIu64 " %" PRIu64, info.fingerprint, info.epoch,
		info.batch);
	lib_note_state(t, stream);
	trainer_step(t, "opened");
	while (!result && !trainer_enough(t, given)) {
		result = lib_batch(t, stream, &held);
		given += !result;
	}
	int code = result < 0 ? lib_fail(t, result) : TRAINER_DONE;
	if (result == PENSTOCK_END) {
		trainer_note(t, "end");
		trainer_step(t, "ended");
	}
	penstock_stream_close(stream);
	trainer_step(t, "closed");
	return code;
}

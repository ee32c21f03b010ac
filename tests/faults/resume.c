/* fault_resume: every place of a run, resumed at every world size.
 *
 *   fault_resume KEY=VALUE ...
 *       socket= source= train= drop_last= batch_size= epochs= seed=
 *       worlds=N        world sizes 1 .. N, before and after
 *       after=N         batch size after a resume; 0: as before
 *       every=N         resumes at every N-th place; 1: at all
 *
 * First it reads the samples: one stream that drops nothing, each position of each epoch once. Then
 * one thread reads each job's ranks in turn, and a cursor gives the expected rows: which positions,
 * in which order, with which pixels; equal counts of batches for all ranks; equal states of all
 * ranks after the same batch. A job from the beginning saves its state at each place; from each
 * state, jobs of all world sizes continue to the end. Prints "states N resumes N rows N HASH", the
 * same at any number of threads.
 *
 * One thread; only libpenstock. The first mistake ends it with a sentence. */
#include "penstock/penstock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { RESUME_WORLDS = 8, RESUME_STATE = 512, RESUME_PLACES = 4096 };

struct resume_row {
	uint64_t index, image;
	int64_t label;
	uint32_t crop_x, crop_y, crop_w, crop_h, flags, reserved;
};

struct resume {
	struct penstock_options options; /* of all jobs */
	uint64_t worlds, after, every, drop_last;
	uint64_t samples;
	struct resume_row *row; /* [epoch][position] */
	char (*state)[RESUME_STATE]; /* of the job from the beginning, after each global batch */
	uint64_t states, resumes, rows, hash;
};

/* A set of ranks that read one run together. */
struct resume_job {
	struct resume *r;
	struct penstock_stream *stream[RESUME_WORLDS];
	struct penstock_batch batch[RESUME_WORLDS];
	uint32_t world, batch_size;
	uint64_t epoch, position; /* the expected next row */
	const char *from; /* the state it began with, or NULL */
};

__attribute__((format(printf, 2, 3), noreturn)) static void resume_fail(
	const struct resume_job *job, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	(void)fputs("fault_resume: ", stdout);
	if (job)
		(void)printf("world size %u, batch size %u, from %s, at epoch %" PRIu64
			     " position %" PRIu64 ": ",
			job->world, job->batch_size, job->from ? job->from : "the beginning",
			job->epoch, job->position);
	(void)vprintf(format, arguments);
	(void)puts("");
	va_end(arguments);
	exit(1);
}

static struct resume_row resume_row(const struct penstock_batch *batch, uint32_t i)
{
	const struct penstock_sample *s = &batch->samples[i];
	const uint8_t *image = (const uint8_t *)batch->images + i * batch->image_bytes;
	return (struct resume_row){
		.index = s->index,
		.image = XXH3_64bits(image, batch->image_bytes),
		.label = batch->labels[i],
		.crop_x = s->crop_x,
		.crop_y = s->crop_y,
		.crop_w = s->crop_w,
		.crop_h = s->crop_h,
		.flags = s->flags & ~(uint32_t)PENSTOCK_PADDED,
	};
}

static struct penstock_stream *resume_open(
	const struct penstock_options *options, const struct resume_job *job)
{
	struct penstock_stream *stream;
	if (penstock_stream_open(options, &stream))
		resume_fail(job, "open: %s", penstock_error());
	return stream;
}

/* ---- the samples themselves ---- */

static void resume_learn(struct resume *r)
{
	struct penstock_options options = r->options;
	struct penstock_stream_info info;
	struct penstock_batch batch;
	int result;
	options.drop_last = 0;
	options.batch_size = 7;
	struct penstock_stream *stream = resume_open(&options, NULL);
	penstock_stream_info(stream, &info);
	r->samples = info.samples;
	r->row = calloc(r->samples * r->options.epochs, sizeof *r->row);
	uint64_t next = 0;
	while ((result = penstock_stream_next(stream, &batch, PENSTOCK_TIMEOUT_DEFAULT)) == 0) {
		for (uint32_t i = 0; i < batch.count; i++, next++) {
			if (batch.epoch != next / r->samples ||
				batch.samples[i].position != next % r->samples)
				resume_fail(NULL, "the undisturbed row is out of order");
			r->row[next] = resume_row(&batch, i);
		}
		(void)penstock_batch_release(stream, &batch);
	}
	if (result != PENSTOCK_END || next != r->samples * r->options.epochs)
		resume_fail(NULL, "the undisturbed row ends with %d after %" PRIu64 " samples: %s",
			result, next, penstock_error());
	penstock_stream_close(stream);
}

/* ---- the expected rows ---- */

/* The size of the next global batch; at the end of an epoch the cursor goes to the next epoch. */
static uint64_t resume_expected(struct resume_job *job)
{
	uint64_t full = (uint64_t)job->world * job->batch_size;
	uint64_t left = job->r->samples - job->position;
	if (left == 0 || (job->r->drop_last && left < full)) {
		job->epoch++;
		job->position = 0;
		left = job->r->samples;
	}
	return left < full ? left : full;
}

static bool resume_epoch_over(const struct resume_job *job)
{
	struct resume_job next = *job;
	(void)resume_expected(&next);
	return next.epoch != job->epoch;
}

static void resume_check_row(struct resume_job *job, const struct penstock_batch *batch, uint32_t i)
{
	struct resume *r = job->r;
	const struct penstock_sample *s = &batch->samples[i];
	const struct resume_row got = resume_row(batch, i);
	if (batch->epoch != job->epoch || s->position != job->position)
		resume_fail(job, "epoch %" PRIu64 " position %" PRIu64 " came", batch->epoch,
			s->position);
	if (memcmp(&got, &r->row[job->epoch * r->samples + job->position], sizeof got) != 0)
		resume_fail(job, "the sample is not the undisturbed one");
	r->hash = XXH3_64bits_withSeed(&got, sizeof got, r->hash);
	r->rows++;
	job->position++;
}

/* A rank's part of a global batch of `all` samples: a short batch is divided evenly, and a rank
 * that would get no sample gets one padded row. */
static void resume_check_part(struct resume_job *job, uint32_t rank, uint64_t all)
{
	const struct penstock_batch *batch = &job->batch[rank];
	uint64_t share = all / job->world + (rank < all % job->world);
	if (batch->count != (share ? share : 1))
		resume_fail(job, "rank %u has %u rows of %" PRIu64, rank, batch->count, all);
	bool padded = batch->samples[0].flags & PENSTOCK_PADDED;
	if (padded != (share == 0))
		resume_fail(job, "rank %u: a row is padded that is not, or the reverse", rank);
	for (uint32_t i = 0; share && i < batch->count; i++)
		resume_check_row(job, batch, i);
}

static void resume_take_state(struct resume_job *job, char *ret)
{
	char other[RESUME_STATE];
	for (uint32_t rank = 0; rank < job->world; rank++) {
		char *to = rank ? other : ret;
		if (penstock_stream_state(job->stream[rank], to, RESUME_STATE) < 0)
			resume_fail(job, "state: %s", penstock_error());
		if (strcmp(to, ret) != 0)
			resume_fail(job, "rank %u's state is %s, rank 0's %s", rank, to, ret);
	}
}

/* ---- jobs ---- */

static void resume_job_open(struct resume_job *job)
{
	struct penstock_options options = job->r->options;
	char group[32];
	(void)snprintf(group, sizeof group, "job-%" PRIu64, job->r->resumes);
	options.batch_size = job->batch_size;
	options.state = job->from;
	options.drop_last = (int32_t)job->r->drop_last;
	if (job->world > 1) {
		options.group = group;
		options.share = "split";
		options.world_size = job->world;
		options.wait_for = job->world;
	}
	for (uint32_t rank = 0; rank < job->world; rank++) {
		options.rank = rank;
		job->stream[rank] = resume_open(&options, job);
	}
}

/* One global batch. False at the end of the row, which all ranks must have reached. */
static bool resume_job_next(struct resume_job *job)
{
	uint64_t all = resume_expected(job);
	bool end = job->epoch == job->r->options.epochs;
	for (uint32_t rank = 0; rank < job->world; rank++) {
		int result = penstock_stream_next(
			job->stream[rank], &job->batch[rank], PENSTOCK_TIMEOUT_DEFAULT);
		if (result != (end ? PENSTOCK_END : 0))
			resume_fail(job, "rank %u: next is %d: %s", rank, result, penstock_error());
	}
	if (end)
		return false;
	for (uint32_t rank = 0; rank < job->world; rank++)
		resume_check_part(job, rank, all);
	for (uint32_t rank = 0; rank < job->world; rank++) {
		if (!(job->batch[rank].flags & PENSTOCK_LAST) != !resume_epoch_over(job))
			resume_fail(job, "rank %u: PENSTOCK_LAST is wrong", rank);
		(void)penstock_batch_release(job->stream[rank], &job->batch[rank]);
	}
	return true;
}

static void resume_job_close(struct resume_job *job)
{
	for (uint32_t rank = 0; rank < job->world; rank++)
		penstock_stream_close(job->stream[rank]);
}

/* The place in a state's text. */
static uint64_t resume_number(const char *state, const char *key)
{
	const char *at = strstr(state, key);
	return at ? strtoull(at + strlen(key), NULL, 10) : UINT64_MAX;
}

static void resume_from(struct resume *r, const char *state, uint32_t world, uint32_t batch_size)
{
	struct resume_job job = {.r = r, .world = world, .batch_size = batch_size, .from = state};
	job.epoch = resume_number(state, "\"epoch\":");
	job.position = resume_number(state, "\"position\":");
	r->resumes++;
	resume_job_open(&job);
	while (resume_job_next(&job))
		continue;
	resume_job_close(&job);
}

/* Reads from the beginning to the end and keeps the states on the way. */
static uint64_t resume_states(struct resume *r, uint32_t world)
{
	struct resume_job job = {.r = r, .world = world, .batch_size = r->options.batch_size};
	uint64_t places = 0;
	r->resumes++;
	resume_job_open(&job);
	do {
		if (places == RESUME_PLACES)
			resume_fail(&job, "more places than expected");
		resume_take_state(&job, r->state[places++]);
	} while (resume_job_next(&job));
	resume_job_close(&job);
	return places;
}

static void resume_run(struct resume *r)
{
	uint32_t after = (uint32_t)(r->after ? r->after : r->options.batch_size);
	for (uint32_t before = 1; before <= r->worlds; before++) {
		uint64_t places = resume_states(r, before);
		for (uint64_t place = 0; place < places; place++) {
			r->states++;
			/* The first place, the last place and the ends of epochs are always
			 * included. */
			bool first = strstr(r->state[place], "\"position\":0}") != NULL;
			if ((place + before) % r->every && !first && place + 2 < places)
				continue;
			for (uint32_t world = 1; world <= r->worlds; world++)
				resume_from(r, r->state[place], world, after);
		}
	}
}

static bool resume_text(struct resume *r, const char *key, const char *value)
{
	if (strcmp(key, "socket") == 0)
		r->options.socket = value;
	else if (strcmp(key, "source") == 0)
		r->options.source = value;
	else
		return false;
	return true;
}

static bool resume_option(struct resume *r, char *word)
{
	uint64_t train = (uint64_t)r->options.train, batch_size = r->options.batch_size;
	const struct {
		const char *key;
		uint64_t *to;
	} numbers[] = {{"train", &train}, {"drop_last", &r->drop_last}, {"batch_size", &batch_size},
		{"epochs", &r->options.epochs}, {"seed", &r->options.seed}, {"worlds", &r->worlds},
		{"after", &r->after}, {"every", &r->every}};
	char *value = strchr(word, '=');
	if (!value)
		return false;
	*value++ = 0;
	bool known = resume_text(r, word, value);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		if (strcmp(numbers[i].key, word) == 0) {
			*numbers[i].to = strtoull(value, NULL, 10);
			known = true;
		}
	}
	r->options.train = (int32_t)train;
	r->options.batch_size = (uint32_t)batch_size;
	return known;
}

int main(int argc, char **argv)
{
	struct resume r = {.worlds = 1, .every = 1};
	penstock_options_init(&r.options);
	r.options.private_daemon = 0;
	r.options.image_size = 16;
	for (int i = 1; i < argc; i++)
		if (!resume_option(&r, argv[i]))
			resume_fail(NULL, "what is %s?", argv[i]);
	if (!r.options.source || !r.options.epochs || !r.options.batch_size || !r.every ||
		r.worlds > RESUME_WORLDS)
		resume_fail(NULL, "see the top of resume.c");
	r.state = calloc(RESUME_PLACES, sizeof *r.state);
	resume_learn(&r);
	resume_run(&r);
	(void)printf("states %" PRIu64 " resumes %" PRIu64 " rows %" PRIu64 " %016" PRIx64 "\n",
		r.states, r.resumes, r.rows, r.hash);
	free(r.state);
	free(r.row);
	return 0;
}

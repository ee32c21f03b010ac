/* pipeline: see pipeline.h. */
#include "client/cli/pack/pipeline.h"

#include "base/host/limits.h"
#include "base/util.h"
#include "decode/decode.h"
#include "fetch/fetch.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum slot_state { SLOT_FREE, SLOT_WORKING, SLOT_READY };

struct slot {
	enum slot_state state;
	struct sample sample;
	uint64_t charged; /* of the window */
	const char *broken;
	char message[256];
	struct image image;
};

struct worker {
	struct pipeline *pipeline;
	struct image_maker *maker;
	pthread_t thread;
};

struct pipeline {
	const struct dataset *dataset;
	struct pipeline_options options;
	uint64_t count;
	struct slot *slot; /* of sample n: n % slots */
	uint64_t slots;
	struct worker *worker;
	unsigned started;

	pthread_mutex_t lock; /* guards what follows and the states of the slots */
	pthread_cond_t moved; /* workers wait for a free slot, for bytes, or for their turn */
	pthread_cond_t ready; /* the writer waits for a ready slot */
	uint64_t next_taken, next_admitted, next_written;
	uint64_t window_used;
	bool stop;
	int error;
	struct fault fault;
};

static struct slot *pipeline_slot(struct pipeline *pipeline, uint64_t number)
{
	return &pipeline->slot[number % pipeline->slots];
}

/* The caller holds the lock. The first fault wins. */
static void pipeline_stop(struct pipeline *pipeline, int error, const char *text)
{
	if (!pipeline->error && error) {
		pipeline->error = error;
		(void)fault_set(&pipeline->fault, error, "%s", text);
	}
	pipeline->stop = true;
	(void)pthread_cond_broadcast(&pipeline->moved);
	(void)pthread_cond_signal(&pipeline->ready);
}

/* Takes the next sample and its slot for a worker; false: no more samples. */
static bool pipeline_take(struct pipeline *pipeline, uint64_t *ret_number)
{
	(void)pthread_mutex_lock(&pipeline->lock);
	while (!pipeline->stop && pipeline->next_taken < pipeline->count &&
		pipeline->next_taken >= pipeline->next_written + pipeline->slots)
		(void)pthread_cond_wait(&pipeline->moved, &pipeline->lock);
	bool more = !pipeline->stop && pipeline->next_taken < pipeline->count;
	if (more) {
		*ret_number = pipeline->next_taken++;
		pipeline_slot(pipeline, *ret_number)->state = SLOT_WORKING;
	}
	(void)pthread_mutex_unlock(&pipeline->lock);
	return more;
}

/* Waits for a sample's turn and for room in the window for its file and everything that may be made
 * from it. False: the pipeline stops. */
static bool pipeline_admit(struct pipeline *pipeline, struct slot *slot, uint64_t number)
{
	uint64_t bytes = (uint64_t)slot->sample.size * (1 + IMAGE_CHOICES);
	(void)pthread_mutex_lock(&pipeline->lock);
	while (!pipeline->stop &&
		(pipeline->next_admitted != number ||
			(number != pipeline->next_written &&
				pipeline->window_used + bytes > pipeline->options.window_bytes)))
		(void)pthread_cond_wait(&pipeline->moved, &pipeline->lock);
	bool go = !pipeline->stop;
	if (go) {
		pipeline->next_admitted++;
		pipeline->window_used += bytes;
		slot->charged = bytes;
		(void)pthread_cond_broadcast(&pipeline->moved);
	}
	(void)pthread_mutex_unlock(&pipeline->lock);
	return go;
}

static void slot_break(struct slot *slot, const char *reason, const char *message)
{
	slot->broken = reason;
	(void)snprintf(slot->message, sizeof slot->message, "%s", message);
}

/* 0, or a negative errno with a fault; the slot notes a broken sample. */
static int worker_make(struct worker *worker, struct slot *slot, uint8_t *data, struct fault *fault)
{
	int r = image_make(worker->maker, data, slot->sample.size, &slot->image);
	if (r > 0)
		slot_break(slot, decode_outcome_name((enum decode_outcome)r),
			image_maker_message(worker->maker));
	return r < 0 ? fault_set(fault, r,
			       "not enough memory for sample %llu; give fewer --threads",
			       (unsigned long long)slot->sample.number)
		     : 0;
}

static int worker_unreadable(int error, struct fault *fault)
{
	char why[FAULT_TEXT];
	(void)snprintf(why, sizeof why, "%s", fault->text);
	return fault_set(fault, error,
		"%s; finished shards stay: make it readable, and run the same command again to "
		"continue",
		why);
}

static int worker_read(struct worker *worker, struct slot *slot, struct fault *fault)
{
	size_t size = slot->sample.size;
	uint8_t *data = malloc(size + IMAGE_SLACK);
	if (!data)
		return fault_set(fault, -ENOMEM,
			"not enough memory for the %zu bytes of sample %llu; give fewer --threads "
			"or less "
			"--memory",
			size, (unsigned long long)slot->sample.number);
	memset(data + size, 0, IMAGE_SLACK);
	int r = dataset_read(worker->pipeline->dataset, &slot->sample, data, size, fault);
	if (r == 0)
		return worker_make(worker, slot, data, fault);
	free(data);
	enum fetch_outcome outcome = fetch_outcome_of(r);
	if (!outcome)
		return r;
	/* Storage may work again tomorrow: that is no reason to leave an image out forever. */
	if (outcome == FETCH_E_IO)
		return worker_unreadable(r, fault);
	slot_break(slot, fetch_outcome_name(outcome), fault->text);
	return 0;
}

static int worker_sample(struct worker *worker, uint64_t number, struct fault *fault)
{
	struct pipeline *pipeline = worker->pipeline;
	struct slot *slot = pipeline_slot(pipeline, number);
	slot->broken = NULL;
	slot->message[0] = 0;
	slot->image = (struct image){.choices = 0};
	int r = dataset_sample(pipeline->dataset, number, &slot->sample, fault);
	if (r < 0)
		return r;
	bool fits = slot->sample.size <= pipeline->options.window_bytes;
	if (!fits) {
		slot_break(slot, fetch_outcome_name(FETCH_E_TOO_LARGE),
			"larger than an eighth of --memory");
		slot->sample.size = 0;
	}
	if (!pipeline_admit(pipeline, slot, number))
		return 0;
	return fits ? worker_read(worker, slot, fault) : 0;
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;
	struct pipeline *pipeline = worker->pipeline;
	struct fault fault = {{0}};
	uint64_t number;
	while (pipeline_take(pipeline, &number)) {
		int r = worker_sample(worker, number, &fault);
		struct slot *slot = pipeline_slot(pipeline, number);
		(void)pthread_mutex_lock(&pipeline->lock);
		if (r < 0)
			pipeline_stop(pipeline, r, fault.text);
		uint64_t bytes = image_bytes(&slot->image);
		pipeline->window_used += bytes - slot->charged;
		slot->charged = bytes;
		slot->state = SLOT_READY;
		(void)pthread_cond_signal(&pipeline->ready);
		(void)pthread_cond_broadcast(&pipeline->moved);
		(void)pthread_mutex_unlock(&pipeline->lock);
	}
	return NULL;
}

static int pipeline_start(struct pipeline *pipeline, struct fault *fault)
{
	const struct pipeline_options *options = &pipeline->options;
	for (unsigned i = 0; i < options->threads; i++) {
		struct worker *worker = &pipeline->worker[i];
		worker->pipeline = pipeline;
		int r = image_maker_new(&options->image, options->memory, &worker->maker, fault);
		if (r < 0)
			return r;
		r = -pthread_create(&worker->thread, NULL, worker_main, worker);
		if (r < 0) {
			image_maker_free(worker->maker);
			return fault_set(fault, r, "cannot start thread %u of %u: %s%s", i + 1,
				options->threads, strerror(-r), limits_thread_hint(-r));
		}
		pipeline->started++;
	}
	return 0;
}

int pipeline_new(const struct dataset *dataset, const struct pipeline_options *options,
	struct pipeline **ret, struct fault *fault)
{
	struct pipeline *pipeline = calloc(1, sizeof *pipeline);
	if (!pipeline)
		return fault_set(
			fault, -ENOMEM, "not enough memory for %u threads", options->threads);
	pthread_condattr_t monotonic;
	(void)pthread_condattr_init(&monotonic);
	(void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	(void)pthread_mutex_init(&pipeline->lock, NULL);
	(void)pthread_cond_init(&pipeline->moved, NULL);
	(void)pthread_cond_init(&pipeline->ready, &monotonic);
	(void)pthread_condattr_destroy(&monotonic);
	pipeline->dataset = dataset;
	pipeline->options = *options;
	pipeline->count = dataset_count(dataset);
	pipeline->slots = (uint64_t)PIPELINE_AHEAD * options->threads;
	pipeline->next_taken = pipeline->next_admitted = pipeline->next_written = options->first;
	pipeline->slot = calloc(pipeline->slots, sizeof *pipeline->slot);
	pipeline->worker = calloc(options->threads, sizeof *pipeline->worker);
	int r = pipeline->slot && pipeline->worker
			? pipeline_start(pipeline, fault)
			: fault_set(fault, -ENOMEM, "not enough memory for %u threads; give fewer",
				  options->threads);
	if (r < 0)
		pipeline_free(pipeline);
	else
		*ret = pipeline;
	return r;
}

void pipeline_free(struct pipeline *pipeline)
{
	if (!pipeline)
		return;
	(void)pthread_mutex_lock(&pipeline->lock);
	pipeline_stop(pipeline, 0, "");
	(void)pthread_mutex_unlock(&pipeline->lock);
	for (unsigned i = 0; i < pipeline->started; i++) {
		(void)pthread_join(pipeline->worker[i].thread, NULL);
		image_maker_free(pipeline->worker[i].maker);
	}
	for (uint64_t i = 0; pipeline->slot && i < pipeline->slots; i++)
		image_deinit(&pipeline->slot[i].image);
	(void)pthread_cond_destroy(&pipeline->ready);
	(void)pthread_cond_destroy(&pipeline->moved);
	(void)pthread_mutex_destroy(&pipeline->lock);
	free(pipeline->worker);
	free(pipeline->slot);
	free(pipeline);
}

static struct timespec pipeline_deadline(uint64_t wait_ns)
{
	struct timespec until;
	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	uint64_t ns = (uint64_t)until.tv_nsec + wait_ns;
	until.tv_sec += (time_t)(ns / 1000000000);
	until.tv_nsec = (long)(ns % 1000000000);
	return until;
}

int pipeline_next(
	struct pipeline *pipeline, uint64_t wait_ns, struct pipeline_item *ret, struct fault *fault)
{
	uint64_t number = pipeline->next_written; /* only this thread writes it */
	if (number == pipeline->count)
		return PIPELINE_E_END;
	struct slot *slot = pipeline_slot(pipeline, number);
	struct timespec until = pipeline_deadline(wait_ns);
	(void)pthread_mutex_lock(&pipeline->lock);
	int r = 0;
	while (!pipeline->error && slot->state != SLOT_READY && r == 0)
		r = pthread_cond_timedwait(&pipeline->ready, &pipeline->lock, &until);
	bool ready = slot->state == SLOT_READY;
	int error = pipeline->error;
	(void)pthread_mutex_unlock(&pipeline->lock);
	if (error)
		return fault_set(fault, error, "%s", pipeline->fault.text);
	if (!ready)
		return PIPELINE_E_WAIT;
	*ret = (struct pipeline_item){
		.number = number,
		.bytes_in = slot->sample.size,
		.label = slot->sample.label,
		.name = slot->sample.name,
		.broken = slot->broken,
		.message = slot->message,
		.image = &slot->image,
	};
	return PIPELINE_ITEM;
}

void pipeline_done(struct pipeline *pipeline)
{
	struct slot *slot = pipeline_slot(pipeline, pipeline->next_written);
	image_deinit(&slot->image);
	(void)pthread_mutex_lock(&pipeline->lock);
	pipeline->window_used -= slot->charged;
	slot->charged = 0;
	slot->state = SLOT_FREE;
	pipeline->next_written++;
	(void)pthread_cond_broadcast(&pipeline->moved);
	(void)pthread_mutex_unlock(&pipeline->lock);
}

/* check: `penstock check`: what a dataset is, what this machine offers, which images are broken.
 *
 * W threads take sample numbers from one counter and decode every image in full, as Pillow's
 * load() does. Memory is bounded: each thread has a decoder and a buffer; memory for larger
 * files and images comes from two pools, one for files and one for decoders, so that no thread
 * ever waits for a pool of which it holds a part. */
#include "client/cli/cli.h"

#include "base/clock.h"
#include "base/host/cpu.h"
#include "base/host/limits.h"
#include "base/host/spill.h"
#include "base/store.h"
#include "base/util.h"
#include "client/cli/catalog.h"
#include "client/cli/inspect/machine.h"
#include "client/cli/options.h"
#include "client/cli/progress.h"
#include "client/cli/table.h"
#include "dataset/dataset.h"
#include "dataset/index_share.h"
#include "dataset/sidecar.h"
#include "decode/decode.h"
#include "definition/spec.h"
#include "fetch/fetch.h"
#include "proto/jsontext.h"
#include "serve/budget.h"
#include "stream/field.h"
#include "stream/large.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
	CHECK_BUFFER = 1 << 20,
	CHECK_SLACK = 64,
	CHECK_LUMP = 8,
	CHECK_REASON = 32,
	CHECK_MESSAGE = 160,
	CHECK_TICK_NS = 50000000
};

struct check_broken {
	uint64_t number;
	char reason[CHECK_REASON], message[CHECK_MESSAGE];
};

struct check {
	const char *source;
	struct catalog_choice choice;
	struct field_list fields; /* that each sample must have */
	uint64_t threads, memory;
	bool index_only, json, entry_points;

	struct dataset *dataset;
	struct sidecar *sidecar; /* keeps entry points; NULL: the user did not ask for them */
	struct machine machine;
	char reader[256], io_why[256];
	bool direct;

	struct permit files, decoders;
	_Atomic uint64_t next, done; /* relaxed: only counters */
	_Atomic uint64_t made, kept,
		/* Images with new entry points; with entry points already; without use for any. */
		needless;
	_Atomic bool stop;
	double seconds;
	/* Indexes of remote shards: now beside them, there before, in the cache folder only; and
	 * why the first of these could not be stored. */
	uint32_t shared, shared_before, unshared;
	struct fault unshared_why;
	struct stream_spec standard; /* its limits on a sample */
	/* Where what --memory has no room for goes. */
	char cache_dir[4096];
	struct spill spill;

	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t over; /* a thread has ended */
	uint64_t running;
	struct check_broken *broken;
	size_t broken_count, broken_room;
	struct fault fault; /* why everything stopped; "" if nothing did */
};

struct check_worker {
	struct check *check;
	pthread_t thread;
	struct decoder *decoder;
	struct decoder *recorder; /* makes entry points; NULL: the user did not ask for them */
	uint8_t *buffer;
	uint8_t *field; /* room for the largest one */
	/* The image whose entry points are being made. */
	struct decode_job job;
	struct sidecar_place place;
	bool given;
};

static const struct command check_command = {
	.name = "check",
	.operands = "SOURCE",
	.min_operands = 1,
	.max_operands = 1,
	.about = "Describes SOURCE and this machine, decodes every image in full, and lists the\n"
		 "broken ones. Exits with 1 if there are any.",
};

static int check_options(struct check *check, int argc, char **argv)
{
	const struct option table[] = {
		{"threads", 't', OPTION_NUMBER, &check->threads, "N",
			"decoding threads (all CPUs but one)", 1, 1024, NULL},
		{"memory", 'm', OPTION_SIZE, &check->memory, "SIZE",
			"memory budget, such as 96M (a quarter of what is free, at most 4G)",
			1 << 20, 0, NULL},
		{"max-image-pixels", 0, OPTION_NUMBER, &check->standard.max_image_pixels, "N",
			"an image of more pixels is broken (64000000)", 1, 1000000000, NULL},
		{"max-file-bytes", 0, OPTION_NUMBER, &check->standard.max_file_bytes, "N",
			"a sample of more bytes is broken (536870912)", 1, UINT32_MAX, NULL},
		{"index-only", 0, OPTION_FLAG, &check->index_only, NULL,
			"build the index and decode nothing", 0, 0, NULL},
		{"index", 0, OPTION_FLAG, &check->entry_points, NULL,
			"also make the entry points of all images, so that a first epoch is as "
			"fast as later ones; in a bucket, also store the indexes beside the shards",
			0, 0, NULL},
		CATALOG_CHOICE_OPTIONS(check->choice),
		{"json", 'j', OPTION_FLAG, &check->json, NULL, "print one JSON object", 0, 0, NULL},
	};
	const char *operand[OPTIONS_OPERANDS];
	int r = options_parse(&check_command, table, UTIL_COUNT(table), argc, argv, operand);
	if (r == OPTIONS_OK)
		check->source = operand[0];
	if (r == OPTIONS_OK && check->entry_points && check->index_only) {
		cli_note("--index makes entry points, which requires decoding: leave out "
			 "--index-only");
		return -EINVAL;
	}
	if (!check->threads)
		check->threads = cpu_threads();
	if (!check->memory)
		check->memory = budget_default();
	return r;
}

/* How a daemon would read this dataset here. */
static int check_plan_reader(struct check *check)
{
	struct permit large;
	permit_init(&large, 1 << 20);
	struct fetch_options options = {
		.arena_bytes = 1 << 20, .index_bytes = 64 * 4096, .large = &large};
	struct fetch *fetch = NULL;
	struct fault fault = {{0}};
	int r = fetch_new(&options, &fetch, &fault);
	if (r == 0) {
		(void)snprintf(check->reader, sizeof check->reader, "%s", fetch_describe(fetch));
		check->direct = fetch_wants_direct(fetch, check->dataset, check->io_why,
					sizeof check->io_why) > 0;
		fetch_free(fetch);
	}
	permit_deinit(&large);
	return r < 0 ? cli_fail(CLI_FAILED, "cannot make a reader: %s", fault.text) : CLI_OK;
}

/* The threads' own memory is at most half; large files and large images share the rest. */
static int check_divide_memory(struct check *check)
{
	uint64_t decoders =
		decoder_whole_bytes() +
		(check->entry_points ? decoder_scratch_bytes(DECODER_SCRATCH_LEAST) : 0);
	uint64_t own = (CHECK_BUFFER + decoders) * check->threads;
	if (own > check->memory / 2)
		return cli_fail(CLI_USAGE,
			"%" PRIu64 " decoding thread%s not fit --memory %s; give at least %s, or "
			"fewer threads",
			check->threads, check->threads == 1 ? " does" : "s do",
			table_bytes(check->memory).text, table_bytes(2 * own).text);
	uint64_t rest = check->memory - own;
	permit_init(&check->files, rest / 3);
	permit_init(&check->decoders, rest - rest / 3);
	return CLI_OK;
}

/* Ends everything: a fault of the machine, not of an image. */
static void check_stop(struct check *check, const char *text)
{
	(void)pthread_mutex_lock(&check->lock);
	if (!check->fault.text[0])
		(void)fault_set(&check->fault, 0, "%s", text);
	(void)pthread_mutex_unlock(&check->lock);
	atomic_store_explicit(&check->stop, true, memory_order_relaxed);
}

static void check_note(
	struct check *check, uint64_t number, const char *reason, const char *message)
{
	(void)pthread_mutex_lock(&check->lock);
	if (check->broken_count == check->broken_room) {
		size_t room = check->broken_room ? check->broken_room * 2 : 64;
		struct check_broken *grown = realloc(check->broken, room * sizeof *grown);
		if (grown) {
			check->broken = grown;
			check->broken_room = room;
		}
	}
	bool kept = check->broken_count < check->broken_room;
	if (kept) {
		struct check_broken *broken = &check->broken[check->broken_count++];
		broken->number = number;
		(void)snprintf(broken->reason, sizeof broken->reason, "%s", reason);
		(void)snprintf(broken->message, sizeof broken->message, "%s", message);
	}
	(void)pthread_mutex_unlock(&check->lock);
	if (!kept)
		check_stop(check, "not enough memory for the list of broken images");
}

static void check_drop_row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	(void)context;
	(void)rgb;
}

/* True for a good image of a kind that can have entry points. */
static bool check_decode(
	struct check_worker *worker, uint64_t number, const uint8_t *data, size_t size)
{
	struct decode_info info = {0};
	int r = decoder_begin(worker->decoder, data, size, &info);
	if (r == DECODE_OK) {
		struct decode_region whole = {0, 0, info.width, info.height};
		r = decoder_rows(worker->decoder, whole, true, check_drop_row, NULL);
	}
	if (r > 0)
		check_note(worker->check, number, decode_outcome_name((enum decode_outcome)r),
			decoder_message(worker->decoder));
	else if (r < 0)
		check_stop(worker->check,
			r == -ENOMEM ? "not enough memory to decode an image; give fewer --threads"
				     : decoder_message(worker->decoder));
	bool may = info.format == DECODE_JPEG && !info.progressive;
	if (r == DECODE_OK && !may)
		(void)atomic_fetch_add_explicit(&worker->check->needless, 1, memory_order_relaxed);
	return r == DECODE_OK && may;
}

static struct decode_job *check_record_next(void *context)
{
	struct check_worker *worker = context;
	struct decode_job *job = worker->given ? NULL : &worker->job;
	worker->given = true;
	return job;
}

/* The last pixel: entry points are made up to there. */
static void check_record_header(
	void *context, struct decode_job *job, const struct decode_info *info)
{
	(void)context;
	job->region = (struct decode_region){
		info->width - 1, info->height - 1, info->width, info->height};
}

static void check_record_job(void *context, struct decode_job *job)
{
	(void)context, (void)job;
}

static size_t check_record_recall(void *context, struct decode_job *job, uint8_t *to, size_t room)
{
	(void)job;
	struct check_worker *worker = context;
	return sidecar_read(worker->check->sidecar, &worker->place, to, room);
}

static bool check_record_keeps(void *context, struct decode_job *job)
{
	(void)job;
	struct check_worker *worker = context;
	return sidecar_keeps(worker->check->sidecar, &worker->place);
}

static bool check_record_keep(
	void *context, struct decode_job *job, const uint8_t *pack, size_t size)
{
	(void)job;
	struct check_worker *worker = context;
	return sidecar_write(worker->check->sidecar, &worker->place, pack, size);
}

/* Makes an image's entry points, unless it has all of them. */
static void check_record(
	struct check_worker *worker, const struct sample *sample, const uint8_t *data)
{
	struct check *check = worker->check;
	struct decode_stream stream = {
		.next = check_record_next,
		.header = check_record_header,
		.start = check_record_job,
		.row = check_drop_row,
		.done = check_record_job,
		.context = worker,
		.recall = check_record_recall,
		.keeps = check_record_keeps,
		.keep = check_record_keep,
	};
	sidecar_place(check->sidecar, sample->number, sample->shard, sample->position, sample->size,
		&worker->place);
	worker->job = (struct decode_job){
		.data = data, .size = sample->size, .entry_point_room = worker->place.room};
	worker->given = false;
	decoder_run(worker->recorder, &stream);
	if (worker->job.entry_points & DECODE_ENTRY_POINTS_MADE)
		(void)atomic_fetch_add_explicit(&check->made, 1, memory_order_relaxed);
	else if (worker->job.entry_points & DECODE_ENTRY_POINTS_USED)
		(void)atomic_fetch_add_explicit(&check->kept, 1, memory_order_relaxed);
	else if (sidecar_keeps(check->sidecar, &worker->place))
		(void)atomic_fetch_add_explicit(&check->needless, 1, memory_order_relaxed);
}

static void check_read(struct check_worker *worker, const struct sample *sample, uint8_t *buffer)
{
	struct fault fault = {{0}};
	int r = dataset_read(worker->check->dataset, sample, buffer, sample->size, &fault);
	enum fetch_outcome outcome = fetch_outcome_of(r);
	if (r == 0) {
		if (check_decode(worker, sample->number, buffer, sample->size) && worker->recorder)
			check_record(worker, sample, buffer);
	} else if (outcome)
		check_note(worker->check, sample->number, fetch_outcome_name(outcome), fault.text);
	else
		check_stop(worker->check, fault.text);
}

/* A file larger than all of the pool: through a temporary file, as in a stream. */
static void check_read_spilled(struct check_worker *worker, const struct sample *sample)
{
	struct check *check = worker->check;
	struct fault fault = {{0}};
	uint8_t *data;
	uint32_t size;
	int error, r = large_read(&check->spill, check->dataset, sample->number, &data, &size,
			   &error, &fault);
	if (r > 0) {
		check_note(check, sample->number, fetch_outcome_name((enum fetch_outcome)r),
			fault.text);
		return;
	}
	if (r < 0) {
		check_stop(check, fault.text);
		return;
	}
	decoder_set_mapped(worker->decoder, true);
	(void)check_decode(worker, sample->number, data, size);
	decoder_set_mapped(worker->decoder, false);
	large_free(data, size);
}

/* A file larger than the thread's own buffer: its memory comes from the pool. */
static void check_read_large(struct check_worker *worker, const struct sample *sample)
{
	struct check *check = worker->check;
	uint64_t room = (uint64_t)sample->size + CHECK_SLACK;
	if (permit_acquire(&check->files, room) != 0) {
		check_read_spilled(worker, sample);
		return;
	}
	uint8_t *buffer = malloc(room);
	if (buffer)
		check_read(worker, sample, buffer);
	else
		check_stop(check, "not enough memory to read a file; lower --memory or --threads");
	free(buffer);
	permit_release(&check->files, room);
}

/* A sample whose image is good may have broken fields: the first one is named. */
static void check_fields(struct check_worker *worker, uint64_t number)
{
	struct check *check = worker->check;
	struct fault fault = {{0}};
	uint32_t size;
	int r = 0;
	for (uint32_t i = 0; r == 0 && i < check->fields.count; i++)
		r = field_read(
			check->dataset, number, &check->fields, i, worker->field, &size, &fault);
	if (r > 0)
		check_note(check, number, fetch_outcome_name((enum fetch_outcome)r), fault.text);
	else if (r < 0)
		check_stop(check, fault.text);
}

static void check_too_large(struct check *check, const struct sample *sample)
{
	char text[96];
	(void)snprintf(text, sizeof text,
		"the file has %u bytes; the limit max_file_bytes is %" PRIu64, sample->size,
		check->standard.max_file_bytes);
	check_note(check, sample->number, fetch_outcome_name(FETCH_E_TOO_LARGE), text);
}

static void check_sample(struct check_worker *worker, uint64_t number)
{
	struct sample sample;
	struct fault fault = {{0}};
	if (dataset_sample(worker->check->dataset, number, &sample, &fault) < 0)
		check_stop(worker->check, fault.text);
	else if (sample.size > worker->check->standard.max_file_bytes)
		check_too_large(worker->check, &sample);
	else if (sample.size + CHECK_SLACK > CHECK_BUFFER)
		check_read_large(worker, &sample);
	else
		check_read(worker, &sample, worker->buffer);
}

static void check_take(struct check_worker *worker)
{
	struct check *check = worker->check;
	uint64_t count = dataset_count(check->dataset);
	for (;;) {
		uint64_t first =
			atomic_fetch_add_explicit(&check->next, CHECK_LUMP, memory_order_relaxed);
		for (uint64_t n = first; n < UTIL_MIN(first + CHECK_LUMP, count); n++) {
			if (atomic_load_explicit(&check->stop, memory_order_relaxed))
				return;
			check_sample(worker, n);
			check_fields(worker, n);
			(void)atomic_fetch_add_explicit(&check->done, 1, memory_order_relaxed);
		}
		if (first >= count)
			return;
	}
}

static void *check_work(void *argument)
{
	struct check_worker *worker = argument;
	struct check *check = worker->check;
	check_take(worker);
	(void)pthread_mutex_lock(&check->lock);
	check->running--;
	(void)pthread_cond_signal(&check->over);
	(void)pthread_mutex_unlock(&check->lock);
	return NULL;
}

/* Returns when all threads have ended. */
static void check_watch(struct check *check)
{
	struct progress progress;
	progress_begin(&progress, "decoding", PROGRESS_ITEMS, dataset_count(check->dataset), false);
	(void)pthread_mutex_lock(&check->lock);
	while (check->running) {
		struct timespec until;
		(void)clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += CHECK_TICK_NS;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		(void)pthread_cond_timedwait(&check->over, &check->lock, &until);
		(void)pthread_mutex_unlock(&check->lock);
		progress_update(
			&progress, atomic_load_explicit(&check->done, memory_order_relaxed), NULL);
		(void)pthread_mutex_lock(&check->lock);
	}
	(void)pthread_mutex_unlock(&check->lock);
	progress_end(&progress);
}

static void check_worker_free(struct check_worker *worker)
{
	decoder_free(worker->decoder);
	decoder_free(worker->recorder);
	free(worker->buffer);
	free(worker->field);
}

static size_t check_field_room(const struct check *check)
{
	size_t room = 1;
	for (uint32_t i = 0; i < check->fields.count; i++)
		room = UTIL_MAX(room, (size_t)check->fields.at[i].max);
	return room;
}

static int check_worker_start(struct check *check, struct check_worker *worker)
{
	struct fault fault = {{0}};
	struct decode_limits limits = decode_limits_default();
	limits.large = &check->decoders;
	limits.spill = &check->spill;
	limits.pixels = check->standard.max_image_pixels;
	limits.whole = true;
	*worker = (struct check_worker){.check = check,
		.buffer = malloc(CHECK_BUFFER),
		.field = malloc(check_field_room(check))};
	int r = worker->buffer && worker->field ? decoder_new(&limits, &worker->decoder, &fault)
						: -ENOMEM;
	limits.whole = false;
	limits.scratch = DECODER_SCRATCH_LEAST;
	if (r == 0 && check->sidecar)
		r = decoder_new(&limits, &worker->recorder, &fault);
	if (r == 0) {
		(void)pthread_mutex_lock(&check->lock);
		r = -pthread_create(&worker->thread, NULL, check_work, worker);
		check->running += r == 0;
		(void)pthread_mutex_unlock(&check->lock);
	}
	if (r < 0) {
		if (!fault.text[0])
			(void)fault_set(&fault, r, "cannot start a decoding thread: %s%s",
				strerror(-r), limits_thread_hint(-r));
		check_stop(check, fault.text);
		check_worker_free(worker);
	}
	return r;
}

static int check_compare(const void *a, const void *b)
{
	uint64_t x = ((const struct check_broken *)a)->number,
		 y = ((const struct check_broken *)b)->number;
	return (x > y) - (x < y);
}

static int check_everything(struct check *check)
{
	cleanup(free_ptr) struct check_worker *workers = calloc(check->threads, sizeof *workers);
	if (!workers)
		return cli_fail(CLI_FAILED, "not enough memory for %" PRIu64 " decoding threads",
			check->threads);
	if (check->entry_points && sidecar_new(check->dataset, &check->sidecar))
		return cli_fail(CLI_FAILED, "not enough memory for the entry points of %u shards",
			dataset_shards(check->dataset));
	uint64_t begin_ns = clock_ns(), started = 0;
	while (started < check->threads && check_worker_start(check, &workers[started]) == 0)
		started++;
	check_watch(check);
	for (uint64_t i = 0; i < started; i++) {
		(void)pthread_join(workers[i].thread, NULL);
		check_worker_free(&workers[i]);
	}
	check->seconds = (double)(clock_ns() - begin_ns) / 1e9;
	if (check->fault.text[0])
		return cli_fail(CLI_FAILED, "%s", check->fault.text);
	if (check->broken_count)
		qsort(check->broken, check->broken_count, sizeof *check->broken, check_compare);
	return CLI_OK;
}

static const char *const check_label_types[] = {
	[LABEL_TYPE_CLASS] = "class",
	[LABEL_TYPE_MULTI_HOT] = "multi_hot",
	[LABEL_TYPE_FLOAT] = "float",
	[LABEL_TYPE_CLASSES] = "classes",
};

/* The range of classes without names. Reads every record, so not of very many samples. */
static void check_describe_range(const struct dataset *dataset, char *out, size_t room)
{
	enum { RANGE_SAMPLES = 2000000 };
	int64_t least = INT64_MAX, most = -1;
	struct fault fault;
	for (uint64_t i = 0; i < dataset_count(dataset) && i < RANGE_SAMPLES; i++) {
		struct sample sample;
		if (dataset_sample(dataset, i, &sample, &fault) < 0)
			return;
		least = UTIL_MIN(least, sample.label);
		most = UTIL_MAX(most, sample.label);
	}
	if (dataset_count(dataset) > RANGE_SAMPLES)
		return;
	(void)snprintf(out, room, "numbers from %" PRId64 " to %" PRId64 ", without class names%s",
		least, most,
		least == 1 && dataset_has_columns(dataset)
			? "; --label-offset -1 makes them begin with 0"
			: "");
}

/* "3 classes: cat, dog, horse" */
static void check_describe_labels(const struct dataset *dataset, char *out, size_t room)
{
	uint32_t classes = dataset_classes(dataset);
	const uint32_t width = dataset_label_width(dataset);
	const enum label_type type = dataset_label_type(dataset);
	if (type == LABEL_TYPE_FLOAT)
		(void)snprintf(out, room, "%u number%s per sample", width, width == 1 ? "" : "s");
	else if (!classes && type == LABEL_TYPE_CLASSES)
		(void)snprintf(out, room, "%u class%s per sample, without names", width,
			width == 1 ? "" : "es");
	else if (!classes && type == LABEL_TYPE_MULTI_HOT)
		(void)snprintf(out, room, "any of %u classes, without names", width);
	else if (!classes)
		(void)snprintf(out, room,
			dataset_labelled(dataset) ? "numbers, without class names" : "none");
	if (!classes && type == LABEL_TYPE_CLASS && dataset_labelled(dataset))
		check_describe_range(dataset, out, room);
	if (!classes)
		return;
	char some[32] = "";
	if (type == LABEL_TYPE_MULTI_HOT)
		(void)snprintf(some, sizeof some, "any of ");
	else if (type == LABEL_TYPE_CLASSES)
		(void)snprintf(some, sizeof some, "%u of ", width);
	size_t at = (size_t)snprintf(
		out, room, "%s%u class%s:", some, classes, classes == 1 ? "" : "es");
	for (uint32_t i = 0; i < classes; i++) {
		const char *name = dataset_class_name(dataset, i);
		if (at + strlen(name) + 8 > room) {
			(void)snprintf(out + at, room - at, " ...");
			return;
		}
		at += (size_t)snprintf(
			out + at, room - at, " %s%s", name, i + 1 < classes ? "," : "");
	}
}

/* Whether a warning, which is on standard error, has already listed all files that were passed
 * over. */
static bool check_has_warned_of_passed(const struct dataset *dataset)
{
	char list[520];
	const char *warning;
	(void)snprintf(list, sizeof list, "(%s)", dataset_passed_text(dataset));
	for (uint32_t i = 0; (warning = dataset_warning(dataset, i)); i++)
		if (strstr(warning, list))
			return true;
	return false;
}

static void check_print_dataset(const struct check *check)
{
	const struct dataset *dataset = check->dataset;
	char kind[48], labels[160], index[64] = "up to date";
	catalog_kind(dataset, kind, sizeof kind);
	(void)printf("%s\n  %-12s %s\n", check->source, "kind", kind);
	(void)printf("  %-12s %s, %s; the largest is %s\n", "samples",
		table_count(dataset_count(dataset)).text, table_bytes(dataset_bytes(dataset)).text,
		table_bytes(dataset_largest(dataset)).text);
	if (dataset_passed(dataset) && !check_has_warned_of_passed(dataset))
		(void)printf("  %-12s %s file%s with an extension that images do not have: %s\n",
			"passed over", table_count(dataset_passed(dataset)).text,
			dataset_passed(dataset) == 1 ? "" : "s", dataset_passed_text(dataset));
	check_describe_labels(dataset, labels, sizeof labels);
	table_sentence(2, 12, "labels", cli_tame(labels), 80);
	if (dataset_indexed_ns(dataset))
		(void)snprintf(index, sizeof index, "built now, in %s",
			table_seconds((double)dataset_indexed_ns(dataset) / 1e9).text);
	(void)printf("  %-12s %s\n", "index", index);
	(void)printf("  %-12s %016" PRIx64 "\n", "fingerprint", dataset_fingerprint(dataset));
}

static void check_print_use(const struct check *check)
{
	char io[300];
	(void)printf("\nwhat will be used\n");
	(void)printf("  %-12s %" PRIu64 "\n", "threads", check->threads);
	(void)printf("  %-12s at most %s\n", "memory", table_bytes(check->memory).text);
	table_sentence(2, 12, "reader", check->reader, 80);
	(void)snprintf(io, sizeof io, "%s%s%s", check->direct ? "direct" : "buffered",
		*check->io_why ? ": " : "", check->io_why);
	table_sentence(2, 12, "io", io, 80);
	(void)printf("\n");
	(void)fflush(stdout);
}

static int check_path(
	const struct check *check, const struct check_broken *broken, char *path, size_t room)
{
	struct fault fault = {{0}};
	if (dataset_path(check->dataset, broken->number, path, room, &fault) == 0)
		return CLI_OK;
	return cli_fail(CLI_FAILED, "%s", fault.text);
}

static void check_print_entry_points(const struct check *check)
{
	(void)printf("entry points: %s made, %s already there; %s image%s none (small, progressive "
		     "or PNG)\n",
		table_count(check->made).text, table_count(check->kept).text,
		table_count(check->needless).text, check->needless == 1 ? " has" : "s have");
}

/* Stores the indexes of remote shards beside them. What fails once is not tried for each shard. */
static void check_share(struct check *check)
{
	for (uint32_t i = 0; i < dataset_shards(check->dataset); i++) {
		int r = check->unshared_why.text[0]
				? INDEX_SHARE_NONE
				: index_share(check->dataset, i, &check->unshared_why);
		check->shared += r == INDEX_SHARE_STORED;
		check->shared_before += r == INDEX_SHARE_SAME;
		check->unshared += r < 0 || r == INDEX_SHARE_NONE;
	}
}

static void check_print_shared(const struct check *check)
{
	(void)printf("indexes: %s stored beside the shards, %s already there, %s in the cache "
		     "folder %s only\n",
		table_count(check->shared).text, table_count(check->shared_before).text,
		table_count(check->unshared).text, check->cache_dir);
	if (check->unshared_why.text[0])
		cli_note("%s", check->unshared_why.text);
}

static void check_json_shared(const struct check *check, struct jsontext *json)
{
	jsontext_object(json, "indexes");
	jsontext_u64(json, "stored", check->shared);
	jsontext_u64(json, "there", check->shared_before);
	jsontext_u64(json, "cached", check->unshared);
	jsontext_string(json, "why", check->unshared_why.text);
	jsontext_end(json);
}

/* Entry points that the user asked for and that cannot be kept are a failure. */
static int check_kept(struct check *check)
{
	char text[FAULT_TEXT];
	if (check->sidecar && sidecar_notice(check->sidecar, text, sizeof text))
		return cli_fail(CLI_FAILED, "%s", text);
	return CLI_OK;
}

static int check_print_broken(const struct check *check)
{
	char path[8300];
	uint64_t samples = dataset_count(check->dataset);
	(void)printf("decoded %s image%s in %s, %s/s\n", table_count(samples).text,
		samples == 1 ? "" : "s", table_seconds(check->seconds).text,
		table_count((uint64_t)((double)samples / UTIL_MAX(check->seconds, 1e-9))).text);
	(void)printf(check->broken_count ? "%s broken:\n" : "no image is broken\n",
		table_count(check->broken_count).text);
	for (size_t i = 0; i < check->broken_count && !ferror(stdout); i++) {
		const struct check_broken *broken = &check->broken[i];
		if (check_path(check, broken, path, sizeof path) != CLI_OK)
			return CLI_FAILED;
		(void)printf("  %s\n      %s%s", cli_tame(path), broken->reason,
			*broken->message ? ": " : "");
		(void)snprintf(path, sizeof path, "%s", broken->message);
		(void)printf("%s\n", cli_tame(path));
	}
	return CLI_OK;
}

static void check_json_warnings(const struct dataset *dataset, struct jsontext *json)
{
	const char *text;
	jsontext_array(json, "warnings");
	for (uint32_t i = 0; (text = dataset_warning(dataset, i)); i++)
		jsontext_string(json, NULL, text);
	jsontext_end(json);
}

static void check_json_dataset(const struct check *check, struct jsontext *json)
{
	const struct dataset *dataset = check->dataset;
	char kind[48], fingerprint[24];
	catalog_kind(dataset, kind, sizeof kind);
	(void)snprintf(
		fingerprint, sizeof fingerprint, "%016" PRIx64, dataset_fingerprint(dataset));
	jsontext_string(json, "source", check->source);
	jsontext_string(json, "kind", kind);
	jsontext_u64(json, "samples", dataset_count(dataset));
	jsontext_u64(json, "passed_over", dataset_passed(dataset));
	jsontext_string(json, "passed_over_extensions", dataset_passed_text(dataset));
	jsontext_u64(json, "bytes", dataset_bytes(dataset));
	jsontext_u64(json, "largest_bytes", dataset_largest(dataset));
	jsontext_u64(json, "shards", dataset_shards(dataset));
	jsontext_bool(json, "labelled", dataset_labelled(dataset));
	jsontext_u64(json, "classes", dataset_classes(dataset));
	jsontext_string(json, "label_type", check_label_types[dataset_label_type(dataset)]);
	jsontext_u64(json, "label_width", dataset_label_width(dataset));
	jsontext_string(json, "fingerprint", fingerprint);
	jsontext_number(json, "index_s", (double)dataset_indexed_ns(dataset) / 1e9, 4);
	check_json_warnings(dataset, json);
}

static void check_json_use(const struct check *check, struct jsontext *json)
{
	jsontext_object(json, "use");
	jsontext_u64(json, "threads", check->threads);
	jsontext_u64(json, "memory", check->memory);
	jsontext_string(json, "reader", check->reader);
	jsontext_string(json, "io", check->direct ? "direct" : "buffered");
	jsontext_string(json, "io_reason", check->io_why);
	jsontext_end(json);
}

static int check_json_broken(const struct check *check, struct jsontext *json)
{
	char path[8300];
	jsontext_array(json, "broken");
	for (size_t i = 0; i < check->broken_count; i++) {
		const struct check_broken *broken = &check->broken[i];
		if (check_path(check, broken, path, sizeof path) != CLI_OK)
			return CLI_FAILED;
		jsontext_object(json, NULL);
		jsontext_u64(json, "index", broken->number);
		jsontext_string(json, "path", path);
		jsontext_string(json, "reason", broken->reason);
		jsontext_string(json, "message", broken->message);
		jsontext_end(json);
	}
	jsontext_end(json);
	return CLI_OK;
}

static int check_print_json(const struct check *check)
{
	struct jsontext json = {0};
	jsontext_object(&json, NULL);
	check_json_dataset(check, &json);
	machine_json(&check->machine, &json);
	check_json_use(check, &json);
	jsontext_u64(&json, "decoded", check->index_only ? 0 : dataset_count(check->dataset));
	jsontext_number(&json, "seconds", check->seconds, 3);
	if (check->sidecar) {
		jsontext_object(&json, "checkpoints");
		jsontext_u64(&json, "made", check->made);
		jsontext_u64(&json, "kept", check->kept);
		jsontext_u64(&json, "needless", check->needless);
		jsontext_end(&json);
	}
	if (check->sidecar && dataset_remote(check->dataset))
		check_json_shared(check, &json);
	int code = check_json_broken(check, &json);
	jsontext_end(&json);
	if (code == CLI_OK)
		return cli_print_json(&json);
	jsontext_free(&json);
	return code;
}

static int check_run(struct check *check)
{
	machine_read(&check->machine);
	int code = check_plan_reader(check);
	if (code != CLI_OK)
		return code;
	if (!check->json) {
		check_print_dataset(check);
		machine_print(&check->machine);
		check_print_use(check);
	}
	if (!check->index_only)
		code = check_everything(check);
	const bool share = code == CLI_OK && check->sidecar && dataset_remote(check->dataset);
	if (share)
		check_share(check);
	if (code == CLI_OK && check->json)
		code = check_print_json(check);
	else if (code == CLI_OK && !check->index_only)
		code = check_print_broken(check);
	if (code == CLI_OK && check->sidecar && !check->json)
		check_print_entry_points(check);
	if (code == CLI_OK && share && !check->json)
		check_print_shared(check);
	if (code == CLI_OK)
		code = check_kept(check);
	return code == CLI_OK && check->broken_count ? CLI_FAILED : code;
}

int check_main(int argc, char **argv)
{
	struct check check = {.choice = CATALOG_CHOICE_DEFAULT,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.over = PTHREAD_COND_INITIALIZER};
	spec_init(&check.standard);
	int r = check_options(&check, argc, argv);
	if (r != OPTIONS_OK)
		return r < 0 ? CLI_USAGE : CLI_OK;
	/* Where that folder cannot be used, the files that need it say so. */
	(void)store_cache_folder(NULL, check.cache_dir, sizeof check.cache_dir);
	check.spill.folder = check.cache_dir;
	int code = check_divide_memory(&check);
	if (code != CLI_OK)
		return code;
	code = catalog_fields(&check.choice, &check.fields);
	if (code == CLI_OK)
		code = catalog_open(check.source, &check.choice, &check.dataset);
	if (code == CLI_OK)
		code = check_run(&check);
	permit_deinit(&check.files);
	permit_deinit(&check.decoders);
	free(check.broken);
	sidecar_free(check.sidecar);
	dataset_free(check.dataset);
	return code;
}

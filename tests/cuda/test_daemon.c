/* libpenstock_cuda, the fake driver, and penstockd itself: the device receives what a stream
 * without a device reads, in both memory modes and across the death of the daemon; an
 * evaluation's last batch is short; a state taken between batches resumes exactly. */
#include "client/fake.h"
#include "cuda/gpu.h"
#include "penstock/cuda.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { BATCHES = 24, BATCH_SIZE = 5, SIZE = 32, SAMPLES = 6 * 9, IMAGE = SIZE * SIZE * 3 };

static char folder[64], data[80], socket_path[96];
static struct gpu gpu;

__attribute__((format(printf, 1, 2))) static int run(const char *format, ...)
{
	char command[512];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(command, sizeof command, format, args);
	va_end(args);
	return system(command);
}

static int make_place(void **state)
{
	(void)state;
	(void)snprintf(folder, sizeof folder, "/tmp/penstock-cuda-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	(void)snprintf(data, sizeof data, "%s/data", folder);
	(void)snprintf(socket_path, sizeof socket_path, "%s/run/p.sock", folder);
	(void)setenv("PENSTOCKD", REAL_PENSTOCKD, 1);
	(void)setenv("XDG_CACHE_HOME", folder, 1);
	return run("%s %s --per-class %d --min-side 40 --max-side 80 >%s/made 2>&1", MAKE_DATASET,
		data, SAMPLES / 6, folder);
}

static int remove_place(void **state)
{
	(void)state;
	return run("rm -rf %s", folder);
}

struct kind {
	const char *name;
	uint32_t memory;
	int32_t train, pin_memory;
	bool deaths;
	bool as_most; /* the device registers no memory that is mapped read-only */
};

static struct penstock_stream *open_stream(const struct kind *kind, const char *state)
{
	struct penstock_stream *stream = NULL;
	struct penstock_options options;
	penstock_options_init(&options);
	options.source = data;
	options.socket = socket_path;
	options.batch_size = BATCH_SIZE;
	options.image_size = SIZE;
	options.seed = 3;
	options.train = kind->train;
	options.daemon_memory = "256M";
	options.daemon_threads = 2;
	options.reconnect_ms = 20000;
	options.pin_memory = kind->pin_memory;
	options.state = state;
	int result = penstock_stream_open(&options, &stream);
	if (result < 0)
		(void)fprintf(stderr, "open: %d: %s\n", result, penstock_error());
	FAKE_WANT(result == 0);
	return stream;
}

struct seen {
	uint64_t epoch, batch;
	uint32_t count;
	uint8_t images[BATCH_SIZE * IMAGE];
	int64_t labels[BATCH_SIZE];
};

/* What a stream without a device gives. */
static void read_plainly(const struct kind *kind, struct seen seen[BATCHES])
{
	struct penstock_batch batch;
	struct penstock_stream *stream = open_stream(kind, NULL);
	for (int i = 0; i < BATCHES; i++) {
		FAKE_WANT(penstock_stream_next(stream, &batch, 30000) == 0);
		seen[i].epoch = batch.epoch;
		seen[i].batch = batch.batch;
		seen[i].count = batch.count;
		memcpy(seen[i].images, batch.images, (size_t)batch.count * IMAGE);
		memcpy(seen[i].labels, batch.labels, batch.count * sizeof *batch.labels);
		FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
	}
	penstock_stream_close(stream);
}

static void want_seen(
	const struct penstock_cuda_batch *batch, const struct seen *seen, CUstream queue)
{
	FAKE_WANT(batch->epoch == seen->epoch && batch->batch == seen->batch);
	FAKE_WANT(batch->count == seen->count);
	GPU_WANT(gpu.driver.stream_wait_event(queue, batch->ready, 0));
	size_t image_bytes = (size_t)seen->count * IMAGE;
	size_t label_bytes = seen->count * sizeof *seen->labels;
	void *images = gpu_look(&gpu, queue, batch->images, image_bytes);
	void *labels = gpu_look(&gpu, queue, batch->labels, label_bytes);
	gpu_want_same(images, seen->images, image_bytes);
	gpu_want_same(labels, seen->labels, label_bytes);
	gpu_want_same(batch->host_labels, seen->labels, label_bytes);
	free(images);
	free(labels);
}

static struct penstock_cuda *attach(const struct kind *kind, struct penstock_stream *stream)
{
	struct penstock_cuda *cuda = NULL;
	struct penstock_cuda_options options;
	penstock_cuda_options_init(&options);
	options.memory = kind->memory;
	int result = penstock_cuda_attach(stream, &options, &cuda);
	if (result < 0)
		(void)fprintf(stderr, "attach: %d: %s\n", result, penstock_error());
	FAKE_WANT(result == 0);
	return cuda;
}

static void train_one(struct penstock_cuda *cuda, const struct seen *seen, CUstream queue)
{
	struct penstock_cuda_batch batch;
	int result = penstock_cuda_next(cuda, &batch, 30000);
	if (result < 0)
		(void)fprintf(stderr, "next: %d: %s\n", result, penstock_error());
	FAKE_WANT(result == 0);
	want_seen(&batch, seen, queue);
	FAKE_WANT(penstock_cuda_release(cuda, &batch, queue) == 0);
}

/* The stream is the attachment's and cannot be asked for it. There may be none now: the stream
 * looks for the next one. */
static void kill_daemon(void)
{
	char *text = NULL;
	int pid = 0;
	if (penstock_daemon_status(socket_path, &text) < 0)
		return;
	const char *at = strstr(text, "\"pid\":");
	FAKE_WANT(at && sscanf(at, "\"pid\":%d", &pid) == 1 && pid > 0);
	(void)kill(pid, SIGKILL);
	free(text);
}

static void begin_gpu(const struct kind *kind)
{
	struct fake_cuda_settings settings = FAKE_CUDA_SETTINGS;
	settings.read_only_register = !kind->as_most;
	gpu_load(&gpu);
	gpu.fake->configure(&settings);
	gpu_begin(&gpu);
}

static void run_kind(const void *argument)
{
	static struct seen seen[BATCHES];
	const struct kind *kind = argument;
	char state[512];
	read_plainly(kind, seen);
	struct penstock_stream *stream = open_stream(kind, NULL);
	begin_gpu(kind);
	CUstream queue = gpu_stream(&gpu);
	gpu.fake->delay(500);
	struct penstock_cuda *cuda = attach(kind, stream);
	for (int i = 0; i < BATCHES; i++) {
		/* Half way through another trainer goes on with the state. */
		if (i == BATCHES / 2) {
			FAKE_WANT(penstock_cuda_state(cuda, state, sizeof state) > 0);
			penstock_cuda_detach(cuda);
			penstock_stream_close(stream);
			stream = open_stream(kind, state);
			cuda = attach(kind, stream);
		}
		train_one(cuda, &seen[i], queue);
		if (kind->deaths && i % 5 == 4)
			kill_daemon();
	}
	penstock_cuda_detach(cuda);
	penstock_stream_close(stream);
	GPU_WANT(gpu.driver.stream_destroy(queue));
	gpu_end(&gpu);
	/* The last that was killed may not have been missed. */
	int result = penstock_daemon_stop(socket_path);
	FAKE_WANT(result == 0 || (kind->deaths && result == -ECONNREFUSED));
}

static const struct kind kinds[] = {
	{"registered", PENSTOCK_CUDA_REGISTERED, 1, 0, false, false},
	{"registered, pinned", PENSTOCK_CUDA_REGISTERED, 1, 1, true, false},
	{"registered as this process's own", PENSTOCK_CUDA_REGISTERED, 1, 1, true, true},
	{"ring", PENSTOCK_CUDA_RING, 1, 0, true, false},
	{"evaluation", PENSTOCK_CUDA_REGISTERED, 0, 1, false, true},
	{"evaluation, ring", PENSTOCK_CUDA_RING, 0, 0, false, false},
};

static void test_kinds(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		fake_check(run_kind, &kinds[i], kinds[i].name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
	};
	return cmocka_run_group_tests(tests, make_place, remove_place);
}

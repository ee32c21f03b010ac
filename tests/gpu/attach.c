/* attach: libpenstock_cuda on a device, against the batches that the host gets.
 *
 *   gpu_attach SOURCE TEST [NUMBER]
 *
 *   registered, ring   every byte of NUMBER batches (150), compared long after their slots have
 *                      been filled again, while other copies keep the device's copy engine busy
 *   release            a batch that was released in a queue which has not come so far stays as it
 *                      is
 *   transform          images and targets, of all types and layouts, against tests/cuda/reference.c
 *   together           two processes that share all batches of a stream
 *   killed             one of two is killed while batches are copied for it, NUMBER times (6)
 *   memory             how much less memory the device has after attaching, against what the
 *                      library reports
 *   growth             NUMBER batches (2000): neither the device nor the host has less afterwards
 *
 * A second stream of the same definition says what a batch must contain: batches depend only on
 * seed and place, and a stream without a group belongs to one trainer. Prints one line; exit code 0
 * passed, 1 failed, 77 this cannot be tested here. One thread; `together` and `killed` start this
 * program again as `reader`. */
#include "tests/gpu/gpu.h"

#include "cuda/reference.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	BATCH = 64,
	SIDE = 160,
	ODD_SIDE = 97,
	EVEN_SIDE = 96,
	SLOTS = 3,
	PREFETCH = 4,
	HELD = 3,
	WAIT_MS = 60000,
	NOISE_BYTES = 32 << 20,
	NOISE_COPIES = 4,
	SMALL_BATCH = 8,
	SMALL_SIDE = 32,
	READER_HEAD = 10,
	READER_TAIL = 40,
	CLASSES = 7,
	GRANULE = 2 << 20,
	MODULE_BYTES = 64 << 20,
	GROWTH_BYTES = 8 << 20,
	TRIES = 3,
	LOOKS = 10,
	LOOK_US = 100000,
};

struct test {
	const char *source;
	uint64_t number; /* of the command line, or 0 */
	const struct gpu *gpu;
	CUstream queue;
	struct gpu_feed feed;
	struct penstock_stream *host; /* the same batches, on the host */
	uint64_t compared;
	uint64_t rows_plain, rows_mixed; /* of those that were transformed */
	/* copies of what is on the device, pinned */
	unsigned char *images;
	int64_t *labels;
	struct penstock_cuda_row *rows;
};

static struct penstock_options test_options(const struct test *test, uint32_t batch, uint32_t side)
{
	struct penstock_options options;
	penstock_options_init(&options);
	options.source = test->source;
	options.batch_size = batch;
	options.image_size = side;
	options.prefetch = SLOTS;
	options.seed = 11;
	options.timeout_ms = WAIT_MS;
	options.private_daemon = 0;
	options.pin_memory = 1;
	return options;
}

static struct penstock_cuda_options test_cuda_options(uint32_t memory)
{
	struct penstock_cuda_options options;
	penstock_cuda_options_init(&options);
	options.device = 0;
	options.prefetch = PREFETCH;
	options.memory = memory;
	return options;
}

static void *test_pinned(const struct test *test, size_t bytes)
{
	void *memory;
	gpu_must(test->gpu, "cuMemHostAlloc", test->gpu->mem_host_alloc(&memory, bytes, 0));
	return memory;
}

static void test_attach(struct gpu_feed *feed, const struct penstock_options *options,
	const struct penstock_cuda_options *cuda_options)
{
	if (!gpu_feed_open(feed, options, cuda_options))
		gpu_skip("%s", penstock_error());
}

static void test_open(struct test *test, const struct penstock_options *options,
	const struct penstock_cuda_options *cuda_options)
{
	struct penstock_options own = *options;

	test_attach(&test->feed, options, cuda_options);
	own.group = NULL;
	own.wait_for = 0;
	gpu_done("penstock_stream_open", penstock_stream_open(&own, &test->host));
	const struct penstock_stream_info *info = &test->feed.info;
	test->images = test_pinned(test, (size_t)info->batch_size * info->height * info->width * 3);
	test->labels = test_pinned(test, info->batch_size * sizeof *test->labels);
	test->rows = test_pinned(test, info->batch_size * sizeof *test->rows);
}

static void test_close(struct test *test)
{
	gpu_feed_close(&test->feed);
	penstock_stream_close(test->host);
	(void)test->gpu->mem_free_host(test->images);
	(void)test->gpu->mem_free_host(test->labels);
	(void)test->gpu->mem_free_host(test->rows);
}

static void test_next(struct test *test, struct penstock_cuda_batch *ret_batch)
{
	gpu_done("penstock_cuda_next", penstock_cuda_next(test->feed.cuda, ret_batch, WAIT_MS));
}

static void test_give_back(struct test *test, struct penstock_cuda_batch *batch)
{
	gpu_done("penstock_cuda_release",
		penstock_cuda_release(test->feed.cuda, batch, test->queue));
}

static size_t test_image_bytes(const struct test *test)
{
	return (size_t)test->feed.info.height * test->feed.info.width * 3;
}

/* Has the queue copy a batch back to the host. */
static void test_copy_back(struct test *test, const struct penstock_cuda_batch *batch)
{
	const struct gpu *gpu = test->gpu;
	size_t rows = batch->count;

	gpu_must(gpu, "cuStreamWaitEvent", gpu->stream_wait_event(test->queue, batch->ready, 0));
	gpu_must(gpu, "cuMemcpyDtoHAsync of images",
		gpu->memcpy_dtoh_async(test->images, (CUdeviceptr)batch->images,
			rows * test_image_bytes(test), test->queue));
	gpu_must(gpu, "cuMemcpyDtoHAsync of labels",
		gpu->memcpy_dtoh_async(test->labels, (CUdeviceptr)batch->labels,
			rows * sizeof *test->labels, test->queue));
	gpu_must(gpu, "cuMemcpyDtoHAsync of rows",
		gpu->memcpy_dtoh_async(test->rows, (CUdeviceptr)batch->rows,
			rows * sizeof *test->rows, test->queue));
}

static void test_finish(const struct test *test)
{
	gpu_must(test->gpu, "cuStreamSynchronize", test->gpu->stream_synchronize(test->queue));
}

/* Where two pieces of memory differ first, or `bytes`. */
static size_t test_differ(const void *a, const void *b, size_t bytes)
{
	const unsigned char *x = a, *y = b;
	size_t i = 0;
	if (memcmp(a, b, bytes) == 0)
		return bytes;
	while (x[i] == y[i])
		i++;
	return i;
}

static void test_same(const char *what, const struct penstock_cuda_batch *batch, const void *device,
	const void *host, size_t bytes)
{
	size_t at = test_differ(device, host, bytes);
	if (at < bytes)
		gpu_fail("%s of epoch %" PRIu64 " batch %" PRIu64
			 " differ from byte %zu on of %zu: %u on the device, %u on the host",
			what, batch->epoch, batch->batch, at, bytes,
			((const unsigned char *)device)[at], ((const unsigned char *)host)[at]);
}

/* What came back must be the host stream's next batch. */
static void test_compare(struct test *test, const struct penstock_cuda_batch *batch)
{
	struct penstock_batch host;

	gpu_done("penstock_stream_next", penstock_stream_next(test->host, &host, WAIT_MS));
	if (host.epoch != batch->epoch || host.batch != batch->batch || host.count != batch->count)
		gpu_fail("the device has epoch %" PRIu64 " batch %" PRIu64
			 " (%u rows) where epoch %" PRIu64 " batch %" PRIu64
			 " (%u rows) comes next",
			batch->epoch, batch->batch, batch->count, host.epoch, host.batch,
			host.count);
	size_t rows = host.count;
	test_same("images", batch, test->images, host.images, rows * test_image_bytes(test));
	test_same("labels", batch, test->labels, host.labels, rows * sizeof *host.labels);
	test_same(
		"host_labels", batch, batch->host_labels, host.labels, rows * sizeof *host.labels);
	test_same("samples", batch, batch->samples, host.samples, rows * sizeof *host.samples);
	test_same("rows", batch, test->rows, batch->host_rows, rows * sizeof *test->rows);
	for (size_t row = 0; row < rows; row++)
		if (batch->host_rows[row].position != host.samples[row].position)
			gpu_fail("row %zu has another position than its sample", row);
	gpu_done("penstock_batch_release", penstock_batch_release(test->host, &host));
	test->compared++;
}

/* ---- registered, ring ---- */

/* Copies that are none of penstock's, so that its own wait for the copy engine. */
struct noise {
	void *host;
	CUdeviceptr device;
	CUstream stream;
};

static void noise_begin(const struct test *test, struct noise *noise)
{
	noise->host = test_pinned(test, NOISE_BYTES);
	gpu_must(test->gpu, "cuMemAlloc", test->gpu->mem_alloc(&noise->device, NOISE_BYTES));
	gpu_must(test->gpu, "cuStreamCreate",
		test->gpu->stream_create(&noise->stream, CU_STREAM_NON_BLOCKING));
}

static void noise_make(const struct test *test, const struct noise *noise)
{
	const struct gpu *gpu = test->gpu;
	for (int i = 0; i < NOISE_COPIES; i++)
		gpu_must(gpu, "cuMemcpyHtoDAsync",
			gpu->memcpy_htod_async(
				noise->device, noise->host, NOISE_BYTES, noise->stream));
}

static void noise_end(const struct test *test, const struct noise *noise)
{
	const struct gpu *gpu = test->gpu;
	gpu_must(gpu, "cuStreamSynchronize", gpu->stream_synchronize(noise->stream));
	(void)gpu->stream_destroy(noise->stream);
	(void)gpu->mem_free(noise->device);
	(void)gpu->mem_free_host(noise->host);
}

/* Each batch is looked at HELD batches late: by then the daemon has filled its slot again. */
static void test_content(struct test *test, uint32_t memory)
{
	struct penstock_options options = test_options(test, BATCH, SIDE);
	struct penstock_cuda_options cuda_options = test_cuda_options(memory);
	struct penstock_cuda_batch held[HELD];
	struct noise noise;
	uint64_t batches = test->number ? test->number : 150;

	test_open(test, &options, &cuda_options);
	noise_begin(test, &noise);
	for (uint64_t i = 0; i < batches + HELD; i++) {
		struct penstock_cuda_batch *batch = &held[i % HELD];
		if (i >= HELD) {
			test_copy_back(test, batch);
			test_finish(test);
			test_compare(test, batch);
			test_give_back(test, batch);
		}
		noise_make(test, &noise);
		if (i < batches)
			test_next(test, batch);
	}
	noise_end(test, &noise);
	struct penstock_cuda_info info = {.size = sizeof info};
	gpu_done("penstock_cuda_info", penstock_cuda_info(test->feed.cuda, &info));
	if (info.memory != memory)
		gpu_fail("asked for memory %u, it uses %u", memory, info.memory);
	test_close(test);
	printf("%" PRIu64 " batches of %d, through %d slots, equal byte for byte: %s\n",
		test->compared, BATCH, SLOTS, info.why);
}

static void test_registered(struct test *test)
{
	test_content(test, PENSTOCK_CUDA_REGISTERED);
}

static void test_ring(struct test *test)
{
	test_content(test, PENSTOCK_CUDA_RING);
}

/* ---- release ---- */

static atomic_bool gate_open; /* written by the test, read by the queue's host function */

/* Holds its queue up: for a minute at most, so that a test that fails still ends. */
static void gate(void *unused)
{
	(void)unused;
	for (int i = 0; i < 60000 && !atomic_load(&gate_open); i++)
		(void)usleep(1000);
}

/* Takes what comes, and gives it back in a queue that runs. Ends when nothing comes any more: what
 * is left is behind the gate. The number of batches. */
static uint64_t test_drain(struct test *test, CUstream queue, uint64_t most)
{
	for (uint64_t i = 0; i < most; i++) {
		struct penstock_cuda_batch batch;
		int result = penstock_cuda_next(test->feed.cuda, &batch, 500);
		if (result == -ETIMEDOUT || result == -EDEADLK)
			return i;
		gpu_done("penstock_cuda_next", result);
		gpu_done("penstock_cuda_release",
			penstock_cuda_release(test->feed.cuda, &batch, queue));
	}
	return most;
}

static void test_release(struct test *test)
{
	struct penstock_options options = test_options(test, BATCH, SIDE);
	struct penstock_cuda_options cuda_options = test_cuda_options(PENSTOCK_CUDA_AUTO);
	struct penstock_cuda_batch batch;
	CUstream other;
	const struct gpu *gpu = test->gpu;
	uint64_t rounds = test->number ? test->number : 5, passed = 0;

	cuda_options.prefetch = 1;
	gpu_must(gpu, "cuStreamCreate", gpu->stream_create(&other, CU_STREAM_NON_BLOCKING));
	for (uint64_t round = 0; round < rounds; round++) {
		test_open(test, &options, &cuda_options);
		test_next(test, &batch);
		struct penstock_cuda_batch kept = batch;
		atomic_store(&gate_open, false);
		gpu_must(gpu, "cuLaunchHostFunc", gpu->launch_host_func(test->queue, gate, NULL));
		test_copy_back(test, &batch);
		test_give_back(test, &batch);
		if (batch.images || batch.labels || batch.rows)
			gpu_fail("the pointers of a released batch are not NULL");
		passed += test_drain(test, other, 6);
		atomic_store(&gate_open, true);
		test_finish(test);
		struct penstock_batch host;
		gpu_done("penstock_stream_next", penstock_stream_next(test->host, &host, WAIT_MS));
		test_same("images", &kept, test->images, host.images,
			host.count * test_image_bytes(test));
		gpu_done("penstock_batch_release", penstock_batch_release(test->host, &host));
		if (penstock_cuda_release(test->feed.cuda, &batch, test->queue) != -EINVAL)
			gpu_fail("a batch could be released twice");
		test_close(test);
	}
	(void)gpu->stream_destroy(other);
	if (passed == 0)
		gpu_fail("no batch passed the one that was held up: nothing was shown");
	printf("%" PRIu64
	       " times a released batch was whole when its queue came to it, while %" PRIu64
	       " others passed\n",
		rounds, passed);
}

/* ---- transform ---- */

static struct penstock_cuda_options test_augmented(
	enum penstock_cuda_dtype dtype, enum penstock_cuda_layout layout)
{
	struct penstock_cuda_options options = test_cuda_options(PENSTOCK_CUDA_AUTO);
	options.dtype = dtype;
	options.layout = layout;
	options.flip = 0.5;
	options.erase = 0.5;
	options.erase_value[0] = 1.5f;
	options.mixup = 0.8;
	options.cutmix = 1;
	options.mix =
		0.5; /* the kernels have a way of their own for rows of which nothing is done */
	return options;
}

static void test_copy_out(const struct test *test, void *to, CUdeviceptr from, size_t bytes)
{
	gpu_must(test->gpu, "cuMemcpyDtoHAsync",
		test->gpu->memcpy_dtoh_async(to, from, bytes, test->queue));
	test_finish(test);
}

static void test_transformed(struct test *test, const struct penstock_cuda_options *options,
	const struct penstock_cuda_batch *batch, CUdeviceptr out, unsigned char *pinned,
	size_t bytes)
{
	struct kernels_normalise arguments = {.images = test->images,
		.row = test->rows,
		.rows = batch->count,
		.height = test->feed.info.height,
		.width = test->feed.info.width,
		.key = {(uint32_t)test->feed.info.seed, (uint32_t)(test->feed.info.seed >> 32)}};
	unsigned char *expected = malloc(bytes);

	if (!expected)
		gpu_fail("no memory");
	memcpy(arguments.mean, options->mean, sizeof arguments.mean);
	memcpy(arguments.std, options->std, sizeof arguments.std);
	memcpy(arguments.erase_value, options->erase_value, sizeof arguments.erase_value);
	arguments.out = expected;
	gpu_done("penstock_cuda_transform",
		penstock_cuda_transform(test->feed.cuda, batch, (void *)out, test->queue));
	test_copy_out(test, pinned, out, bytes);
	reference_normalise(&arguments, (enum penstock_cuda_dtype)options->dtype,
		(enum penstock_cuda_layout)options->layout);
	test_same("transformed images", batch, pinned, expected,
		bytes / test->feed.info.batch_size * batch->count);
	free(expected);
}

static void test_targeted(struct test *test, const struct penstock_cuda_batch *batch,
	CUdeviceptr out, unsigned char *pinned)
{
	static float expected[BATCH * CLASSES];
	struct kernels_targets arguments = {.label = test->labels,
		.row = test->rows,
		.out = expected,
		.rows = batch->count,
		.classes = CLASSES,
		.smoothing = 0.1f};

	gpu_done("penstock_cuda_targets", penstock_cuda_targets(test->feed.cuda, batch, CLASSES,
						  arguments.smoothing, (float *)out, test->queue));
	test_copy_out(test, pinned, out, sizeof expected);
	reference_targets(&arguments);
	test_same("targets", batch, pinned, expected, sizeof expected / BATCH * batch->count);
}

static void test_count_rows(struct test *test, const struct penstock_cuda_batch *batch)
{
	for (uint32_t row = 0; row < batch->count; row++) {
		uint32_t flags = batch->host_rows[row].flags;
		test->rows_plain += flags == 0;
		test->rows_mixed += (flags & PENSTOCK_CUDA_ROW_MIXED) != 0;
	}
}

/* Of a seed's batches by chance few or none are mixed in the beginning. With this one the first is,
 * and the second is not, be it of the same epoch or (with fewer than 128 pictures) of the next. */
enum { TRANSFORM_SEED = 10 };

static void test_transform_as(
	struct test *test, const struct penstock_cuda_options *cuda_options, uint32_t side)
{
	struct penstock_options options = test_options(test, BATCH, side);
	struct penstock_cuda_info info = {.size = sizeof info};
	struct penstock_cuda_batch batch;
	CUdeviceptr out;

	options.seed = TRANSFORM_SEED;
	test_open(test, &options, cuda_options);
	gpu_done("penstock_cuda_info", penstock_cuda_info(test->feed.cuda, &info));
	gpu_must(test->gpu, "cuMemAlloc", test->gpu->mem_alloc(&out, info.output_bytes));
	unsigned char *pinned = test_pinned(test, info.output_bytes);
	for (uint64_t i = 0; i < (test->number ? test->number : 6); i++) {
		test_next(test, &batch);
		test_copy_back(test, &batch);
		test_finish(test);
		test_compare(test, &batch);
		test_count_rows(test, &batch);
		test_transformed(test, cuda_options, &batch, out, pinned, info.output_bytes);
		test_targeted(test, &batch, out, pinned);
		test_give_back(test, &batch);
	}
	(void)test->gpu->mem_free_host(pinned);
	(void)test->gpu->mem_free(out);
	test_close(test);
}

/* An odd side, with rows of every alignment, and one that the kernels take in groups. */
static void test_transform(struct test *test)
{
	for (int dtype = PENSTOCK_CUDA_FLOAT32; dtype <= PENSTOCK_CUDA_BFLOAT16; dtype++)
		for (int layout = PENSTOCK_CUDA_NHWC; layout <= PENSTOCK_CUDA_NCHW; layout++) {
			struct penstock_cuda_options options = test_augmented(
				(enum penstock_cuda_dtype)dtype, (enum penstock_cuda_layout)layout);
			test_transform_as(test, &options, ODD_SIDE);
			test_transform_as(test, &options, EVEN_SIDE);
		}
	if (!test->rows_plain || !test->rows_mixed)
		gpu_fail("of the rows %" PRIu64 " were plain and %" PRIu64
			 " mixed: too few batches to see both",
			test->rows_plain, test->rows_mixed);
	printf("%" PRIu64 " batches, %" PRIu64 " rows plain, %" PRIu64
	       " mixed, three types, two layouts, two sides, flip, erase, MixUp, CutMix, targets: "
	       "bit for bit the reference's\n",
		test->compared, test->rows_plain, test->rows_mixed);
}

/* ---- together, killed ---- */

/* FNV-1a's step (Fowler, Noll, Vo) over words of eight bytes: two processes compare with it. */
static uint64_t test_hash(uint64_t hash, const void *memory, size_t bytes)
{
	const unsigned char *at = memory;
	uint64_t word;
	for (; bytes >= sizeof word; bytes -= sizeof word, at += sizeof word) {
		memcpy(&word, at, sizeof word);
		hash = (hash ^ word) * 0x100000001b3u;
	}
	for (; bytes; bytes--, at++)
		hash = (hash ^ *at) * 0x100000001b3u;
	return hash;
}

static uint64_t test_batch_hash(const struct test *test, const struct penstock_cuda_batch *batch)
{
	uint64_t hash = 0xcbf29ce484222325u;
	hash = test_hash(hash, test->images, batch->count * test_image_bytes(test));
	return test_hash(hash, test->labels, batch->count * sizeof *test->labels);
}

static struct penstock_options test_group_options(const struct test *test, const char *group)
{
	struct penstock_options options = test_options(test, BATCH, SIDE);
	options.group = group;
	options.wait_for = 2;
	options.pin_memory = 0; /* others read it */
	return options;
}

/* The other process: says what it sees until it has seen `number` batches, or is killed. */
static void test_reader(struct test *test, const char *group)
{
	struct penstock_options options = test_group_options(test, group);
	struct penstock_cuda_options cuda_options = test_cuda_options(PENSTOCK_CUDA_AUTO);
	struct penstock_cuda_batch batch;

	test_open(test, &options, &cuda_options);
	for (uint64_t i = 0; i < test->number; i++) {
		test_next(test, &batch);
		test_copy_back(test, &batch);
		test_finish(test);
		printf("%" PRIu64 " %" PRIu64 " %016" PRIx64 "\n", batch.epoch, batch.batch,
			test_batch_hash(test, &batch));
		(void)fflush(stdout);
		test_give_back(test, &batch);
	}
	test_close(test);
}

struct reader {
	pid_t pid;
	FILE *lines;
};

static void reader_start(
	const struct test *test, struct reader *reader, const char *group, uint64_t batches)
{
	char number[24];
	int ends[2];
	posix_spawn_file_actions_t actions;

	(void)snprintf(number, sizeof number, "%" PRIu64, batches);
	char *arguments[] = {(char *)"gpu_attach", (char *)test->source, (char *)"reader", number,
		(char *)group, NULL};
	if (pipe2(ends, O_CLOEXEC) < 0 || posix_spawn_file_actions_init(&actions) != 0 ||
		posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) != 0)
		gpu_fail("cannot make a pipe: %s", strerror(errno));
	int result =
		posix_spawn(&reader->pid, "/proc/self/exe", &actions, NULL, arguments, environ);
	if (result != 0)
		gpu_fail("cannot start another process: %s", strerror(result));
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)close(ends[1]);
	reader->lines = fdopen(ends[0], "r");
	if (!reader->lines)
		gpu_fail("cannot read from a pipe: %s", strerror(errno));
}

/* Its status as of waitpid. */
static int reader_end(struct reader *reader)
{
	int status = 0;
	(void)fclose(reader->lines);
	if (waitpid(reader->pid, &status, 0) < 0)
		gpu_fail("waitpid: %s", strerror(errno));
	return status;
}

static void reader_expect(
	struct reader *reader, const struct penstock_cuda_batch *batch, uint64_t hash)
{
	uint64_t epoch, number, theirs;
	char line[80];

	if (!fgets(line, sizeof line, reader->lines))
		gpu_fail("the other process ended at batch %" PRIu64 " (its words are above)",
			batch->batch);
	if (sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNx64, &epoch, &number, &theirs) != 3)
		gpu_fail("the other process said: %s", line);
	if (epoch != batch->epoch || number != batch->batch || theirs != hash)
		gpu_fail("here epoch %" PRIu64 " batch %" PRIu64 " hash %016" PRIx64
			 ", in the other process: %s",
			batch->epoch, batch->batch, hash, line);
}

static void test_together(struct test *test)
{
	char group[64];
	struct penstock_cuda_options cuda_options = test_cuda_options(PENSTOCK_CUDA_AUTO);
	struct penstock_cuda_batch batch;
	struct reader reader;
	uint64_t batches = test->number ? test->number : 60;

	(void)snprintf(group, sizeof group, "gpu-together-%d", (int)getpid());
	struct penstock_options options = test_group_options(test, group);
	reader_start(test, &reader, group, batches);
	test_open(test, &options, &cuda_options);
	for (uint64_t i = 0; i < batches; i++) {
		test_next(test, &batch);
		test_copy_back(test, &batch);
		test_finish(test);
		test_compare(test, &batch);
		reader_expect(&reader, &batch, test_batch_hash(test, &batch));
		test_give_back(test, &batch);
	}
	int status = reader_end(&reader);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		gpu_fail("the other process ended with status %d", status);
	test_close(test);
	printf("two processes had the same %" PRIu64 " batches\n", batches);
}

static void test_run_on(struct test *test, uint64_t batches)
{
	for (uint64_t i = 0; i < batches; i++) {
		struct penstock_cuda_batch batch;
		test_next(test, &batch);
		test_copy_back(test, &batch);
		test_finish(test);
		test_compare(test, &batch);
		test_give_back(test, &batch);
	}
}

/* One that dies with copies under way holds nobody up, and spoils nobody's batches. */
static void test_killed_once(struct test *test, uint64_t round)
{
	char group[64];
	struct penstock_cuda_options cuda_options = test_cuda_options(PENSTOCK_CUDA_AUTO);
	struct reader reader;

	(void)snprintf(group, sizeof group, "gpu-killed-%d-%" PRIu64, (int)getpid(), round);
	struct penstock_options options = test_group_options(test, group);
	reader_start(test, &reader, group, UINT32_MAX);
	test_open(test, &options, &cuda_options);
	test_run_on(test, READER_HEAD + round);
	(void)usleep((useconds_t)(round * 700));
	if (kill(reader.pid, SIGKILL) < 0)
		gpu_fail("kill: %s", strerror(errno));
	test_run_on(test, READER_TAIL);
	int status = reader_end(&reader);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		gpu_fail("the other process ended by itself, with status %d", status);
	test_close(test);
}

static void test_killed(struct test *test)
{
	uint64_t rounds = test->number ? test->number : 6;
	for (uint64_t round = 0; round < rounds; round++)
		test_killed_once(test, round);
	printf("%" PRIu64 " processes killed; the other one's %" PRIu64 " batches were right\n",
		rounds, test->compared);
}

/* ---- memory, growth ---- */

static size_t test_device_free(const struct test *test)
{
	size_t rest, total;
	gpu_must(test->gpu, "cuMemGetInfo", test->gpu->mem_get_info(&rest, &total));
	return rest;
}

static uint64_t test_resident(void)
{
	unsigned long long size, resident;
	FILE *file = fopen("/proc/self/statm", "re");
	if (!file || fscanf(file, "%llu %llu", &size, &resident) != 2)
		gpu_fail("cannot read /proc/self/statm");
	(void)fclose(file);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* What a number of batches takes, and what is beside it: labels, rows, alignment. */
static void test_stated(const struct test *test, const struct penstock_cuda_info *info)
{
	uint64_t images = (uint64_t)test->feed.info.batch_size * test_image_bytes(test);
	uint64_t beside = (uint64_t)test->feed.info.batch_size *
				  (sizeof(struct penstock_cuda_row) + sizeof(int64_t)) +
			  4096;
	if (info->buffers != PREFETCH + 1)
		gpu_fail("%u buffers with a prefetch of %d", info->buffers, PREFETCH);
	if (info->device_bytes < info->buffers * images ||
		info->device_bytes > info->buffers * (images + beside))
		gpu_fail("%" PRIu64 " bytes of device memory for %u batches of %" PRIu64,
			info->device_bytes, info->buffers, images);
}

/* The driver counts other processes' memory too. Ends the test as skipped if it changes while this
 * process does nothing. */
static void test_alone(const struct test *test)
{
	size_t before = test_device_free(test);
	for (int look = 0; look < LOOKS; look++) {
		(void)usleep(LOOK_US);
		if (test_device_free(test) != before)
			gpu_skip("other processes use the device: its free memory changes while "
				 "this one does nothing");
	}
}

/* What the device has less with one more attachment than before. */
static uint64_t test_taken(struct test *test, struct penstock_cuda_info *ret_info)
{
	struct penstock_options options = test_options(test, BATCH, SIDE);
	struct penstock_cuda_options cuda_options = test_cuda_options(PENSTOCK_CUDA_AUTO);
	size_t before = test_device_free(test);
	test_open(test, &options, &cuda_options);
	test_run_on(test, 50);
	gpu_done("penstock_cuda_info", penstock_cuda_info(test->feed.cuda, ret_info));
	test_stated(test, ret_info);
	size_t after = test_device_free(test);
	test_close(test);
	return before > after ? before - after : 0;
}

/* The first attachment of a process loads the kernels; the second one's share is its own. A process
 * beside this one may take memory meanwhile, but not every time. */
static void test_memory(struct test *test)
{
	struct penstock_options options = test_options(test, BATCH, SIDE);
	struct penstock_cuda_options cuda_options = test_cuda_options(PENSTOCK_CUDA_AUTO);
	struct penstock_cuda_info info = {.size = sizeof info};
	struct gpu_feed first;
	uint64_t taken, most;
	int tries = TRIES;

	test_attach(&first, &options, &cuda_options);
	do {
		taken = test_taken(test, &info);
		most = info.device_bytes + (uint64_t)(3 * info.buffers + 1) * GRANULE +
		       MODULE_BYTES;
	} while (taken > most && --tries > 0);
	if (taken > most) {
		test_alone(test);
		gpu_fail("the device has %" PRIu64 " bytes less, the library says %" PRIu64, taken,
			info.device_bytes);
	}
	gpu_feed_close(&first);
	printf("%u batches, %" PRIu64 " bytes of device memory by the library's word; the device "
	       "has %" PRIu64 " less; pinned: %" PRIu64 "\n",
		info.buffers, info.device_bytes, taken, info.pinned_bytes);
}

static void test_pass(struct test *test, void *out, uint64_t batches)
{
	for (uint64_t i = 0; i < batches; i++) {
		struct penstock_cuda_batch batch;
		test_next(test, &batch);
		gpu_done("penstock_cuda_transform",
			penstock_cuda_transform(test->feed.cuda, &batch, out, test->queue));
		test_give_back(test, &batch);
	}
	test_finish(test);
}

/* Batches by the thousand, small ones: what could grow is kept per batch, not per pixel. */
static void test_growth(struct test *test)
{
	struct penstock_options options = test_options(test, SMALL_BATCH, SMALL_SIDE);
	struct penstock_cuda_options cuda_options = test_cuda_options(PENSTOCK_CUDA_AUTO);
	struct penstock_cuda_info info = {.size = sizeof info};
	uint64_t batches = test->number ? test->number : 2000;
	CUdeviceptr out;

	options.prefetch = 16;
	test_open(test, &options, &cuda_options);
	gpu_done("penstock_cuda_info", penstock_cuda_info(test->feed.cuda, &info));
	gpu_must(test->gpu, "cuMemAlloc", test->gpu->mem_alloc(&out, info.output_bytes));
	test_pass(test, (void *)out, 200);
	size_t free_before, free_after;
	uint64_t resident_before, resident_after;
	double seconds;
	int tries = TRIES;
	/* The driver takes memory in granules, and one for itself at any time. What grows, grows
	 * each time; what another process takes does not. */
	do {
		free_before = test_device_free(test);
		resident_before = test_resident();
		uint64_t begin = gpu_now_ns();
		test_pass(test, (void *)out, batches);
		seconds = (double)(gpu_now_ns() - begin) / 1e9;
		free_after = test_device_free(test);
		resident_after = test_resident();
	} while (free_after + GRANULE < free_before && --tries > 0);
	if (free_after + GRANULE < free_before)
		test_alone(test);
	if (free_after + GRANULE < free_before)
		gpu_fail("the device has %zu bytes less after %" PRIu64 " batches",
			free_before - free_after, batches);
	if (resident_after > resident_before + GROWTH_BYTES)
		gpu_fail("the host has %" PRIu64 " bytes less after %" PRIu64 " batches",
			resident_after - resident_before, batches);
	(void)test->gpu->mem_free(out);
	test_close(test);
	printf("%" PRIu64 " batches of %d at %d x %d in %.1f s: free on the device %+" PRId64
	       " bytes, the host's memory %+" PRId64 " bytes\n",
		batches, SMALL_BATCH, SMALL_SIDE, SMALL_SIDE, seconds,
		(int64_t)free_after - (int64_t)free_before,
		(int64_t)(resident_after - resident_before));
}

/* ---- */

static const struct {
	const char *name;
	void (*run)(struct test *test);
} tests[] = {
	{"registered", test_registered},
	{"ring", test_ring},
	{"release", test_release},
	{"transform", test_transform},
	{"together", test_together},
	{"killed", test_killed},
	{"memory", test_memory},
	{"growth", test_growth},
};

static void usage(void)
{
	(void)fprintf(stderr, "usage: gpu_attach SOURCE TEST [NUMBER]\ntests:");
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		(void)fprintf(stderr, " %s", tests[i].name);
	(void)fputc('\n', stderr);
	exit(2);
}

int main(int argc, char **argv)
{
	struct test test = {0};

	if (argc < 3 || argc > 5)
		usage();
	test.source = argv[1];
	test.number = argc > 3 ? gpu_number(argv[3]) : 0;
	size_t which = 0;
	while (which < sizeof tests / sizeof *tests && strcmp(tests[which].name, argv[2]) != 0)
		which++;
	bool reader = argc == 5 && strcmp(argv[2], "reader") == 0;
	if (!reader && (which == sizeof tests / sizeof *tests || argc == 5))
		usage();
	test.gpu = gpu_open();
	gpu_must(test.gpu, "cuStreamCreate",
		test.gpu->stream_create(&test.queue, CU_STREAM_NON_BLOCKING));
	if (reader)
		test_reader(&test, argv[4]);
	else
		tests[which].run(&test);
	gpu_must(test.gpu, "cuStreamDestroy", test.gpu->stream_destroy(test.queue));
	gpu_close(test.gpu);
	return 0;
}

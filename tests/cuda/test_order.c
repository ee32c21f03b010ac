/* What waits for what: the host waits for no work of the device, slots wait for their copies,
 * the device's memory for the trainer's CUDA streams, and detaching for everything. The fake
 * device stops where a test wants it, and notices work that is not ordered. */
#include "client/fake.h"
#include "cuda/loop.h"
#include "cuda/reference.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct loop loop;

enum { OUT_BYTES = 4 * 16 * 16 * 3 * 4, PATIENCE_US = 30000 };

/* The device copies nothing: next gives batches nevertheless, and with registered memory no slot
 * goes back before its copy is done. */
LOOP_TEST(next)
{
	bool registered = mode == PENSTOCK_CUDA_REGISTERED;
	struct penstock_cuda_batch batch[3];
	loop_begin(&loop, NULL, mode);
	loop_open(&loop);
	loop.gpu.fake->hold(FAKE_CUDA_COPIES); /* before the first is queued */
	loop_attach(&loop);
	for (int i = 0; i < 3; i++)
		loop_next(&loop, &batch[i]);
	(void)usleep(PATIENCE_US);
	if (registered)
		FAKE_WANT(loop.page->released == 0);
	FAKE_WANT(loop.gpu.driver.event_query(batch[0].ready) == CUDA_ERROR_NOT_READY);
	loop.gpu.fake->hold(0);
	for (int i = 0; i < 3; i++)
		loop_want_device(&loop, &batch[i]);
	loop_await(&loop.page->released, 3); /* though the trainer holds them all */
	for (int i = 0; i < 3; i++)
		loop_release(&loop, &batch[i]);
	loop_train(&loop, 5);
	loop_end(&loop);
}

/* The same when batches are also given back before their copies have begun. */
LOOP_TEST(far_ahead)
{
	struct penstock_cuda_batch batch;
	uint8_t *back[3];
	size_t bytes = (size_t)4 * 16 * 16 * 3;
	loop_start(&loop, NULL, mode);
	void *memory;
	GPU_WANT(loop.gpu.driver.mem_host_alloc(&memory, 3 * bytes, 0));
	loop.gpu.fake->hold(FAKE_CUDA_COPIES);
	for (size_t i = 0; i < 3; i++) {
		back[i] = (uint8_t *)memory + i * bytes;
		loop_next(&loop, &batch);
		LOOP_WANT(penstock_cuda_wait(loop.cuda, &batch, loop.queue), 0, NULL);
		GPU_WANT(loop.gpu.copy_back_async(
			back[i], (CUdeviceptr)(uintptr_t)batch.images, bytes, loop.queue));
		loop_release(&loop, &batch);
	}
	loop.gpu.fake->hold(0);
	GPU_WANT(loop.gpu.driver.stream_synchronize(loop.queue));
	for (uint64_t i = 0; i < 3; i++)
		for (uint32_t row = 0; row < 4; row++)
			for (size_t b = 0; b < bytes / 4; b++)
				FAKE_WANT(back[i][row * (bytes / 4) + b] == loop_pixel(i, row, b));
	GPU_WANT(loop.gpu.driver.mem_free_host(memory));
	loop_train(&loop, 5);
	loop_end(&loop);
}

/* The trainer's kernels are stopped: buffers released after them are refilled only after they
 * have run, and they then read their own batch. */
LOOP_TEST(reuse)
{
	enum { BATCHES = 3 };
	struct penstock_cuda_batch batch;
	CUdeviceptr out[BATCHES];
	size_t values = (size_t)4 * 16 * 16 * 3;
	loop_start(&loop, NULL, mode);
	loop.gpu.fake->hold(FAKE_CUDA_KERNELS);
	for (int i = 0; i < BATCHES; i++) {
		out[i] = gpu_room(&loop.gpu, OUT_BYTES);
		loop_next(&loop, &batch);
		FAKE_WANT(penstock_cuda_transform(
				  loop.cuda, &batch, (void *)(uintptr_t)out[i], loop.queue) == 0);
		loop_release(&loop, &batch);
	}
	(void)usleep(PATIENCE_US);
	loop.gpu.fake->hold(0);
	for (uint64_t i = 0; i < BATCHES; i++) {
		float *got =
			gpu_look(&loop.gpu, loop.queue, (const void *)(uintptr_t)out[i], OUT_BYTES);
		for (size_t v = 0; v < values; v++) {
			uint8_t byte =
				loop_pixel(i, (uint32_t)(v / (values / 4)), v % (values / 4));
			float wanted = ((float)byte / 255.0F - loop.options.mean[v % 3]) /
				       loop.options.std[v % 3];
			gpu_want_same(&got[v], &wanted, sizeof wanted);
		}
		free(got);
		GPU_WANT(loop.gpu.driver.mem_free(out[i]));
	}
	loop_train(&loop, 5);
	loop_end(&loop);
}

static void *let_go_later(void *argument)
{
	(void)argument;
	(void)usleep(PATIENCE_US);
	loop.gpu.fake->hold(0);
	return NULL;
}

/* Detaching with copies under way, batches held, and kernels that read one: waits for
 * everything. */
LOOP_TEST(detach)
{
	struct penstock_cuda_batch held, released;
	pthread_t thread;
	loop_start(&loop, NULL, mode);
	CUdeviceptr out = gpu_room(&loop.gpu, OUT_BYTES);
	loop.gpu.fake->hold(FAKE_CUDA_COPIES | FAKE_CUDA_KERNELS);
	loop_next(&loop, &held);
	loop_next(&loop, &released);
	FAKE_WANT(
		penstock_cuda_transform(loop.cuda, &held, (void *)(uintptr_t)out, loop.queue) == 0);
	FAKE_WANT(penstock_cuda_transform(
			  loop.cuda, &released, (void *)(uintptr_t)out, loop.queue) == 0);
	loop_release(&loop, &released);
	FAKE_WANT(pthread_create(&thread, NULL, let_go_later, NULL) == 0);
	uint32_t taken = loop.page->sent;
	penstock_cuda_detach(loop.cuda);
	loop.cuda = NULL;
	(void)pthread_join(thread, NULL);
	/* The daemon has back all batches that were taken from the stream. */
	FAKE_WANT(taken > 0);
	loop_await(&loop.page->released, 2);
	GPU_WANT(loop.gpu.driver.stream_synchronize(loop.queue));
	GPU_WANT(loop.gpu.driver.mem_free(out));
	loop_end(&loop);
}

/* A trainer that captures a CUDA graph is not disturbed by the attachment's thread. */
LOOP_TEST(capture)
{
	struct penstock_cuda_batch batch;
	loop_start(&loop, NULL, mode);
	loop_train(&loop, 3);
	loop_next(&loop, &batch);
	loop.gpu.fake->capture(true);
	loop_await(&loop.page->sent, 6);
	(void)usleep(PATIENCE_US);
	loop.gpu.fake->capture(false);
	loop_release(&loop, &batch);
	loop_train(&loop, 5);
	loop_end(&loop);
}

static void want_refused(CUstream queue, CUdeviceptr out, struct penstock_cuda_batch *batch)
{
	LOOP_WANT(penstock_cuda_transform(loop.cuda, batch, (void *)(uintptr_t)out, queue), -EINVAL,
		"captured into a graph");
	LOOP_WANT(penstock_cuda_targets(loop.cuda, batch, 2, 0, (float *)(uintptr_t)out, queue),
		-EINVAL, "captured into a graph");
	LOOP_WANT(penstock_cuda_release(loop.cuda, batch, queue), -EINVAL, "captured into a graph");
}

/* Using or releasing a batch in the captured stream itself is refused; the graph stays valid,
 * and the batch stays held. */
LOOP_TEST(captured_queue)
{
	struct penstock_cuda_batch batch;
	CUstream blocking;
	loop_start(&loop, NULL, mode);
	CUdeviceptr out = gpu_room(&loop.gpu, OUT_BYTES);
	loop_train(&loop, 2);
	loop_next(&loop, &batch);
	loop.gpu.fake->capture_stream(loop.queue, true);
	want_refused(loop.queue, out, &batch);
	loop.gpu.fake->capture_stream(loop.queue, false);
	/* The default stream waits for a blocking one. */
	GPU_WANT(loop.gpu.driver.stream_create(&blocking, CU_STREAM_DEFAULT));
	loop.gpu.fake->capture_stream(blocking, true);
	want_refused(NULL, out, &batch);
	loop.gpu.fake->capture_stream(blocking, false);
	GPU_WANT(loop.gpu.driver.stream_destroy(blocking));
	loop_want_device(&loop, &batch);
	loop_release(&loop, &batch);
	loop_train(&loop, 5);
	GPU_WANT(loop.gpu.driver.mem_free(out));
	loop_end(&loop);
}

/* ---- results ---- */

struct recipe {
	const char *name;
	enum penstock_cuda_dtype dtype;
	enum penstock_cuda_layout layout;
	double flip, erase, mixup, cutmix;
};

static const struct recipe recipes[] = {
	{"f32 nhwc", PENSTOCK_CUDA_FLOAT32, PENSTOCK_CUDA_NHWC, 0, 0, 0, 0},
	{"f32 nchw flip", PENSTOCK_CUDA_FLOAT32, PENSTOCK_CUDA_NCHW, 0.5, 0, 0, 0},
	{"f16 nhwc erase", PENSTOCK_CUDA_FLOAT16, PENSTOCK_CUDA_NHWC, 0.5, 0.7, 0, 0},
	{"f16 nchw mixup", PENSTOCK_CUDA_FLOAT16, PENSTOCK_CUDA_NCHW, 0, 0, 1, 0},
	{"bf16 nhwc cutmix", PENSTOCK_CUDA_BFLOAT16, PENSTOCK_CUDA_NHWC, 0, 0, 0, 1},
	{"bf16 nchw all", PENSTOCK_CUDA_BFLOAT16, PENSTOCK_CUDA_NCHW, 0.5, 0.5, 0.4, 1},
};

enum { CLASSES = 1000 };

static void fill_normalise(struct kernels_normalise *a, const struct penstock_cuda_batch *batch)
{
	const struct penstock_cuda_options *o = &loop.options;
	*a = (struct kernels_normalise){
		.rows = batch->count, .height = 16, .width = 16, .key = {7, 0}};
	memcpy(a->mean, o->mean, sizeof a->mean);
	memcpy(a->std, o->std, sizeof a->std);
	memcpy(a->erase_value, o->erase_value, sizeof a->erase_value);
	a->row = batch->host_rows;
}

static void want_transformed(
	const struct penstock_cuda_batch *batch, const void *got, uint64_t ordinal)
{
	uint8_t images[4 * 16 * 16 * 3];
	struct kernels_normalise a;
	size_t bytes = sizeof images * reference_size(loop.options.dtype);
	void *wanted = malloc(bytes);
	for (uint32_t row = 0; row < 4; row++)
		for (size_t i = 0; i < sizeof images / 4; i++)
			images[row * (sizeof images / 4) + i] = loop_pixel(ordinal, row, i);
	fill_normalise(&a, batch);
	a.images = images;
	a.out = wanted;
	reference_normalise(&a, loop.options.dtype, loop.options.layout);
	FAKE_WANT(wanted && memcmp(got, wanted, bytes) == 0);
	free(wanted);
}

static void want_targets(const struct penstock_cuda_batch *batch, const float *got)
{
	float wanted[4 * CLASSES];
	struct kernels_targets a = {.label = batch->host_labels,
		.row = batch->host_rows,
		.out = wanted,
		.rows = batch->count,
		.classes = CLASSES,
		.smoothing = 0.1F};
	reference_targets(&a);
	gpu_want_same(got, wanted, sizeof wanted);
}

static void run_recipe(const void *argument)
{
	const struct recipe *recipe = argument;
	struct penstock_cuda_batch batch;
	struct penstock_cuda_info info = {.size = sizeof info};
	loop_begin(&loop, NULL, PENSTOCK_CUDA_AUTO);
	loop.options.dtype = recipe->dtype;
	loop.options.layout = recipe->layout;
	loop.options.flip = recipe->flip;
	loop.options.erase = recipe->erase;
	loop.options.mixup = recipe->mixup;
	loop.options.cutmix = recipe->cutmix;
	loop_open(&loop);
	loop_attach(&loop);
	FAKE_WANT(penstock_cuda_info(loop.cuda, &info) == 0);
	CUdeviceptr out = gpu_room(&loop.gpu, info.output_bytes);
	CUdeviceptr targets = gpu_room(&loop.gpu, sizeof(float[4 * CLASSES]));
	for (uint64_t i = 0; i < 8; i++) {
		loop_next(&loop, &batch);
		FAKE_WANT(penstock_cuda_transform(
				  loop.cuda, &batch, (void *)(uintptr_t)out, loop.queue) == 0);
		FAKE_WANT(penstock_cuda_targets(loop.cuda, &batch, CLASSES, 0.1F,
				  (float *)(uintptr_t)targets, loop.queue) == 0);
		void *got =
			gpu_look(&loop.gpu, loop.queue, (void *)(uintptr_t)out, info.output_bytes);
		float *shares = gpu_look(&loop.gpu, loop.queue, (void *)(uintptr_t)targets,
			sizeof(float[4 * CLASSES]));
		want_transformed(&batch, got, i);
		want_targets(&batch, shares);
		free(got);
		free(shares);
		loop_release(&loop, &batch);
	}
	GPU_WANT(loop.gpu.driver.mem_free(out));
	GPU_WANT(loop.gpu.driver.mem_free(targets));
	loop_end(&loop);
}

static void test_results(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
		fake_check(run_recipe, &recipes[i], recipes[i].name);
}

/* ---- arguments ---- */

FAKE_TEST(arguments)
{
	struct penstock_cuda_batch batch, never = {0}, twice;
	loop_start(&loop, NULL, PENSTOCK_CUDA_AUTO);
	CUdeviceptr room = gpu_room(&loop.gpu, OUT_BYTES + 16);
	void *out = (void *)(uintptr_t)room;
	loop_next(&loop, &batch);
	LOOP_WANT(penstock_cuda_transform(loop.cuda, &batch, NULL, loop.queue), -EINVAL, "out");
	LOOP_WANT(penstock_cuda_transform(loop.cuda, &batch, (char *)out + 8, loop.queue), -EINVAL,
		"16");
	LOOP_WANT(penstock_cuda_transform(loop.cuda, &never, out, loop.queue), -EINVAL, "held");
	LOOP_WANT(penstock_cuda_targets(loop.cuda, &batch, 0, 0, out, loop.queue), -EINVAL,
		"classes");
	LOOP_WANT(penstock_cuda_targets(loop.cuda, &batch, 10, 2, out, loop.queue), -EINVAL,
		"smoothing");
	LOOP_WANT(
		penstock_cuda_targets(loop.cuda, &batch, 10, 0, NULL, loop.queue), -EINVAL, "out");
	twice = batch;
	loop_release(&loop, &batch);
	LOOP_WANT(penstock_cuda_release(loop.cuda, &batch, loop.queue), -EINVAL, "held");
	LOOP_WANT(penstock_cuda_release(loop.cuda, &twice, loop.queue), -EINVAL, "held");
	LOOP_WANT(
		penstock_cuda_targets(loop.cuda, &twice, 10, 0, out, loop.queue), -EINVAL, "held");
	LOOP_WANT(penstock_cuda_wait(loop.cuda, &twice, loop.queue), -EINVAL, "held");
	LOOP_WANT(penstock_cuda_release(loop.cuda, &never, loop.queue), -EINVAL, "held");
	loop_train(&loop, 4);
	GPU_WANT(loop.gpu.driver.mem_free(room));
	loop_end(&loop);
}

/* A CUDA stream of another device is an error, and the batch stays held. */
FAKE_TEST(wrong_stream)
{
	struct penstock_cuda_batch batch;
	loop_start(&loop, NULL, PENSTOCK_CUDA_AUTO);
	CUdeviceptr room = gpu_room(&loop.gpu, OUT_BYTES);
	GPU_WANT(loop.gpu.driver.ctx_push(loop.gpu.context[1]));
	CUstream wrong = gpu_stream(&loop.gpu);
	GPU_WANT(loop.gpu.driver.ctx_pop(NULL));
	loop_next(&loop, &batch);
	LOOP_WANT(penstock_cuda_transform(loop.cuda, &batch, (void *)(uintptr_t)room, wrong),
		-EINVAL, "CUDA stream");
	LOOP_WANT(penstock_cuda_wait(loop.cuda, &batch, wrong), -EINVAL, "CUDA stream");
	LOOP_WANT(penstock_cuda_release(loop.cuda, &batch, wrong), -EINVAL, "CUDA stream");
	loop_want_device(&loop, &batch);
	loop_release(&loop, &batch);
	loop_train(&loop, 4);
	GPU_WANT(loop.gpu.driver.ctx_push(loop.gpu.context[1]));
	GPU_WANT(loop.gpu.driver.stream_destroy(wrong));
	GPU_WANT(loop.gpu.driver.ctx_pop(NULL));
	GPU_WANT(loop.gpu.driver.mem_free(room));
	loop_end(&loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_next),
		cmocka_unit_test(test_far_ahead),
		cmocka_unit_test(test_reuse),
		cmocka_unit_test(test_detach),
		cmocka_unit_test(test_capture),
		cmocka_unit_test(test_captured_queue),
		cmocka_unit_test(test_results),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_wrong_stream),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Batches on the (fake) device: what is in them after their memory was used again many times, what
 * the attachment says about itself, where the loop is, and that nothing grows. */
#include "client/cuda/waiting.h"
#include "client/fake.h"
#include "cuda/loop.h"

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct loop loop;

/* ---- content ---- */

LOOP_TEST(content)
{
	struct penstock_cuda_info info = {.size = sizeof info};
	struct fake_cuda_use use;
	loop_start(&loop, NULL, mode);
	loop.gpu.fake->delay(100);
	loop_train(&loop, 60);
	FAKE_WANT(penstock_cuda_info(loop.cuda, &info) == 0);
	FAKE_WANT(info.memory == mode && info.why[0]);
	loop.gpu.fake->use(&use);
	FAKE_WANT(use.pageable_copies == 0);
	FAKE_WANT((use.direct_copies >= 60) == (info.memory == PENSTOCK_CUDA_REGISTERED));
	loop_end(&loop);
}

/* Several held at once, released in another order, two CUDA streams of the trainer. */
LOOP_TEST(held)
{
	enum { HELD = 3 };
	struct penstock_cuda_batch held[HELD];
	loop_start(&loop, NULL, mode);
	CUstream second = gpu_stream(&loop.gpu), first = loop.queue;
	loop.gpu.fake->delay(50);
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < HELD; i++)
			loop_next(&loop, &held[i]);
		for (int i = HELD; i-- > 0;) {
			loop.queue = i % 2 ? second : first;
			loop_want_device(&loop, &held[i]);
			loop_release(&loop, &held[i]);
		}
	}
	loop.queue = first;
	GPU_WANT(loop.gpu.driver.stream_destroy(second));
	loop_end(&loop);
}

/* A batch that the ring takes in several pieces. */
LOOP_TEST(large)
{
	static const struct fake_shape large = {
		.batch_size = 3, .side = 1200, .slots = 3, .batches = 2, .first_serial = 1};
	loop_start(&loop, &large, mode);
	loop_train(&loop, 4);
	loop_end(&loop);
}

/* The one slot that there is. */
LOOP_TEST(one_slot)
{
	static const struct fake_shape one = {
		.batch_size = 4, .side = 8, .slots = 1, .batches = 3, .first_serial = 1};
	loop_start(&loop, &one, mode);
	loop_train(&loop, 20);
	loop_end(&loop);
}

/* The stream's memory is exchanged for other memory while it runs. */
LOOP_TEST(withdrawn)
{
	loop_start(&loop, NULL, mode);
	for (int i = 0; i < 6; i++) {
		loop_train(&loop, 5);
		loop.page->withdraw = 1;
		while (loop.page->withdraw)
			(void)usleep(1000);
	}
	loop_train(&loop, 10);
	loop_end(&loop);
}

/* The default stream of CUDA, as PyTorch's is. */
LOOP_TEST(default_stream)
{
	loop_start(&loop, NULL, mode);
	CUstream queue = loop.queue;
	loop.queue = NULL;
	loop_train(&loop, 20);
	loop.queue = queue;
	loop_end(&loop);
}

/* ---- how the memory is used ---- */

struct device_kind {
	bool registers, read_only, page_tables;
	int32_t pin_memory;
	uint32_t wanted, used; /* used 0: refused */
	const char *why;
};

static const struct device_kind kinds[] = {
	{true, true, false, 0, PENSTOCK_CUDA_AUTO, PENSTOCK_CUDA_REGISTERED, "read-only"},
	{true, true, false, 1, PENSTOCK_CUDA_AUTO, PENSTOCK_CUDA_REGISTERED, "register"},
	{true, false, true, 0, PENSTOCK_CUDA_AUTO, PENSTOCK_CUDA_REGISTERED, "page tables"},
	{true, false, false, 1, PENSTOCK_CUDA_AUTO, PENSTOCK_CUDA_REGISTERED, "pin_memory"},
	{true, false, false, 0, PENSTOCK_CUDA_AUTO, PENSTOCK_CUDA_RING, "pin_memory"},
	{true, false, false, 0, PENSTOCK_CUDA_REGISTERED, 0, "pin_memory"},
	{false, false, false, 1, PENSTOCK_CUDA_AUTO, PENSTOCK_CUDA_RING, "HOST_REGISTER_SUPPORTED"},
	{true, true, false, 1, PENSTOCK_CUDA_RING, PENSTOCK_CUDA_RING, "options.memory"},
	{false, false, false, 1, PENSTOCK_CUDA_REGISTERED, 0, "options.memory"},
};

static void run_kind(const void *argument)
{
	const struct device_kind *kind = argument;
	struct fake_cuda_settings settings = FAKE_CUDA_SETTINGS;
	struct penstock_cuda_info info = {.size = sizeof info};
	settings.host_register = kind->registers;
	settings.read_only_register = kind->read_only;
	settings.host_page_tables = kind->page_tables;
	loop_begin(&loop, NULL, kind->wanted);
	loop.gpu.fake->configure(&settings);
	loop.pin_memory = kind->pin_memory;
	loop_open(&loop);
	if (kind->used) {
		loop_attach(&loop);
		loop_train(&loop, 10);
		FAKE_WANT(penstock_cuda_info(loop.cuda, &info) == 0);
		FAKE_WANT(info.memory == kind->used && strstr(info.why, kind->why));
	} else {
		LOOP_WANT(penstock_cuda_attach(loop.stream, &loop.options, &loop.cuda), -ENOTSUP,
			kind->why);
	}
	loop_end(&loop);
}

static void test_kinds(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		fake_check(run_kind, &kinds[i], kinds[i].why);
}

/* ---- what it says about itself ---- */

LOOP_TEST(info)
{
	struct penstock_cuda_info info = {.size = sizeof info}, part = {.size = 16};
	struct penstock_cuda_counters counters = {.size = sizeof counters};
	struct fake_cuda_use before, use;
	loop_begin(&loop, NULL, mode);
	loop.options.prefetch = 5;
	loop.options.device = 1;
	loop.options.dtype = PENSTOCK_CUDA_BFLOAT16;
	loop_open(&loop);
	loop.gpu.fake->use(&before);
	loop_attach(&loop);
	FAKE_WANT(penstock_cuda_info(loop.cuda, &info) == 0);
	loop.gpu.fake->use(&use);
	FAKE_WANT(info.device == 1 && info.driver == CUDA_VERSION && info.capability == 90);
	FAKE_WANT(info.buffers == 6 && strcmp(info.name, "Fake device 1") == 0);
	FAKE_WANT(info.device_bytes == use.device_bytes - before.device_bytes);
	FAKE_WANT(info.pinned_bytes == use.pinned_bytes - before.pinned_bytes);
	FAKE_WANT(info.output_bytes == UINT64_C(4) * 16 * 16 * 3 * 2);
	FAKE_WANT(penstock_cuda_info(loop.cuda, &part) == 0 && part.device == 1 && !part.buffers);
	part.size = 0;
	FAKE_WANT(penstock_cuda_info(loop.cuda, &part) == -EINVAL);
	counters.size = 0;
	FAKE_WANT(penstock_cuda_counters(loop.cuda, &counters) == -EINVAL);
	loop_end(&loop);
}

LOOP_TEST(counters)
{
	struct penstock_cuda_counters c = {.size = sizeof c};
	struct penstock_cuda_batch batch;
	loop_start(&loop, NULL, mode);
	CUdeviceptr out = gpu_room(&loop.gpu, 4 * 4 * 16 * 16 * 3);
	loop.gpu.fake->delay(2000);
	for (int i = 0; i < 10; i++) {
		loop_next(&loop, &batch);
		FAKE_WANT(penstock_cuda_transform(
				  loop.cuda, &batch, (void *)(uintptr_t)out, loop.queue) == 0);
		loop_release(&loop, &batch);
	}
	GPU_WANT(loop.gpu.driver.stream_synchronize(loop.queue));
	FAKE_WANT(penstock_cuda_counters(loop.cuda, &c) == 0);
	FAKE_WANT(c.batches == 10 && c.images == 40 && c.bytes >= UINT64_C(10) * 4 * 16 * 16 * 3);
	FAKE_WANT(c.stalled_ns > 0);
	char *path = NULL, *lines = NULL, *stats = NULL;
	FAKE_WANT(penstock_cuda_path(loop.cuda, 7, &path) == 0 && strcmp(path, "/data/x.jpg") == 0);
	FAKE_WANT(penstock_cuda_samples(loop.cuda, 3, &lines) == 0);
	FAKE_WANT(strcmp(lines, "1 /data/3.jpg\n") == 0);
	FAKE_WANT(penstock_cuda_stats(loop.cuda, &stats) == 0 && stats[0] == '{');
	free(path);
	free(lines);
	free(stats);
	GPU_WANT(loop.gpu.driver.mem_free(out));
	loop_end(&loop);
}

/* Calls next until it has waited in vain for WAIT_MS; the batches go through transform. */
static struct penstock_cuda_counters wait_in_vain(CUdeviceptr out)
{
	enum { WAIT_MS = 500, MOST = 20 };
	struct penstock_cuda_counters c = {.size = sizeof c};
	struct penstock_cuda_batch batch;
	int result = 0;
	for (int i = 0; i < MOST && result == 0; i++) {
		result = penstock_cuda_next(loop.cuda, &batch, WAIT_MS);
		if (result != 0)
			break;
		loop.next++;
		FAKE_WANT(penstock_cuda_transform(
				  loop.cuda, &batch, (void *)(uintptr_t)out, loop.queue) == 0);
		loop_release(&loop, &batch);
	}
	FAKE_WANT(result == -ETIMEDOUT);
	FAKE_WANT(penstock_cuda_counters(loop.cuda, &c) == 0);
	FAKE_WANT(c.waited_ns == c.waited_daemon_ns + c.waited_device_ns);
	FAKE_WANT(c.waited_ns >= UINT64_C(1000000) * WAIT_MS);
	return c;
}

LOOP_TEST(waits_for_the_daemon)
{
	char *stats = NULL;
	loop_begin(&loop, NULL, mode);
	loop.page->allowed = 12;
	loop_open(&loop);
	loop_attach(&loop);
	CUdeviceptr out = gpu_room(&loop.gpu, 4 * 4 * 16 * 16 * 3);
	struct penstock_cuda_counters c = wait_in_vain(out);
	FAKE_WANT(c.waited_daemon_ns > c.waited_device_ns);
	FAKE_WANT(penstock_cuda_stats(loop.cuda, &stats) == 0);
	FAKE_WANT(
		strstr(stats, "\"device\":{\"verdict\":\"the daemon is too slow: the trainer waits "
			      "for it "));
	FAKE_WANT(strstr(stats, "\"batches\":12,"));
	free(stats);
	GPU_WANT(loop.gpu.driver.stream_synchronize(loop.queue));
	GPU_WANT(loop.gpu.driver.mem_free(out));
	loop_end(&loop);
}

/* The daemon has more, and the device does nothing. */
LOOP_TEST(waits_for_the_device)
{
	char *stats = NULL;
	loop_start(&loop, NULL, mode);
	loop_train(&loop, 10);
	CUdeviceptr out = gpu_room(&loop.gpu, 4 * 4 * 16 * 16 * 3);
	loop.gpu.fake->hold(FAKE_CUDA_COPIES | FAKE_CUDA_KERNELS);
	struct penstock_cuda_counters c = wait_in_vain(out);
	FAKE_WANT(c.waited_device_ns > c.waited_daemon_ns);
	FAKE_WANT(penstock_cuda_stats(loop.cuda, &stats) == 0);
	FAKE_WANT(strstr(stats, "\"verdict\":\"bound by the device: "));
	free(stats);
	loop.gpu.fake->hold(0);
	GPU_WANT(loop.gpu.driver.stream_synchronize(loop.queue));
	GPU_WANT(loop.gpu.driver.mem_free(out));
	loop_end(&loop);
}

static void test_waiting(void **state)
{
	(void)state;
	struct waiting w = {0};
	char text[200], *json = waiting_extend(&w, 0, 0, "{}");
	assert_string_equal(json, "{\"device\":{\"verdict\":\"not measured yet\",\"batches\":0,"
				  "\"waited_daemon_ns\":0,\"waited_device_ns\":0,"
				  "\"stalled_ns\":0}}");
	free(json);
	waiting_add(&w, 1000, 1100, 40);
	waiting_add(&w, 1900, 2000, 500); /* no more than the call took */
	assert_int_equal(w.daemon_ns, 140);
	assert_int_equal(w.device_ns, 60);
	waiting_verdict(&w, 10, 0, text, sizeof text);
	assert_string_equal(
		text, "the daemon is too slow: the trainer waits for it 14 % of the time");
	w.daemon_ns = 49;
	waiting_verdict(&w, 10, 3000, text, sizeof text);
	assert_string_equal(
		text, "copies are too slow: the device waits for them 100 % of the time");
	waiting_verdict(&w, 10, 49, text, sizeof text);
	assert_string_equal(text, "bound by the device: the trainer waits for it 6 % of the time");
	w.device_ns = 0;
	waiting_verdict(&w, 10, 0, text, sizeof text);
	assert_string_equal(text, "the trainer waits neither for the daemon nor for the device");
}

/* ---- where the loop is ---- */

static void want_place(uint64_t ordinal)
{
	char text[512], wanted[64];
	FAKE_WANT(penstock_cuda_state(loop.cuda, text, sizeof text) == (int)strlen(text));
	(void)snprintf(wanted, sizeof wanted, "\"epoch\":%llu,\"position\":%llu",
		(unsigned long long)(ordinal / 3), (unsigned long long)(ordinal % 3 * 4));
	FAKE_WANT(strstr(text, wanted));
	FAKE_WANT(penstock_cuda_state(loop.cuda, text, 10) == -ENOSPC);
}

/* The state counts the batches that were given, not those that are ready; a loop resumes exactly
 * there. */
LOOP_TEST(state)
{
	char text[512];
	struct penstock_cuda_batch batch;
	loop_begin(&loop, NULL, mode);
	loop.options.prefetch = 3;
	loop_open(&loop);
	loop_attach(&loop);
	want_place(0);
	for (uint64_t i = 0; i < 7; i++) {
		loop_next(&loop, &batch);
		want_place(i + 1);
		loop_release(&loop, &batch);
		loop_await(&loop.page->sent, (uint32_t)i + 2); /* there is more */
		want_place(i + 1);
	}
	FAKE_WANT(penstock_cuda_state(loop.cuda, text, sizeof text) > 0);
	penstock_cuda_detach(loop.cuda);
	penstock_stream_close(loop.stream);
	loop.stream = loop_stream(&loop, text, 0);
	loop_attach(&loop);
	want_place(7);
	loop_train(&loop, 5);
	loop_end(&loop);
}

LOOP_TEST(end)
{
	static const struct fake_shape short_one = {.batch_size = 4,
		.side = 8,
		.slots = 4,
		.batches = 3,
		.epochs = 2,
		.first_serial = UINT64_MAX - 2};
	struct penstock_cuda_batch batch;
	loop_start(&loop, &short_one, mode);
	loop.gpu.fake->delay(1000);
	loop_train(&loop, 6);
	for (int i = 0; i < 3; i++)
		FAKE_WANT(penstock_cuda_next(loop.cuda, &batch, 5000) == PENSTOCK_END);
	want_place(6);
	loop_await(&loop.page->released, 6);
	loop_end(&loop);
}

/* The epochs are copied when the stream is attached; each batch is mixed as its epoch says. */
LOOP_TEST(mix_epochs)
{
	static const struct fake_shape two_epochs = {
		.batch_size = 4, .side = 8, .slots = 4, .batches = 3, .epochs = 2};
	struct penstock_mix_epoch epochs[] = {{.epoch = 1, .mix = 1}};
	loop_begin(&loop, &two_epochs, mode);
	loop.options.mixup = 1;
	loop.options.epochs = epochs;
	loop.options.epoch_count = 1;
	loop_open(&loop);
	loop_attach(&loop);
	memset(epochs, 0xa5, sizeof epochs);
	for (int i = 0; i < 6; i++) {
		struct penstock_cuda_batch batch;
		loop_next(&loop, &batch);
		bool mixed = batch.host_rows[0].flags & PENSTOCK_CUDA_ROW_MIXED;
		FAKE_WANT(mixed == (batch.epoch == 0));
		loop_release(&loop, &batch);
	}
	loop_end(&loop);
}

/* ---- what the application brings ---- */

struct allocator {
	unsigned taken, given;
	CUdeviceptr memory;
	size_t bytes;
	bool fails, crooked;
};

static void *allocate(void *context, size_t bytes)
{
	struct allocator *allocator = context;
	allocator->taken++;
	if (allocator->fails)
		return NULL;
	allocator->bytes = bytes;
	allocator->memory = gpu_room(&loop.gpu, bytes + 256) + (allocator->crooked ? 16 : 0);
	return (void *)(uintptr_t)allocator->memory;
}

static void release(void *context, void *memory, size_t bytes)
{
	struct allocator *allocator = context;
	allocator->given++;
	FAKE_WANT((CUdeviceptr)(uintptr_t)memory == allocator->memory && bytes == allocator->bytes);
	GPU_WANT(loop.gpu.driver.mem_free(allocator->memory - (allocator->crooked ? 16 : 0)));
}

static void run_allocator(const void *argument)
{
	const struct allocator *kind = argument;
	struct allocator allocator = *kind;
	struct penstock_cuda_info info = {.size = sizeof info};
	loop_begin(&loop, NULL, PENSTOCK_CUDA_AUTO);
	loop.options.allocate = allocate;
	loop.options.release = release;
	loop.options.allocate_context = &allocator;
	loop_open(&loop);
	if (kind->fails || kind->crooked) {
		LOOP_WANT(penstock_cuda_attach(loop.stream, &loop.options, &loop.cuda),
			kind->fails ? -ENOMEM : -EINVAL, "options.allocate");
		FAKE_WANT(allocator.given == (kind->crooked ? 1 : 0));
	} else {
		uint64_t calls = loop.gpu.fake->calls("cuMemAlloc_v2");
		loop_attach(&loop);
		FAKE_WANT(loop.gpu.fake->calls("cuMemAlloc_v2") == calls + 1); /* its own */
		FAKE_WANT(penstock_cuda_info(loop.cuda, &info) == 0);
		FAKE_WANT(info.device_bytes == allocator.bytes && allocator.taken == 1);
		loop_train(&loop, 10);
		penstock_cuda_detach(loop.cuda);
		loop.cuda = NULL;
		FAKE_WANT(allocator.given == 1);
	}
	loop.options.release = NULL;
	LOOP_WANT(penstock_cuda_attach(loop.stream, &loop.options, &loop.cuda), -EINVAL, "release");
	loop_end(&loop);
}

static void test_allocator(void **state)
{
	static const struct allocator good, fails = {.fails = true}, crooked = {.crooked = true};
	(void)state;
	fake_check(run_allocator, &good, "allocator");
	fake_check(run_allocator, &fails, "allocator fails");
	fake_check(run_allocator, &crooked, "allocator not aligned");
}

struct rank {
	const char *text;
	int device; /* or an error */
};

static void run_rank(const void *argument)
{
	const struct rank *rank = argument;
	struct penstock_cuda_info info = {.size = sizeof info};
	loop_begin(&loop, NULL, PENSTOCK_CUDA_AUTO);
	(void)setenv("LOCAL_RANK", rank->text, 1);
	loop_open(&loop);
	if (rank->device < 0) {
		LOOP_WANT(penstock_cuda_attach(loop.stream, &loop.options, &loop.cuda),
			rank->device, "LOCAL_RANK");
		loop.options.device = 1; /* what is said here wins */
		loop_attach(&loop);
	} else {
		loop_attach(&loop);
	}
	FAKE_WANT(penstock_cuda_info(loop.cuda, &info) == 0);
	FAKE_WANT(info.device == (rank->device < 0 ? 1 : rank->device));
	loop_end(&loop);
}

static void test_rank(void **state)
{
	static const struct rank ranks[] = {
		{"0", 0}, {"1", 1}, {"", 0}, {"2", -ENODEV}, {"one", -EINVAL}, {"-1", -EINVAL}};
	(void)state;
	for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
		fake_check(run_rank, &ranks[i], ranks[i].text);
}

/* Two attachments, on two devices or on one, side by side. */
static void run_two(const void *argument)
{
	const int32_t *device = argument;
	static struct loop other;
	loop_begin(&other, NULL, PENSTOCK_CUDA_AUTO);
	loop_start(&loop, NULL, PENSTOCK_CUDA_AUTO);
	other.gpu = loop.gpu;
	other.stream = loop_stream(&other, NULL, 0);
	other.options.device = *device;
	GPU_WANT(loop.gpu.driver.ctx_push(loop.gpu.context[*device]));
	other.queue = gpu_stream(&other.gpu);
	GPU_WANT(loop.gpu.driver.ctx_pop(NULL));
	loop_attach(&other);
	for (int i = 0; i < 10; i++) {
		loop_train(&loop, 2);
		GPU_WANT(loop.gpu.driver.ctx_push(loop.gpu.context[*device]));
		loop_train(&other, 2);
		GPU_WANT(loop.gpu.driver.ctx_pop(NULL));
	}
	penstock_cuda_detach(other.cuda);
	penstock_stream_close(other.stream);
	GPU_WANT(loop.gpu.driver.ctx_push(loop.gpu.context[*device]));
	GPU_WANT(loop.gpu.driver.stream_destroy(other.queue));
	GPU_WANT(loop.gpu.driver.ctx_pop(NULL));
	FAKE_WANT(fake_stop(&other.fake));
	loop_end(&loop);
}

static void test_two(void **state)
{
	static const int32_t same = 0, another = 1;
	(void)state;
	fake_check(run_two, &same, "two on one device");
	fake_check(run_two, &another, "two on two devices");
}

/* ---- nothing grows ---- */

/* The sanitizers' allocators count for themselves. */
__attribute__((weak)) size_t __sanitizer_get_current_allocated_bytes(void);

static size_t allocated_bytes(void)
{
	return __sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes()
						       : mallinfo2().uordblks;
}

LOOP_TEST(growth)
{
	enum { WARM = 500, MANY = 20000, SLACK = 16384 };
	static const struct fake_shape tiny = {
		.batch_size = 2, .side = 2, .slots = 4, .batches = 3, .first_serial = 1};
	struct fake_cuda_use before, after;
	struct penstock_cuda_batch batch;
	int many = __sanitizer_get_current_allocated_bytes ? MANY / 10 : MANY;
	size_t bytes = 0;
	uint64_t events = 0;
	loop_start(&loop, &tiny, mode);
	for (int i = 0; i < WARM + many; i++) {
		if (i == WARM) {
			loop.gpu.fake->use(&before);
			bytes = allocated_bytes();
			events = loop.gpu.fake->calls("cuEventCreate");
		}
		loop_next(&loop, &batch);
		loop_release(&loop, &batch);
	}
	loop.gpu.fake->use(&after);
	FAKE_WANT(after.device_bytes == before.device_bytes);
	FAKE_WANT(after.pinned_bytes == before.pinned_bytes);
	FAKE_WANT(after.events == before.events && after.streams == before.streams);
	FAKE_WANT(loop.gpu.fake->calls("cuEventCreate") == events);
	FAKE_WANT(allocated_bytes() < bytes + SLACK);
	loop_end(&loop);
}

LOOP_TEST(again)
{
	loop_start(&loop, NULL, mode);
	for (int i = 0; i < 25; i++) {
		penstock_cuda_detach(loop.cuda);
		loop.cuda = NULL;
		gpu_settle(&loop.gpu);
		penstock_stream_close(loop.stream);
		loop.stream = loop_stream(&loop, NULL, 0);
		loop.next = 0;
		loop_attach(&loop);
		loop_train(&loop, i % 4);
	}
	loop_end(&loop);
}

/* Streams that a device cannot take are refused when attaching, and stay the caller's. */
static const struct odd {
	struct fake_shape shape;
	const char *why;
} odds[] = {
	{{.views = 2}, "one view"},
	{{.pixel_type = SLOTS_F32}, "uint8 in layout NHWC"},
	{{.pixel_layout = SLOTS_NCHW}, "uint8 in layout NHWC"},
	{{.label_width = 3}, "one whole label"},
};

static void run_odd(const void *argument)
{
	const struct odd *odd = argument;

	struct fake_shape shape = loop_shape;
	shape.views = odd->shape.views;
	shape.pixel_type = odd->shape.pixel_type;
	shape.pixel_layout = odd->shape.pixel_layout;
	shape.label_width = odd->shape.label_width;
	loop_begin(&loop, &shape, PENSTOCK_CUDA_AUTO);
	loop_open(&loop);
	LOOP_WANT(penstock_cuda_attach(loop.stream, &loop.options, &loop.cuda), -ENOTSUP, odd->why);
	struct penstock_batch batch;
	FAKE_WANT(penstock_stream_next(loop.stream, &batch, 5000) == 0);
	FAKE_WANT(penstock_batch_release(loop.stream, &batch) == 0);
	loop_end(&loop);
}

/* One whose size changes is noticed when it does. */
static void run_smaller(const void *argument)
{
	const struct fake_shape *shape = argument;

	struct penstock_cuda_batch batch;
	loop_begin(&loop, shape, PENSTOCK_CUDA_AUTO);
	loop_open(&loop);
	loop_attach(&loop);
	LOOP_WANT(penstock_cuda_next(loop.cuda, &batch, 5000), -ENOTSUP, "one size");
	LOOP_WANT(penstock_cuda_next(loop.cuda, &batch, 5000), -ENOTSUP, "one size");
	loop_end(&loop);
}

static void test_odd_shapes(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof odds / sizeof *odds; i++)
		fake_check(run_odd, &odds[i], odds[i].why);
	struct fake_shape shape = loop_shape;
	shape.less = 2;
	fake_check(run_smaller, &shape, "smaller images");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_content),
		cmocka_unit_test(test_held),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_one_slot),
		cmocka_unit_test(test_withdrawn),
		cmocka_unit_test(test_default_stream),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_odd_shapes),
		cmocka_unit_test(test_info),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_waits_for_the_daemon),
		cmocka_unit_test(test_waits_for_the_device),
		cmocka_unit_test(test_waiting),
		cmocka_unit_test(test_state),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_mix_epochs),
		cmocka_unit_test(test_allocator),
		cmocka_unit_test(test_rank),
		cmocka_unit_test(test_two),
		cmocka_unit_test(test_growth),
		cmocka_unit_test(test_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

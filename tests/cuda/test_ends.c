/* How a loop on the (fake) device ends or goes on when something is not as it should be on the
 * stream's side: slow, gone, another daemon, detached; and what the application does wrong. */
#include "client/fake.h"
#include "cuda/loop.h"
#include "proto/slots.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct loop loop;

/* ---- waiting ---- */

LOOP_TEST(timeouts)
{
	struct penstock_cuda_batch batch;
	loop_begin(&loop, NULL, mode);
	loop.page->allowed = 1;
	loop_open(&loop);
	loop_attach(&loop);
	loop_train(&loop, 1);
	LOOP_WANT(penstock_cuda_next(loop.cuda, &batch, 0), -EAGAIN, NULL);
	LOOP_WANT(penstock_cuda_next(loop.cuda, &batch, 20), -ETIMEDOUT, "0.0 s");
	LOOP_WANT(penstock_cuda_next(loop.cuda, &batch, -7), -EINVAL, "-7");
	loop.page->allowed = UINT32_MAX;
	loop_train(&loop, 10); /* the stream went on */
	loop_end(&loop);
}

static int third_look(void *data)
{
	return ++*(int *)data % 3 == 0;
}

/* The interrupt is asked while next waits, with and without a time limit; not when a batch is
 * ready. */
LOOP_TEST(interrupted)
{
	struct penstock_cuda_batch batch;
	int looks = 0;
	loop_begin(&loop, NULL, mode);
	loop.options.interrupt = third_look;
	loop.options.interrupt_data = &looks;
	loop.page->allowed = 1;
	loop_open(&loop);
	loop_attach(&loop);
	loop_next(&loop, &batch);
	loop_release(&loop, &batch);
	looks = 0;
	LOOP_WANT(penstock_cuda_next(loop.cuda, &batch, PENSTOCK_FOREVER), -EINTR, "interrupt");
	FAKE_WANT(looks == 3);
	LOOP_WANT(penstock_cuda_next(loop.cuda, &batch, 600000), -EINTR, "interrupt");
	LOOP_WANT(penstock_cuda_next(loop.cuda, &batch, 0), -EAGAIN, NULL);
	FAKE_WANT(looks == 6);
	loop.page->allowed = UINT32_MAX;
	loop_train(&loop, 10); /* the attachment went on */
	loop_end(&loop);
}

static int enough; /* whether the stream's application has it */

static int ask_enough(void *data)
{
	(void)data;
	return enough;
}

/* What the daemon waits for is asked in the thread that called, and the stream's application may
 * end that. */
LOOP_TEST(stream_interrupted)
{
	struct penstock_cuda_batch batch;
	loop_begin(&loop, NULL, mode);
	loop.page->allowed = 1;
	loop.stream_interrupt = ask_enough;
	loop_open(&loop);
	loop_attach(&loop);
	loop_train(&loop, 1);
	enough = 1;
	LOOP_WANT(penstock_cuda_next(loop.cuda, &batch, 20), -EINTR, "interrupt");
	enough = 0;
	loop.page->allowed = UINT32_MAX;
	loop_train(&loop, 10); /* the attachment went on */
	loop_end(&loop);
}

/* The trainer's stream is blocked: the end of the process does not wait for it. */
LOOP_TEST(detach_within)
{
	struct penstock_cuda_batch batch;
	struct fake_cuda_use use;
	loop_start(&loop, NULL, mode);
	loop_train(&loop, 3);
	FAKE_WANT(penstock_cuda_detach_within(loop.cuda, -1) == -EINVAL);
	CUdeviceptr out = gpu_room(&loop.gpu, 4 * 4 * 16 * 16 * 3);
	loop_next(&loop, &batch);
	loop.gpu.fake->hold(FAKE_CUDA_KERNELS);
	FAKE_WANT(penstock_cuda_transform(loop.cuda, &batch, (void *)(uintptr_t)out, loop.queue) ==
		  0);
	loop_release(&loop, &batch);
	LOOP_WANT(penstock_cuda_detach_within(loop.cuda, 100), -ETIMEDOUT, "collective");
	loop.gpu.fake->use(&use);
	FAKE_WANT(use.modules == 1);
	/* The thread that was left detaches when the device has finished. */
	loop.gpu.fake->hold(0);
	while (use.modules > 0) {
		(void)usleep(1000);
		loop.gpu.fake->use(&use);
	}
	(void)usleep(100000);
	loop.cuda = NULL;
	GPU_WANT(loop.gpu.driver.stream_synchronize(loop.queue));
	GPU_WANT(loop.gpu.driver.mem_free(out));
	loop_attach(&loop);
	FAKE_WANT(penstock_cuda_detach_within(loop.cuda, 60000) == 0);
	loop.cuda = NULL;
	FAKE_WANT(penstock_cuda_detach_within(NULL, 0) == 0);
	loop_end(&loop);
}

/* The trainer's kernels are slow: the sentence says so. */
LOOP_TEST(behind)
{
	struct penstock_cuda_batch batch;
	loop_start(&loop, NULL, mode);
	CUdeviceptr out = gpu_room(&loop.gpu, 4 * 4 * 16 * 16 * 3);
	loop.gpu.fake->hold(FAKE_CUDA_COPIES | FAKE_CUDA_KERNELS);
	int result = 0;
	for (int i = 0; i < 20 && result == 0; i++) {
		result = penstock_cuda_next(loop.cuda, &batch, 100);
		if (result == 0) {
			loop.next++;
			FAKE_WANT(penstock_cuda_transform(loop.cuda, &batch, (void *)(uintptr_t)out,
					  loop.queue) == 0);
			loop_release(&loop, &batch);
		}
	}
	LOOP_WANT(result, -ETIMEDOUT, "device 0");
	loop.gpu.fake->hold(0);
	loop_train(&loop, 5);
	GPU_WANT(loop.gpu.driver.stream_synchronize(loop.queue));
	GPU_WANT(loop.gpu.driver.mem_free(out));
	loop_end(&loop);
}

/* The trainer holds as many batches as fit: prefetch + 1, not more and not fewer. */
LOOP_TEST(deadlock)
{
	static const struct fake_shape many = {
		.batch_size = 4, .side = 16, .slots = 8, .batches = 3, .first_serial = 1};
	struct penstock_cuda_batch held[4], more;
	loop_begin(&loop, &many, mode);
	loop.options.prefetch = 3;
	loop_open(&loop);
	loop_attach(&loop);
	for (int i = 0; i < 4; i++)
		loop_next(&loop, &held[i]);
	LOOP_WANT(penstock_cuda_next(loop.cuda, &more, 5000), -EDEADLK, "all 4");
	LOOP_WANT(penstock_cuda_next(loop.cuda, &more, PENSTOCK_FOREVER), -EDEADLK, "all 4");
	for (int i = 0; i < 4; i++) {
		loop_want_device(&loop, &held[i]);
		loop_release(&loop, &held[i]);
	}
	loop_train(&loop, 5);
	loop_end(&loop);
}

/* ---- the daemon ---- */

/* The daemon is gone: next gives the batches that had arrived, then reports the end each time. */
LOOP_TEST(gone)
{
	struct penstock_cuda_batch batch;
	loop_start(&loop, NULL, mode);
	loop_train(&loop, 4);
	loop_await(&loop.page->sent, 6);
	fake_kill(&loop.fake);
	int result;
	while ((result = penstock_cuda_next(loop.cuda, &batch, 5000)) == 0) {
		loop.next++;
		loop_want_device(&loop, &batch);
		loop_release(&loop, &batch);
	}
	/* Killed between sending one and counting it. */
	FAKE_WANT(loop.next <= loop.page->sent + 1);
	LOOP_WANT(result, -EPIPE, "daemon");
	LOOP_WANT(penstock_cuda_next(loop.cuda, &batch, 5000), -EPIPE, "daemon");
	loop_end_killed(&loop);
}

/* Another daemon in its place, again and again: each batch comes once, and each one's memory is
 * let go of. */
LOOP_TEST(reconnect)
{
	enum { DEATHS = 12 }; /* more than there is room for extents */
	struct fake_cuda_use use;
	struct penstock_cuda_batch held;
	loop_begin(&loop, NULL, mode);
	loop.stream = loop_stream(&loop, NULL, 20000);
	gpu_begin(&loop.gpu);
	loop.queue = gpu_stream(&loop.gpu);
	loop_attach(&loop);
	for (uint32_t death = 0; death < DEATHS; death++) {
		loop_train(&loop, 4);
		loop_next(&loop, &held); /* which lives on */
		loop.page->sent = 0;
		fake_kill(&loop.fake);
		fake_restart(&loop.fake, loop_serve, &loop.daemon);
		loop_want_device(&loop, &held);
		loop_release(&loop, &held);
		loop_train(&loop, 4);
		loop_await(&loop.page->connections, death + 2);
		loop.gpu.fake->use(&use);
		FAKE_WANT(use.registrations <= 2);
	}
	loop_end(&loop);
}

/* Detached from its group, and the slots filled again while their copies stood still: next says so.
 * From registered memory batches may have been given before that came out; through the ring they
 * had been read before. */
LOOP_TEST(detached)
{
	bool registered = mode == PENSTOCK_CUDA_REGISTERED;
	struct penstock_cuda_batch batch;
	int result;
	loop_start(&loop, NULL, mode);
	loop_train(&loop, 2);
	loop.gpu.fake->hold(FAKE_CUDA_COPIES);
	loop_next(&loop, &batch);
	loop.page->detach = 1;
	loop_await(&loop.page->detach, 2);
	loop.gpu.fake->hold(0);
	if (registered)
		GPU_WANT(loop.gpu.driver.event_synchronize(batch.ready));
	else
		loop_want_device(&loop, &batch); /* it had been read before */
	loop_release(&loop, &batch);
	while ((result = penstock_cuda_next(loop.cuda, &batch, 5000)) == 0) {
		loop.next++;
		if (!registered)
			loop_want_device(&loop, &batch);
		loop_release(&loop, &batch);
	}
	LOOP_WANT(result, -ECANCELED, "");
	LOOP_WANT(penstock_cuda_next(loop.cuda, &batch, 5000), -ECANCELED, "");
	loop_end(&loop);
}

/* ---- memory that others of the same trainer may write to ---- */

/* The one mapping of the daemon's memory that there is before a stream is attached. */
static uint8_t *find_memory(size_t *ret_bytes)
{
	char line[512];
	uint8_t *base = NULL;
	FILE *maps = fopen("/proc/self/maps", "re");
	FAKE_WANT(maps);
	while (!base && fgets(line, sizeof line, maps)) {
		unsigned long begin, end;
		if (!strstr(line, "/memfd:fake-extent") ||
			sscanf(line, "%lx-%lx", &begin, &end) != 2)
			continue;
		base = (uint8_t *)begin;
		*ret_bytes = end - begin;
	}
	(void)fclose(maps);
	FAKE_WANT(base);
	return base;
}

/* Writes noise over pixels, labels and records (heads are libpenstock's to check) until killed. */
static void spoil(void)
{
	size_t bytes = 0;
	uint8_t *memory = find_memory(&bytes);
	const size_t stride = bytes / loop_shape.slots, head = sizeof(struct slots_head) + 64;
	uint64_t noise = 88172645463325252U;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	FAKE_WANT(mprotect(memory, bytes, PROT_READ | PROT_WRITE) == 0);
	for (;;)
		for (size_t at = 0; at < bytes; at += sizeof noise) {
			noise ^= noise << 13;
			noise ^= noise >> 7;
			noise ^= noise << 17;
			if (at % stride >= head)
				memcpy(memory + at, &noise, sizeof noise);
		}
}

static bool is_spoilt(const struct penstock_cuda_batch *batch)
{
	uint64_t ordinal = batch->epoch * loop_shape.batches + batch->batch;
	for (uint32_t row = 0; row < batch->count; row++)
		if (batch->host_labels[row] != fake_label(ordinal, row))
			return true;
	return false;
}

/* Whatever is in a batch's labels and records: the loop goes on, and nothing is read or written
 * where it should not be. */
LOOP_TEST(spoilt)
{
	struct penstock_cuda_batch batch;
	int status = 0;
	loop_begin(&loop, NULL, mode);
	loop.options.flip = loop.options.erase = 0.5;
	loop.options.erase_random = 1;
	loop.options.mixup = loop.options.cutmix = 1;
	loop_open(&loop);
	/* With the first batch the memory has come that the child is to find. */
	struct penstock_batch first;
	LOOP_WANT(penstock_stream_next(loop.stream, &first, 20000), 0, NULL);
	LOOP_WANT(penstock_batch_release(loop.stream, &first), 0, NULL);
	pid_t pid = fork();
	if (pid == 0)
		spoil();
	loop_attach(&loop);
	CUdeviceptr out = gpu_room(&loop.gpu, (size_t)4 * 16 * 16 * 3 * sizeof(float));
	for (int spoilt = 0; spoilt < 20;) {
		LOOP_WANT(penstock_cuda_next(loop.cuda, &batch, 20000), 0, NULL);
		spoilt += is_spoilt(&batch);
		LOOP_WANT(penstock_cuda_transform(
				  loop.cuda, &batch, (void *)(uintptr_t)out, loop.queue),
			0, NULL);
		LOOP_WANT(penstock_cuda_targets(
				  loop.cuda, &batch, 10, 0.1F, (float *)(uintptr_t)out, loop.queue),
			0, NULL);
		loop_release(&loop, &batch);
	}
	FAKE_WANT(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
	FAKE_WANT(WIFSIGNALED(status)); /* and not ended before, having found nothing */
	GPU_WANT(loop.gpu.driver.stream_synchronize(loop.queue));
	GPU_WANT(loop.gpu.driver.mem_free(out));
	loop_end(&loop);
}

/* ---- fork ---- */

/* How often the daemon's memory is mapped in this process. */
static unsigned mappings(void)
{
	char line[512];
	unsigned count = 0;
	FILE *maps = fopen("/proc/self/maps", "re");
	FAKE_WANT(maps);
	while (fgets(line, sizeof line, maps))
		count += strstr(line, "/memfd:") != NULL;
	(void)fclose(maps);
	return count;
}

static void in_child(struct penstock_cuda_batch *batch)
{
	struct penstock_cuda *another = NULL;
	struct penstock_cuda_batch more;
	struct penstock_cuda_info info = {.size = sizeof info};
	struct penstock_cuda_counters counters = {.size = sizeof counters};
	char text[512], *answer = NULL;
	void *out = (void *)(uintptr_t)4096;
	FAKE_WANT(mappings() == 1); /* the stream's, which cannot be written to */
	LOOP_WANT(penstock_cuda_next(loop.cuda, &more, 1000), -EBADF, "fork");
	LOOP_WANT(penstock_cuda_transform(loop.cuda, batch, out, NULL), -EBADF, "fork");
	LOOP_WANT(penstock_cuda_targets(loop.cuda, batch, 2, 0, out, NULL), -EBADF, "fork");
	LOOP_WANT(penstock_cuda_wait(loop.cuda, batch, NULL), -EBADF, "fork");
	LOOP_WANT(penstock_cuda_release(loop.cuda, batch, NULL), -EBADF, "fork");
	LOOP_WANT(penstock_cuda_state(loop.cuda, text, sizeof text), -EBADF, "fork");
	LOOP_WANT(penstock_cuda_path(loop.cuda, 0, &answer), -EBADF, "fork");
	LOOP_WANT(penstock_cuda_samples(loop.cuda, 0, &answer), -EBADF, "fork");
	LOOP_WANT(penstock_cuda_stats(loop.cuda, &answer), -EBADF, "fork");
	LOOP_WANT(penstock_cuda_info(loop.cuda, &info), -EBADF, "fork");
	LOOP_WANT(penstock_cuda_counters(loop.cuda, &counters), -EBADF, "fork");
	LOOP_WANT(penstock_cuda_attach(loop.stream, &loop.options, &another), -EBADF, NULL);
	penstock_cuda_detach(loop.cuda);
	FAKE_WANT(mappings() == 1);
	penstock_stream_close(loop.stream);
	FAKE_WANT(mappings() == 0);
}

LOOP_TEST(fork)
{
	struct penstock_cuda_batch batch;
	int status;
	loop_start(&loop, NULL, mode);
	loop_next(&loop, &batch);
	FAKE_WANT(mappings() == 1 + (mode == PENSTOCK_CUDA_REGISTERED));
	pid_t pid = fork();
	if (pid == 0) {
		in_child(&batch);
		exit(0);
	}
	FAKE_WANT(waitpid(pid, &status, 0) == pid && status == 0);
	loop_want_device(&loop, &batch);
	loop_release(&loop, &batch);
	loop_train(&loop, 10);
	loop_end(&loop);
}

/* ---- options ---- */

static void refused(struct penstock_cuda_options options, const char *text)
{
	struct penstock_cuda *cuda = NULL;
	LOOP_WANT(penstock_cuda_attach(loop.stream, &options, &cuda), -EINVAL, text);
	FAKE_WANT(!cuda);
}

#define REFUSED(member, value, text)                           \
	do {                                                   \
		struct penstock_cuda_options o = loop.options; \
		o.member = (value);                            \
		refused(o, text);                              \
	} while (0)

FAKE_TEST(options)
{
	struct {
		struct penstock_cuda_options known;
		char later[64];
	} longer;
	loop_begin(&loop, NULL, PENSTOCK_CUDA_AUTO);
	loop_open(&loop);
	REFUSED(size, 0, "penstock_cuda_options_init");
	REFUSED(prefetch, 0, "prefetch");
	REFUSED(prefetch, 65, "prefetch");
	REFUSED(memory, 3, "memory");
	REFUSED(dtype, 3, "dtype");
	REFUSED(layout, 2, "layout");
	REFUSED(std[1], 0, "std");
	REFUSED(flip, 1.5, "flip");
	REFUSED(erase, -1, "erase");
	REFUSED(mixup, -1, "mixup");
	REFUSED(cutmix, -1, "cutmix");
	LOOP_WANT(penstock_cuda_attach(NULL, &loop.options, &loop.cuda), -EINVAL, "stream");
	LOOP_WANT(penstock_cuda_attach(loop.stream, NULL, &loop.cuda), -EINVAL, "options");
	/* A later release's struct: its new options are known to be unset, or refused. */
	penstock_cuda_options_init_size(&longer.known, sizeof longer);
	longer.later[63] = 1;
	LOOP_WANT(penstock_cuda_attach(loop.stream, &longer.known, &loop.cuda), -EINVAL, "release");
	longer.later[63] = 0;
	LOOP_WANT(penstock_cuda_attach(loop.stream, &longer.known, &loop.cuda), 0, NULL);
	struct penstock_cuda *another = NULL;
	LOOP_WANT(penstock_cuda_attach(loop.stream, &loop.options, &another), -EBUSY, "already");
	loop_train(&loop, 5);
	penstock_cuda_detach(loop.cuda);
	LOOP_WANT(penstock_cuda_attach(loop.stream, &loop.options, &loop.cuda), 0, NULL);
	loop_end(&loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_timeouts),
		cmocka_unit_test(test_interrupted),
		cmocka_unit_test(test_stream_interrupted),
		cmocka_unit_test(test_detach_within),
		cmocka_unit_test(test_behind),
		cmocka_unit_test(test_deadlock),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_reconnect),
		cmocka_unit_test(test_detached),
		cmocka_unit_test(test_spoilt),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_options),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

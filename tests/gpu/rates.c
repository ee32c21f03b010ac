/* rates: how fast batches come to the device, against the card's own rate.
 *
 *   gpu_rates SOURCE [ROUNDS [BATCH_SIZE [SLOTS]]]     5, 256, 64
 *
 * The daemon's rate is kept out of it: a round begins when the daemon has filled all slots of the
 * stream and all buffers of the attachment are held. They are released at once, and the attachment
 * copies SLOTS - 1 batches one after the other, which lie ready. Its time is from before the first
 * release until the host has seen the last copy's event: waking the attachment's thread is in it.
 *
 * The card's rate: cuMemcpyHtoDAsync of as many copies of the same size, back to back in one
 * stream, between two events of that stream; before each of the attachment's rounds. Their sources
 * are as many distinct pages as the attachment copies from: SLOTS - 1 batches of pinned memory
 * (cuMemHostAlloc) that the CPU has just written. The ratio is that of the medians.
 *
 * Prints one JSON object; a mode that the device does not have is null in it. "numa": the nodes of
 * the device and of the pinned pages, -1 where the machine does not say. Exit code as of
 * gpu_attach. One thread, besides the attachment's. */
#include "tests/gpu/gpu.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS_MOST = 100, SLOTS_MOST = 64, WAIT_MS = 120000, LOOK_US = 20000, LOOKS = 3000 };

struct rates {
	const struct gpu *gpu;
	const char *source;
	uint64_t rounds, batch_size, slots;
	struct gpu_feed feed;
	struct penstock_cuda_batch held[SLOTS_MOST];
	uint64_t given; /* batches, by the attachment */
	size_t bytes; /* of one batch */
	/* of the card's own copies */
	CUstream stream;
	CUevent begin, end;
	CUdeviceptr device;
	unsigned char *pinned; /* SLOTS - 1 batches */
	int pinned_node; /* of NUMA */
};

static double rates_per_s(const struct rates *rates, uint64_t copies, double seconds)
{
	return (double)(copies * rates->bytes) / seconds;
}

/* ---- the card's own ---- */

static double rates_card(const struct rates *rates)
{
	const struct gpu *gpu = rates->gpu;
	uint64_t count = rates->slots - 1;
	float milliseconds;

	memset(rates->pinned, (int)(gpu_now_ns() & 0xff), count * rates->bytes);
	gpu_must(gpu, "cuEventRecord", gpu->event_record(rates->begin, rates->stream));
	for (uint64_t i = 0; i < count; i++)
		gpu_must(gpu, "cuMemcpyHtoDAsync",
			gpu->memcpy_htod_async(rates->device, rates->pinned + i * rates->bytes,
				rates->bytes, rates->stream));
	gpu_must(gpu, "cuEventRecord", gpu->event_record(rates->end, rates->stream));
	gpu_must(gpu, "cuEventSynchronize", gpu->event_synchronize(rates->end));
	gpu_must(gpu, "cuEventElapsedTime",
		gpu->event_elapsed_time(&milliseconds, rates->begin, rates->end));
	return rates_per_s(rates, count, milliseconds * 1e-3);
}

/* ---- the attachment's ---- */

/* The number after "KEY": in the daemon's answer; the answer is flat enough for that. */
static uint64_t rates_number(const char *json, const char *key)
{
	char quoted[64];
	(void)snprintf(quoted, sizeof quoted, "\"%s\":", key);
	const char *at = strstr(json, quoted);
	if (!at)
		gpu_fail("the daemon's statistics have no %s: %s", key, json);
	return strtoull(at + strlen(quoted), NULL, 10);
}

/* Until the daemon has filled all slots: it has made as many batches as were given, and one more
 * for each slot. (One of these may be with the attachment's thread already, which waits for a
 * buffer.)
 */
static void rates_wait_full(const struct rates *rates)
{
	for (int look = 0; look < LOOKS; look++) {
		char *json;
		gpu_done("penstock_cuda_stats", penstock_cuda_stats(rates->feed.cuda, &json));
		uint64_t made = rates_number(json, "batches");
		free(json);
		if (made >= rates->given + rates->slots)
			return;
		(void)usleep(LOOK_US);
	}
	gpu_fail("the daemon did not fill %" PRIu64 " slots in a minute", rates->slots);
}

static void rates_take(struct rates *rates, uint64_t i)
{
	gpu_done("penstock_cuda_next",
		penstock_cuda_next(rates->feed.cuda, &rates->held[i], WAIT_MS));
	rates->given++;
}

/* Takes the next SLOTS batches as they arrive, and says how fast all but the last came. */
static double rates_attached(struct rates *rates)
{
	uint64_t count = rates->slots - 1;

	rates_wait_full(rates);
	uint64_t begin = gpu_now_ns();
	for (uint64_t i = 0; i < rates->slots; i++)
		gpu_done("penstock_cuda_release",
			penstock_cuda_release(rates->feed.cuda, &rates->held[i], rates->stream));
	for (uint64_t i = 0; i < count; i++)
		rates_take(rates, i);
	gpu_must(rates->gpu, "cuEventSynchronize",
		rates->gpu->event_synchronize(rates->held[count - 1].ready));
	double seconds = (double)(gpu_now_ns() - begin) * 1e-9;
	rates_take(rates, count);
	return rates_per_s(rates, count, seconds);
}

static bool rates_open(struct rates *rates, uint32_t memory)
{
	struct penstock_options options;
	struct penstock_cuda_options cuda_options;

	penstock_options_init(&options);
	options.source = rates->source;
	options.batch_size = (uint32_t)rates->batch_size;
	options.prefetch = (uint32_t)rates->slots;
	options.private_daemon = 0;
	options.pin_memory = 1;
	penstock_cuda_options_init(&cuda_options);
	cuda_options.device = 0;
	cuda_options.prefetch = (uint32_t)rates->slots - 1;
	cuda_options.memory = memory;
	if (!gpu_feed_open(&rates->feed, &options, &cuda_options))
		return false;
	const struct penstock_stream_info *info = &rates->feed.info;
	if (info->slots < rates->slots)
		gpu_fail("the stream has %u slots, not %" PRIu64, info->slots, rates->slots);
	rates->bytes = (size_t)info->batch_size * info->height * info->width * 3;
	return true;
}

static void rates_card_open(struct rates *rates)
{
	const struct gpu *gpu = rates->gpu;
	void *memory;

	gpu_must(gpu, "cuMemAlloc", gpu->mem_alloc(&rates->device, rates->bytes));
	gpu_must(gpu, "cuMemHostAlloc",
		gpu->mem_host_alloc(&memory, (rates->slots - 1) * rates->bytes, 0));
	rates->pinned = memory;
	rates->pinned[0] = 0;
	rates->pinned_node = gpu_node_of(memory);
}

static void rates_card_close(const struct rates *rates)
{
	(void)rates->gpu->mem_free(rates->device);
	(void)rates->gpu->mem_free_host(rates->pinned);
}

static void rates_print(const char *name, const double *card, const double *own, double card_median,
	double own_median, uint64_t rounds)
{
	printf("\"%s\": {\"card_gb_s\": %.3f, \"attached_gb_s\": %.3f, \"ratio\": %.4f, "
	       "\"rounds\": [",
		name, card_median / 1e9, own_median / 1e9, own_median / card_median);
	for (uint64_t i = 0; i < rounds; i++)
		printf("%s[%.3f, %.3f]", i ? ", " : "", card[i] / 1e9, own[i] / 1e9);
	printf("]}");
}

static void rates_measure(struct rates *rates, const char *name, uint32_t memory)
{
	double card[ROUNDS_MOST] = {0}, own[ROUNDS_MOST] = {0}, sorted_card[ROUNDS_MOST],
	       sorted_own[ROUNDS_MOST];

	if (!rates_open(rates, memory)) {
		(void)fprintf(stderr, "%s: %s\n", name, penstock_error());
		printf("\"%s\": null", name);
		return;
	}
	rates_card_open(rates);
	rates->given = 0;
	for (uint64_t i = 0; i < rates->slots; i++)
		rates_take(rates, i);
	(void)rates_attached(rates); /* registers the memory on its way */
	for (uint64_t i = 0; i < rates->rounds; i++) {
		card[i] = rates_card(rates);
		own[i] = rates_attached(rates);
	}
	memcpy(sorted_card, card, sizeof card);
	memcpy(sorted_own, own, sizeof own);
	rates_print(name, card, own, gpu_median(sorted_card, rates->rounds),
		gpu_median(sorted_own, rates->rounds), rates->rounds);
	rates_card_close(rates);
	gpu_feed_close(&rates->feed);
}

int main(int argc, char **argv)
{
	struct rates rates = {
		.rounds = 5, .batch_size = 256, .slots = SLOTS_MOST, .pinned_node = -1};

	if (argc < 2 || argc > 5) {
		(void)fprintf(stderr, "usage: gpu_rates SOURCE [ROUNDS [BATCH_SIZE [SLOTS]]]\n");
		return 2;
	}
	rates.source = argv[1];
	rates.rounds = argc > 2 ? gpu_number(argv[2]) : rates.rounds;
	rates.batch_size = argc > 3 ? gpu_number(argv[3]) : rates.batch_size;
	rates.slots = argc > 4 ? gpu_number(argv[4]) : rates.slots;
	if (rates.rounds > ROUNDS_MOST || rates.slots < 4 || rates.slots > SLOTS_MOST ||
		rates.batch_size > 4096)
		gpu_fail("at most %d rounds, 4 to %d slots, batches of at most 4096", ROUNDS_MOST,
			SLOTS_MOST);
	rates.gpu = gpu_open();
	gpu_must(rates.gpu, "cuStreamCreate",
		rates.gpu->stream_create(&rates.stream, CU_STREAM_NON_BLOCKING));
	gpu_must(rates.gpu, "cuEventCreate",
		rates.gpu->event_create(&rates.begin, CU_EVENT_DEFAULT));
	gpu_must(rates.gpu, "cuEventCreate", rates.gpu->event_create(&rates.end, CU_EVENT_DEFAULT));
	printf("{\"device\": \"%s\", \"slots\": %" PRIu64 ", \"batch_size\": %" PRIu64 ", ",
		rates.gpu->name, rates.slots, rates.batch_size);
	rates_measure(&rates, "registered", PENSTOCK_CUDA_REGISTERED);
	printf(", ");
	rates_measure(&rates, "ring", PENSTOCK_CUDA_RING);
	printf(", \"batch_bytes\": %zu, \"reference_bytes\": %" PRIu64
	       ", \"numa\": {\"device\": %d, \"pinned\": %d}}\n",
		rates.bytes, (rates.slots - 1) * rates.bytes, gpu_node(rates.gpu),
		rates.pinned_node);
	(void)rates.gpu->event_destroy(rates.begin);
	(void)rates.gpu->event_destroy(rates.end);
	gpu_must(rates.gpu, "cuStreamDestroy", rates.gpu->stream_destroy(rates.stream));
	gpu_close(rates.gpu);
	return 0;
}

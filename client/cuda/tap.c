/* tap: see tap.h. */
#include "client/cuda/tap.h"

#include "client/cuda/sentence.h"

#include <errno.h>

void tap_init(
	struct tap *tap, struct penstock_stream *stream, const struct penstock_stream_info *info)
{
	/* If there is more than one slot, at least one stays with the daemon to fill; so a
	 * request for a batch never waits for this process itself. */
	*tap = (struct tap){.stream = stream,
		.height = info->height,
		.width = info->width,
		.most = info->slots > 1 ? info->slots - 1 : 1,
		.lock = PTHREAD_MUTEX_INITIALIZER};
}

void tap_deinit(struct tap *tap)
{
	if (tap->keeps)
		(void)penstock_batch_release(tap->stream, &tap->kept.batch);
	(void)pthread_mutex_destroy(&tap->lock);
	*tap = (struct tap){0};
}

/* The caller holds the lock. */
static int tap_ask_locked(struct tap *tap, int32_t timeout_ms)
{
	struct tap_batch *kept = &tap->kept;
	if (tap->held >= tap->most)
		return TAP_E_FULL;
	int result = penstock_stream_next(tap->stream, &kept->batch, timeout_ms);
	if (result != 0)
		return result;
	tap->held++;
	tap->keeps = true;
	result = penstock_batch_memory(tap->stream, &kept->batch, &kept->base, &kept->extent_bytes);
	if (result == 0 && (kept->batch.height != tap->height || kept->batch.width != tap->width))
		result = sentence_set(-ENOTSUP,
			"a device takes batches of one size, and this one's images are %u x %u, "
			"not "
			"%u x %u: attach streams whose image_size is one number, without buckets",
			kept->batch.height, kept->batch.width, tap->height, tap->width);
	if (result == 0)
		result = penstock_stream_state(tap->stream, kept->loop, sizeof kept->loop);
	return result < 0 ? result : 0;
}

int tap_take(struct tap *tap, struct tap_batch *ret_batch)
{
	int result = 0;
	(void)pthread_mutex_lock(&tap->lock);
	if (!tap->keeps)
		result = tap_ask_locked(tap, 0);
	if (result == 0) {
		*ret_batch = tap->kept;
		tap->keeps = false;
	}
	(void)pthread_mutex_unlock(&tap->lock);
	return result;
}

int tap_ask(struct tap *tap, int32_t timeout_ms)
{
	(void)pthread_mutex_lock(&tap->lock);
	int result = tap->keeps ? TAP_E_FULL : tap_ask_locked(tap, timeout_ms);
	(void)pthread_mutex_unlock(&tap->lock);
	return result;
}

int tap_give_back(struct tap *tap, struct penstock_batch *batch)
{
	(void)pthread_mutex_lock(&tap->lock);
	int result = penstock_batch_release(tap->stream, batch);
	tap->held--;
	(void)pthread_mutex_unlock(&tap->lock);
	return result;
}

int tap_path(struct tap *tap, uint64_t index, char **ret_path)
{
	(void)pthread_mutex_lock(&tap->lock);
	int result = penstock_stream_path(tap->stream, index, ret_path);
	(void)pthread_mutex_unlock(&tap->lock);
	return result;
}

int tap_samples(struct tap *tap, uint64_t first, char **ret_lines)
{
	(void)pthread_mutex_lock(&tap->lock);
	int result = penstock_stream_samples(tap->stream, first, ret_lines);
	(void)pthread_mutex_unlock(&tap->lock);
	return result;
}

int tap_stats(struct tap *tap, char **ret_json)
{
	(void)pthread_mutex_lock(&tap->lock);
	int result = penstock_stream_stats(tap->stream, ret_json);
	(void)pthread_mutex_unlock(&tap->lock);
	return result;
}

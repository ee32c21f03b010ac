/* objects: see objects.h. The threads, and their ends. */
#include "remote/objects.h"

#include "base/clock.h"
#include "base/util.h"

#define LOG_TOPIC LOG_READER
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* After room was looked for in vain: walking the folder costs more than a few blocks are worth. */
#define AGAIN_NS UINT64_C(2000000000)
#define AGAIN_MOST_NS UINT64_C(60000000000)
enum { AGAIN_TIMES = 20 /* as long as it took */, ROOM = 1 << 20 };

static void *keep(void *context)
{
	struct objects *objects = context;
	(void)pthread_setname_np(pthread_self(), "remote-read");
	(void)pthread_mutex_lock(&objects->queue_lock);
	for (;;) {
		struct remote_read *read = list_take(&objects->reads, struct remote_read, node);
		if (!read && atomic_load_explicit(&objects->ending, memory_order_relaxed))
			break;
		if (!read) {
			(void)pthread_cond_wait(&objects->reads_turn, &objects->queue_lock);
			continue;
		}
		(void)pthread_mutex_unlock(&objects->queue_lock);
		read_plan(read);
		(void)pthread_mutex_lock(&objects->queue_lock);
	}
	(void)pthread_mutex_unlock(&objects->queue_lock);
	return NULL;
}

/* Drops what nobody reads. */
static void room_make(struct objects *objects)
{
	const uint64_t begun = clock_ns();
	const int code = disk_credit(objects->disk, ROOM, true);
	const uint64_t now = clock_ns(), again = (now - begun) * AGAIN_TIMES;
	/* While streams that hold all of the cache go on, there will be no room. */
	const uint64_t longer = UTIL_MIN(2 * objects->room_again_ns, AGAIN_MOST_NS);
	objects->room_again_ns = code == 0 ? 0 : UTIL_MAX(UTIL_MAX(again, AGAIN_NS), longer);
	atomic_store_explicit(&objects->room_tried_ns, code == 0 ? 0 : now + objects->room_again_ns,
		memory_order_relaxed);
	if (code < 0 && disk_stop(objects->disk))
		log_warning("cache_dir: cannot make room: %s: streams go on, and nothing more is "
			    "stored until the daemon is started again",
			strerror(-code));
}

static void *write_all(void *context)
{
	struct objects *objects = context;
	(void)pthread_setname_np(pthread_self(), "remote-write");
	(void)pthread_mutex_lock(&objects->queue_lock);
	for (;;) {
		struct flight *flight = list_take(&objects->writes, struct flight, write_node);
		const bool ending = atomic_load_explicit(&objects->ending, memory_order_relaxed);
		const bool room = !flight && !ending && objects->room_wanted;
		if (!flight && !room && ending)
			break;
		if (!flight && !room) {
			(void)pthread_cond_wait(&objects->writes_turn, &objects->queue_lock);
			continue;
		}
		if (room)
			objects->room_wanted = false;
		(void)pthread_mutex_unlock(&objects->queue_lock);
		if (flight)
			flight_write(flight);
		else
			room_make(objects);
		(void)pthread_mutex_lock(&objects->queue_lock);
	}
	(void)pthread_mutex_unlock(&objects->queue_lock);
	return NULL;
}

static int threads_start(struct objects *objects)
{
	int code = pthread_create(&objects->writer, NULL, write_all, objects);
	if (code != 0)
		return -code;
	objects->has_writer = true;
	for (; objects->keepers < OBJECTS_KEEPERS; objects->keepers++) {
		code = pthread_create(&objects->keeper[objects->keepers], NULL, keep, objects);
		if (code != 0)
			return -code;
	}
	return 0;
}

int objects_new(struct disk *disk, const struct objects_transport *transport, struct objects **ret)
{
	struct objects *objects = calloc(1, sizeof *objects);
	if (!objects)
		return -ENOMEM;
	objects->disk = disk;
	objects->transport = *transport;
	(void)pthread_mutex_init(&objects->lock, NULL);
	(void)pthread_mutex_init(&objects->queue_lock, NULL);
	(void)pthread_cond_init(&objects->reads_turn, NULL);
	(void)pthread_cond_init(&objects->writes_turn, NULL);
	const int code = disk ? threads_start(objects) : 0;
	if (code < 0) {
		objects->disk = NULL; /* the caller's still */
		objects_end(objects);
		objects_free(objects);
		return code;
	}
	*ret = objects;
	return 0;
}

void objects_ending(struct objects *objects)
{
	atomic_store_explicit(&objects->ending, true, memory_order_relaxed);
}

void objects_end(struct objects *objects)
{
	if (!objects)
		return;
	(void)pthread_mutex_lock(&objects->queue_lock);
	objects_ending(objects);
	(void)pthread_cond_broadcast(&objects->reads_turn);
	(void)pthread_cond_broadcast(&objects->writes_turn);
	(void)pthread_mutex_unlock(&objects->queue_lock);
	for (; objects->keepers; objects->keepers--)
		(void)pthread_join(objects->keeper[objects->keepers - 1], NULL);
	if (objects->has_writer)
		(void)pthread_join(objects->writer, NULL);
	objects->has_writer = false;
}

void objects_free(struct objects *objects)
{
	if (!objects)
		return;
	disk_close(objects->disk);
	(void)pthread_mutex_destroy(&objects->lock);
	(void)pthread_mutex_destroy(&objects->queue_lock);
	(void)pthread_cond_destroy(&objects->reads_turn);
	(void)pthread_cond_destroy(&objects->writes_turn);
	free(objects);
}

static uint64_t value(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

void objects_stats_read(const struct objects *objects, struct remote_stats *ret)
{
	struct disk_stats disk = {0};
	ret->reads = value(&objects->reads_now);
	ret->hit_bytes = value(&objects->hit_bytes);
	ret->miss_bytes = value(&objects->miss_bytes);
	ret->shared_bytes = value(&objects->shared_bytes);
	ret->cache = objects->disk;
	if (objects->disk)
		disk_stats_read(objects->disk, &disk);
	ret->cache_size = disk.size;
	ret->cache_used = disk.used;
	ret->cache_stored_bytes = value(&objects->stored_bytes);
	ret->cache_unstored_bytes = value(&objects->unstored_bytes);
	ret->cache_broken_blocks = disk.broken_blocks;
	ret->cache_dropped_objects = disk.dropped_objects;
	ret->cache_dropped_bytes = disk.dropped_bytes;
}

/* remote: see remote.h. The instance is made under one lock at the first URL; from then on it stays
 * until remote_stop, so that its pointers are read without the lock. */
#include "remote/remote.h"

#include "base/store.h"
#include "remote/auth/auth.h"
#include "remote/cache/disk.h"
#include "remote/client/client.h"
#include "remote/instance.h"
#include "remote/objects.h"

#define LOG_TOPIC LOG_READER
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct {
	pthread_mutex_t lock;
	bool configured; /* `options` are copies of what remote_start was given */
	struct remote_options options;
	struct auth *auth;
	struct client *client;
	int error; /* of the last start */
	struct store_bound bound; /* on other files in the cache folder */
	_Atomic(struct objects *) objects; /* NULL: not started */
} instance = {.lock = PTHREAD_MUTEX_INITIALIZER};

void remote_options_default(struct remote_options *ret)
{
	*ret = (struct remote_options){.hedge = REMOTE_HEDGE};
}

/* Copies a text; counts what there was no memory for. */
static char *text_copy(const char *text, unsigned *failed)
{
	char *copy = text ? strdup(text) : NULL;
	*failed += text && !copy;
	return copy;
}

static const char *const *list_copy(const char *const *list, unsigned *failed)
{
	size_t count = 0;
	while (list && list[count])
		count++;
	const char **copy = list ? calloc(count + 1, sizeof *copy) : NULL;
	*failed += list && !copy;
	for (size_t i = 0; copy && i < count; i++)
		copy[i] = text_copy(list[i], failed);
	return copy;
}

static void text_free(const char *text)
{
	free((void *)(uintptr_t)text);
}

static void list_free(const char *const *list)
{
	for (size_t i = 0; list && list[i]; i++)
		text_free(list[i]);
	free((void *)(uintptr_t)list);
}

static void options_free(struct remote_options *options)
{
	text_free(options->cache_dir);
	text_free(options->endpoint_url);
	text_free(options->region);
	text_free(options->profile);
	list_free(options->plain_http);
	list_free(options->roots);
	*options = (struct remote_options){0};
}

static int options_copy(const struct remote_options *from, struct remote_options *to)
{
	unsigned failed = 0;
	*to = *from;
	to->cache_dir = text_copy(from->cache_dir, &failed);
	to->endpoint_url = text_copy(from->endpoint_url, &failed);
	to->region = text_copy(from->region, &failed);
	to->profile = text_copy(from->profile, &failed);
	to->plain_http = list_copy(from->plain_http, &failed);
	to->roots = list_copy(from->roots, &failed);
	if (!failed)
		return 0;
	options_free(to);
	return -ENOMEM;
}

/* Under the lock, as all that follows up to instance_objects. */
static int configure(const struct remote_options *options, struct fault *fault)
{
	if (options_copy(options, &instance.options) < 0)
		return fault_set(fault, -ENOMEM, "no memory for the settings of remote data");
	/* A build without libcurl says so when a URL is opened. */
	const int code = client_refused() ? 0 : auth_new(&instance.options, &instance.auth, fault);
	if (code < 0)
		options_free(&instance.options);
	else
		instance.configured = true;
	return code;
}

static void transport_begin(void *context, struct client_request *request)
{
	client_begin(context, request);
}

static void transport_cancel(void *context, struct client_request *request)
{
	client_cancel(context, request);
}

static int transport_perform(void *context, struct client_request *request, struct fault *fault)
{
	return client_perform(context, request, fault);
}

/* NULL where nothing is to be kept, or cannot be: then one warning says so. */
static struct disk *disk_start(void)
{
	const struct remote_options *options = &instance.options;
	struct disk *disk = NULL;
	struct fault fault;
	if (!options->cache_dir || !options->cache_size)
		return NULL;
	if (disk_open(options->cache_dir, options->cache_size, &disk, &fault) < 0)
		log_warning("%s; streams go on without a cache", fault.text);
	return disk;
}

static int bound_take(void *context, uint64_t bytes)
{
	const int code = disk_reserve(context, bytes);
	return code == DISK_E_FULL ? STORE_E_BOUND : code;
}

static void bound_settle(void *context, uint64_t taken, uint64_t stored)
{
	disk_settle(context, taken, stored);
}

/* From now on indexes and entry points in the cache folder ask for room. */
static void bound_begin(struct disk *disk)
{
	instance.bound = (struct store_bound){
		.folder = instance.options.cache_dir,
		.size = instance.options.cache_size,
		.take = bound_take,
		.settle = bound_settle,
		.context = disk,
	};
	store_bound_set(&instance.bound);
}

static int client_begin_instance(struct fault *fault)
{
	const struct client_options options = {
		.connections = instance.options.connections,
		.bandwidth = instance.options.bandwidth,
		.timeout_s = instance.options.timeout_s,
		.hedge = instance.options.hedge,
		.sign = auth_sign,
		.refused = auth_refused,
		.allowed = auth_allowed,
		.context = instance.auth,
	};
	const int code = client_start(&options, &instance.client, fault);
	if (code == 0)
		auth_begin(instance.auth, instance.client);
	return code;
}

static int start(struct fault *fault)
{
	struct remote_options defaults;
	remote_options_default(&defaults);
	int code = instance.configured ? 0 : configure(&defaults, fault);
	if (code == 0)
		code = client_begin_instance(fault);
	if (code < 0)
		return code;
	const struct objects_transport transport = {
		.context = instance.client,
		.begin = transport_begin,
		.cancel = transport_cancel,
		.perform = transport_perform,
	};
	struct objects *objects = NULL;
	struct disk *disk = disk_start();
	code = objects_new(disk, &transport, &objects);
	if (code == 0) {
		if (disk)
			bound_begin(disk);
		atomic_store_explicit(&instance.objects, objects, memory_order_release);
		return 0;
	}
	disk_close(disk);
	auth_end(instance.auth);
	client_stop(instance.client);
	instance.client = NULL;
	return fault_set(
		fault, code, "cannot start the threads that read remote data: %s", strerror(-code));
}

struct objects *instance_objects(struct fault *fault)
{
	struct objects *objects = atomic_load_explicit(&instance.objects, memory_order_acquire);
	if (objects)
		return objects;
	(void)pthread_mutex_lock(&instance.lock);
	if (!atomic_load_explicit(&instance.objects, memory_order_relaxed))
		instance.error = start(fault);
	objects = atomic_load_explicit(&instance.objects, memory_order_relaxed);
	(void)pthread_mutex_unlock(&instance.lock);
	return objects;
}

int instance_error(void)
{
	(void)pthread_mutex_lock(&instance.lock);
	const int code = instance.error;
	(void)pthread_mutex_unlock(&instance.lock);
	return code < 0 ? code : -EAGAIN;
}

struct client *instance_client(struct fault *fault)
{
	return instance_objects(fault) ? instance.client : NULL;
}

struct auth *instance_auth(struct fault *fault)
{
	return instance_objects(fault) ? instance.auth : NULL;
}

int remote_start(const struct remote_options *options, struct fault *fault)
{
	(void)pthread_mutex_lock(&instance.lock);
	const int code = instance.configured
				 ? fault_set(fault, -EALREADY,
					   "the settings of remote data are set once, before the "
					   "first URL is opened")
				 : configure(options, fault);
	(void)pthread_mutex_unlock(&instance.lock);
	return code;
}

void remote_stop(void)
{
	(void)pthread_mutex_lock(&instance.lock);
	struct objects *objects = atomic_load_explicit(&instance.objects, memory_order_relaxed);
	if (objects) {
		store_bound_set(NULL);
		/* Requests that end now are not begun again. */
		objects_ending(objects);
		auth_end(instance.auth);
		client_stop(instance.client);
		objects_end(objects);
		atomic_store_explicit(&instance.objects, NULL, memory_order_release);
		objects_free(objects);
	}
	auth_free(instance.auth);
	options_free(&instance.options);
	instance.auth = NULL;
	instance.client = NULL;
	instance.configured = false;
	(void)pthread_mutex_unlock(&instance.lock);
}

_Static_assert((int)REMOTE_RETRIES == (int)CLIENT_RETRIES, "one counter for each reason");

const char *remote_retry_name(unsigned reason)
{
	return client_retry_name((enum client_retry)reason);
}

static void client_add(struct client *client, struct remote_stats *ret)
{
	struct client_stats stats;
	client_stats_read(client, &stats);
	ret->requests = stats.requests;
	ret->bytes = stats.bytes;
	ret->wasted_bytes = stats.bytes_wasted;
	ret->done = stats.done;
	ret->canceled = stats.canceled;
	for (unsigned i = 0; i < CLIENT_RETRIES; i++) {
		ret->retried[i] = stats.retries[i];
		ret->retries += stats.retries[i];
	}
	ret->hedges = stats.hedges;
	ret->hedges_won = stats.hedges_won;
	ret->slowdowns = stats.slowdowns;
	ret->errors = stats.failed;
	ret->connects = stats.connects;
	ret->connections = stats.connections;
	ret->connections_limit = stats.connections_limit;
	ret->queued = stats.queued;
	ret->first_byte = stats.first_byte;
	ret->first_byte_p50_ns = (uint64_t)histogram_quantile_ns(&stats.first_byte, 0.5);
	ret->first_byte_p99_ns = (uint64_t)histogram_quantile_ns(&stats.first_byte, 0.99);
	ret->waiting_ns = stats.waiting_ns;
	ret->throttled_ns = stats.throttled_ns;
	memcpy(ret->waiting, stats.waiting, sizeof ret->waiting);
}

void remote_stats_read(struct remote_stats *ret)
{
	*ret = (struct remote_stats){0};
	/* The thread that starts the instance holds the lock while it opens the cache folder. */
	if (!atomic_load_explicit(&instance.objects, memory_order_acquire))
		return;
	(void)pthread_mutex_lock(&instance.lock);
	const struct objects *objects =
		atomic_load_explicit(&instance.objects, memory_order_relaxed);
	if (objects) {
		ret->started = true;
		client_add(instance.client, ret);
		objects_stats_read(objects, ret);
	}
	(void)pthread_mutex_unlock(&instance.lock);
}

/* far_fixture: remote storage that is made of local files: replaces the functions of
 * remote/object.h (by the linker's --wrap), and answers as a test wants.
 *
 * A URL is the path of a file. Reads are answered by one thread, or by the caller itself. */
#pragma once

#include "unit/fetch/fetch_fixture.h"

#include "fetch/far/far.h"
#include "remote/interrupt.h"
#include "remote/object.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>

struct far_object {
	int fd;
	uint64_t size;
	int64_t stamp;
	atomic_uint users;
	char path[FIXTURE_PATH];
};

/* What the storage does. Changed under `lock`. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t some;
	pthread_t thread;
	bool ends;
	struct list_head reads;
	bool hangs; /* reads are answered when they are canceled, or when this is false again */
	bool opens_hang;
	const char *opens_hang_at; /* only those of URLs that begin so; NULL: all */
	bool at_once; /* remote_object_begin calls `done` itself */
	bool local; /* the cache has everything */
	int local_fd; /* in place of the right file; -1: none */
	int open_result, read_result; /* negative: the answer, with a sentence */
	uint64_t at; /* `read_result` is for reads that cover this byte; UINT64_MAX: for all */
	const char *changed; /* the object of this path has another stamp */
	unsigned open, objects, begun, canceled, most;
	unsigned in_flight;
} far_storage = {.lock = PTHREAD_MUTEX_INITIALIZER, .some = PTHREAD_COND_INITIALIZER};

int __wrap_remote_object_open(const char *url, struct remote_object **ret, struct fault *fault);
int __wrap_remote_object_open_listed(const char *url, uint64_t size, const char *etag,
	int64_t modified_s, struct remote_object **ret, struct fault *fault);
void __wrap_remote_object_unref(struct remote_object *object);
uint64_t __wrap_remote_object_size(const struct remote_object *object);
int64_t __wrap_remote_object_stamp(const struct remote_object *object);
bool __wrap_remote_object_local(
	struct remote_object *object, uint64_t offset, uint64_t size, int *ret_fd);
void __wrap_remote_object_begin(struct remote_read *read);
void __wrap_remote_object_cancel(struct remote_read *read);

int __wrap_remote_object_open(const char *url, struct remote_object **ret, struct fault *fault)
{
	struct stat st;
	pthread_mutex_lock(&far_storage.lock);
	far_storage.open++;
	while (far_storage.opens_hang &&
		(!far_storage.opens_hang_at || strncmp(url, far_storage.opens_hang_at,
						       strlen(far_storage.opens_hang_at)) == 0) &&
		!interrupt_wanted()) {
		static const struct timespec pause = {.tv_nsec = 1000000};
		pthread_mutex_unlock(&far_storage.lock);
		(void)nanosleep(&pause, NULL);
		pthread_mutex_lock(&far_storage.lock);
	}
	int result = interrupt_wanted() ? -ECANCELED : far_storage.open_result;
	bool changed = far_storage.changed && strcmp(far_storage.changed, url) == 0;
	pthread_mutex_unlock(&far_storage.lock);
	if (result < 0)
		return fault_set(fault, result, "%s: the server says no to HEAD", url);
	struct far_object *object = calloc(1, sizeof *object);
	assert_non_null(object);
	object->fd = open(url, O_RDONLY | O_CLOEXEC);
	if (object->fd < 0) {
		int error = errno;
		free(object);
		return fault_set(fault, -error, "%s: the server answers 404", url);
	}
	assert_int_equal(fstat(object->fd, &st), 0);
	object->size = (uint64_t)st.st_size;
	object->stamp = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec + changed;
	(void)snprintf(object->path, sizeof object->path, "%s", url);
	pthread_mutex_lock(&far_storage.lock);
	far_storage.objects++;
	pthread_mutex_unlock(&far_storage.lock);
	*ret = (struct remote_object *)object;
	return 0;
}

/* The listing says the truth. */
int __wrap_remote_object_open_listed(const char *url, uint64_t size, const char *etag,
	int64_t modified_s, struct remote_object **ret, struct fault *fault)
{
	(void)size, (void)etag, (void)modified_s;
	return __wrap_remote_object_open(url, ret, fault);
}

void __wrap_remote_object_unref(struct remote_object *remote)
{
	struct far_object *object = (struct far_object *)remote;
	if (!object)
		return;
	(void)close(object->fd);
	free(object);
	pthread_mutex_lock(&far_storage.lock);
	far_storage.objects--;
	pthread_mutex_unlock(&far_storage.lock);
}

uint64_t __wrap_remote_object_size(const struct remote_object *object)
{
	return ((const struct far_object *)object)->size;
}

int64_t __wrap_remote_object_stamp(const struct remote_object *object)
{
	return ((const struct far_object *)object)->stamp;
}

bool __wrap_remote_object_local(
	struct remote_object *object, uint64_t offset, uint64_t size, int *ret_fd)
{
	pthread_mutex_lock(&far_storage.lock);
	bool local = far_storage.local;
	*ret_fd = far_storage.local_fd >= 0 ? far_storage.local_fd
					    : ((struct far_object *)object)->fd;
	pthread_mutex_unlock(&far_storage.lock);
	return local;
}

static void far_storage_answer(struct remote_read *read)
{
	const struct far_object *object = (const struct far_object *)read->object;
	pthread_mutex_lock(&far_storage.lock);
	bool covers =
		far_storage.at == UINT64_MAX ||
		(read->offset <= far_storage.at && read->offset + read->size > far_storage.at);
	read->result = covers ? far_storage.read_result : 0;
	far_storage.in_flight--;
	pthread_mutex_unlock(&far_storage.lock);
	if (read->result < 0)
		(void)fault_set(
			&read->fault, read->result, "%s: the server says no to GET", object->path);
	else if (pread(object->fd, read->buffer, read->size, (off_t)read->offset) !=
		 (ssize_t)read->size)
		read->result = fault_set(&read->fault, -ENODATA, "%s ends early", object->path);
	read->done(read);
}

void __wrap_remote_object_begin(struct remote_read *read)
{
	pthread_mutex_lock(&far_storage.lock);
	bool now = far_storage.at_once;
	far_storage.begun++;
	far_storage.in_flight++;
	far_storage.most = UTIL_MAX(far_storage.most, far_storage.in_flight);
	if (!now)
		list_append(&far_storage.reads, &read->node);
	pthread_cond_broadcast(&far_storage.some);
	pthread_mutex_unlock(&far_storage.lock);
	if (now)
		far_storage_answer(read);
}

void __wrap_remote_object_cancel(struct remote_read *read)
{
	bool found = false;
	pthread_mutex_lock(&far_storage.lock);
	list_each (one, &far_storage.reads, struct remote_read, node)
		found = found || one == read;
	if (found) {
		list_remove(&far_storage.reads, &read->node);
		far_storage.canceled++;
		far_storage.in_flight--;
	}
	pthread_mutex_unlock(&far_storage.lock);
	if (!found)
		return;
	read->result = -ECANCELED;
	read->done(read);
}

static void *far_storage_run(void *context)
{
	(void)context;
	pthread_mutex_lock(&far_storage.lock);
	while (!far_storage.ends) {
		struct remote_read *read =
			far_storage.hangs ? NULL
					  : list_take(&far_storage.reads, struct remote_read, node);
		if (!read) {
			pthread_cond_wait(&far_storage.some, &far_storage.lock);
			continue;
		}
		pthread_mutex_unlock(&far_storage.lock);
		far_storage_answer(read);
		pthread_mutex_lock(&far_storage.lock);
	}
	pthread_mutex_unlock(&far_storage.lock);
	return NULL;
}

/* What a test found changed takes effect for those that wait. */
#define far_storage_set(field, value)                      \
	do {                                               \
		pthread_mutex_lock(&far_storage.lock);     \
		far_storage.field = (value);               \
		pthread_cond_broadcast(&far_storage.some); \
		pthread_mutex_unlock(&far_storage.lock);   \
	} while (0)

static inline unsigned far_storage_get(const unsigned *field)
{
	pthread_mutex_lock(&far_storage.lock);
	unsigned value = *field;
	pthread_mutex_unlock(&far_storage.lock);
	return value;
}

/* Waits until a number is at least `least`, for at most a minute. */
static inline void far_storage_await(const unsigned *field, unsigned least)
{
	static const struct timespec pause = {.tv_nsec = 1000000};
	for (unsigned i = 0; i < 60000 && far_storage_get(field) < least; i++)
		(void)nanosleep(&pause, NULL);
	if (far_storage_get(field) < least)
		fail_msg("%u after a minute, not %u", far_storage_get(field), least);
}

static inline void far_storage_begin(const char *prefix)
{
	far_storage.ends = far_storage.hangs = far_storage.opens_hang = false;
	far_storage.at_once = far_storage.local = false;
	far_storage.local_fd = -1;
	far_storage.open_result = far_storage.read_result = 0;
	far_storage.at = UINT64_MAX;
	far_storage.changed = far_storage.opens_hang_at = NULL;
	far_storage.open = far_storage.begun = far_storage.canceled = far_storage.most = 0;
	assert_int_equal(pthread_create(&far_storage.thread, NULL, far_storage_run, NULL), 0);
	fetch_far_pretend(prefix);
}

/* Nothing may be left open. */
static inline void far_storage_end(void)
{
	fetch_far_pretend(NULL);
	far_storage_set(opens_hang, false);
	far_storage_set(ends, true);
	(void)pthread_join(far_storage.thread, NULL);
	static const struct timespec pause = {.tv_nsec = 1000000};
	for (unsigned i = 0; i < 60000 && far_storage_get(&far_storage.objects) > 0; i++)
		(void)nanosleep(&pause, NULL);
	assert_int_equal(far_storage_get(&far_storage.objects), 0);
	assert_int_equal(far_storage.in_flight, 0);
}

/* object: see object.h. Opening, references and blocking reads; object_read.c has the rest. */
#include "remote/object.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/util.h"
#include "remote/instance.h"
#include "remote/interrupt.h"
#include "remote/objects.h"
#include "remote/url.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	PIECES = 8, /* of a large blocking read, at once */
	PIECE = 2 << 20,
	SAFE = 512, /* of a URL in a sentence */
};
/* How long what a server said of an object holds for those who open it again. */
#define CHECKED_NS UINT64_C(60000000000)

static size_t bucket_of(const char *url)
{
	return hash_mix(hash_bytes(HASH_SEED, url, strlen(url))) % OBJECTS_TABLE;
}

int64_t object_stamp(const char *etag, uint64_t size, int64_t modified_s)
{
	uint64_t hash = hash_bytes(HASH_SEED, etag, strlen(etag));
	if (!*etag)
		hash = hash_u64(hash_u64(hash, size), (uint64_t)modified_s);
	const int64_t stamp = (int64_t)(hash_mix(hash) >> 1);
	return stamp ? stamp : 1;
}

static void object_free(struct remote_object *object)
{
	if (!object)
		return;
	struct disk_file *file = atomic_load_explicit(&object->file, memory_order_relaxed);
	disk_file_close(file);
	/* What nobody reads any more is room. */
	if (file)
		atomic_store_explicit(&object->objects->room_tried_ns, 0, memory_order_relaxed);
	(void)pthread_mutex_destroy(&object->lock);
	(void)pthread_mutex_destroy(&object->make_lock);
	free(object->url);
	free(object->etag);
	free(object);
}

static struct remote_object *object_new(struct objects *objects, const char *url, uint64_t size,
	const char *etag, int64_t modified_s)
{
	struct remote_object *object = calloc(1, sizeof *object);
	if (!object)
		return NULL;
	(void)pthread_mutex_init(&object->lock, NULL);
	(void)pthread_mutex_init(&object->make_lock, NULL);
	object->objects = objects;
	object->refs = 1;
	object->url = strdup(url);
	object->etag = strdup(etag);
	object->size = size;
	object->stamp = object_stamp(etag, size, modified_s);
	if (!object->url || !object->etag) {
		object_free(object);
		return NULL;
	}
	/* RFC 9110, 13.1.1: a weak ETag never matches. */
	if (*etag && strncmp(etag, "W/", 2) != 0)
		object->match = object->etag;
	return object;
}

/* The open object of a URL, with a reference; `stamp` 0: any version. Under the lock. */
static struct remote_object *find(struct objects *objects, const char *url, int64_t stamp)
{
	struct remote_object *object = objects->table[bucket_of(url)];
	for (; object; object = object->next)
		if (strcmp(object->url, url) == 0 && (!stamp || object->stamp == stamp)) {
			object->refs++;
			return object;
		}
	return NULL;
}

/* What is stored of it already; nothing is made. What has no ETag is stored under its stamp. */
static void file_find(struct remote_object *object)
{
	struct disk_file *file;
	char key[32];
	if (!object->objects->disk || !object->size)
		return;
	if (disk_file_open(object->objects->disk, object->url, remote_object_key(object, key),
		    object->size, false, &file) == 0)
		atomic_store_explicit(&object->file, file, memory_order_release);
}

int objects_open_listed(struct objects *objects, const char *url, uint64_t size, const char *etag,
	int64_t modified_s, struct remote_object **ret, struct fault *fault)
{
	const char *text = etag ? etag : "";
	const int64_t stamp = object_stamp(text, size, modified_s);
	(void)pthread_mutex_lock(&objects->lock);
	struct remote_object *open = find(objects, url, stamp);
	(void)pthread_mutex_unlock(&objects->lock);
	struct remote_object *made = NULL;
	if (!open) {
		made = object_new(objects, url, size, text, modified_s);
		if (!made)
			return fault_set(fault, -ENOMEM, "no memory to open a remote object");
		file_find(made);
		(void)pthread_mutex_lock(&objects->lock);
		open = find(objects, url, stamp); /* another thread may have been faster */
		if (!open) {
			struct remote_object **head = &objects->table[bucket_of(url)];
			made->next = *head;
			*head = open = made;
			made = NULL;
		}
		(void)pthread_mutex_unlock(&objects->lock);
	}
	object_free(made);
	atomic_store_explicit(&open->checked_ns, clock_ns(), memory_order_relaxed);
	*ret = open;
	return 0;
}

/* Asks for the size and the ETag. Servers that refuse HEAD, as an address that is signed for GET
 * does, are asked for the first byte. */
static int ask(struct objects *objects, const char *url, struct client_request *request,
	struct fault *fault)
{
	char safe[SAFE];
	struct fault first, *to = fault ? fault : &first;
	*request = (struct client_request){.method = CLIENT_HEAD, .url = url};
	int code = objects->transport.perform(objects->transport.context, request, to);
	const unsigned status = request->status;
	if (code < 0 && (status == 403 || status == 405 || status == 501)) {
		uint8_t byte;
		struct client_request get = {
			.method = CLIENT_GET, .url = url, .size = 1, .buffer = &byte};
		if (objects->transport.perform(objects->transport.context, &get, NULL) == 0) {
			*request = get;
			code = 0;
		}
	}
	if (code == 0 && request->answer.size == CLIENT_UNKNOWN)
		return fault_set(to, -EPROTO,
			"%s: the server does not say how large it is: penstock needs a server that "
			"sends Content-Length and serves ranges",
			remote_url_safe(url, safe, sizeof safe));
	return code;
}

int objects_open(
	struct objects *objects, const char *url, struct remote_object **ret, struct fault *fault)
{
	(void)pthread_mutex_lock(&objects->lock);
	struct remote_object *open = find(objects, url, 0);
	(void)pthread_mutex_unlock(&objects->lock);
	if (open && clock_ns() - atomic_load_explicit(&open->checked_ns, memory_order_relaxed) <
			    CHECKED_NS) {
		*ret = open;
		return 0;
	}
	remote_object_unref(open);
	struct client_request *request = malloc(sizeof *request);
	if (!request)
		return fault_set(fault, -ENOMEM, "no memory to open a remote object");
	int code = ask(objects, url, request, fault);
	if (code == 0)
		code = objects_open_listed(objects, url, request->answer.size, request->answer.etag,
			request->answer.modified_s, ret, fault);
	free(request);
	return code;
}

int remote_object_open(const char *url, struct remote_object **ret, struct fault *fault)
{
	struct objects *objects = instance_objects(fault);
	return objects ? objects_open(objects, url, ret, fault) : instance_error();
}

int remote_object_open_listed(const char *url, uint64_t size, const char *etag, int64_t modified_s,
	struct remote_object **ret, struct fault *fault)
{
	struct objects *objects = instance_objects(fault);
	return objects ? objects_open_listed(objects, url, size, etag, modified_s, ret, fault)
		       : instance_error();
}

struct remote_object *remote_object_ref(struct remote_object *object)
{
	(void)pthread_mutex_lock(&object->objects->lock);
	object->refs++;
	(void)pthread_mutex_unlock(&object->objects->lock);
	return object;
}

void remote_object_unref(struct remote_object *object)
{
	if (!object)
		return;
	struct objects *objects = object->objects;
	(void)pthread_mutex_lock(&objects->lock);
	const bool last = --object->refs == 0;
	if (last) {
		struct remote_object **at = &objects->table[bucket_of(object->url)];
		while (*at != object)
			at = &(*at)->next;
		*at = object->next;
	}
	(void)pthread_mutex_unlock(&objects->lock);
	if (last)
		object_free(object);
}

const char *remote_object_url(const struct remote_object *object)
{
	return object->url;
}

uint64_t remote_object_size(const struct remote_object *object)
{
	return object->size;
}

const char *remote_object_etag(const struct remote_object *object)
{
	return object->etag;
}

int64_t remote_object_stamp(const struct remote_object *object)
{
	return object->stamp;
}

bool remote_object_local(struct remote_object *object, uint64_t offset, uint64_t size, int *ret_fd)
{
	/* Acquire: the file's fields were written before. */
	struct disk_file *file = atomic_load_explicit(&object->file, memory_order_acquire);
	if (!file || !disk_file_local(file, offset, size))
		return false;
	(void)atomic_fetch_add_explicit(&object->objects->hit_bytes, size, memory_order_relaxed);
	*ret_fd = disk_file_fd(file);
	return true;
}

struct waiting {
	pthread_mutex_t lock;
	pthread_cond_t turn;
	unsigned left;
};

static void waiting_done(struct remote_read *read)
{
	struct waiting *waiting = read->user;
	(void)pthread_mutex_lock(&waiting->lock);
	if (--waiting->left == 0)
		(void)pthread_cond_signal(&waiting->turn);
	(void)pthread_mutex_unlock(&waiting->lock);
}

/* Waits for all reads; those of a thread that is interrupted are canceled. */
static void pieces_wait(struct waiting *waiting, struct remote_read *reads, unsigned count)
{
	bool canceled = false;
	(void)pthread_mutex_lock(&waiting->lock);
	while (waiting->left) {
		interrupt_wait(&waiting->turn, &waiting->lock, canceled);
		if (canceled || !waiting->left || !interrupt_wanted())
			continue;
		canceled = true;
		(void)pthread_mutex_unlock(&waiting->lock);
		for (unsigned i = 0; i < count; i++)
			remote_object_cancel(&reads[i]);
		(void)pthread_mutex_lock(&waiting->lock);
	}
	(void)pthread_mutex_unlock(&waiting->lock);
}

/* Reads up to PIECES pieces at once. */
static int pieces_read(struct remote_object *object, uint8_t *buffer, size_t size, uint64_t offset,
	struct fault *fault)
{
	struct waiting waiting = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct remote_read reads[PIECES];
	const unsigned count = (unsigned)((size + PIECE - 1) / PIECE);
	if (interrupt_wanted())
		return fault_set(fault, -ECANCELED, "the read was canceled");
	interrupt_cond_init(&waiting.turn);
	waiting.left = count;
	for (unsigned i = 0; i < count; i++) {
		const size_t at = (size_t)i * PIECE;
		reads[i] = (struct remote_read){
			.object = object,
			.buffer = buffer + at,
			.offset = offset + at,
			.size = (uint32_t)UTIL_MIN(size - at, (size_t)PIECE),
			.done = waiting_done,
			.user = &waiting,
		};
		remote_object_begin(&reads[i]);
	}
	pieces_wait(&waiting, reads, count);
	(void)pthread_cond_destroy(&waiting.turn);
	(void)pthread_mutex_destroy(&waiting.lock);
	for (unsigned i = 0; i < count; i++)
		if (reads[i].result < 0)
			return fault_set(fault, reads[i].result, "%s", reads[i].fault.text);
	return 0;
}

int remote_object_read(struct remote_object *object, void *buffer, size_t size, uint64_t offset,
	struct fault *fault)
{
	const size_t most = (size_t)PIECES * PIECE;
	for (size_t done = 0; done < size;) {
		const size_t part = UTIL_MIN(size - done, most);
		const int code =
			pieces_read(object, (uint8_t *)buffer + done, part, offset + done, fault);
		if (code < 0)
			return code;
		done += part;
	}
	return 0;
}

struct remote_hold {
	struct disk_hold *hold; /* NULL: there is no cache */
};

int remote_hold(const char *prefix, struct remote_hold **ret)
{
	struct objects *objects = instance_objects(NULL);
	struct remote_hold *hold = calloc(1, sizeof *hold);
	if (!hold)
		return -ENOMEM;
	if (objects && objects->disk && disk_hold(objects->disk, prefix, &hold->hold) < 0)
		hold->hold = NULL;
	*ret = hold;
	return 0;
}

void remote_hold_free(struct remote_hold *hold)
{
	if (!hold)
		return;
	disk_hold_free(hold->hold);
	free(hold);
}

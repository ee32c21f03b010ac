/* object_read: a read is planned: what is stored is read, what is under way is joined, and for the
 * rest flights begin. See objects.h for threads and locks. */
#include "base/clock.h"
#include "base/util.h"
#include "base/whole.h"
#include "remote/objects.h"
#include "remote/url.h"

#define LOG_TOPIC LOG_READER
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAFE = 512 /* bytes of a URL in a sentence */ };

/* How long after a look into the account that found no room the next one is worth its time. */
#define ROOM_NS UINT64_C(200000000)

static void count(_Atomic uint64_t *counter, uint64_t by)
{
	(void)atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

const char *remote_object_key(const struct remote_object *object, char buffer[32])
{
	if (*object->etag)
		return object->etag;
	(void)snprintf(buffer, 32, "%lld", (long long)object->stamp);
	return buffer;
}

bool read_part_done(struct remote_read *read, int result, const struct fault *fault)
{
	struct remote_object *object = read->object;
	struct objects *objects = object->objects;
	(void)pthread_mutex_lock(&object->lock);
	/* Those who open it again ask the server, also while others have it open. */
	if (result == -ESTALE || result == -ENODATA)
		atomic_store_explicit(&object->checked_ns, 0, memory_order_relaxed);
	if (result < 0 && read->result == 0) {
		read->result = result;
		if (fault)
			read->fault = *fault;
	}
	const bool last = --read->parts == 0;
	read->finished = last;
	(void)pthread_mutex_unlock(&object->lock);
	if (!last)
		return false;
	(void)atomic_fetch_sub_explicit(&objects->reads_now, 1, memory_order_relaxed);
	read->done(read);
	return true;
}

/* Under the object's lock. Returns whether it was the last reference: then flight_free. */
static bool flight_release(struct flight *flight)
{
	return --flight->refs == 0;
}

static void flight_free(struct flight *flight)
{
	struct remote_object *object = flight->object;
	if (flight->staged)
		(void)atomic_fetch_sub_explicit(
			&object->objects->staged, flight->size, memory_order_relaxed);
	if (flight->own)
		free(flight->bytes);
	free(flight);
	remote_object_unref(object);
}

/* Under the object's lock. */
static void flight_list(struct flight *flight)
{
	flight->listed = true;
	list_append(&flight->object->flights, &flight->node);
}

/* No read finds it any more. Under the object's lock. As flight_release. */
static bool flight_unlist(struct flight *flight)
{
	flight->listed = false;
	list_remove(&flight->object->flights, &flight->node);
	return flight_release(flight);
}

static uint64_t flight_cost(const struct flight *flight)
{
	uint64_t cost = 0;
	for (uint64_t at = 0; at < flight->size; at += DISK_BLOCK)
		cost += disk_cost(UTIL_MIN(flight->size - at, (uint64_t)DISK_BLOCK));
	return cost;
}

static uint8_t *part_target(const struct part *part)
{
	return (uint8_t *)part->read->buffer + (part->offset - part->read->offset);
}

static void part_copy(const struct flight *flight, const struct part *part)
{
	const uint8_t *from = flight->bytes + (part->offset - flight->offset);
	if (from != part_target(part))
		memcpy(part_target(part), from, part->size);
}

/* A flight with two references: of its request, which flight_done gives back, and of flight_begin.
 * It has a reference of `object`, whose reader has one. */
static struct flight *flight_new(struct remote_object *object, uint64_t offset, uint64_t size)
{
	struct flight *flight = calloc(1, sizeof *flight);
	if (!flight)
		return NULL;
	flight->object = remote_object_ref(object);
	flight->offset = offset;
	flight->size = size;
	flight->refs = 2;
	return flight;
}

static void flight_done(struct client_request *request);

/* Begins the request of a flight, which others may join or cancel already: the request exists for
 * the transport only from here on, and is canceled here if a reader asked for that before. */
static void flight_begin(struct flight *flight)
{
	struct remote_object *object = flight->object;
	const struct objects *objects = object->objects;
	flight->request = (struct client_request){
		.method = CLIENT_GET,
		.url = object->url,
		.etag = object->match,
		.offset = flight->offset,
		.size = flight->size,
		.buffer = flight->bytes,
		.done = flight_done,
		.context = flight,
	};
	objects->transport.begin(objects->transport.context, &flight->request);
	(void)pthread_mutex_lock(&object->lock);
	flight->begun = true;
	const bool cancel = flight->canceling;
	bool last = !cancel && flight_release(flight);
	(void)pthread_mutex_unlock(&object->lock);
	if (cancel) {
		objects->transport.cancel(objects->transport.context, &flight->request);
		(void)pthread_mutex_lock(&object->lock);
		last = flight_release(flight);
		(void)pthread_mutex_unlock(&object->lock);
	}
	if (last)
		flight_free(flight);
}

/* Begins again what a part waited for in a flight that another reader canceled. On the client's
 * thread, where no file may be looked into: the bytes are not stored. */
static void part_again(struct part *part)
{
	struct remote_read *read = part->read;
	struct remote_object *object = read->object;
	struct fault fault;
	int code = -ENOMEM;
	struct flight *flight = flight_new(object, part->offset, part->size);
	if (flight) {
		flight->bytes = part_target(part);
		(void)pthread_mutex_lock(&object->lock);
		/* A cancellation has found no part of the read while this one was in no flight. */
		code = read->canceled ? -ECANCELED : 0;
		if (code == 0) {
			list_append(&flight->parts, &part->node);
			flight_list(flight);
		}
		(void)pthread_mutex_unlock(&object->lock);
	}
	if (code == 0) {
		flight_begin(flight);
		return;
	}
	free(part);
	(void)fault_set(&fault, code, "%s",
		code == -ENOMEM ? "no memory to read a remote object" : "the read was canceled");
	/* After the read's end, so that the object stays until then. */
	(void)read_part_done(read, code, &fault);
	if (flight)
		flight_free(flight);
}

/* An object without an ETag for If-Match may have been replaced without a 412. */
static int flight_check(const struct flight *flight, struct fault *fault)
{
	char safe[SAFE];
	const struct client_request *request = &flight->request;
	const struct remote_object *object = flight->object;
	if (request->result < 0) {
		*fault = request->fault;
		return request->result;
	}
	const struct client_answer *answer = &request->answer;
	const bool other = *object->etag ? *answer->etag && strcmp(object->etag, answer->etag) != 0
					 : answer->modified_s >= 0 &&
						   object_stamp("", object->size,
							   answer->modified_s) != object->stamp;
	if (other || (answer->size != CLIENT_UNKNOWN && answer->size != object->size))
		return fault_set(fault, -ESTALE,
			"%s: it was replaced while it was read: start the stream again to read "
			"the new one",
			remote_url_safe(object->url, safe, sizeof safe));
	return 0;
}

/* Ends the parts of a flight that is over, from the list `parts`. Bytes are copied before any read
 * is done, since the bytes of a direct flight are in the first read's buffer. */
static void parts_end(const struct objects *objects, struct list_head *parts, int result,
	const struct fault *fault)
{
	const bool ending = atomic_load_explicit(&objects->ending, memory_order_relaxed);
	for (struct part *part; (part = list_take(parts, struct part, node));) {
		struct remote_read *read = part->read;
		if (result == -ECANCELED && !ending) {
			part_again(part);
			continue;
		}
		free(part);
		(void)read_part_done(read, result, fault);
	}
}

/* Gives the writer what a flight has. */
static void write_later(struct objects *objects, struct flight *flight)
{
	(void)pthread_mutex_lock(&objects->queue_lock);
	list_append(&objects->writes, &flight->write_node);
	(void)pthread_cond_signal(&objects->writes_turn);
	(void)pthread_mutex_unlock(&objects->queue_lock);
}

static void flight_done(struct client_request *request)
{
	struct flight *flight = request->context;
	struct remote_object *object = flight->object;
	struct objects *objects = object->objects;
	struct list_head parts = {0};
	struct fault fault;
	fault.text[0] = 0;
	const int result = flight_check(flight, &fault);
	const bool write = flight->stored && result == 0;
	if (result == 0)
		count(write ? &objects->stored_bytes : &objects->unstored_bytes, flight->size);
	(void)pthread_mutex_lock(&object->lock);
	if (result == 0)
		list_each (part, &flight->parts, struct part, node)
			part_copy(flight, part);
	list_join(&parts, &flight->parts);
	flight->landed = true;
	const bool stays = write || (result == 0 && flight->kept);
	const bool last = !stays && flight_unlist(flight);
	(void)pthread_mutex_unlock(&object->lock);
	if (flight->stored && !write)
		disk_give(objects->disk, flight_cost(flight));
	if (write)
		write_later(objects, flight);
	/* The object may go with the flight: its reads still have it. */
	parts_end(objects, &parts, result, &fault);
	if (last)
		flight_free(flight);
}

void flight_write(struct flight *flight)
{
	struct remote_object *object = flight->object;
	struct objects *objects = object->objects;
	struct disk_file *file = atomic_load_explicit(&object->file, memory_order_acquire);
	for (uint64_t at = 0; at < flight->size; at += DISK_BLOCK) {
		int code = 0;
		if (disk_stopped(objects->disk))
			disk_give(objects->disk,
				disk_cost(UTIL_MIN(flight->size - at, (uint64_t)DISK_BLOCK)));
		else
			code = disk_file_write(
				file, (flight->offset + at) / DISK_BLOCK, flight->bytes + at);
		if (code < 0 && disk_stop(objects->disk))
			log_warning("cache_dir: cannot store remote data: %s: streams go on, and "
				    "nothing more is stored until the daemon is started again",
				strerror(-code));
	}
	(void)pthread_mutex_lock(&object->lock);
	flight->written = true;
	const bool last = !flight->kept && flight_unlist(flight);
	(void)pthread_mutex_unlock(&object->lock);
	if (last)
		flight_free(flight);
}

/* The flight that has this byte. Under the object's lock. */
static struct flight *flight_at(struct remote_object *object, uint64_t offset)
{
	list_each (flight, &object->flights, struct flight, node)
		if (offset >= flight->offset && offset - flight->offset < flight->size)
			return flight;
	return NULL;
}

static enum disk_state state_at(struct remote_object *object, uint64_t block)
{
	struct disk_file *file = atomic_load_explicit(&object->file, memory_order_acquire);
	if (!file)
		return DISK_MISSING;
	return disk_file_refresh(file, block);
}

/* Where the missing range ends that begins at `offset`: at `end`, at a block that is stored, at a
 * flight, or after `most` bytes. Under the object's lock. */
static uint64_t run_end(struct remote_object *object, uint64_t offset, uint64_t end, uint64_t most)
{
	const uint64_t first = offset / DISK_BLOCK;
	uint64_t block = first + 1;
	if (object->objects->disk)
		end = UTIL_MIN(end, first * DISK_BLOCK + most);
	for (; block * DISK_BLOCK < end; block++)
		if (state_at(object, block) != DISK_MISSING)
			break;
	uint64_t run = block * DISK_BLOCK < end ? block * DISK_BLOCK : end;
	list_each (flight, &object->flights, struct flight, node)
		if (flight->offset > offset && flight->offset < run)
			run = flight->offset;
	return run;
}

/* Asks the account at most every ROOM_NS; the writer makes room where there is none. */
static bool credit_take(struct objects *objects, uint64_t bytes)
{
	if (disk_take(objects->disk, bytes))
		return true;
	const uint64_t now = clock_ns();
	if (disk_stopped(objects->disk) ||
		now < atomic_load_explicit(&objects->room_tried_ns, memory_order_relaxed))
		return false;
	/* Others may take what comes. */
	for (int i = 0; i < 8 && disk_credit(objects->disk, bytes, false) == 0; i++)
		if (disk_take(objects->disk, bytes))
			return true;
	atomic_store_explicit(&objects->room_tried_ns, now + ROOM_NS, memory_order_relaxed);
	(void)pthread_mutex_lock(&objects->queue_lock);
	objects->room_wanted = true;
	(void)pthread_cond_signal(&objects->writes_turn);
	(void)pthread_mutex_unlock(&objects->queue_lock);
	return false;
}

/* The object's file in the cache, made if need be. Under the object's lock for that. */
static bool file_make_locked(struct remote_object *object)
{
	struct objects *objects = object->objects;
	struct disk_file *file;
	char key[32];
	if (atomic_load_explicit(&object->file, memory_order_relaxed))
		return true;
	const uint64_t cost = disk_file_cost(object->size);
	if (object->unstorable || !credit_take(objects, cost))
		return false;
	disk_give(objects->disk, cost); /* disk_file_open takes it */
	const int code = disk_file_open(objects->disk, object->url, remote_object_key(object, key),
		object->size, true, &file);
	if (code == 0) {
		atomic_store_explicit(&object->file, file, memory_order_release);
		return true;
	}
	/* Files may be free again later; an object may be too large for the file system. */
	const bool passes = code == DISK_E_FULL || code == -EMFILE || code == -ENFILE;
	object->unstorable = !passes;
	if (code < 0 && !passes && code != -EFBIG && code != -ENOMEM && disk_stop(objects->disk))
		log_warning("cache_dir: cannot make a file for remote data: %s: streams go on, and "
			    "nothing more is stored until the daemon is started again",
			strerror(-code));
	return false;
}

static bool file_make(struct remote_object *object)
{
	if (atomic_load_explicit(&object->file, memory_order_acquire))
		return true;
	(void)pthread_mutex_lock(&object->make_lock);
	const bool made = file_make_locked(object);
	(void)pthread_mutex_unlock(&object->make_lock);
	return made;
}

/* What storing the blocks of a missing range may take at most. Pure. */
static uint64_t range_cost(uint64_t offset, uint64_t end, uint64_t most)
{
	const uint64_t from = offset / DISK_BLOCK * DISK_BLOCK;
	const uint64_t to = UTIL_MIN(util_align(end, DISK_BLOCK), from + most);
	return (to - from) / DISK_BLOCK * disk_cost(DISK_BLOCK);
}

static bool staging_take(struct objects *objects, uint64_t bytes)
{
	if (atomic_fetch_add_explicit(&objects->staged, bytes, memory_order_relaxed) + bytes <=
		REMOTE_STAGING)
		return true;
	(void)atomic_fetch_sub_explicit(&objects->staged, bytes, memory_order_relaxed);
	return false;
}

/* Makes a flight one of whole blocks that are stored, if `*credit` and memory are enough for it,
 * and takes its cost from there. Under the object's lock. */
static void flight_store(struct flight *flight, uint64_t *credit)
{
	struct remote_object *object = flight->object;
	struct objects *objects = object->objects;
	if (!*credit)
		return;
	struct flight rounded = {
		.offset = flight->offset / DISK_BLOCK * DISK_BLOCK,
	};
	const uint64_t end = util_align(flight->offset + flight->size, DISK_BLOCK);
	rounded.size = UTIL_MIN(end, object->size) - rounded.offset;
	/* Another flight may have the rest of a block. */
	list_each (other, &object->flights, struct flight, node)
		if (other->stored && other->offset < rounded.offset + rounded.size &&
			rounded.offset < other->offset + other->size)
			return;
	const uint64_t cost = flight_cost(&rounded);
	/* Its keepers answer for the memory of a kept flight, until they drop it: then it is
	 * staged, without a limit, so that no other is stored before these are written. */
	const bool staged = !flight->kept;
	const bool full = !staged && atomic_load_explicit(&objects->staged, memory_order_relaxed) >=
					     REMOTE_STAGING;
	if (cost > *credit || full || (staged && !staging_take(objects, rounded.size)))
		return;
	uint8_t *bytes = malloc(rounded.size);
	if (!bytes) {
		if (staged)
			(void)atomic_fetch_sub_explicit(
				&objects->staged, rounded.size, memory_order_relaxed);
		return;
	}
	*credit -= cost;
	flight->offset = rounded.offset;
	flight->size = rounded.size;
	flight->bytes = bytes;
	flight->own = flight->stored = true;
	flight->staged = staged;
}

static struct part *part_new(struct remote_read *read, uint64_t offset, uint64_t end)
{
	struct part *part = malloc(sizeof *part);
	if (!part)
		return NULL;
	*part = (struct part){.read = read, .offset = offset, .size = (uint32_t)(end - offset)};
	return part;
}

/* Reads a stored block's bytes from `offset` to `end`. 0; DISK_E_BROKEN; -errno. */
static int local_read(struct remote_read *read, uint64_t offset, uint64_t end)
{
	struct remote_object *object = read->object;
	struct disk_file *file = atomic_load_explicit(&object->file, memory_order_acquire);
	const uint64_t block = offset / DISK_BLOCK;
	uint8_t *target = (uint8_t *)read->buffer + (offset - read->offset);
	if (disk_file_state(file, block) == DISK_VERIFIED) {
		const ssize_t n = whole_read(disk_file_fd(file), target, end - offset, offset);
		return n < 0 ? (int)n : (uint64_t)n == end - offset ? 0 : -EIO;
	}
	char safe[SAFE];
	uint8_t bytes[DISK_BLOCK];
	const int code = disk_file_verify(file, block, bytes);
	if (code == 0)
		memcpy(target, bytes + offset % DISK_BLOCK, end - offset);
	if (code == DISK_E_BROKEN && !atomic_exchange_explicit(&object->objects->broken_logged,
					     true, memory_order_relaxed))
		log_warning("cache_dir: a block of %s has a wrong checksum and is fetched again; "
			    "if this happens again (penstock status counts it), check the disk",
			remote_url_safe(object->url, safe, sizeof safe));
	return code;
}

/* Joins the flight that has `offset`, or makes one; *ret_end is where its bytes for this read end,
 * and *ret_begin the flight to begin without the lock; NULL: none. Under the object's lock. 0 or
 * -ENOMEM. */
static int part_place(struct remote_read *read, uint64_t offset, uint64_t end, uint64_t *credit,
	uint64_t *ret_end, struct flight **ret_begin)
{
	struct remote_object *object = read->object;
	struct flight *flight = flight_at(object, offset);
	uint64_t until = flight ? UTIL_MIN(end, flight->offset + flight->size)
				: run_end(object, offset, end, OBJECTS_RUN);
	struct part *part = part_new(read, offset, until);
	if (!part)
		return -ENOMEM;
	if (flight) {
		count(&object->objects->shared_bytes, until - offset);
		if (flight->landed) {
			part_copy(flight, part);
			free(part);
		} else {
			read->parts++;
			list_append(&flight->parts, &part->node);
		}
		*ret_end = until;
		*ret_begin = NULL;
		return 0;
	}
	flight = flight_new(object, offset, until - offset);
	if (!flight) {
		free(part);
		return -ENOMEM;
	}
	flight_store(flight, credit);
	if (!flight->stored)
		flight->bytes = part_target(part);
	read->parts++;
	list_append(&flight->parts, &part->node);
	flight_list(flight);
	*ret_end = until;
	*ret_begin = flight;
	return 0;
}

/* What may be stored of `cost`: all or nothing. */
static uint64_t credit_for(struct remote_object *object, uint64_t cost)
{
	struct objects *objects = object->objects;
	if (!objects->disk || disk_stopped(objects->disk) || !file_make(object) ||
		!credit_take(objects, cost))
		return 0;
	return cost;
}

/* A byte that one flight has or that is missing: joins the flight, or begins one. 0; -EAGAIN with
 * `look` set: its block was stored meanwhile; -ENOMEM; -ECANCELED. */
static int step_far(
	struct remote_read *read, uint64_t offset, uint64_t end, bool look, uint64_t *ret_end)
{
	struct remote_object *object = read->object;
	struct objects *objects = object->objects;
	/* Taken before the lock, since looking into the account and making a file may take long,
	 * and the client's thread needs the lock. */
	uint64_t credit = credit_for(object, range_cost(offset, end, OBJECTS_RUN));
	struct flight *begin = NULL;
	int code;
	(void)pthread_mutex_lock(&object->lock);
	if (read->canceled)
		code = -ECANCELED;
	else if (look && !flight_at(object, offset) &&
		 state_at(object, offset / DISK_BLOCK) != DISK_MISSING)
		code = -EAGAIN;
	else
		code = part_place(read, offset, end, &credit, ret_end, &begin);
	(void)pthread_mutex_unlock(&object->lock);
	if (credit)
		disk_give(objects->disk, credit);
	if (code == 0)
		count(&objects->miss_bytes, *ret_end - offset);
	if (begin)
		flight_begin(begin);
	return code;
}

/* The part of a read from `offset` on that one block or one flight has. */
static int step(struct remote_read *read, uint64_t offset, uint64_t end, uint64_t *ret_end)
{
	struct remote_object *object = read->object;
	const uint64_t block_end = UTIL_MIN(end, (offset / DISK_BLOCK + 1) * DISK_BLOCK);
	/* What cannot be read from the cache is fetched. A flight may store a block between the
	 * look into the cache and the look at the flights: then the cache is looked into again. */
	for (bool tried = false;;) {
		if (state_at(object, offset / DISK_BLOCK) != DISK_MISSING) {
			tried = true;
			if (local_read(read, offset, block_end) == 0) {
				count(&object->objects->hit_bytes, block_end - offset);
				*ret_end = block_end;
				return 0;
			}
		}
		const int code = step_far(read, offset, end, !tried, ret_end);
		if (code != -EAGAIN)
			return code;
	}
}

void read_plan(struct remote_read *read)
{
	struct fault fault;
	fault.text[0] = 0;
	int code = 0;
	const uint64_t end = read->offset + read->size;
	for (uint64_t at = read->offset; code == 0 && at < end;)
		code = step(read, at, end, &at);
	if (code == -ENOMEM)
		(void)fault_set(&fault, code, "no memory to read a remote object");
	if (code == -ECANCELED)
		(void)fault_set(&fault, code, "the read was canceled");
	(void)read_part_done(read, code, &fault);
}

void remote_object_begin(struct remote_read *read)
{
	struct remote_object *object = read->object;
	struct objects *objects = object->objects;
	struct fault fault;
	char safe[SAFE];
	read->result = 0;
	read->fault.text[0] = 0;
	read->parts = 1;
	read->canceled = read->finished = false;
	count(&objects->reads_now, 1);
	if (read->offset > object->size || read->size > object->size - read->offset) {
		const int code = fault_set(&fault, -ENODATA,
			"%s: it has %llu bytes, and %u bytes from byte %llu on were asked for",
			remote_url_safe(object->url, safe, sizeof safe),
			(unsigned long long)object->size, read->size,
			(unsigned long long)read->offset);
		(void)read_part_done(read, code, &fault);
		return;
	}
	if (!objects->disk) {
		read_plan(read);
		return;
	}
	(void)pthread_mutex_lock(&objects->queue_lock);
	list_append(&objects->reads, &read->node);
	(void)pthread_cond_signal(&objects->reads_turn);
	(void)pthread_mutex_unlock(&objects->queue_lock);
}

/* Whether nobody needs its bytes, and it was not canceled. Under the object's lock. */
static bool flight_is_idle(const struct flight *flight)
{
	return list_is_empty(&flight->parts) && !flight->canceling && !flight->kept;
}

/* Takes one part of a read out of the object's flights. Returns whether there was one to take;
 * *ret_stays: it stays until its flight has ended. *ret_cancel is a flight whose request nobody
 * needs any more, with a reference; NULL: none, or flight_begin cancels it. Under the object's
 * lock. */
static bool part_remove(struct remote_read *read, bool *ret_stays, struct flight **ret_cancel)
{
	*ret_stays = false;
	*ret_cancel = NULL;
	list_each (flight, &read->object->flights, struct flight, node)
		list_each (part, &flight->parts, struct part, node) {
			if (part->read != read)
				continue;
			/* The bytes of a direct flight are written to its first read's buffer: the
			 * part stays until the flight has ended. */
			const bool owner = !flight->own && flight->bytes == part_target(part);
			if (owner && flight->canceling)
				continue;
			if (!owner) {
				list_remove(&flight->parts, &part->node);
				free(part);
			}
			*ret_stays = owner;
			if (owner || flight_is_idle(flight)) {
				flight->canceling = true;
				flight->refs += flight->begun;
				*ret_cancel = flight->begun ? flight : NULL;
			}
			return true;
		}
	return false;
}

void remote_object_cancel(struct remote_read *read)
{
	struct remote_object *object = remote_object_ref(read->object);
	const struct objects *objects = object->objects;
	struct fault fault;
	(void)fault_set(&fault, -ECANCELED, "the read was canceled");
	for (bool more = true; more;) {
		struct flight *flight = NULL;
		bool stays = false, last = false;
		(void)pthread_mutex_lock(&object->lock);
		read->canceled = true;
		more = !read->finished && part_remove(read, &stays, &flight);
		(void)pthread_mutex_unlock(&object->lock);
		if (flight) {
			objects->transport.cancel(objects->transport.context, &flight->request);
			(void)pthread_mutex_lock(&object->lock);
			last = flight_release(flight);
			(void)pthread_mutex_unlock(&object->lock);
		}
		if (last)
			flight_free(flight);
		if (more && !stays)
			more = !read_part_done(read, -ECANCELED, &fault);
	}
	remote_object_unref(object);
}

/* --- ranges that are kept --- */

struct kept_flight {
	struct kept_flight *next;
	struct flight *flight;
};

struct remote_kept {
	struct remote_object *object;
	struct kept_flight *flights;
	uint64_t bytes;
};

/* Under the object's lock. */
static void kept_add(struct remote_kept *kept, struct kept_flight *one, struct flight *flight)
{
	one->flight = flight;
	one->next = kept->flights;
	kept->flights = one;
	kept->bytes += flight->size;
}

/* A flight of the bytes from `offset` on. Under the object's lock. NULL: no memory. */
static struct flight *kept_flight(
	struct remote_object *object, uint64_t offset, uint64_t end, uint64_t *credit)
{
	const uint64_t until =
		run_end(object, offset, UTIL_MIN(end, offset + REMOTE_KEEP), REMOTE_KEEP);
	struct flight *flight = flight_new(object, offset, until - offset);
	if (!flight)
		return NULL;
	flight->kept = 1;
	flight_store(flight, credit);
	if (!flight->own) {
		flight->bytes = malloc(flight->size);
		flight->own = true;
	}
	if (!flight->bytes) {
		/* The caller has the object: this is not its last reference. */
		flight_free(flight);
		return NULL;
	}
	flight->refs++;
	flight_list(flight);
	return flight;
}

/* The part of a range from `offset` on that one block or one flight has. 0 or -ENOMEM. */
static int keep_step(struct remote_kept *kept, uint64_t offset, uint64_t end, uint64_t *ret_end)
{
	struct remote_object *object = kept->object;
	struct objects *objects = object->objects;
	if (state_at(object, offset / DISK_BLOCK) != DISK_MISSING) {
		*ret_end = UTIL_MIN(end, (offset / DISK_BLOCK + 1) * DISK_BLOCK);
		return 0;
	}
	struct kept_flight *one = malloc(sizeof *one);
	if (!one)
		return -ENOMEM;
	/* Before the lock, as in `step`. */
	uint64_t credit = credit_for(object, range_cost(offset, end, REMOTE_KEEP));
	struct flight *begin = NULL;
	(void)pthread_mutex_lock(&object->lock);
	struct flight *flight = flight_at(object, offset);
	const bool shared = flight && flight->kept && !flight->canceling;
	if (shared) {
		flight->kept++;
		flight->refs++;
	} else if (!flight) {
		flight = begin = kept_flight(object, offset, end, &credit);
	}
	if (shared || begin)
		kept_add(kept, one, flight);
	if (flight)
		*ret_end = UTIL_MIN(end, flight->offset + flight->size);
	(void)pthread_mutex_unlock(&object->lock);
	if (credit)
		disk_give(objects->disk, credit);
	if (!shared && !begin)
		free(one);
	if (begin)
		flight_begin(begin);
	return flight ? 0 : -ENOMEM;
}

int remote_object_keep(
	struct remote_object *object, uint64_t offset, uint64_t size, struct remote_kept **ret)
{
	struct remote_kept *kept = calloc(1, sizeof *kept);
	if (!kept)
		return -ENOMEM;
	kept->object = remote_object_ref(object);
	int code = 0;
	const uint64_t end =
		offset < object->size ? offset + UTIL_MIN(size, object->size - offset) : offset;
	for (uint64_t at = offset; code == 0 && at < end;)
		code = keep_step(kept, at, end, &at);
	if (code < 0)
		remote_kept_drop(kept);
	else
		*ret = kept;
	return code;
}

uint64_t remote_kept_bytes(const struct remote_kept *kept)
{
	return kept->bytes;
}

static void flight_drop(struct flight *flight)
{
	struct remote_object *object = flight->object;
	struct objects *objects = object->objects;
	bool last = false, cancel = false;
	(void)pthread_mutex_lock(&object->lock);
	flight->kept--;
	if (!flight->kept && flight->stored && !flight->written && !flight->staged) {
		flight->staged = true;
		count(&objects->staged, flight->size);
	}
	if (flight->listed && !flight->landed && flight_is_idle(flight)) {
		flight->canceling = true;
		/* Otherwise flight_begin does it. */
		cancel = flight->begun;
	} else if (flight->listed && flight->landed && !flight->kept &&
		   (!flight->stored || flight->written))
		/* The keeper's own reference is left. */
		(void)flight_unlist(flight);
	(void)pthread_mutex_unlock(&object->lock);
	if (cancel)
		objects->transport.cancel(objects->transport.context, &flight->request);
	(void)pthread_mutex_lock(&object->lock);
	last = flight_release(flight);
	(void)pthread_mutex_unlock(&object->lock);
	if (last)
		flight_free(flight);
}

void remote_kept_drop(struct remote_kept *kept)
{
	if (!kept)
		return;
	for (struct kept_flight *one = kept->flights, *next; one; one = next) {
		next = one->next;
		flight_drop(one->flight);
		free(one);
	}
	remote_object_unref(kept->object);
	free(kept);
}

/* objects: what the open objects of a process share: the cache, the way to the servers, the threads
 * that read and write the cache's files, and a table of the objects by URL.
 *
 * Threads: OBJECTS_KEEPERS keepers plan the reads of objects where there is a cache, since that
 * looks into files; without a cache, the caller plans. One writer stores what came, after the
 * reader has it, and makes room. What comes from servers comes on the client's thread, which only
 * copies and calls `done`.
 *
 * A flight is one request that is under way, or whose bytes wait to be written. A read has a part
 * in each flight that it needs. A stored flight has whole blocks in memory of its own, of which all
 * flights together have REMOTE_STAGING; a direct flight has exactly the bytes of the read that
 * began it, in that read's buffer. A kept flight has memory that its keepers answer for, and stays
 * among the object's flights, where reads find its bytes, until the last of them drops it.
 *
 * Circle: object, object_read, objects, remote: objects are opened through the instance, whose
 * threads work on them.
 *
 * Locks: an object's lock protects its flights, their parts and the state of its reads; the lock
 * of `objects` the table and the references; the lock of the queue the two queues. An object's
 * lock may be held when one of the others is taken, and no other lock when another is taken. No
 * lock is held when `done` is called or the client is. */
#pragma once

#include "base/list.h"
#include "remote/cache/disk_file.h"
#include "remote/client/client.h"
#include "remote/object.h"
#include "remote/remote.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
	OBJECTS_KEEPERS = 4,
	OBJECTS_TABLE = 1 << 14,
	OBJECTS_RUN = 2 << 20, /* bytes of one request of a read that is stored, at most */
};

/* The client, or what stands in for it in tests: as client_begin, client_cancel, client_perform. */
struct objects_transport {
	void *context;
	void (*begin)(void *context, struct client_request *request);
	void (*cancel)(void *context, struct client_request *request);
	int (*perform)(void *context, struct client_request *request, struct fault *fault);
};

struct flight;

struct objects {
	struct disk *disk; /* NULL: nothing is kept */
	struct objects_transport transport;
	pthread_mutex_t lock;
	struct remote_object *table[OBJECTS_TABLE];

	pthread_mutex_t queue_lock;
	pthread_cond_t reads_turn, writes_turn;
	struct list_head reads, writes; /* of remote_read, of flight */
	bool room_wanted;
	_Atomic uint64_t room_tried_ns; /* no room is asked for before that time */
	uint64_t room_again_ns; /* of the writer: how long it waits before it looks again */
	atomic_bool ending;
	unsigned keepers; /* that were started */
	bool has_writer;
	pthread_t keeper[OBJECTS_KEEPERS], writer;

	_Atomic uint64_t staged, reads_now; /* bytes in flights with memory of their own; reads */
	_Atomic uint64_t hit_bytes, miss_bytes, shared_bytes, stored_bytes, unstored_bytes;
	atomic_bool broken_logged;
};

struct remote_object {
	struct objects *objects;
	struct remote_object *next; /* in the table */
	unsigned refs; /* under the lock of `objects` */
	char *url, *etag;
	const char *match; /* the ETag for If-Match; NULL: none, or a weak one */
	uint64_t size;
	int64_t stamp;
	_Atomic uint64_t checked_ns; /* when the server was last asked */
	pthread_mutex_t lock;
	struct list_head flights;
	_Atomic(struct disk_file *) file; /* NULL: not open; set once */
	pthread_mutex_t make_lock; /* held while the file is made */
	bool unstorable; /* its file cannot be made. Under make_lock */
};

struct part {
	struct list_node node;
	struct remote_read *read;
	uint64_t offset;
	uint32_t size;
};

struct flight {
	struct list_node node; /* in the object's flights */
	struct list_node write_node;
	struct remote_object *object; /* a reference */
	uint64_t offset, size;
	uint8_t *bytes;
	bool own; /* `bytes` is its own */
	bool stored; /* its bytes, which are whole blocks, are written to the cache's file */
	bool staged; /* its bytes count in `staged` */
	bool written;
	bool listed; /* in the object's flights */
	unsigned kept; /* by how many of remote_object_keep */
	bool landed; /* all bytes are there; they are being written */
	bool begun; /* the transport has the request. Under the object's lock */
	bool canceling;
	unsigned refs; /* under the object's lock */
	struct list_head parts;
	struct client_request request;
};

/* `disk` is NULL or is closed by objects_free. 0 or -errno. */
int objects_new(struct disk *disk, const struct objects_transport *transport, struct objects **ret);

/* Ends the threads after all is written that came. No object is referenced except by flights, and
 * the transport has called `done` for all requests. Accepts NULL. */
void objects_end(struct objects *objects);
/* Requests that are canceled from now on are not begun again for other readers. */
void objects_ending(struct objects *objects);
void objects_free(struct objects *objects);

void objects_stats_read(const struct objects *objects, struct remote_stats *ret);

/* As in object.h, of these objects. */
int objects_open(
	struct objects *objects, const char *url, struct remote_object **ret, struct fault *fault);
int objects_open_listed(struct objects *objects, const char *url, uint64_t size, const char *etag,
	int64_t modified_s, struct remote_object **ret, struct fault *fault);

/* Tells two versions of an object apart: by the ETag, or else by size and Last-Modified. Pure. */
int64_t object_stamp(const char *etag, uint64_t size, int64_t modified_s);

/* What its blocks are stored under: the ETag, or else the stamp. */
const char *remote_object_key(const struct remote_object *object, char buffer[32]);

/* Begins what a read needs; finishes the part that the read has from its beginning. */
void read_plan(struct remote_read *read);
/* Ends a part of a read; the last one calls `done`. Returns whether it was the last. */
bool read_part_done(struct remote_read *read, int result, const struct fault *fault);
/* Writes what a flight has, on the writer's thread. */
void flight_write(struct flight *flight);

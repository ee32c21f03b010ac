/* fetch_op: one question to the kernel, from the first try to the final result.
 *
 * An op opens a file, or reads a range, or opens, reads and closes a file (a folder's sample). It
 * knows how to continue after each answer (short reads, EINTR, EAGAIN, file systems that refuse
 * O_DIRECT), so the engines only carry questions and answers, and outcomes cannot differ between
 * them:
 *
 *   while (fetch_op_next(op))
 *           fetch_op_answer(op, <the kernel's answer to op>);
 *   if (fetch_op_owns(op)) close(op->fd);
 *
 * Before an op is done, the file is checked again: bytes of a shard that was written after it was
 * indexed, or of a folder's file that was written while it was read, are not delivered. A writer
 * changes the modification time before it changes the bytes, so no write is missed.
 *
 * An op belongs to one thread at a time: to the engine's while it is asked, otherwise to the
 * planner's. */
#pragma once

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct dataset;
struct far_job;
struct fault;
struct remote_object;

enum fetch_op_stage {
	FETCH_OP_OPEN, /* next question: openat(directory, path) */
	FETCH_OP_READ, /* next question: up to `ask` bytes at offset + got */
	FETCH_OP_DONE, /* `result` is set */
};

enum fetch_op_kind {
	FETCH_OP_PAGE, /* an index page: read */
	FETCH_OP_SHARD, /* a shard: open */
	FETCH_OP_RANGE, /* a range of an open shard: read */
	FETCH_OP_FILE, /* a folder's sample: open, read, close */
};

/* A result: the file ended before `need` bytes, or (`changed`) it is not the indexed file any
 * more. */
enum { FETCH_OP_ENDED = 1 };

struct fetch_op {
	struct list_node node; /* in a list of the planner or of the engine */
	enum fetch_op_kind kind;
	enum fetch_op_stage stage;
	int result; /* 0, FETCH_OP_ENDED, or negative errno */
	unsigned tries;
	bool blocking; /* the kernel said EAGAIN: it must block in a thread of its own */

	/* opening */
	int directory;
	const char *path;
	bool direct; /* with O_DIRECT; cleared if that is refused */
	bool refused; /* O_DIRECT was refused */
	bool nofollow; /* a symbolic link is an error */
	uint32_t align; /* of a direct read's offset and length; 1 if buffered */

	/* reading; `length` may exceed `need`: for alignment, or by one byte to detect that a file
	 * has grown */
	int fd; /* opened by this op if it is a SHARD or a FILE; -1: none */
	int slot; /* registered file, -1: none */
	uint8_t *buffer;
	bool registered; /* the buffer is in the arena */
	uint64_t offset;
	uint32_t length, need, got, ask;
	bool changed; /* with FETCH_OP_ENDED: the file's size is not `need`, or it was written */
	bool irregular; /* with FETCH_OP_ENDED: a pipe or the like, not a file */
	/* The size of the FILE is not known, so it may end anywhere; `need` equals `length`. */
	bool unsized;
	unsigned rereads; /* of such a file, which was written while it was read */
	int64_t mtime_ns; /* of a FILE, when it was opened */
	struct iovec iov; /* for engines that need it after the call */

	/* `path` is a URL, or the bytes are in an object of remote storage (far/far.h). */
	bool remote;
	bool cached; /* `fd` is the cache's file, which has the bytes */
	bool uncached; /* that file failed: the object is asked */
	struct remote_object *object; /* NULL: not open */
	struct far_job *job;

	const struct dataset *dataset;
	/* the shard to be checked before the question (RANGE) or after opening it (SHARD) */
	uint32_t shard;
	bool verify;
};

/* Prepares the next question; false if the op is done. May block if a shard is checked. */
bool fetch_op_next(struct fetch_op *op);

/* Takes the kernel's answer: a number of bytes, a file, or a negative errno. */
void fetch_op_answer(struct fetch_op *op, int answer);

/* Takes the answer of remote storage: 0, or a negative errno. `fault` may get a new sentence. */
void fetch_op_answer_far(struct fetch_op *op, int result, struct fault *fault);

/* The flags for open(2). */
int fetch_op_flags(const struct fetch_op *op);

/* Whether a done op has a file of its own that the engine must close. */
static inline bool fetch_op_owns(const struct fetch_op *op)
{
	return op->kind == FETCH_OP_FILE && op->fd >= 0 && !op->remote;
}

/* For tests: called before every question. 0: the kernel answers (after lowering `op->ask` for a
 * short read); negative: the answer is this error; FETCH_HOOK_EMPTY: the answer is 0 bytes. Set
 * only while nothing is in flight. */
enum { FETCH_HOOK_EMPTY = 1 };
typedef int fetch_hook_fn(struct fetch_op *op);
void fetch_hook_set(fetch_hook_fn *hook);

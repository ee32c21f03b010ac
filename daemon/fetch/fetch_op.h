/* fetch_op: one thing asked of the kernel, from the first try to a final result.
 *
 * An op opens a file, or reads a range, or opens, reads and closes one (a folder's sample). It
 * knows how to go on after each answer (short reads, EINTR, EAGAIN, file systems that refuse
 * O_DIRECT), so both engines do nothing but carry questions and answers, and outcomes cannot differ
 * between them:
 *
 *   while (fetch_op_next(op))
 *           fetch_op_answer(op, <what the kernel says to op>);
 *   if (fetch_op_owns(op)) close(op->fd);
 *
 * What was read is looked at once more before the op is done: bytes of a shard that was written
 * since it was indexed, or of a folder's file that was written while it was read, are not handed
 * out. Who writes changes the modification time first and the bytes then, so none of them is
 * missed.
 *
 * An op belongs to one thread at a time: the engine's while it is being asked, the planner's
 * otherwise. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct dataset;

enum fetch_op_stage {
	FETCH_OP_OPEN, /* next question: openat(directory, path) */
	FETCH_OP_READ, /* next question: up to `ask` bytes at offset + got */
	FETCH_OP_DONE, /* `result` holds */
};

enum fetch_op_kind {
	FETCH_OP_PAGE, /* an index page: read */
	FETCH_OP_SHARD, /* a shard: open */
	FETCH_OP_RANGE, /* a range of an open shard: read */
	FETCH_OP_FILE, /* a folder's sample: open, read, close */
};

/* result: the file ended before `need` bytes, or (`changed`) is another one than it should be */
enum { FETCH_OP_ENDED = 1 };

struct fetch_op {
	struct fetch_op *next; /* in the planner's or the engine's lists */
	enum fetch_op_kind kind;
	enum fetch_op_stage stage;
	int result; /* 0, FETCH_OP_ENDED, or negative errno */
	unsigned tries;
	bool blocking; /* the kernel said EAGAIN: ask it to block in a thread of its own */

	/* opening */
	int directory;
	const char *path;
	bool direct; /* with O_DIRECT; cleared where it is refused */
	bool refused; /* it was */
	uint32_t align; /* of a direct read's offset and length; 1 when buffered */

	/* reading; `length` may exceed `need`: up to alignment, or by one byte to see that a file
	 * has grown */
	int fd; /* opened by this op where kind is SHARD or FILE; -1: none */
	int slot; /* registered file, -1: none */
	uint8_t *buffer;
	bool registered; /* the buffer lies in the arena */
	uint64_t offset;
	uint32_t length, need, got, ask;
	bool changed; /* FETCH_OP_ENDED: the file's size is not `need` either, or it was written */
	int64_t mtime_ns; /* of a FILE, when it was opened */
	struct iovec iov; /* for engines that need it to outlive the call */

	const struct dataset *dataset;
	/* the shard to be looked at before the question (RANGE) or after opening it (SHARD) */
	uint32_t shard;
	bool verify;
};

/* Prepares the next question, or false when the op is done. May block where a shard is looked at.
 */
bool fetch_op_next(struct fetch_op *op);

/* Takes the kernel's answer: bytes, a file, or a negative errno. */
void fetch_op_answer(struct fetch_op *op, int answer);

/* Flags of the open(2) that the op asks for. */
int fetch_op_flags(const struct fetch_op *op);

/* A done op's own file that its engine has to close. */
static inline bool fetch_op_owns(const struct fetch_op *op)
{
	return op->kind == FETCH_OP_FILE && op->fd >= 0;
}

/* For tests: asked before every question. 0: let the kernel answer (after lowering `op->ask` for a
 * short read); negative: the answer is this errno; FETCH_HOOK_EMPTY: the answer is 0 bytes. Set
 * while nothing is in flight. */
enum { FETCH_HOOK_EMPTY = 1 };
typedef int fetch_hook_fn(struct fetch_op *op);
void fetch_hook_set(fetch_hook_fn *hook);

/* fetch_op: see fetch_op.h. Runs on engine threads, without the planner's lock. */
#include "fetch/fetch_op.h"

#include "base/util.h"
#include "dataset/dataset.h"
#include "dataset/mtime.h"
#include "remote/object.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* After EINTR and EAGAIN the question is asked again, but not for ever: a file system that never
 * answers otherwise is at fault. STATX_DIOALIGN came with Linux 6.1; on older kernels the default
 * is a page, which every file system and device accepts. */
enum { OP_TRIES = 64, OP_ALIGN_DEFAULT = 4096, OP_REREADS = 3 };

static _Atomic(fetch_hook_fn *) op_hook;

void fetch_hook_set(fetch_hook_fn *hook)
{
	atomic_store_explicit(&op_hook, hook, memory_order_release);
}

int fetch_op_flags(const struct fetch_op *op)
{
	return O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (op->direct ? O_DIRECT : 0) |
	       (op->nofollow ? O_NOFOLLOW : 0);
}

static void op_finish(struct fetch_op *op, int result)
{
	op->result = result;
	op->stage = FETCH_OP_DONE;
}

static int64_t op_mtime(int fd)
{
	struct stat now;
	return fstat(fd, &now) < 0 ? -1 : mtime_of(&now);
}

/* A file whose size no index says was read: it may have any size and any time, but these must not
 * change meanwhile. If they do, it is read again. */
static void op_complete_unsized(struct fetch_op *op)
{
	struct stat now;
	bool known = fstat(op->fd, &now) == 0;
	op->irregular = !known || !S_ISREG(now.st_mode);
	op->changed = op->irregular || mtime_of(&now) != op->mtime_ns;
	if (op->changed && !op->irregular && op->rereads++ < OP_REREADS) {
		op->mtime_ns = mtime_of(&now);
		op->changed = false;
		op->got = 0;
		return;
	}
	op_finish(op, op->changed ? FETCH_OP_ENDED : 0);
}

/* All bytes were read: checks that they are the indexed ones. */
static void op_complete(struct fetch_op *op)
{
	if (op->remote) {
		op_finish(op, 0);
		return;
	}
	if (op->unsized) {
		op_complete_unsized(op);
	} else if (op->kind == FETCH_OP_RANGE) {
		op_finish(op, dataset_verify_file(op->dataset, op->shard, op->fd));
	} else if (op->kind == FETCH_OP_FILE && op_mtime(op->fd) != op->mtime_ns) {
		op->changed = true;
		op_finish(op, FETCH_OP_ENDED);
	} else {
		op_finish(op, 0);
	}
}

/* Clears O_NONBLOCK. Files are opened with it, so that a pipe in a file's place blocks no thread.
 * For pread on a file it means nothing, but a ring then answers EAGAIN instead of waiting if the
 * file system cannot be read asynchronously. */
static bool op_let_block(const struct fetch_op *op)
{
	return fcntl(op->fd, F_SETFL, op->direct ? O_DIRECT : 0) == 0;
}

/* Whether to ask again after this error. */
static bool op_retry(struct fetch_op *op, int error)
{
	if (error == -EAGAIN && op->stage == FETCH_OP_READ && op->kind == FETCH_OP_FILE &&
		!op->blocking)
		(void)op_let_block(op);
	if (error == -EAGAIN)
		op->blocking = true;
	return (error == -EAGAIN || error == -EINTR) && ++op->tries <= OP_TRIES;
}

/* Continues through the page cache. O_DIRECT is a flag of the open file, so all readers of a shard
 * change at once; each of them may be at any offset, which buffered reads allow. */
static bool op_make_buffered(struct fetch_op *op)
{
	op->direct = false;
	op->refused = true;
	op->align = 1;
	return op_let_block(op);
}

/* The alignment that the kernel requires for direct reads of this file; 0: they are impossible.
 * Uses the system call because the C library of Debian 12 has statx, but not this field. */
static uint32_t op_direct_align(int fd)
{
	struct statx answer = {0};
	if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &answer) < 0 ||
		!(answer.stx_mask & STATX_DIOALIGN))
		return OP_ALIGN_DEFAULT;
	/* Buffers are aligned to pages, not more. */
	if (answer.stx_dio_offset_align == 0 || answer.stx_dio_mem_align > OP_ALIGN_DEFAULT)
		return 0;
	return answer.stx_dio_offset_align;
}

/* A shard was opened: checks that it is the indexed one, and how it must be read. The path is
 * checked after opening, so that a shard exchanged in between is detected. */
static int op_shard_opened(struct fetch_op *op)
{
	int rc = dataset_verify_shard(op->dataset, op->shard, NULL);
	if (rc < 0)
		return rc;
	op->align = op->direct ? op_direct_align(op->fd) : 1;
	bool settled = op->align ? op_let_block(op) : op_make_buffered(op);
	if (!settled)
		return -EBADF;
	/* Many reads are in flight at a time, so the kernel's guess about the next one only costs:
	 * a random read of 100 KB would start a window of up to megabytes if read_ahead_kb is
	 * large. */
	if (!op->direct)
		(void)posix_fadvise(op->fd, 0, 0, POSIX_FADV_RANDOM);
	return 0;
}

static void op_opened(struct fetch_op *op, int answer)
{
	if (answer == -EINVAL && op->direct) {
		op->direct = false;
		op->refused = true;
		op->align = 1;
	} else if (answer < 0) {
		if (!op_retry(op, answer))
			op_finish(op, answer);
	} else {
		op->fd = answer;
		op->tries = 0;
		op->blocking = false;
		op->stage = FETCH_OP_READ;
		if (op->kind == FETCH_OP_SHARD)
			op_finish(op, op_shard_opened(op));
		else
			op->mtime_ns = op_mtime(op->fd);
	}
}

/* The file has no more bytes. If a folder's file was replaced by a shorter one, that is another
 * outcome than a file that cannot be read to its end. */
static void op_ended(struct fetch_op *op)
{
	struct stat now;
	if (op->kind == FETCH_OP_FILE) {
		bool known = fstat(op->fd, &now) == 0;
		op->changed = !known || (uint64_t)now.st_size != op->need;
		op->irregular = !known || !S_ISREG(now.st_mode);
	}
	op_finish(op, FETCH_OP_ENDED);
}

/* A read met the end of the file. */
static void op_stopped(struct fetch_op *op)
{
	if (op->unsized)
		op_complete(op);
	else
		op_ended(op);
}

/* The cache's file cannot be read, which should not happen: the bytes are fetched again. */
static void op_uncache(struct fetch_op *op)
{
	op->cached = false;
	op->uncached = true;
	op->blocking = false;
	op->fd = -1;
	op->got = op->tries = 0;
}

static void op_read(struct fetch_op *op, int answer)
{
	if (answer == -EINVAL && op->direct) {
		if (!op_make_buffered(op))
			op_finish(op, answer);
	} else if (op->cached && answer <= 0) {
		if (answer == 0 || !op_retry(op, answer))
			op_uncache(op);
	} else if (answer < 0) {
		if (!op_retry(op, answer))
			op_finish(op, answer);
	} else {
		op->got += (uint32_t)answer;
		op->tries = 0;
		/* This check comes first, because an answer of 0 bytes completes an empty sample.
		 * A direct read that stops between two aligned offsets has met the end of the
		 * file. */
		if (op->got >= op->need)
			op_complete(op);
		else if (answer == 0 || (op->direct && op->got % op->align != 0))
			op_stopped(op);
	}
}

void fetch_op_answer(struct fetch_op *op, int answer)
{
	assert(op->stage != FETCH_OP_DONE);
	if (op->stage == FETCH_OP_OPEN)
		op_opened(op, answer);
	else
		op_read(op, answer);
}

/* An object was opened: checks that it is the indexed one. */
static void op_far_opened(struct fetch_op *op, struct fault *fault)
{
	uint64_t size = remote_object_size(op->object);
	op->stage = FETCH_OP_READ;
	if (op->kind == FETCH_OP_SHARD) {
		op_finish(op, dataset_verify_object(op->dataset, op->shard, size,
				      remote_object_stamp(op->object), fault));
		return;
	}
	if (op->unsized)
		op->need = (uint32_t)UTIL_MIN(size, (uint64_t)op->length);
	op->changed = size != op->need && !op->unsized;
	if (op->changed)
		op_finish(op, FETCH_OP_ENDED);
	else if (op->need == 0)
		op_finish(op, 0);
}

/* An object that was replaced is a changed file, and a shard that does not exist any more is one
 * that was replaced. */
static int op_far_result(struct fetch_op *op, int result)
{
	bool file = op->kind == FETCH_OP_FILE;
	op->changed = file && (result == -ESTALE || result == -ENODATA);
	if (result == -ENODATA || op->changed)
		return FETCH_OP_ENDED;
	return result == -ENOENT && !file ? -ESTALE : result;
}

void fetch_op_answer_far(struct fetch_op *op, int result, struct fault *fault)
{
	assert(op->stage != FETCH_OP_DONE);
	if (result == 0 && op->stage == FETCH_OP_OPEN) {
		op_far_opened(op, fault);
		return;
	}
	if (result == 0)
		op->got = op->need;
	op_finish(op, op->stage == FETCH_OP_OPEN ? result : op_far_result(op, result));
}

/* True if a test answers in place of the kernel. */
static bool op_hooked(struct fetch_op *op, int *ret_answer)
{
	fetch_hook_fn *hook = atomic_load_explicit(&op_hook, memory_order_acquire);
	int rc = hook ? hook(op) : 0;
	if (rc == 0)
		return false;
	*ret_answer = rc == FETCH_HOOK_EMPTY ? 0 : rc;
	return true;
}

bool fetch_op_next(struct fetch_op *op)
{
	if (op->kind == FETCH_OP_RANGE && op->verify) {
		op->verify = false;
		int rc = dataset_verify_shard(op->dataset, op->shard, NULL);
		if (rc < 0)
			op_finish(op, rc);
	}
	while (op->stage != FETCH_OP_DONE) {
		int answer;
		op->ask = op->length - op->got;
		if (!op_hooked(op, &answer))
			return true;
		fetch_op_answer(op, answer);
	}
	return false;
}

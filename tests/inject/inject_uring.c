/* inject: liburing's functions, and what rings answer. See inject.h.
 *
 * Before questions are submitted their operations are noted by user_data; after the kernel was
 * entered the answers that came since are gone through once. Rings beyond INJECT_RINGS are left
 * alone. One thread per ring, as liburing has it. */
#include "inject/inject.h"

#include <errno.h>
#include <liburing.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define INJECT_PUBLIC __attribute__((visibility("default")))

enum { INJECT_RINGS = 64, INJECT_QUESTIONS = 4096, INJECT_FILES = 1024 };

struct inject_question {
	uint64_t user_data;
	int fd;
	uint8_t opcode;
};

struct inject_ring {
	struct io_uring *ring;
	unsigned seen; /* answers before this one were gone through */
	int file[INJECT_FILES]; /* registered */
	struct inject_question question[INJECT_QUESTIONS];
};

static struct inject_ring inject_rings[INJECT_RINGS];
static pthread_mutex_t inject_rings_lock = PTHREAD_MUTEX_INITIALIZER;

static struct inject_ring *inject_ring_find(const struct io_uring *ring)
{
	struct inject_ring *found = NULL;
	pthread_mutex_lock(&inject_rings_lock);
	for (int i = 0; i < INJECT_RINGS && !found; i++)
		if (inject_rings[i].ring == ring)
			found = &inject_rings[i];
	pthread_mutex_unlock(&inject_rings_lock);
	return found;
}

static void inject_ring_begin(struct io_uring *ring)
{
	struct inject_ring *own = inject_ring_find(NULL);
	if (!own)
		return;
	memset(own->question, 0, sizeof own->question);
	memset(own->file, -1, sizeof own->file);
	own->seen = 0;
	own->ring = ring;
}

/* ---- questions and answers ---- */

static struct inject_question *inject_question_of(struct inject_ring *own, uint64_t user_data)
{
	uint64_t at = user_data * UINT64_C(0x9e3779b97f4a7c15) >> 40;
	for (unsigned i = 0; i < INJECT_QUESTIONS; i++) {
		struct inject_question *q = &own->question[(at + i) % INJECT_QUESTIONS];
		if (q->user_data == user_data || q->user_data == 0) {
			q->user_data = user_data;
			return q;
		}
	}
	return NULL;
}

static void inject_questions_note(struct io_uring *ring)
{
	struct inject_ring *own = inject_ring_find(ring);
	if (!own)
		return;
	for (unsigned i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++) {
		const struct io_uring_sqe *sqe = &ring->sq.sqes[i & ring->sq.ring_mask];
		struct inject_question *q = inject_question_of(own, sqe->user_data);
		if (!q)
			continue;
		bool fixed =
			sqe->flags & IOSQE_FIXED_FILE && sqe->fd >= 0 && sqe->fd < INJECT_FILES;
		q->opcode = sqe->opcode;
		q->fd = fixed ? own->file[sqe->fd] : sqe->fd;
	}
}

static int inject_answer_read(int fd, int res)
{
	int effect = inject_verdict(INJECT_completion_read, fd, NULL);
	if (effect == INJECT_ZERO)
		return 0;
	if (effect == INJECT_SHORT)
		return res > 1 ? res / 2 : res;
	return effect > 0 ? -effect : res;
}

static int inject_answer_open(int res)
{
	int effect = inject_verdict(INJECT_completion_open, -1, NULL);
	if (effect <= 0)
		return res;
	if (res >= 0)
		(void)close(res);
	return -effect;
}

static void inject_answer(struct inject_ring *own, struct io_uring_cqe *cqe)
{
	const struct inject_question *q = inject_question_of(own, cqe->user_data);
	switch (q ? q->opcode : IORING_OP_NOP) {
	case IORING_OP_READ:
	case IORING_OP_READV:
	case IORING_OP_READ_FIXED:
		cqe->res = inject_answer_read(q->fd, cqe->res);
		break;
	case IORING_OP_OPENAT:
		cqe->res = inject_answer_open(cqe->res);
		break;
	default:
		break;
	}
}

static void inject_answers(struct io_uring *ring)
{
	struct inject_ring *own = inject_ring_find(ring);
	if (!own)
		return;
	unsigned head = *ring->cq.khead, tail = io_uring_smp_load_acquire(ring->cq.ktail);
	if ((int)(head - own->seen) > 0)
		own->seen = head;
	for (; own->seen != tail; own->seen++)
		inject_answer(own, &ring->cq.cqes[own->seen & ring->cq.ring_mask]);
}

/* ---- functions ----
 *
 * Parameters are named as in this file, not as in liburing's headers.
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name,bugprone-macro-parentheses) */

#define INJECT_NEXT(type, name, parameters)                                          \
	static type(*_Atomic next_) parameters;                                      \
	type(*real) parameters = atomic_load_explicit(&next_, memory_order_relaxed); \
	if (!real) {                                                                 \
		real = (type(*) parameters)inject_real(#name);                       \
		atomic_store_explicit(&next_, real, memory_order_relaxed);           \
	}

#define INJECT_URING(call, name, parameters, arguments, before, after) \
	INJECT_PUBLIC int name parameters;                             \
	int name parameters                                            \
	{                                                              \
		INJECT_NEXT(int, name, parameters)                     \
		int effect = inject_verdict(INJECT_##call, -1, NULL);  \
		if (effect > 0)                                        \
			return -effect;                                \
		before;                                                \
		int rc = real arguments;                               \
		after;                                                 \
		return rc;                                             \
	}

INJECT_URING(uring_init, io_uring_queue_init_params,
	(unsigned entries, struct io_uring *ring, struct io_uring_params *params),
	(entries, ring, params), , if (rc == 0) inject_ring_begin(ring))
INJECT_URING(uring_init, io_uring_queue_init,
	(unsigned entries, struct io_uring *ring, unsigned flags), (entries, ring, flags), ,
	if (rc == 0) inject_ring_begin(ring))
INJECT_URING(uring_submit, io_uring_submit, (struct io_uring * ring), (ring),
	inject_questions_note(ring), inject_answers(ring))
INJECT_URING(uring_submit, io_uring_submit_and_wait, (struct io_uring * ring, unsigned count),
	(ring, count), inject_questions_note(ring), inject_answers(ring))
INJECT_URING(uring_submit, io_uring_submit_and_get_events, (struct io_uring * ring), (ring),
	inject_questions_note(ring), inject_answers(ring))
INJECT_URING(uring_submit, io_uring_submit_and_wait_timeout,
	(struct io_uring * ring, struct io_uring_cqe **ret, unsigned count,
		struct __kernel_timespec *soon, sigset_t *mask),
	(ring, ret, count, soon, mask), inject_questions_note(ring), inject_answers(ring))
INJECT_URING(
	uring_submit, io_uring_get_events, (struct io_uring * ring), (ring), , inject_answers(ring))
INJECT_URING(uring_submit, __io_uring_get_cqe,
	(struct io_uring * ring, struct io_uring_cqe **ret, unsigned submit, unsigned count,
		sigset_t *mask),
	(ring, ret, submit, count, mask), inject_questions_note(ring), inject_answers(ring))
INJECT_URING(uring_buffers, io_uring_register_buffers,
	(struct io_uring * ring, const struct iovec *pieces, unsigned count), (ring, pieces, count),
	, )
INJECT_URING(uring_register, io_uring_register_ring_fd, (struct io_uring * ring), (ring), , )
INJECT_URING(uring_register, io_uring_register_iowq_max_workers,
	(struct io_uring * ring, unsigned *most), (ring, most), , )

static void inject_files_note(struct io_uring *ring, unsigned from, const int *files, int count)
{
	struct inject_ring *own = inject_ring_find(ring);
	for (int i = 0; own && i < count && from + (unsigned)i < INJECT_FILES; i++)
		own->file[from + (unsigned)i] = files[i];
}

INJECT_URING(uring_files, io_uring_register_files,
	(struct io_uring * ring, const int *files, unsigned count), (ring, files, count), ,
	if (rc == 0) inject_files_note(ring, 0, files, (int)count))
INJECT_URING(uring_files_update, io_uring_register_files_update,
	(struct io_uring * ring, unsigned from, const int *files, unsigned count),
	(ring, from, files, count), , inject_files_note(ring, from, files, rc))

INJECT_PUBLIC struct io_uring_probe *io_uring_get_probe_ring(struct io_uring *ring)
{
	INJECT_NEXT(struct io_uring_probe *, io_uring_get_probe_ring, (struct io_uring *))
	return inject_verdict(INJECT_uring_probe, -1, NULL) > 0 ? NULL : real(ring);
}

INJECT_PUBLIC void io_uring_queue_exit(struct io_uring *ring)
{
	INJECT_NEXT(void, io_uring_queue_exit, (struct io_uring *))
	struct inject_ring *own = inject_ring_find(ring);
	if (own)
		own->ring = NULL;
	real(ring);
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name,bugprone-macro-parentheses) */

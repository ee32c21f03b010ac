/* fetch_uring: the engine that asks through one ring, owned by one thread.
 *
 * A turn of the thread: plan, write ready ops into the submission queue, deliver finished items,
 * enter the kernel once (to submit, and to wait if there is nothing else to do), take the answers.
 * Warm reads are copied inside that call, so a turn submits only a few: workers get the first
 * samples while later ones are still being copied.
 *
 * Everything newer than Linux 5.4 is tried at start and is optional: the flags of the ring,
 * registered buffers (a limit on locked memory forbids them) and files, opening and closing through
 * the ring (otherwise the thread calls openat and close), a larger pool of the kernel's own
 * workers.
 *
 * Seccomp does not see what a ring is asked. So the ring is made disabled, set up, restricted to
 * the questions that are asked here, and enabled (5.10): from then on it can only open, read, poll
 * and close.
 *
 * The thread sleeps in the kernel, in its ring; submitters and releases wake it through an eventfd
 * that the ring polls. */
#include "base/host/limits.h"
#include "base/size.h"
#include "base/util.h"
#include "fetch/fetch_share.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <semaphore.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum {
	RING_READS = 128, /* in flight */
	RING_ENTRIES = 256, /* of the submission queue: a turn's questions, repeats and closes */
	RING_ANSWERS = 1024, /* of the completion queue: all that can be in flight at once */
	RING_TURN = 16, /* questions submitted at once */
	RING_STACK = 256 << 10,
	/* kernel threads for questions that block: cold opens, and some file systems */
	RING_WORKERS = 64,
	RING_BUFFERS = 64, /* registered pieces of the arena */
	/* failed calls in a row, a millisecond apart, before the operator is told */
	RING_REFUSED = 1000,
};

/* The maximum of a registered buffer: io_uring_register(2). */
#define RING_BUFFER_BYTES (UINT64_C(1) << 30)

/* The user_data of requests that are not ops. */
static char ring_wake, ring_close;

struct ring {
	struct lane *lane;
	struct io_uring uring;
	sem_t started;
	int start_rc;
	struct fault *start_fault; /* fetch_new's, while it waits for `started` */
	bool buffers, files, can_open, can_close;
	bool disabled; /* until it is set up */
	bool restricted; /* to the questions that are asked here */
	bool wake_armed; /* a poll of the eventfd is in flight */
	unsigned closing; /* closes in flight */
	unsigned refused; /* times in a row that the kernel accepted no questions */
	struct list_head ask; /* ops to be asked next */
	struct list_head done;
	bool *registered; /* by slot */
};

/* --- questions --- */

/* A free submission entry. Submits if the queue is full, so that there is always one. */
static struct io_uring_sqe *ring_sqe(struct ring *ring)
{
	struct io_uring_sqe *sqe;
	while (!(sqe = io_uring_get_sqe(&ring->uring)))
		(void)io_uring_submit(&ring->uring);
	return sqe;
}

/* The registered piece of the arena that contains the whole read, or -1. */
static int ring_buffer_of(const struct ring *ring, const struct fetch_op *op)
{
	if (!ring->buffers || !op->registered)
		return -1;
	uint64_t from = (uint64_t)(op->buffer - ring->lane->fetch->arena.base);
	uint64_t first = from / RING_BUFFER_BYTES,
		 last = (from + op->length - 1) / RING_BUFFER_BYTES;
	return first == last ? (int)first : -1;
}

static void ring_prepare_read(struct ring *ring, struct fetch_op *op, struct io_uring_sqe *sqe)
{
	bool fixed = op->slot >= 0 && ring->files && ring->registered[op->slot];
	int fd = fixed ? op->slot : op->fd;
	int buffer = ring_buffer_of(ring, op);
	op->iov = (struct iovec){op->buffer + op->got, op->ask};
	/* READV came with the first rings, READ later. */
	if (buffer >= 0)
		io_uring_prep_read_fixed(
			sqe, fd, op->iov.iov_base, op->ask, op->offset + op->got, buffer);
	else
		io_uring_prep_readv(sqe, fd, &op->iov, 1, op->offset + op->got);
	io_uring_sqe_set_flags(
		sqe, (fixed ? IOSQE_FIXED_FILE : 0) | (op->blocking ? IOSQE_ASYNC : 0));
}

/* ThreadSanitizer does not see what a ring closes. When another thread later gets the same
 * descriptor, it reports a race with uses of the old file (fstat). */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RING_CLOSES_HERE
#endif
#endif
#if defined(RING_CLOSES_HERE) || defined(__SANITIZE_THREAD__)
enum { RING_CLOSES = 0 };
#else
enum { RING_CLOSES = 1 };
#endif

static void ring_close_own(struct ring *ring, const struct fetch_op *op)
{
	if (!fetch_op_owns(op))
		return;
	if (!RING_CLOSES || !ring->can_close) {
		(void)close(op->fd);
		return;
	}
	struct io_uring_sqe *sqe = ring_sqe(ring);
	io_uring_prep_close(sqe, op->fd);
	io_uring_sqe_set_data(sqe, &ring_close);
	ring->closing++;
}

static void ring_op_done(struct ring *ring, struct fetch_op *op)
{
	ring_close_own(ring, op);
	fetch_share_keep(ring->lane, op);
	list_append(&ring->done, &op->node);
}

static int ring_open_here(const struct fetch_op *op)
{
	int fd = openat(op->directory, op->path, fetch_op_flags(op));
	return fd < 0 ? -errno : fd;
}

/* Writes the op's next question, or finishes the op if it needs none. */
static void ring_ask(struct ring *ring, struct fetch_op *op)
{
	while (fetch_op_next(op)) {
		if (op->remote && !op->cached && fetch_far_ask(ring->lane, op))
			return;
		if (op->stage == FETCH_OP_OPEN && !ring->can_open) {
			fetch_op_answer(op, ring_open_here(op));
			continue;
		}
		struct io_uring_sqe *sqe = ring_sqe(ring);
		if (op->stage == FETCH_OP_OPEN) {
			io_uring_prep_openat(sqe, op->directory, op->path, fetch_op_flags(op), 0);
			io_uring_sqe_set_flags(sqe, op->blocking ? IOSQE_ASYNC : 0);
		} else {
			ring_prepare_read(ring, op, sqe);
		}
		io_uring_sqe_set_data(sqe, op);
		return;
	}
	ring_op_done(ring, op);
}

static void ring_ask_all(struct ring *ring)
{
	struct fetch_op *op;
	while ((op = list_take(&ring->ask, struct fetch_op, node)))
		ring_ask(ring, op);
}

/* --- answers --- */

static void ring_answered(struct ring *ring, struct fetch_op *op)
{
	if (op->stage == FETCH_OP_DONE)
		ring_op_done(ring, op);
	else
		list_append(&ring->ask, &op->node);
}

static void ring_answer(struct ring *ring, const struct io_uring_cqe *cqe)
{
	void *data = io_uring_cqe_get_data(cqe);
	eventfd_t count;
	if (data == &ring_wake) {
		ring->wake_armed = false;
		(void)eventfd_read(ring->lane->inbox.eventfd, &count);
	} else if (data == &ring_close) {
		ring->closing--;
	} else if (cqe->user_data != LIBURING_UDATA_TIMEOUT) {
		struct fetch_op *op = data;
		fetch_op_answer(op, cqe->res);
		ring_answered(ring, op);
	}
}

static void ring_take_answers(struct ring *ring)
{
	struct io_uring_cqe *cqe;
	unsigned head, count = 0;
	io_uring_for_each_cqe(&ring->uring, head, cqe)
	{
		ring_answer(ring, cqe);
		count++;
	}
	io_uring_cq_advance(&ring->uring, count);
}

static void ring_take_far(struct ring *ring)
{
	struct fetch_op *op;
	while ((op = fetch_far_next(ring->lane)))
		ring_answered(ring, op);
}

/* --- turns --- */

static void ring_arm_wake(struct ring *ring)
{
	if (ring->wake_armed)
		return;
	struct io_uring_sqe *sqe = ring_sqe(ring);
	io_uring_prep_poll_add(sqe, ring->lane->inbox.eventfd, POLLIN);
	io_uring_sqe_set_data(sqe, &ring_wake);
	ring->wake_armed = true;
}

static int ring_wait(struct ring *ring, bool retry)
{
	struct __kernel_timespec soon = {.tv_nsec = FETCH_RETRY_NS};
	struct io_uring_cqe *cqe;
	return retry ? io_uring_submit_and_wait_timeout(&ring->uring, &cqe, 1, &soon, NULL)
		     : io_uring_submit_and_wait(&ring->uring, 1);
}

/* Judges the result of entering the kernel. A kernel that accepts no questions is tried again every
 * millisecond; after a second, the operator is told why nothing is read. */
static void ring_entered(struct ring *ring, int rc)
{
	static const struct timespec pause = {.tv_nsec = 1000000};
	struct lane *lane = ring->lane;
	if (rc >= 0 || rc == -EINTR || rc == -ETIME) {
		ring->refused = 0;
		return;
	}
	if (++ring->refused == RING_REFUSED) {
		pthread_mutex_lock(&lane->lock);
		(void)snprintf(lane->notice, sizeof lane->notice,
			"io_uring accepts no reads (%s): streams wait until it does; `reader: "
			"pread` works without it",
			strerror(-rc));
		pthread_mutex_unlock(&lane->lock);
	}
	(void)nanosleep(&pause, NULL);
}

/* Enters the kernel once. After a failure (EINTR, or EAGAIN and EBUSY if the kernel is short of
 * memory) the questions stay in the queue and go with the next turn. */
static void ring_enter(struct ring *ring, bool may_sleep, bool retry)
{
	struct fetch_inbox *inbox = &ring->lane->inbox;
	if (may_sleep && fetch_sleep_begin(inbox)) {
		ring_arm_wake(ring);
		ring_entered(ring, ring_wait(ring, retry));
		fetch_sleep_end(inbox);
	} else if (io_uring_sq_ready(&ring->uring) > 0) {
		ring_entered(ring, io_uring_submit_and_get_events(&ring->uring));
	}
	ring_take_answers(ring);
	ring_take_far(ring);
}

/* With the planner's lock: takes ready ops, as many as fit a turn. True if more are ready. */
static bool ring_take_ready(struct ring *ring)
{
	for (unsigned i = 0; i < RING_TURN; i++) {
		struct fetch_op *op = fetch_plan_next(ring->lane);
		if (!op)
			return false;
		list_append(&ring->ask, &op->node);
	}
	return fetch_plan_more(ring->lane);
}

/* With the planner's lock: hands ops that are done back, in the order of their answers. */
static void ring_hand_back(struct ring *ring)
{
	struct fetch_op *op;
	while ((op = list_take(&ring->done, struct fetch_op, node)))
		fetch_plan_done(ring->lane, op);
	fetch_plan_meter(ring->lane);
}

static bool ring_turn(struct ring *ring)
{
	struct lane *lane = ring->lane;
	fetch_plan(lane);
	bool more = ring_take_ready(ring), retry = lane->retry;
	fetch_plan_meter(lane);
	struct fetch_item *finished = fetch_plan_finished(lane);
	bool over = lane->stopping && !finished && fetch_plan_quiet(lane);
	pthread_mutex_unlock(&lane->lock);
	ring_ask_all(ring);
	fetch_deliver(lane, finished);
	if (!over)
		ring_enter(ring, !more && !finished && list_is_empty(&ring->done), retry);
	pthread_mutex_lock(&lane->lock);
	ring_hand_back(ring);
	return !over;
}

/* --- setting up --- */

/* 0.0 if the kernel does not say which it is. */
static void ring_kernel(int *ret_major, int *ret_minor)
{
	struct utsname kernel = {0};
	*ret_major = *ret_minor = 0;
	(void)uname(&kernel);
	(void)sscanf(kernel.release, "%d.%d", ret_major, ret_minor);
}

/* Containers hide io_uring in two ways: Docker's profile answers EPERM, podman's ENOSYS. */
static int ring_missing(int rc, struct fault *fault)
{
	int major, minor;
	ring_kernel(&major, &minor);
	if (major < 5 || (major == 5 && minor < 1))
		return fault_set(fault, rc,
			"this kernel (%d.%d) has no io_uring (Linux 5.4 and newer have it)", major,
			minor);
	return fault_set(fault, rc,
		"io_uring is hidden here by seccomp, as podman's default profile does, or this "
		"kernel (%d.%d) was built without it",
		major, minor);
}

static int ring_fault(int rc, struct fault *fault)
{
	struct rlimit limit = {0};
	char size[16];
	switch (-rc) {
	case EPERM:
	case EACCES:
		return fault_set(fault, rc,
			"io_uring is forbidden here (seccomp or kernel.io_uring_disabled)");
	case ENOSYS:
		return ring_missing(rc, fault);
	case ENOMEM:
		(void)getrlimit(RLIMIT_MEMLOCK, &limit);
		return fault_set(fault, rc,
			"io_uring cannot lock its memory (RLIMIT_MEMLOCK is %s): raise it (ulimit "
			"-l)",
			size_format(limit.rlim_cur, size, sizeof size));
	case EMFILE:
	case ENFILE:
		(void)getrlimit(RLIMIT_NOFILE, &limit);
		return fault_set(fault, rc,
			"io_uring cannot get a file descriptor (RLIMIT_NOFILE is %llu): raise it "
			"(ulimit -n)",
			(unsigned long long)limit.rlim_cur);
	default:
		return fault_set(fault, rc, "io_uring cannot be set up: %s", strerror(-rc));
	}
}

/* The newest kind of ring that this kernel makes. Deferred task work (6.1) keeps completions from
 * interrupting the thread; cooperative (5.19) is the next best. */
static int ring_make(struct ring *ring)
{
	static const unsigned kinds[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SUBMIT_ALL |
			IORING_SETUP_R_DISABLED,
		IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_R_DISABLED,
		IORING_SETUP_R_DISABLED,
		0,
	};
	int rc = -EINVAL;
	for (size_t i = 0; i < UTIL_COUNT(kinds) && rc == -EINVAL; i++) {
		struct io_uring_params params = {
			.flags = kinds[i] | IORING_SETUP_CQSIZE, .cq_entries = RING_ANSWERS};
		rc = io_uring_queue_init_params(RING_ENTRIES, &ring->uring, &params);
		ring->disabled = rc == 0 && kinds[i] & IORING_SETUP_R_DISABLED;
	}
	/* Before 5.5 the size of the completion queue could not be chosen. */
	return rc == -EINVAL ? io_uring_queue_init(RING_ENTRIES, &ring->uring, 0) : rc;
}

/* Asks the ring once: a sandbox may allow making a ring but forbid entering it. */
static int ring_try(struct ring *ring)
{
	struct io_uring_cqe *cqe;
	int rc;
	io_uring_prep_nop(ring_sqe(ring));
	do {
		rc = io_uring_submit_and_wait(&ring->uring, 1);
	} while (rc == -EINTR);
	if (rc >= 0)
		rc = io_uring_wait_cqe(&ring->uring, &cqe);
	if (rc < 0)
		return rc;
	io_uring_cqe_seen(&ring->uring, cqe);
	return 0;
}

/* Registers the arena, in pieces. */
static int ring_register_buffers(struct ring *ring)
{
	struct iovec pieces[RING_BUFFERS];
	uint8_t *base = ring->lane->fetch->arena.base;
	uint64_t left = arena_bytes(&ring->lane->fetch->arena);
	unsigned count = 0;
	while (left > 0 && count < RING_BUFFERS) {
		uint64_t bytes = UTIL_MIN(left, RING_BUFFER_BYTES);
		pieces[count++] = (struct iovec){base, bytes};
		base += bytes;
		left -= bytes;
	}
	return left > 0 ? -EOVERFLOW : io_uring_register_buffers(&ring->uring, pieces, count);
}

/* Registers an empty table, whose slots are filled as shards are opened. Sparse tables came with
 * 5.5. */
static void ring_register_files(struct ring *ring)
{
	unsigned count = ring->lane->files.bound;
	int none[512];
	memset(none, -1, sizeof none);
	ring->registered = calloc(count, sizeof *ring->registered);
	ring->files = ring->registered && io_uring_register_files(&ring->uring, none, count) == 0;
}

/* Called by shard_files on the ring's thread: a shard was opened, or is about to be closed. A file
 * that cannot be registered is read through its descriptor. */
static void ring_slot(void *context, int slot, int fd)
{
	struct ring *ring = context;
	if (!ring->files || (fd < 0 && !ring->registered[slot]))
		return;
	bool done = io_uring_register_files_update(&ring->uring, (unsigned)slot, &fd, 1) == 1;
	ring->registered[slot] = done && fd >= 0;
}

static void ring_probe(struct ring *ring)
{
	struct io_uring_probe *probe = io_uring_get_probe_ring(&ring->uring);
	if (!probe)
		return;
	ring->can_open = io_uring_opcode_supported(probe, IORING_OP_OPENAT);
	ring->can_close = io_uring_opcode_supported(probe, IORING_OP_CLOSE);
	io_uring_free_probe(probe);
}

/* By number, because liburing 2.3 does not export its functions for these two. */
static int ring_register(struct ring *ring, unsigned what, void *argument, unsigned count)
{
	long rc = syscall(SYS_io_uring_register, ring->uring.ring_fd, what, argument, count);
	return rc < 0 ? -errno : 0;
}

/* Enables the ring, restricted to these questions; of its settings, only the table of files can
 * change. */
static int ring_enable(struct ring *ring)
{
	static const uint8_t asked[] = {IORING_OP_NOP, IORING_OP_READV, IORING_OP_READ_FIXED,
		IORING_OP_POLL_ADD, IORING_OP_OPENAT, IORING_OP_CLOSE,
		/* for io_uring_submit_and_wait_timeout before 5.11 */
		IORING_OP_TIMEOUT};
	static const uint8_t set[] = {IORING_REGISTER_FILES_UPDATE, IORING_UNREGISTER_RING_FDS};
	struct io_uring_restriction allowed[UTIL_COUNT(asked) + UTIL_COUNT(set) + 1] = {
		{.opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED,
			.sqe_flags = IOSQE_FIXED_FILE | IOSQE_ASYNC}};
	unsigned count = 1;
	if (!ring->disabled)
		return 0;
	for (size_t i = 0; i < UTIL_COUNT(asked); i++)
		allowed[count++] = (struct io_uring_restriction){
			.opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = asked[i]};
	for (size_t i = 0; i < UTIL_COUNT(set); i++)
		allowed[count++] = (struct io_uring_restriction){
			.opcode = IORING_RESTRICTION_REGISTER_OP, .register_op = set[i]};
	ring->restricted = ring_register(ring, IORING_REGISTER_RESTRICTIONS, allowed, count) == 0;
	return ring_register(ring, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
}

static void ring_describe(const struct ring *ring, int buffers_rc)
{
	struct lane *lane = ring->lane;
	struct rlimit limit = {0};
	char size[16], buffers[128];
	int major, minor;
	ring_kernel(&major, &minor);
	(void)getrlimit(RLIMIT_MEMLOCK, &limit);
	if (ring->buffers)
		(void)snprintf(buffers, sizeof buffers, "registered buffers %s",
			size_format(arena_bytes(&lane->fetch->arena), size, sizeof size));
	else if (buffers_rc == -ENOMEM)
		(void)snprintf(buffers, sizeof buffers,
			"unregistered buffers because RLIMIT_MEMLOCK is %s",
			size_format(limit.rlim_cur, size, sizeof size));
	else
		(void)snprintf(buffers, sizeof buffers, "unregistered buffers (%s)",
			strerror(-buffers_rc));
	(void)snprintf(lane->describe, sizeof lane->describe,
		"io_uring (kernel %d.%d, %s, registered files %u%s%s)", major, minor, buffers,
		ring->files ? lane->files.bound : 0,
		ring->can_open ? "" : ", files opened by the thread",
		ring->restricted ? ", restricted to reading" : "");
}

/* Waits for the closes that are in flight, whose files would otherwise stay open. If the kernel
 * refuses, the end of the process closes them. */
static void ring_teardown(struct ring *ring)
{
	struct lane *lane = ring->lane;
	while (ring->closing > 0 && ring->refused < RING_REFUSED) {
		ring_entered(ring, io_uring_submit_and_wait(&ring->uring, 1));
		ring_take_answers(ring);
	}
	lane->files.slot = NULL;
	io_uring_queue_exit(&ring->uring);
	(void)close(lane->inbox.eventfd);
	lane->inbox.eventfd = -1;
}

static int ring_setup(struct ring *ring)
{
	struct lane *lane = ring->lane;
	int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int rc = event < 0 ? -errno : ring_make(ring);
	if (rc < 0) {
		if (event >= 0)
			(void)close(event);
		return ring_fault(rc, ring->start_fault);
	}
	lane->inbox.eventfd = event;
	unsigned workers[2] = {RING_WORKERS, 0};
	(void)io_uring_register_ring_fd(&ring->uring);
	(void)io_uring_register_iowq_max_workers(&ring->uring, workers);
	rc = ring_register_buffers(ring);
	ring->buffers = rc == 0;
	ring_register_files(ring);
	ring_probe(ring);
	int enabled = ring_enable(ring);
	if (enabled == 0)
		enabled = ring_try(ring);
	ring_describe(ring, rc);
	if (enabled < 0) {
		ring_teardown(ring);
		return ring_fault(enabled, ring->start_fault);
	}
	lane->files.slot = ring_slot;
	lane->files.context = ring;
	return 0;
}

static void *ring_run(void *context)
{
	struct lane *lane = context;
	struct ring *ring = lane->engine;
	fetch_thread_note(lane);
	int rc = ring->start_rc = ring_setup(ring);
	sem_post(&ring->started);
	if (rc < 0)
		return NULL;
	pthread_mutex_lock(&lane->lock);
	while (ring_turn(ring))
		;
	pthread_mutex_unlock(&lane->lock);
	ring_teardown(ring);
	return NULL;
}

static void ring_free(struct ring *ring)
{
	ring->lane->engine = NULL;
	sem_destroy(&ring->started);
	free(ring->registered);
	free(ring);
}

static void uring_join(struct lane *lane)
{
	fetch_threads_join(lane);
	ring_free(lane->engine);
}

/* The thread that uses the ring makes it: a kernel that knows the only issuer needs fewer locks. */
static int uring_start(struct lane *lane, struct fault *fault)
{
	struct ring *ring = calloc(1, sizeof *ring);
	if (!ring)
		return fault_set(fault, -ENOMEM, "no memory for the ring");
	ring->lane = lane;
	ring->start_fault = fault;
	sem_init(&ring->started, 0, 0);
	lane->engine = ring;
	int rc = fetch_thread_start(lane, RING_STACK, ring_run);
	if (rc < 0) {
		ring_free(ring);
		return fault_set(fault, rc, "the thread for reading cannot be started: %s%s",
			strerror(-rc), limits_thread_hint(-rc));
	}
	while (sem_wait(&ring->started) < 0)
		;
	rc = ring->start_rc;
	if (rc < 0)
		uring_join(lane);
	return rc;
}

const struct fetch_engine_ops fetch_uring = {
	.start = uring_start, .join = uring_join, .reads = RING_READS};

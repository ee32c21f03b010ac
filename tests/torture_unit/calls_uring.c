/* calls_uring: see calls_impl.h. liburing's functions, which return their errors. */
#include "torture_unit/calls_impl.h"

#include <errno.h>
#include <liburing.h>

/* liburing's names for parameters are not for others.
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */

#define RING_CALL(name, error)                                         \
	do {                                                           \
		if (calls_fails(#name, CALLS_RING, false, false) >= 0) \
			return -(error);                               \
	} while (0)

int io_uring_queue_init_params(
	unsigned entries, struct io_uring *ring, struct io_uring_params *params)
{
	REAL(io_uring_queue_init_params);
	RING_CALL(io_uring_queue_init_params, ENOMEM);
	return real(entries, ring, params);
}

int io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags)
{
	REAL(io_uring_queue_init);
	RING_CALL(io_uring_queue_init, ENOMEM);
	return real(entries, ring, flags);
}

struct io_uring_probe *io_uring_get_probe_ring(struct io_uring *ring)
{
	REAL(io_uring_get_probe_ring);
	if (calls_fails("io_uring_get_probe_ring", CALLS_RING, false, false) >= 0)
		return NULL;
	return real(ring);
}

int io_uring_register_buffers(struct io_uring *ring, const struct iovec *parts, unsigned count)
{
	REAL(io_uring_register_buffers);
	RING_CALL(io_uring_register_buffers, ENOMEM);
	return real(ring, parts, count);
}

int io_uring_register_files(struct io_uring *ring, const int *files, unsigned count)
{
	REAL(io_uring_register_files);
	RING_CALL(io_uring_register_files, EMFILE);
	return real(ring, files, count);
}

int io_uring_register_files_update(
	struct io_uring *ring, unsigned from, const int *files, unsigned count)
{
	REAL(io_uring_register_files_update);
	RING_CALL(io_uring_register_files_update, ENOMEM);
	return real(ring, from, files, count);
}

int io_uring_submit(struct io_uring *ring)
{
	REAL(io_uring_submit);
	RING_CALL(io_uring_submit, EAGAIN);
	return real(ring);
}

int io_uring_submit_and_wait(struct io_uring *ring, unsigned wanted)
{
	REAL(io_uring_submit_and_wait);
	RING_CALL(io_uring_submit_and_wait, EAGAIN);
	return real(ring, wanted);
}

int io_uring_submit_and_get_events(struct io_uring *ring)
{
	REAL(io_uring_submit_and_get_events);
	RING_CALL(io_uring_submit_and_get_events, EAGAIN);
	return real(ring);
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

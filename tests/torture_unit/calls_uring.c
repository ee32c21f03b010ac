/* calls_uring: see calls_impl.h. liburing's functions, which return their errors. */
#include "torture_unit/calls_impl.h"

#include <errno.h>
#include <liburing.h>

/* liburing's names for parameters are not for others.
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */

#define RING_CALL(name, parameters, arguments, error)                  \
	int name parameters                                            \
	{                                                              \
		REAL(name);                                            \
		if (calls_fails(#name, CALLS_RING, false, false) >= 0) \
			return -(error);                               \
		return real arguments;                                 \
	}

RING_CALL(io_uring_queue_init_params,
	(unsigned entries, struct io_uring *ring, struct io_uring_params *params),
	(entries, ring, params), ENOMEM)
RING_CALL(io_uring_queue_init, (unsigned entries, struct io_uring *ring, unsigned flags),
	(entries, ring, flags), ENOMEM)

struct io_uring_probe *io_uring_get_probe_ring(struct io_uring *ring)
{
	REAL(io_uring_get_probe_ring);
	if (calls_fails("io_uring_get_probe_ring", CALLS_RING, false, false) >= 0)
		return NULL;
	return real(ring);
}

RING_CALL(io_uring_register_buffers,
	(struct io_uring * ring, const struct iovec *parts, unsigned count), (ring, parts, count),
	ENOMEM)
RING_CALL(io_uring_register_files, (struct io_uring * ring, const int *files, unsigned count),
	(ring, files, count), EMFILE)
RING_CALL(io_uring_register_files_update,
	(struct io_uring * ring, unsigned from, const int *files, unsigned count),
	(ring, from, files, count), ENOMEM)
RING_CALL(io_uring_submit, (struct io_uring * ring), (ring), EAGAIN)
RING_CALL(
	io_uring_submit_and_wait, (struct io_uring * ring, unsigned wanted), (ring, wanted), EAGAIN)
RING_CALL(io_uring_submit_and_get_events, (struct io_uring * ring), (ring), EAGAIN)
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

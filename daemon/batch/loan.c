/* loan: see loan.h.
 *
 * check_conflicting_open (fs/locks.c) is what is asked. memfd_create's own open file is counted by
 * nobody there, which is why it is closed and none of a client's must be it. A lease that was had
 * is given back at once: while one has it, who opens the file would be held up and a signal sent.
 */
#include "batch/loan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static int loan_open(int memfd, int flags)
{
	char path[40];
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", memfd);
	return open(path, flags | O_CLOEXEC);
}

static void loan_close(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

struct loan loan_make(int memfd, bool writable)
{
	struct loan loan = {.give = loan_open(memfd, writable ? O_RDWR : O_RDONLY),
		.probe = loan_open(memfd, O_RDONLY)};
	if (loan.give >= 0 && loan.probe >= 0) {
		(void)close(memfd);
		return loan;
	}
	loan_deinit(&loan);
	loan.give = memfd;
	return loan;
}

void loan_end(struct loan *loan)
{
	loan_close(&loan->give);
}

bool loan_is_held(const struct loan *loan)
{
	if (loan->probe < 0)
		return false;
	/* Anything but EAGAIN says nothing: leases are off (fs.leases-enable), or it has another
	 * owner now. */
	if (fcntl(loan->probe, F_SETLEASE, F_WRLCK))
		return errno == EAGAIN;
	(void)fcntl(loan->probe, F_SETLEASE, F_UNLCK);
	return false;
}

void loan_deinit(struct loan *loan)
{
	loan_close(&loan->give);
	loan_close(&loan->probe);
}

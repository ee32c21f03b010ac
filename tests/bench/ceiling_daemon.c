/* ceiling_daemon: a whole daemon in which nothing is decoded: order, tickets, fetch, the queue of
 * the workers, slots and messages are the daemon's, and a row is done as soon as a worker has its
 * bytes. Its rows have no pixels, so it is of no use but to ceiling.py, which runs it in the place
 * of penstockd (PENSTOCKD) and finds out what the serial threads cost.
 *
 *   CEILING_BOARD=FILE   a file into which it counts (struct ceiling_board)
 *   CEILING_LANES=N      as many rings as this, whatever the number of decoding threads
 *   CEILING_LOCKS=1      also notes how long each mutex is held */
#include "base/util.h"
#include "bench/locks.h"
#include "fetch/fetch.h"
#include "stream/row.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* ceiling.py reads and writes the same. */
struct ceiling_board {
	_Atomic uint64_t rows; /* that workers have finished */
	struct lock_use locks[LOCKS];
};

static struct ceiling_board *board;

void __wrap_row_make_many(struct row_maker *maker, const struct row_source *source);
unsigned __real_fetch_lanes_for(unsigned workers, uint64_t arena_bytes, uint64_t index_bytes);
unsigned __wrap_fetch_lanes_for(unsigned workers, uint64_t arena_bytes, uint64_t index_bytes);

/* Before main: later the daemon is confined, and may not open this file. */
__attribute__((constructor)) static void board_open(void)
{
	const char *path = getenv("CEILING_BOARD");
	cleanup(close_fd) int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
	void *at = fd < 0 || ftruncate(fd, sizeof *board) < 0
			   ? MAP_FAILED
			   : mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return;
	board = at;
	locks_note(board->locks);
	locks_measure(getenv("CEILING_LOCKS") != NULL);
}

/* In the place of decoding: every image is made at once. */
void __wrap_row_make_many(struct row_maker *maker, const struct row_source *source)
{
	struct row_job *job;
	(void)maker;
	while ((job = source->next(source->context))) {
		job->outcome = DECODE_OK;
		for (uint32_t i = 0; i < job->more_count; i++)
			job->more[i].made = true;
		/* Relaxed: a number that another process looks at now and then. */
		if (board)
			atomic_fetch_add_explicit(&board->rows, 1, memory_order_relaxed);
		source->done(source->context, job);
	}
}

unsigned __wrap_fetch_lanes_for(unsigned workers, uint64_t arena_bytes, uint64_t index_bytes)
{
	const char *lanes = getenv("CEILING_LANES");
	return lanes ? (unsigned)strtoul(lanes, NULL, 10)
		     : __real_fetch_lanes_for(workers, arena_bytes, index_bytes);
}

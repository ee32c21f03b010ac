/* open_ways: CPU time of opening, reading and closing small files that the page cache holds, in
 * several ways. docs/design/decisions/files-by-descriptor.md has the figures.
 *
 *   open_ways FOLDER [THREADS]
 *
 * The files are those of FOLDER itself, in an order far from that of the folder; up to 2 KB of each
 * are read. Each thread has a ring and asks for 16 files at a time, as fetch does. Prints for each
 * way the CPU time per file, the least of several runs. The last two ways look at a file by its
 * path, before and after reading, because a registered slot has no descriptor for fstat. */
#include "base/util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PART = 16, ROOM = 2048, ROUNDS = 1500, RUNS = 5, THREADS = 16 };
enum { FLAGS = O_RDONLY | O_NOCTTY | O_NONBLOCK };
enum { UNASKED = 3 * PART }; /* the user_data of questions whose answer nothing waits for */

static struct {
	int folder;
	char **name;
	size_t count;
} files;

struct way;

/* A thread with a ring. */
struct asker {
	pthread_t thread;
	const struct way *way;
	struct io_uring ring;
	uint8_t *memory; /* PART times ROOM bytes, registered */
	size_t at; /* the next file */
	const char *name[PART];
	int answer[UNASKED + 1]; /* by user_data */
	const char *failed; /* NULL: nothing */
	uint64_t ns; /* CPU time of a run */
};

struct way {
	const char *name;
	void (*run)(struct asker *asker, const struct way *way); /* PART files */
	bool stats; /* looks at each file before and after reading it */
};

static void ask(struct io_uring_sqe *sqe, unsigned user_data, unsigned flags)
{
	io_uring_sqe_set_data64(sqe, user_data);
	io_uring_sqe_set_flags(sqe, flags);
}

/* The queue has room for all questions about PART files. */
static struct io_uring_sqe *next_sqe(struct asker *asker)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&asker->ring);
	if (!sqe)
		abort();
	return sqe;
}

static void next_names(struct asker *asker)
{
	for (unsigned i = 0; i < PART; i++)
		asker->name[i] =
			files.name[asker->at++ * (size_t)UINT64_C(2654435761) % files.count];
}

/* Submits, and takes `count` answers that are waited for. */
static void enter(struct asker *asker, unsigned count)
{
	struct io_uring_cqe *cqe;
	unsigned head;
	(void)io_uring_submit_and_get_events(&asker->ring);
	while (!asker->failed) {
		unsigned seen = 0;
		io_uring_for_each_cqe(&asker->ring, head, cqe)
		{
			seen++;
			asker->answer[cqe->user_data] = cqe->res;
			if (cqe->res < 0)
				asker->failed = strerror(-cqe->res);
			count -= cqe->user_data != UNASKED;
		}
		io_uring_cq_advance(&asker->ring, seen);
		if (count == 0)
			return;
		(void)io_uring_submit_and_wait(&asker->ring, 1);
	}
}

static void look(struct asker *asker, int folder, const char *name, int fd)
{
	struct stat now;
	if ((name ? fstatat(folder, name, &now, 0) : fstat(fd, &now)) < 0)
		asker->failed = strerror(errno);
}

/* What fetch does. */
static void run_descriptors(struct asker *asker, const struct way *way)
{
	for (unsigned i = 0; i < PART; i++) {
		struct io_uring_sqe *sqe = next_sqe(asker);
		io_uring_prep_openat(sqe, files.folder, asker->name[i], FLAGS | O_CLOEXEC, 0);
		ask(sqe, i, 0);
	}
	enter(asker, PART);
	for (unsigned i = 0; i < PART && !asker->failed; i++) {
		if (way->stats)
			look(asker, -1, NULL, asker->answer[i]);
		struct io_uring_sqe *sqe = next_sqe(asker);
		io_uring_prep_read_fixed(
			sqe, asker->answer[i], asker->memory + (size_t)i * ROOM, ROOM, 0, 0);
		ask(sqe, PART + i, 0);
	}
	enter(asker, PART);
	for (unsigned i = 0; i < PART && !asker->failed; i++) {
		if (way->stats)
			look(asker, -1, NULL, asker->answer[i]);
		struct io_uring_sqe *sqe = next_sqe(asker);
		io_uring_prep_close(sqe, asker->answer[i]);
		ask(sqe, UNASKED, 0);
	}
}

static void ask_slot_open(struct asker *asker, unsigned i, unsigned flags)
{
	struct io_uring_sqe *sqe = next_sqe(asker);
	io_uring_prep_openat_direct(sqe, files.folder, asker->name[i], FLAGS, 0, i);
	ask(sqe, i, flags);
}

static void ask_slot_read(struct asker *asker, unsigned i, unsigned flags)
{
	struct io_uring_sqe *sqe = next_sqe(asker);
	io_uring_prep_read_fixed(sqe, (int)i, asker->memory + (size_t)i * ROOM, ROOM, 0, 0);
	ask(sqe, PART + i, flags | IOSQE_FIXED_FILE);
}

static void ask_slot_close(struct asker *asker, unsigned i, unsigned user_data)
{
	struct io_uring_sqe *sqe = next_sqe(asker);
	io_uring_prep_close_direct(sqe, i);
	ask(sqe, user_data, 0);
}

static void look_all(struct asker *asker, const struct way *way)
{
	for (unsigned i = 0; i < PART && way->stats; i++)
		look(asker, files.folder, asker->name[i], -1);
}

static void run_slots(struct asker *asker, const struct way *way)
{
	look_all(asker, way);
	for (unsigned i = 0; i < PART; i++)
		ask_slot_open(asker, i, 0);
	enter(asker, PART);
	for (unsigned i = 0; i < PART; i++)
		ask_slot_read(asker, i, 0);
	enter(asker, PART);
	look_all(asker, way);
	for (unsigned i = 0; i < PART; i++)
		ask_slot_close(asker, i, UNASKED);
}

static void run_linked(struct asker *asker, const struct way *way)
{
	look_all(asker, way);
	for (unsigned i = 0; i < PART; i++) {
		ask_slot_open(asker, i, IOSQE_IO_LINK);
		/* A read that ends with the file is short, which would break a plain link. */
		ask_slot_read(asker, i, IOSQE_IO_HARDLINK);
		ask_slot_close(asker, i, 2 * PART + i);
	}
	enter(asker, 3 * PART);
	look_all(asker, way);
}

static void run_calls(struct asker *asker, const struct way *way)
{
	for (unsigned i = 0; i < PART && !asker->failed; i++) {
		int fd = openat(files.folder, asker->name[i], FLAGS | O_CLOEXEC);
		if (way->stats)
			look(asker, -1, NULL, fd);
		if (pread(fd, asker->memory + (size_t)i * ROOM, ROOM, 0) < 0)
			asker->failed = strerror(errno);
		if (way->stats)
			look(asker, -1, NULL, fd);
		(void)close(fd);
	}
}

static const struct way ways[] = {
	{"descriptors, fstat before and after (fetch)", run_descriptors, true},
	{"descriptors, unchecked", run_descriptors, false},
	{"system calls, fstat before and after", run_calls, true},
	{"system calls, unchecked", run_calls, false},
	{"slots, unchecked", run_slots, false},
	{"slots, linked, unchecked", run_linked, false},
	{"slots, stat before and after", run_slots, true},
	{"slots, linked, stat before and after", run_linked, true},
};

static uint64_t cpu_ns(void)
{
	struct timespec used = {0};
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

static int asker_init(struct asker *asker)
{
	struct io_uring_params params = {.flags = IORING_SETUP_SINGLE_ISSUER |
						  IORING_SETUP_DEFER_TASKRUN |
						  IORING_SETUP_SUBMIT_ALL};
	struct iovec memory = {asker->memory, (size_t)PART * ROOM};
	int rc = io_uring_queue_init_params(256, &asker->ring, &params);
	if (rc == 0)
		rc = io_uring_register_buffers(&asker->ring, &memory, 1);
	if (rc == 0)
		rc = io_uring_register_files_sparse(&asker->ring, PART);
	if (rc == 0)
		(void)io_uring_register_ring_fd(&asker->ring);
	return rc;
}

static void *asker_main(void *argument)
{
	struct asker *asker = argument;
	int rc = asker_init(asker);
	if (rc < 0)
		asker->failed = strerror(-rc);
	uint64_t begin = cpu_ns();
	for (unsigned i = 0; i < ROUNDS && !asker->failed; i++) {
		next_names(asker);
		asker->way->run(asker, asker->way);
	}
	asker->ns = cpu_ns() - begin;
	io_uring_queue_exit(&asker->ring);
	return NULL;
}

/* CPU time of a run in one thread, in us per file; 0: it failed, with a sentence. */
static double measure(const struct way *way, unsigned threads, uint8_t *memory)
{
	struct asker askers[THREADS] = {0};
	uint64_t ns = 0;
	for (unsigned i = 0; i < threads; i++) {
		askers[i].way = way;
		askers[i].memory = memory + (size_t)i * PART * ROOM;
		askers[i].at = i * files.count / threads;
		if (pthread_create(&askers[i].thread, NULL, asker_main, &askers[i]) != 0)
			abort();
	}
	const char *failed = NULL;
	for (unsigned i = 0; i < threads; i++) {
		(void)pthread_join(askers[i].thread, NULL);
		ns += askers[i].ns;
		failed = askers[i].failed ? askers[i].failed : failed;
	}
	if (failed)
		(void)fprintf(stderr, "open_ways: %s: %s\n", way->name, failed);
	return failed ? 0 : (double)ns / 1000 / threads / ROUNDS / PART;
}

static bool files_read(const char *path)
{
	DIR *folder = opendir(path);
	size_t room = 0;
	if (!folder)
		return false;
	for (struct dirent *entry; (entry = readdir(folder));) {
		if (entry->d_name[0] == '.')
			continue;
		if (files.count == room) {
			room = UTIL_MAX(2 * room, (size_t)1024);
			files.name = realloc(files.name, room * sizeof *files.name);
		}
		if (!files.name || !(files.name[files.count++] = strdup(entry->d_name)))
			abort();
	}
	(void)closedir(folder);
	files.folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return files.count > 0 && files.folder >= 0;
}

int main(int argc, char **argv)
{
	unsigned threads = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1;
	if (argc < 2 || threads < 1 || threads > THREADS || !files_read(argv[1])) {
		(void)fprintf(
			stderr, "usage: open_ways FOLDER [1..%d]: a folder of files\n", THREADS);
		return 2;
	}
	uint8_t *memory = aligned_alloc(4096, (size_t)THREADS * PART * ROOM);
	double least[UTIL_COUNT(ways)] = {0};
	if (!memory)
		return 1;
	memset(memory, 1, (size_t)THREADS * PART * ROOM);
	/* In turns, so that what else the machine does meets all ways. */
	for (unsigned run = 0; run < RUNS; run++)
		for (size_t i = 0; i < UTIL_COUNT(ways); i++) {
			double us = measure(&ways[i], threads, memory);
			if (us == 0)
				return 1;
			least[i] = run == 0 || us < least[i] ? us : least[i];
		}
	for (size_t i = 0; i < UTIL_COUNT(ways); i++)
		printf("%-46s %.2f us\n", ways[i].name, least[i]);
	for (size_t i = 0; i < files.count; i++)
		free(files.name[i]);
	free(files.name);
	free(memory);
	return 0;
}

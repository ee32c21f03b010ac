/* dimensions: see dimensions.h. */
#include "dataset/dimensions.h"

#include "base/hash.h"
#include "base/store.h"
#include "base/util.h"
#include "base/whole.h"
#include "dataset/dataset_impl.h"
#include "remote/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
	DIMENSIONS_VERSION = 1,
	DIMENSIONS_CHUNK = 512, /* samples that are held in memory */
	DIMENSIONS_STACK = 256 << 10, /* of a thread that measures */
};

/* Eight bytes that do not begin any text file. */
#define DIMENSIONS_MAGIC UINT64_C(0x89504e5344494d58)

struct dimensions_head {
	uint64_t magic;
	uint32_t version, kind;
	uint64_t samples, bytes, shard_size;
	uint64_t digest; /* of keys and sizes, as in the index */
	int64_t mtime_ns; /* of a tar */
	uint64_t content; /* of what follows the head */
	uint64_t check; /* of everything above */
};
_Static_assert(sizeof(struct dimensions_head) == 72, "dimensions head");
_Static_assert(sizeof(struct dimension) == 8, "dimensions");

/* One run of dimensions_walk. */
struct walk {
	const struct dimensions_job *job;
	struct fault *fault;
	char *notice;
	size_t room;
	uint64_t measured; /* samples, for the progress */
	uint64_t unreadable; /* images without a size */
	struct dimension chunk[DIMENSIONS_CHUNK];
};

static struct dimensions_head head_of(const struct dataset *dataset, uint32_t number)
{
	const struct dataset_shard *shard = &dataset->shard[number];
	return (struct dimensions_head){
		.magic = DIMENSIONS_MAGIC,
		.version = DIMENSIONS_VERSION,
		.kind = (uint32_t)dataset->kind,
		.samples = shard->samples,
		.bytes = shard->bytes,
		.shard_size = shard->size,
		.digest = shard->digest_unlabelled,
		.mtime_ns = dataset->container->files ? 0 : shard->mtime_ns,
	};
}

static uint64_t head_check(const struct dimensions_head *head)
{
	return hash_mix(hash_bytes(HASH_SEED, head, offsetof(struct dimensions_head, check)));
}

/* ---- reading a file ---- */

/* Whether a file of this module begins at fd's start. */
static bool is_ours(int fd, struct dimensions_head *ret)
{
	return whole_read(fd, ret, sizeof *ret, 0) == (ssize_t)sizeof *ret &&
	       ret->magic == DIMENSIONS_MAGIC;
}

/* Whether the file is that of this shard, and whole in length. */
static bool fits(int fd, const struct dimensions_head *wanted, struct dimensions_head *ret)
{
	struct stat st;
	return is_ours(fd, ret) && ret->check == head_check(ret) &&
	       memcmp(ret, wanted, offsetof(struct dimensions_head, content)) == 0 &&
	       fstat(fd, &st) == 0 &&
	       (uint64_t)st.st_size == sizeof *ret + wanted->samples * sizeof(struct dimension);
}

static uint64_t count_unreadable(const struct walk *walk, size_t count)
{
	uint64_t unreadable = 0;
	for (size_t i = 0; i < count; i++)
		unreadable += !walk->chunk[i].width;
	return unreadable;
}

static int cancelled(struct walk *walk)
{
	const struct dimensions_job *job = walk->job;
	if (!job->progress || !job->progress(job->progress_context, walk->measured, 0, 0))
		return 0;
	return fault_set(walk->fault, -ECANCELED, "nobody waits for it any more");
}

/* Hands out the samples of a file. 1: it is damaged. */
static int file_take(struct walk *walk, int fd, const struct dimensions_head *head, uint64_t first)
{
	uint64_t h = HASH_SEED, unreadable = 0;
	for (uint64_t at = 0; at < head->samples; at += DIMENSIONS_CHUNK) {
		size_t count = (size_t)UTIL_MIN(head->samples - at, (uint64_t)DIMENSIONS_CHUNK);
		size_t bytes = count * sizeof walk->chunk[0];
		if (whole_read(fd, walk->chunk, bytes, sizeof *head + at * sizeof walk->chunk[0]) !=
			(ssize_t)bytes)
			return 1;
		h = hash_bytes(h, walk->chunk, bytes);
		unreadable += count_unreadable(walk, count);
		walk->job->take(walk->job->context, first + at, walk->chunk, count);
	}
	if (hash_mix(h) != head->content)
		return 1;
	walk->unreadable += unreadable;
	return cancelled(walk);
}

/* 0; 1: there is no file that fits. */
static int path_take(struct walk *walk, const char *path, uint32_t number)
{
	const struct dataset *dataset = walk->job->dataset;
	const struct dimensions_head wanted = head_of(dataset, number);
	struct dimensions_head head = {0};
	struct stat st;
	cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !fits(fd, &wanted, &head))
		return 1;
	return file_take(walk, fd, &head, dataset->shard[number].first);
}

/* ---- measuring ---- */

/* Samples that threads measure together. */
struct team {
	struct walk *walk;
	const atomic_bool *interrupt; /* of the thread that measures */
	uint64_t first;
	uint32_t count;
	int shard; /* that is open; -1: a folder */
	atomic_uint next; /* no order: each number is taken once */
	pthread_mutex_t lock; /* of the two below */
	int result;
	struct fault fault;
};

static void team_fail(struct team *team, int result, const struct fault *fault)
{
	(void)pthread_mutex_lock(&team->lock);
	if (!team->result) {
		team->result = result;
		team->fault = *fault;
	}
	(void)pthread_mutex_unlock(&team->lock);
	atomic_store_explicit(&team->next, UINT32_MAX / 2, memory_order_relaxed);
}

static int refuse(uint64_t number, int rc, const char *why, struct fault *fault)
{
	return fault_set(fault, rc,
		"the size of sample %llu cannot be read, and without it the sample has no bucket: "
		"%s",
		(unsigned long long)number, why);
}

/* Opens the file of a sample, or one with its bytes. */
static int open_one(const struct walk *walk, const struct sample *sample, uint64_t *ret_offset,
	struct fault *fault)
{
	struct fault why = {{0}};
	int fd = dataset_sample_open(walk->job->dataset, sample, ret_offset, &why);
	return fd < 0 ? refuse(sample->number, fd, why.text, fault) : fd;
}

/* Opens the shard that has the sample. */
static int open_shard(const struct walk *walk, uint64_t number, struct fault *fault)
{
	struct sample sample;
	uint64_t offset;
	int rc = dataset_sample(walk->job->dataset, number, &sample, fault);
	if (rc < 0)
		return rc;
	sample.packed = (struct packed){0};
	return open_one(walk, &sample, &offset, fault);
}

/* `shard`: the shard of all samples of a team; -1: each sample has a file of its own. */
static int measure_one(const struct walk *walk, int shard, uint64_t number, struct dimension *ret,
	struct fault *fault)
{
	struct sample sample;
	char why[sizeof sample.name + 128];
	int fd = -1, rc = dataset_sample(walk->job->dataset, number, &sample, fault);
	if (rc < 0)
		return rc;
	uint64_t offset = sample.offset;
	const bool own = shard < 0 || sample.packed.method != PACKED_NONE;
	if (own)
		fd = open_one(walk, &sample, &offset, fault);
	/* An image that cannot be unpacked has no size, as one that cannot be decoded. */
	if (own && fd < 0)
		return fd == -EPROTO ? 0 : fd;
	rc = walk->job->measure(own ? fd : shard, offset, sample.size, &ret->width, &ret->height);
	util_close_fd(&fd);
	if (rc >= 0)
		return 0;
	(void)snprintf(why, sizeof why, "%s: %s", sample.name, strerror(-rc));
	return refuse(number, rc, why, fault);
}

static void *team_run(void *argument)
{
	struct team *team = argument;
	(void)interrupt_set(team->interrupt);
	for (;;) {
		unsigned i = atomic_fetch_add_explicit(&team->next, 1, memory_order_relaxed);
		if (i >= team->count)
			return NULL;
		struct fault fault = {{0}};
		struct dimension found = {0, 0};
		int rc = measure_one(team->walk, team->shard, team->first + i, &found, &fault);
		if (rc < 0)
			team_fail(team, rc, &fault);
		team->walk->chunk[i] = found;
	}
}

/* Measures `count` samples into walk->chunk. The calling thread takes part, so no other thread is
 * needed. */
static int measure_chunk(struct walk *walk, uint64_t first, uint32_t count)
{
	struct team team = {.walk = walk,
		.interrupt = interrupt_here(),
		.first = first,
		.count = count,
		.shard = -1};
	pthread_t thread[DIMENSIONS_THREADS];
	pthread_attr_t attributes;
	unsigned threads = 0, wanted = UTIL_MIN(count / 16, (uint32_t)DIMENSIONS_THREADS);
	if (!walk->job->dataset->container->files && !dataset_remote(walk->job->dataset)) {
		team.shard = open_shard(walk, first, walk->fault);
		if (team.shard < 0)
			return team.shard;
	}
	(void)pthread_mutex_init(&team.lock, NULL);
	(void)pthread_attr_init(&attributes);
	(void)pthread_attr_setstacksize(&attributes, DIMENSIONS_STACK);
	while (threads < wanted &&
		pthread_create(&thread[threads], &attributes, team_run, &team) == 0)
		threads++;
	(void)team_run(&team);
	while (threads)
		(void)pthread_join(thread[--threads], NULL);
	(void)pthread_attr_destroy(&attributes);
	(void)pthread_mutex_destroy(&team.lock);
	util_close_fd(&team.shard);
	if (team.result)
		*walk->fault = team.fault;
	return team.result;
}

/* A file that is being made; fd -1: none can be. */
struct making {
	int fd;
	int error; /* why none can be */
	char *path, *temporary;
};

static void making_drop(struct making *making)
{
	if (making->temporary) {
		(void)unlink(making->temporary);
		free(making->temporary);
		making->temporary = NULL;
	}
	util_close_fd(&making->fd);
	making->fd = -1;
	free(making->path);
	making->path = NULL;
}

/* Whether there is a file at `path` that this module did not write. */
static bool is_foreign(const char *path)
{
	struct dimensions_head head = {0};
	struct stat st;
	if (lstat(path, &st) < 0)
		return false;
	cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	return fd < 0 || !S_ISREG(st.st_mode) || !(st.st_size == 0 || is_ours(fd, &head));
}

/* Takes over `path`. */
static void making_begin(struct making *making, char *path, mode_t mode)
{
	*making = (struct making){.fd = -1, .path = path, .error = -ENOMEM};
	if (!path)
		return;
	making->error = -EEXIST;
	if (!is_foreign(path))
		making->fd = making->error = store_temporary(path, mode, &making->temporary);
	if (making->fd < 0)
		making_drop(making);
	else
		store_tidy(path);
}

static char *path_beside(const struct dataset *dataset, uint32_t number)
{
	char *path = NULL;
	if (dataset->container->files || dataset->index_in_cache || dataset->only)
		return NULL;
	return asprintf(&path, "%s.dim", dataset->shard[number].path) < 0 ? NULL : path;
}

static char *path_cached(const struct dataset *dataset, uint32_t number)
{
	const char *shard = dataset->shard[number].path;
	char suffix[40] = ".dim";
	/* Each choice of samples has a file of its own. */
	if (dataset->only)
		(void)snprintf(suffix, sizeof suffix, ".labels-%016llx.dim",
			(unsigned long long)dataset->only);
	return dataset->cache_folder ? store_cache_path(dataset->cache_folder, shard, suffix)
				     : NULL;
}

static void making_open(struct making *making, const struct dataset *dataset, uint32_t number)
{
	struct stat st;
	const char *shard = dataset->shard[number].path;
	mode_t mode = stat(shard, &st) == 0 && S_ISREG(st.st_mode) ? st.st_mode : 0;
	char *beside = path_beside(dataset, number);
	*making = (struct making){.fd = -1, .error = -ENOENT};
	if (beside)
		making_begin(making, beside, mode | S_IRUSR | S_IWUSR);
	if (making->fd < 0 && dataset->cache_folder &&
		store_folder_make(dataset->cache_folder) == 0)
		making_begin(making, path_cached(dataset, number), mode | S_IRUSR | S_IWUSR);
}

static void making_write(struct making *making, const void *bytes, size_t size, uint64_t offset)
{
	if (making->fd < 0)
		return;
	int rc = whole_write(making->fd, bytes, size, offset);
	if (rc == 0)
		return;
	making_drop(making);
	making->error = rc;
}

static void making_commit(struct making *making)
{
	if (making->fd < 0)
		return;
	const uint64_t bytes = store_bytes(making->fd);
	int rc = fsync(making->fd) < 0 ? -errno : store_bound_take(making->path, bytes);
	if (rc == 0) {
		rc = rename(making->temporary, making->path) < 0 ? -errno : 0;
		store_bound_settle(making->path, bytes, rc == 0 ? bytes : 0);
	}
	if (rc < 0) {
		making_drop(making);
		making->error = rc;
		return;
	}
	free(making->temporary);
	making->temporary = NULL;
	making->error = 0;
}

static void notice(struct walk *walk, const char *shard, int error)
{
	if (walk->notice[0] || error >= 0)
		return;
	(void)snprintf(walk->notice, walk->room,
		"the sizes of the images of %.400s cannot be kept (%s): their headers are read "
		"again at each opening; grant write permission beside it or in the cache folder",
		shard, store_error(error));
}

/* Measures a shard, hands its samples out and keeps them in a file. */
static int shard_make(struct walk *walk, uint32_t number)
{
	const struct dataset *dataset = walk->job->dataset;
	const struct dataset_shard *shard = &dataset->shard[number];
	struct dimensions_head head = head_of(dataset, number);
	struct making making;
	uint64_t h = HASH_SEED;
	int rc = 0;
	making_open(&making, dataset, number);
	for (uint64_t at = 0; rc == 0 && at < shard->samples; at += DIMENSIONS_CHUNK) {
		uint32_t count =
			(uint32_t)UTIL_MIN(shard->samples - at, (uint64_t)DIMENSIONS_CHUNK);
		size_t bytes = count * sizeof walk->chunk[0];
		rc = measure_chunk(walk, shard->first + at, count);
		if (rc)
			break;
		h = hash_bytes(h, walk->chunk, bytes);
		making_write(&making, walk->chunk, bytes, sizeof head + at * sizeof walk->chunk[0]);
		walk->job->take(walk->job->context, shard->first + at, walk->chunk, count);
		walk->measured += count;
		walk->unreadable += count_unreadable(walk, count);
		rc = cancelled(walk);
	}
	head.content = hash_mix(h);
	head.check = head_check(&head);
	if (rc == 0) {
		making_write(&making, &head, sizeof head, 0);
		making_commit(&making);
		notice(walk, shard->path, making.error < 0 ? making.error : 0);
	}
	making_drop(&making);
	return rc;
}

static int shard_walk(struct walk *walk, uint32_t number)
{
	const struct dataset *dataset = walk->job->dataset;
	cleanup(free_ptr) char *beside = path_beside(dataset, number);
	cleanup(free_ptr) char *cached = path_cached(dataset, number);
	int rc = 1;
	if (beside)
		rc = path_take(walk, beside, number);
	if (rc > 0 && cached)
		rc = path_take(walk, cached, number);
	return rc > 0 ? shard_make(walk, number) : rc;
}

int dimensions_walk(const struct dimensions_job *job, uint64_t *ret_unreadable, char *ret_notice,
	size_t room, struct fault *fault)
{
	struct walk *walk = malloc(sizeof *walk);
	if (!walk)
		return fault_set(fault, -ENOMEM, "no memory to read the sizes of images");
	*walk = (struct walk){.job = job, .fault = fault, .notice = ret_notice, .room = room};
	int rc = 0;
	ret_notice[0] = 0;
	for (uint32_t i = 0; rc == 0 && i < job->dataset->shards; i++)
		rc = shard_walk(walk, i);
	*ret_unreadable = walk->unreadable;
	free(walk);
	return rc;
}

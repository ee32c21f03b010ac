/* sidecar: see sidecar.h. */
#include "dataset/sidecar.h"

#include "base/hash.h"
#include "base/store.h"
#include "base/util.h"
#include "base/whole.h"
#include "dataset/dataset_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum {
	SIDECAR_PAGE = 4096,
	SIDECAR_VERSION = 2, /* of the places and their contents */
	SIDECAR_FILES_PART = 8, /* a part of the files that a process may have */
	SIDECAR_FILES_MIN = 16,
	SIDECAR_FILES_MAX = 256,
};

/* Eight bytes that do not begin any text file; on a machine with the other byte order they are
 * reversed. */
#define SIDECAR_MAGIC UINT64_C(0x89504e53434b5058)

struct sidecar_head {
	uint64_t magic;
	uint32_t version, kind;
	uint64_t samples, bytes, shard_size;
	uint64_t digest; /* of keys and sizes, as in the index */
	uint64_t check; /* of everything above */
};
_Static_assert(sizeof(struct sidecar_head) == 56, "sidecar head");

/* What is known about a shard's file. */
enum sidecar_state {
	STATE_UNKNOWN, /* becomes another state when the file is first opened */
	STATE_OPEN,
	STATE_READ_ONLY,
	STATE_NONE, /* does not exist and cannot be made: final */
	STATE_FULL, /* the bound leaves no room for more */
};

enum {
	SIDECAR_NOWHERE = SIDECAR_HALVINGS + 1, /* in place of halvings: nothing is kept */
	SIDECAR_KINDS = 16, /* bits of the head's `kind`; the halvings follow */
};

struct sidecar {
	const struct dataset *dataset;
	struct index_files *files;
	uint32_t halvings; /* of the room of places; or SIDECAR_NOWHERE */
	bool bounded; /* the cache folder has a bound */
	_Atomic uint8_t *state; /* per shard, enum sidecar_state; no order: a hint */
	atomic_bool full; /* a write failed: nothing more is kept; no order */
	pthread_mutex_t lock; /* of the notice */
	bool noticed;
	bool tidied; /* leftover temporary files were removed; guarded by the table's lock */
	char notice[FAULT_TEXT];
};

/* Where the place ends that comes after `samples` samples of `bytes` bytes. Pure. */
static uint64_t offset_of(uint64_t samples, uint64_t bytes, uint32_t halvings)
{
	return SIDECAR_HEAD + samples * ((uint32_t)SIDECAR_LEAST >> halvings) +
	       bytes / ((uint64_t)SIDECAR_PART << halvings);
}

void sidecar_place(const struct sidecar *sidecar, uint64_t number, uint32_t shard,
	uint64_t position, uint32_t size, struct sidecar_place *ret)
{
	const uint32_t halvings = sidecar->halvings;
	uint64_t inside = number - sidecar->dataset->shard[shard].first;
	uint32_t room =
		((uint32_t)SIDECAR_LEAST >> halvings) + size / ((uint32_t)SIDECAR_PART << halvings);
	*ret = (struct sidecar_place){
		.shard = shard,
		.room = halvings == SIDECAR_NOWHERE ? 0 : UTIL_MIN(room, (uint32_t)SIDECAR_MOST),
		.offset = offset_of(inside, position, halvings),
	};
}

/* How often the room of places is halved: until the files of all shards take no more than their
 * share of a bound that does not hold the whole dataset. */
static uint32_t halvings_of(const struct dataset *dataset)
{
	const uint64_t bound = dataset->cache_folder ? store_bound_size(dataset->cache_folder) : 0;
	uint64_t data = 0, kept[SIDECAR_NOWHERE] = {0};
	for (uint32_t i = 0; i < dataset->shards; i++) {
		const struct dataset_shard *shard = &dataset->shard[i];
		data += dataset->container->files ? shard->bytes : shard->size;
		for (uint32_t j = 0; j < SIDECAR_NOWHERE; j++)
			kept[j] += util_align(
				offset_of(shard->samples, shard->bytes, j), SIDECAR_PAGE);
	}
	/* A cache has maps and indexes, too. */
	if (!bound || !dataset_remote(dataset) || data + data / 32 + kept[0] <= bound)
		return 0;
	uint32_t halvings = 0;
	while (halvings < SIDECAR_NOWHERE && kept[halvings] > bound / SIDECAR_SHARE)
		halvings++;
	return halvings;
}

static struct sidecar_head head_of(
	const struct dataset *dataset, uint32_t number, uint32_t halvings)
{
	const struct dataset_shard *shard = &dataset->shard[number];
	struct sidecar_head head = {
		.magic = SIDECAR_MAGIC,
		.version = SIDECAR_VERSION,
		.kind = (uint32_t)dataset->kind | halvings << SIDECAR_KINDS,
		.samples = shard->samples,
		.bytes = shard->bytes,
		.shard_size = shard->size,
		.digest = shard->digest_unlabelled,
	};
	head.check = hash_mix(hash_bytes(HASH_SEED, &head, offsetof(struct sidecar_head, check)));
	return head;
}

static void notice_set(
	struct sidecar *sidecar, const char *shard, const char *what, const char *why, int error)
{
	(void)pthread_mutex_lock(&sidecar->lock);
	if (!sidecar->noticed)
		(void)snprintf(sidecar->notice, sizeof sidecar->notice,
			"entry points of %.400s %s (%s): its images are decoded without them, "
			"which takes longer and changes no pixel; %s",
			shard, what, why,
			error == STORE_E_BOUND
				? "raise cache_size"
				: "free disk space or grant write permission beside it or "
				  "in the cache folder");
	sidecar->noticed = true;
	(void)pthread_mutex_unlock(&sidecar->lock);
}

bool sidecar_notice(struct sidecar *sidecar, char *ret_text, size_t room)
{
	(void)pthread_mutex_lock(&sidecar->lock);
	bool told = sidecar->notice[0];
	if (told)
		(void)snprintf(ret_text, room, "%s", sidecar->notice);
	sidecar->notice[0] = 0;
	(void)pthread_mutex_unlock(&sidecar->lock);
	return told;
}

/* In a bounded folder: allocates all of an open file, which has `all` bytes when every sample was
 * visited; 0: the folder has no bound. 0, or STORE_E_BOUND and other errors of the bound. */
static int file_reserve(int fd, const char *path, uint64_t all)
{
	const uint64_t now = store_bytes(fd);
	if (now >= all)
		return 0;
	const int rc = store_bound_take(path, all - now);
	if (rc < 0)
		return rc;
	/* Where it cannot be allocated, it grows into what was taken. */
	(void)fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)all);
	store_bound_settle(path, all - now, all - now);
	return 0;
}

/* Makes a new file at `path`, in place of the existing one. A descriptor or -errno. */
static int file_make(
	const char *path, const char *shard, const struct sidecar_head *head, uint64_t all)
{
	struct stat status;
	mode_t mode = stat(shard, &status) == 0 && S_ISREG(status.st_mode) ? status.st_mode : 0;
	cleanup(free_ptr) char *temporary = NULL;
	/* Unlike an index it is written again later, even if the shard is write-protected. */
	int fd = store_temporary(path, mode | S_IRUSR | S_IWUSR, &temporary);
	if (fd < 0)
		return fd;
	ssize_t n = pwrite(fd, head, sizeof *head, 0);
	int rc = n == (ssize_t)sizeof *head ? 0 : n < 0 ? -errno : -ENOSPC;
	if (rc == 0)
		rc = file_reserve(fd, path, all);
	if (rc == 0 && rename(temporary, path) < 0)
		rc = -errno;
	(void)flock(fd, LOCK_UN);
	if (rc == 0)
		return fd;
	(void)unlink(temporary);
	(void)close(fd);
	return rc;
}

/* Whether the head is all zeros. Since nothing is synced, a crash of the machine may leave that. */
static bool head_is_lost(const struct sidecar_head *found)
{
	static const struct sidecar_head nothing;
	return memcmp(found, &nothing, sizeof nothing) == 0;
}

/* Whether an open file belongs to this shard: 1; 0 if it is a sidecar of other samples; -EEXIST if
 * it is another file. */
static int file_check(int fd, const struct sidecar_head *head)
{
	struct sidecar_head found = {0};
	struct stat status;
	if (fstat(fd, &status) < 0)
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EEXIST;
	ssize_t n = pread(fd, &found, sizeof found, 0);
	if (n < 0)
		return -errno;
	if (n == (ssize_t)sizeof found && memcmp(&found, head, sizeof found) == 0)
		return 1;
	bool ours = found.magic == SIDECAR_MAGIC || found.magic == __builtin_bswap64(SIDECAR_MAGIC);
	return ours || head_is_lost(&found) ? 0 : -EEXIST;
}

/* Opens the file at `path`; makes it if it does not exist or is out of date. `all`: as in
 * file_reserve. A descriptor or -errno. */
static int file_open(const char *path, const char *shard, const struct sidecar_head *head,
	uint64_t all, enum sidecar_state *ret_state)
{
	*ret_state = STATE_OPEN;
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0 && (errno == EACCES || errno == EROFS || errno == EPERM)) {
		*ret_state = STATE_READ_ONLY;
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	}
	if (fd < 0)
		return errno == ENOENT ? file_make(path, shard, head, all) : -errno;
	int rc = file_check(fd, head);
	if (rc > 0) {
		if (*ret_state == STATE_OPEN && file_reserve(fd, path, all) < 0)
			*ret_state = STATE_FULL;
		return fd;
	}
	(void)close(fd);
	if (rc < 0)
		return rc;
	*ret_state = STATE_OPEN;
	return file_make(path, shard, head, all);
}

/* Whether the file may be stored beside the shard. */
static bool is_beside(const struct dataset *dataset)
{
	return !dataset->container->files && !dataset->index_in_cache && !dataset->only &&
	       !dataset_remote(dataset);
}

/* Its path in the cache folder; malloc'ed. NULL if there is no memory. */
static char *path_cached(const struct dataset *dataset, uint32_t number)
{
	char suffix[40] = ".ckp";
	if (dataset->only)
		(void)snprintf(suffix, sizeof suffix, ".labels-%016llx.ckp",
			(unsigned long long)dataset->only);
	return store_cache_path(dataset->cache_folder, dataset->shard[number].path, suffix);
}

static int shard_open(const struct sidecar *sidecar, uint32_t number, enum sidecar_state *ret_state)
{
	const struct dataset *dataset = sidecar->dataset;
	const struct dataset_shard *shard = &dataset->shard[number];
	const struct sidecar_head head = head_of(dataset, number, sidecar->halvings);
	int beside = -ENOENT;
	if (is_beside(dataset)) {
		cleanup(free_ptr) char *path = NULL;
		if (asprintf(&path, "%s.ckp", shard->path) < 0)
			return -ENOMEM;
		beside = file_open(path, shard->path, &head, 0, ret_state);
		if (beside >= 0)
			return beside;
	}
	if (!dataset->cache_folder)
		return beside;
	cleanup(free_ptr) char *path = path_cached(dataset, number);
	if (!path)
		return -ENOMEM;
	const uint64_t all = offset_of(shard->samples, shard->bytes, sidecar->halvings);
	int rc = store_folder_make(dataset->cache_folder);
	return rc < 0 ? rc
		      : file_open(path, shard->path, &head,
				sidecar->bounded ? util_align(all, SIDECAR_PAGE) : 0, ret_state);
}

/* After a new file was begun: removes, once, temporary files that were never put in place. */
static void sidecar_tidy(struct sidecar *sidecar, uint32_t number, int fd)
{
	const struct dataset *dataset = sidecar->dataset;
	struct stat status;
	if (sidecar->tidied || fstat(fd, &status) < 0 ||
		status.st_size != (off_t)sizeof(struct sidecar_head))
		return;
	sidecar->tidied = true;
	if (is_beside(dataset))
		store_tidy(dataset->shard[number].path);
	cleanup(free_ptr) char *path =
		dataset->cache_folder ? store_cache_path(dataset->cache_folder, "", "") : NULL;
	if (path)
		store_tidy(path);
}

/* The open function of index_files. */
static int sidecar_open(const void *context, uint32_t number, struct fault *fault)
{
	/* index_files has a const context, but the sidecar locks itself. */
	struct sidecar *sidecar = (struct sidecar *)context;
	enum sidecar_state state = STATE_NONE;
	int fd = shard_open(sidecar, number, &state);
	(void)fault;
	if (fd >= 0)
		sidecar_tidy(sidecar, number, fd);
	if (fd < 0) {
		state = STATE_NONE;
		notice_set(sidecar, sidecar->dataset->shard[number].path, "cannot be kept",
			store_error(fd), fd);
	}
	atomic_store_explicit(&sidecar->state[number], (uint8_t)state, memory_order_relaxed);
	return fd;
}

/* Removes a shard's file, if it is a sidecar. */
static void shard_remove(const struct dataset *dataset, uint32_t number)
{
	cleanup(free_ptr) char *path = path_cached(dataset, number);
	cleanup(close_fd) int fd =
		path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW) : -1;
	const struct sidecar_head head = head_of(dataset, number, 0);
	if (fd >= 0 && file_check(fd, &head) >= 0)
		(void)unlink(path);
}

/* The bound is too small for entry points: those of before make room for data. */
static void nothing_kept(struct sidecar *sidecar)
{
	const struct dataset *dataset = sidecar->dataset;
	for (uint32_t i = 0; i < dataset->shards; i++)
		shard_remove(dataset, i);
	notice_set(sidecar, dataset->shard[0].path, "are not kept", store_error(STORE_E_BOUND),
		STORE_E_BOUND);
}

int sidecar_new(const struct dataset *dataset, struct sidecar **ret)
{
	struct rlimit limit = {.rlim_cur = 1024};
	(void)getrlimit(RLIMIT_NOFILE, &limit);
	uint64_t files =
		UTIL_MIN(UTIL_MAX(limit.rlim_cur / SIDECAR_FILES_PART, (uint64_t)SIDECAR_FILES_MIN),
			(uint64_t)SIDECAR_FILES_MAX);
	struct sidecar *sidecar = calloc(1, sizeof *sidecar);
	if (!sidecar)
		return -ENOMEM;
	sidecar->dataset = dataset;
	sidecar->halvings = halvings_of(dataset);
	sidecar->bounded = dataset->cache_folder && store_bound_size(dataset->cache_folder) > 0;
	(void)pthread_mutex_init(&sidecar->lock, NULL);
	sidecar->state = calloc(dataset->shards, sizeof *sidecar->state);
	if (!sidecar->state || index_files_new(dataset->shards, (uint32_t)files, sidecar_open,
				       sidecar, &sidecar->files) < 0) {
		sidecar_free(sidecar);
		return -ENOMEM;
	}
	if (sidecar->halvings == SIDECAR_NOWHERE)
		nothing_kept(sidecar);
	*ret = sidecar;
	return 0;
}

void sidecar_free(struct sidecar *sidecar)
{
	if (!sidecar)
		return;
	index_files_free(sidecar->files);
	(void)pthread_mutex_destroy(&sidecar->lock);
	free((void *)sidecar->state);
	free(sidecar);
}

static enum sidecar_state state_of(struct sidecar *sidecar, const struct sidecar_place *place)
{
	return (enum sidecar_state)atomic_load_explicit(
		&sidecar->state[place->shard], memory_order_relaxed);
}

/* Borrows the file of a place; -1 if it does not exist or if all files are in use. */
static int sidecar_borrow(struct sidecar *sidecar, const struct sidecar_place *place)
{
	int fd;
	if (state_of(sidecar, place) == STATE_NONE ||
		index_files_acquire(sidecar->files, place->shard, &fd, NULL) < 0)
		return -1;
	return fd;
}

void sidecar_ahead(struct sidecar *sidecar, const struct sidecar_place *place)
{
	int fd;
	/* Opening could block. sidecar_read does it. */
	if (index_files_try(sidecar->files, place->shard, &fd) < 0)
		return;
	(void)posix_fadvise(fd, (off_t)place->offset, place->room, POSIX_FADV_WILLNEED);
	index_files_release(sidecar->files, place->shard);
}

size_t sidecar_read(
	struct sidecar *sidecar, const struct sidecar_place *place, uint8_t *to, size_t room)
{
	int fd = sidecar_borrow(sidecar, place);
	if (fd < 0)
		return 0;
	ssize_t n = whole_read(fd, to, UTIL_MIN(room, (size_t)place->room), place->offset);
	index_files_release(sidecar->files, place->shard);
	return n > 0 ? (size_t)n : 0;
}

bool sidecar_keeps(struct sidecar *sidecar, const struct sidecar_place *place)
{
	enum sidecar_state state = state_of(sidecar, place);
	if (state == STATE_READ_ONLY || state == STATE_FULL)
		notice_set(sidecar, sidecar->dataset->shard[place->shard].path, "cannot be written",
			state == STATE_FULL ? store_error(STORE_E_BOUND)
					    : "their file is read-only",
			state == STATE_FULL ? STORE_E_BOUND : -EROFS);
	return (state == STATE_UNKNOWN || state == STATE_OPEN) &&
	       !atomic_load_explicit(&sidecar->full, memory_order_relaxed);
}

bool sidecar_write(struct sidecar *sidecar, const struct sidecar_place *place, const uint8_t *bytes,
	size_t size)
{
	if (size > place->room || atomic_load_explicit(&sidecar->full, memory_order_relaxed))
		return false;
	int fd = sidecar_borrow(sidecar, place), rc = 0;
	if (fd < 0)
		return false;
	bool keeps = sidecar_keeps(sidecar, place);
	if (keeps)
		rc = whole_write(fd, bytes, size, place->offset);
	index_files_release(sidecar->files, place->shard);
	if (rc < 0) {
		atomic_store_explicit(&sidecar->full, true, memory_order_relaxed);
		notice_set(sidecar, sidecar->dataset->shard[place->shard].path, "cannot be written",
			store_error(rc), rc);
	}
	return keeps && rc == 0;
}

static int path_peek(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

int sidecar_peek(const struct dataset *dataset, uint32_t shard)
{
	const char *of = dataset->shard[shard].path;
	cleanup(free_ptr) char *beside = NULL, *cached = NULL;
	if (asprintf(&beside, "%s.ckp", of) < 0)
		return -ENOMEM;
	int fd = is_beside(dataset) ? path_peek(beside) : -ENOENT;
	if (fd >= 0 || !dataset->cache_folder)
		return fd;
	cached = path_cached(dataset, shard);
	return cached ? path_peek(cached) : -ENOMEM;
}

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
	SIDECAR_VERSION = 1, /* of the places and their contents */
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
};

struct sidecar {
	const struct dataset *dataset;
	struct index_files *files;
	_Atomic uint8_t *state; /* per shard, enum sidecar_state; no order: a hint */
	atomic_bool full; /* a write failed: nothing more is kept; no order */
	pthread_mutex_t lock; /* of the notice */
	bool noticed;
	bool tidied; /* leftover temporary files were removed; guarded by the table's lock */
	char notice[FAULT_TEXT];
};

void sidecar_place(const struct dataset *dataset, uint64_t number, uint32_t shard,
	uint64_t position, uint32_t size, struct sidecar_place *ret)
{
	uint64_t inside = number - dataset->shard[shard].first;
	*ret = (struct sidecar_place){
		.shard = shard,
		.room = UTIL_MIN(SIDECAR_LEAST + size / SIDECAR_PART, (uint32_t)SIDECAR_MOST),
		.offset = SIDECAR_HEAD + inside * SIDECAR_LEAST + position / SIDECAR_PART,
	};
}

static struct sidecar_head head_of(const struct dataset *dataset, uint32_t number)
{
	const struct dataset_shard *shard = &dataset->shard[number];
	struct sidecar_head head = {
		.magic = SIDECAR_MAGIC,
		.version = SIDECAR_VERSION,
		.kind = (uint32_t)dataset->kind,
		.samples = shard->samples,
		.bytes = shard->bytes,
		.shard_size = shard->size,
		.digest = shard->digest_unlabelled,
	};
	head.check = hash_mix(hash_bytes(HASH_SEED, &head, offsetof(struct sidecar_head, check)));
	return head;
}

static void notice_set(
	struct sidecar *sidecar, const char *shard, const char *what, const char *why)
{
	(void)pthread_mutex_lock(&sidecar->lock);
	if (!sidecar->noticed)
		(void)snprintf(sidecar->notice, sizeof sidecar->notice,
			"entry points of %.400s %s (%s): its images are decoded without them, "
			"which takes longer and changes no pixel; free disk space or grant write "
			"permission beside it or in the cache folder",
			shard, what, why);
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

/* Makes a new file at `path`, in place of the existing one. A descriptor or -errno. */
static int file_make(const char *path, const char *shard, const struct sidecar_head *head)
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

/* Opens the file at `path`; makes it if it does not exist or is out of date. A descriptor or
 * -errno. */
static int file_open(const char *path, const char *shard, const struct sidecar_head *head,
	enum sidecar_state *ret_state)
{
	*ret_state = STATE_OPEN;
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0 && (errno == EACCES || errno == EROFS || errno == EPERM)) {
		*ret_state = STATE_READ_ONLY;
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	}
	if (fd < 0)
		return errno == ENOENT ? file_make(path, shard, head) : -errno;
	int rc = file_check(fd, head);
	if (rc > 0)
		return fd;
	(void)close(fd);
	if (rc < 0)
		return rc;
	*ret_state = STATE_OPEN;
	return file_make(path, shard, head);
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
	const char *shard = dataset->shard[number].path;
	const struct sidecar_head head = head_of(dataset, number);
	int beside = -ENOENT;
	if (is_beside(dataset)) {
		cleanup(free_ptr) char *path = NULL;
		if (asprintf(&path, "%s.ckp", shard) < 0)
			return -ENOMEM;
		beside = file_open(path, shard, &head, ret_state);
		if (beside >= 0)
			return beside;
	}
	if (!dataset->cache_folder)
		return beside;
	cleanup(free_ptr) char *path = path_cached(dataset, number);
	int rc = path ? store_folder_make(dataset->cache_folder) : -ENOMEM;
	return rc < 0 ? rc : file_open(path, shard, &head, ret_state);
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
			strerror(-fd));
	}
	atomic_store_explicit(&sidecar->state[number], (uint8_t)state, memory_order_relaxed);
	return fd;
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
	(void)pthread_mutex_init(&sidecar->lock, NULL);
	sidecar->state = calloc(dataset->shards, sizeof *sidecar->state);
	if (!sidecar->state || index_files_new(dataset->shards, (uint32_t)files, sidecar_open,
				       sidecar, &sidecar->files) < 0) {
		sidecar_free(sidecar);
		return -ENOMEM;
	}
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
	if (state == STATE_READ_ONLY)
		notice_set(sidecar, sidecar->dataset->shard[place->shard].path, "cannot be written",
			"their file is read-only");
	return state != STATE_READ_ONLY && state != STATE_NONE &&
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
			strerror(-rc));
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

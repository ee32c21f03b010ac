/* disk: see disk.h. The account's lock is held while files are made, while room is made and while
 * credit is given: so that what a walk measures can only grow by credit that is counted. */
#include "remote/cache/disk.h"

#include "base/clock.h"
#include "base/store.h"
#include "base/util.h"
#include "base/whole.h"
#include "remote/cache/disk_file.h"
#include "remote/cache/disk_internal.h"
#include "remote/cache/disk_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

enum {
	SLOTS = 253, /* processes at once */
	/* One part in so many is kept free for indexes and entry points that are still to come. */
	INDEXES = 48,
	RESERVE_TRIES = 20, /* of DISK_WAIT_MS: another process may walk a large folder */
	CREDIT = 4 << 20, /* that a process takes at once, so that it rarely asks */
	HOLD_TRIES = 20, /* for the lock, each of DISK_WAIT_MS, and for a name */
};
#define LOCKS ((off_t)1 << 40) /* bytes that are locked, beyond the end of the file */
#define MOST (UINT64_C(1) << 54) /* bytes that a number of the account may be */

/* The file `account`. */
struct account {
	char magic[8];
	uint64_t used; /* files as last measured, what was spent since, and the credit below */
	uint64_t indexes; /* of that, as last measured */
	uint64_t credit[SLOTS];
};
static const char account_magic[8] = {'P', 'S', 'T', 'K', 'A', 'C', 'C', '1'};

static int lock_byte(int fd, off_t at, short type)
{
	struct flock lock = {
		.l_type = type, .l_whence = SEEK_SET, .l_start = LOCKS + at, .l_len = 1};
	return fcntl(fd, F_OFD_SETLK, &lock) == 0 ? 0 : -errno;
}

static bool slot_is_live(const struct disk *disk, unsigned slot)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCKS + 1 + slot, .l_len = 1};
	if (slot == disk->slot)
		return true;
	return fcntl(disk->account_fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

enum { PAUSE_MS = 2 }; /* between looks at a lock */

static void lock_pause(void)
{
	(void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000}, NULL);
}

/* The lock between processes, with that between threads. */
static int lock_within(struct disk *disk, unsigned wait_ms)
{
	int code = 0;
	for (unsigned waited = 0; waited < wait_ms; waited += PAUSE_MS) {
		code = lock_byte(disk->account_fd, 0, F_WRLCK);
		if (code != -EAGAIN && code != -EACCES)
			break;
		lock_pause();
	}
	if (code == 0)
		return 0;
	(void)pthread_mutex_unlock(&disk->lock);
	return code == -EAGAIN || code == -EACCES ? -EBUSY : code;
}

int disk_lock(struct disk *disk)
{
	(void)pthread_mutex_lock(&disk->lock);
	return lock_within(disk, DISK_WAIT_MS);
}

int disk_lock_short(struct disk *disk)
{
	/* Other threads have it for a moment, except for a walk of a large folder, which takes
	 * seconds. */
	for (unsigned waited = 0; pthread_mutex_trylock(&disk->lock) != 0; waited += PAUSE_MS) {
		if (waited >= DISK_WAIT_MS ||
			atomic_load_explicit(&disk->measuring, memory_order_relaxed))
			return -EBUSY;
		lock_pause();
	}
	return lock_within(disk, DISK_SHORT_MS);
}

void disk_unlock(struct disk *disk)
{
	(void)lock_byte(disk->account_fd, 0, F_UNLCK);
	(void)pthread_mutex_unlock(&disk->lock);
}

/* The account; an empty or foreign one is as if nothing were used, until it is measured. Sums of
 * what a damaged one says do not overflow: it looks full, and is measured. */
static int account_read(const struct disk *disk, struct account *ret)
{
	const ssize_t n = whole_read(disk->account_fd, ret, sizeof *ret, 0);
	if (n < 0)
		return (int)n;
	if (n != sizeof *ret || memcmp(ret->magic, account_magic, sizeof account_magic) != 0) {
		*ret = (struct account){0};
		memcpy(ret->magic, account_magic, sizeof account_magic);
	}
	ret->used = UTIL_MIN(ret->used, MOST);
	ret->indexes = UTIL_MIN(ret->indexes, MOST);
	for (unsigned i = 0; i < SLOTS; i++)
		ret->credit[i] = UTIL_MIN(ret->credit[i], MOST);
	return 0;
}

static int slot_write(struct disk *disk)
{
	return whole_write(disk->account_fd, &disk->credit, sizeof disk->credit,
		offsetof(struct account, credit) + disk->slot * sizeof disk->credit);
}

static int used_write(struct disk *disk, uint64_t used)
{
	atomic_store_explicit(&disk->used, used, memory_order_relaxed);
	return whole_write(disk->account_fd, &used, sizeof used, offsetof(struct account, used));
}

static int indexes_write(const struct disk *disk, uint64_t indexes)
{
	return whole_write(
		disk->account_fd, &indexes, sizeof indexes, offsetof(struct account, indexes));
}

void disk_spend(struct disk *disk, uint64_t bytes)
{
	(void)pthread_mutex_lock(&disk->slot_lock);
	disk->credit -= UTIL_MIN(bytes, disk->credit);
	/* A slot that says too much is corrected by the next write of it. */
	(void)slot_write(disk);
	(void)pthread_mutex_unlock(&disk->slot_lock);
}

uint64_t disk_cost(uint64_t bytes)
{
	/* File systems store where the blocks are in blocks of their own. */
	return util_align(bytes, 4096) + bytes / 256;
}

bool disk_take(struct disk *disk, uint64_t bytes)
{
	uint64_t have = atomic_load_explicit(&disk->available, memory_order_relaxed);
	do {
		if (have < bytes || disk_stopped(disk))
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		&disk->available, &have, have - bytes, memory_order_relaxed, memory_order_relaxed));
	return true;
}

void disk_give(struct disk *disk, uint64_t bytes)
{
	(void)atomic_fetch_add_explicit(&disk->available, bytes, memory_order_relaxed);
}

bool disk_stop(struct disk *disk)
{
	return !atomic_exchange_explicit(&disk->stopped, true, memory_order_relaxed);
}

bool disk_stopped(const struct disk *disk)
{
	return atomic_load_explicit(&disk->stopped, memory_order_relaxed);
}

void disk_trailer_fill(struct disk_trailer *ret, uint64_t hash)
{
	*ret = (struct disk_trailer){.url_hash = hash};
	memcpy(ret->magic, "PSTKDAT1", sizeof ret->magic);
}

static void file_name(char *ret, size_t room, const char *name, const char *suffix)
{
	(void)snprintf(ret, room, "%s%s", name, suffix);
}

static int open_unchecked(const struct disk *disk, const char *file)
{
	return openat(disk->folder_fd, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

enum disk_data disk_data_look(int fd, uint64_t size)
{
	static const struct disk_trailer nothing;
	struct stat status;
	struct disk_trailer trailer, expected;
	disk_trailer_fill(&expected, 0);
	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid())
		return DISK_DATA_FOREIGN;
	if (status.st_size == 0)
		return DISK_DATA_LOST;
	if (status.st_size < (off_t)sizeof trailer ||
		whole_read(fd, &trailer, sizeof trailer,
			(uint64_t)status.st_size - sizeof trailer) != sizeof trailer)
		return DISK_DATA_FOREIGN;
	const bool fits = (uint64_t)status.st_size == size + sizeof trailer;
	if (memcmp(trailer.magic, expected.magic, sizeof trailer.magic) == 0)
		return fits ? DISK_DATA_OURS : DISK_DATA_LOST;
	return fits && memcmp(&trailer, &nothing, sizeof trailer) == 0 ? DISK_DATA_LOST
								       : DISK_DATA_FOREIGN;
}

bool disk_unlink(const struct disk *disk, const char *name, uint64_t size)
{
	char file[DISK_NAME + 8];
	file_name(file, sizeof file, name, ".data");
	cleanup(close_fd) int fd = open_unchecked(disk, file);
	/* Not a file that can be opened: a link, or of another user. */
	const bool foreign =
		fd < 0 ? errno != ENOENT : disk_data_look(fd, size) == DISK_DATA_FOREIGN;
	if (!foreign)
		(void)unlinkat(disk->folder_fd, file, 0);
	file_name(file, sizeof file, name, ".map");
	(void)unlinkat(disk->folder_fd, file, 0);
	return !foreign;
}

int disk_map_open_unused(
	const struct disk *disk, const char *name, struct disk_map_header *ret_header)
{
	char file[DISK_NAME + 8];
	file_name(file, sizeof file, name, ".map");
	const int fd = openat(disk->folder_fd, file, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	struct stat status;
	int code = fstat(fd, &status) == 0 ? 0 : -errno;
	if (code == 0 && (!S_ISREG(status.st_mode) || status.st_uid != geteuid()))
		code = -EBADMSG;
	if (code == 0 && (code = disk_map_read(fd, ret_header)) == -ENODATA) {
		*ret_header = (struct disk_map_header){0};
		code = 0;
	}
	if (code == 0 && flock(fd, LOCK_EX | LOCK_NB) != 0)
		code = errno == EWOULDBLOCK ? -EBUSY : -errno;
	if (code == 0)
		return fd;
	(void)close(fd);
	return code;
}

bool disk_is_orphan(const struct disk *disk, const char *file)
{
	cleanup(close_fd) int fd = open_unchecked(disk, file);
	struct stat status;
	if (fd < 0 || fstat(fd, &status) != 0 ||
		status.st_size < (off_t)sizeof(struct disk_trailer))
		return false;
	return disk_data_look(fd, (uint64_t)status.st_size - sizeof(struct disk_trailer)) ==
	       DISK_DATA_OURS;
}

/* Removes an object that nobody reads and nobody holds. Returns the bytes that are free now. */
static uint64_t drop(struct disk *disk, const struct disk_entry *entry, const char *holds)
{
	if (!entry->map) {
		char file[DISK_NAME + 8];
		file_name(file, sizeof file, entry->name, ".data");
		if (!disk_is_orphan(disk, file) || unlinkat(disk->folder_fd, file, 0) != 0)
			return 0;
		return entry->bytes;
	}
	struct disk_map_header header;
	const int fd = disk_map_open_unused(disk, entry->name, &header);
	if (fd < 0)
		return 0;
	const bool dropped = !disk_is_held(holds, disk_map_url(&header)) &&
			     disk_unlink(disk, entry->name, header.size);
	if (dropped) {
		(void)atomic_fetch_add_explicit(&disk->dropped_objects, 1, memory_order_relaxed);
		(void)atomic_fetch_add_explicit(
			&disk->dropped_bytes, entry->bytes, memory_order_relaxed);
	}
	(void)close(fd);
	return dropped ? entry->bytes : 0;
}

/* What all live processes may still write. Forgets the credit of those that died. */
static int credit_sum(struct disk *disk, uint64_t *ret)
{
	struct account account;
	const int code = account_read(disk, &account);
	if (code < 0)
		return code;
	uint64_t sum = 0;
	for (unsigned i = 0; i < SLOTS; i++) {
		if (account.credit[i] && !slot_is_live(disk, i)) {
			account.credit[i] = 0;
			const uint64_t none = 0;
			const int written = whole_write(disk->account_fd, &none, sizeof none,
				offsetof(struct account, credit) + i * sizeof none);
			if (written < 0)
				return written;
		}
		sum += account.credit[i];
	}
	*ret = sum;
	return 0;
}

/* What blocks leave free for indexes and entry points. */
static uint64_t kept_free(const struct disk *disk, uint64_t indexes)
{
	const uint64_t part = disk->size / INDEXES;
	return part > indexes ? part - indexes : 0;
}

/* Measures what is used, and removes objects until `wanted` more bytes fit; of blocks, also what
 * is kept free. Under the lock. Credit is summed before files are measured: what is written in
 * between counts twice rather than never. */
static int measure_walk(
	struct disk *disk, uint64_t wanted, bool blocks, uint64_t *ret_used, uint64_t *ret_indexes)
{
	uint64_t used;
	struct disk_walk walk;
	int code = credit_sum(disk, &used);
	if (code < 0 || (code = disk_walk(disk, &walk)) < 0)
		return code;
	used += walk.bytes;
	wanted += blocks ? kept_free(disk, walk.indexes) : 0;
	const uint64_t indexes = walk.indexes;
	if (used + wanted > disk->size) {
		char *holds;
		code = disk_walk_holds(disk, true, &holds);
		for (size_t i = 0; code == 0 && i < walk.count && used + wanted > disk->size; i++) {
			const uint64_t dropped = drop(disk, &walk.entries[i], holds);
			used -= UTIL_MIN(dropped, used);
		}
		if (code == 0)
			free(holds);
	}
	disk_walk_free(&walk);
	if (code == 0)
		code = used_write(disk, used);
	if (code == 0)
		code = indexes_write(disk, indexes);
	if (code == 0) {
		*ret_used = used;
		*ret_indexes = indexes;
	}
	return code;
}

/* The same, of which readers know (disk_lock_short). */
static int measure(
	struct disk *disk, uint64_t wanted, bool blocks, uint64_t *ret_used, uint64_t *ret_indexes)
{
	atomic_store_explicit(&disk->measuring, true, memory_order_relaxed);
	const int code = measure_walk(disk, wanted, blocks, ret_used, ret_indexes);
	atomic_store_explicit(&disk->measuring, false, memory_order_relaxed);
	return code;
}

/* Adds credit where `used` is used. A process that is killed in between has taken more than it has,
 * and not less. Under the lock. */
static int credit_write(struct disk *disk, uint64_t used, uint64_t more)
{
	int code = used_write(disk, used + more);
	if (code < 0)
		return code;
	(void)pthread_mutex_lock(&disk->slot_lock);
	disk->credit += more;
	code = slot_write(disk);
	if (code < 0)
		disk->credit -= more;
	(void)pthread_mutex_unlock(&disk->slot_lock);
	return code;
}

/* Under the lock. */
static int credit_add(struct disk *disk, uint64_t bytes, bool may_drop)
{
	struct account account;
	int code = account_read(disk, &account);
	if (code < 0)
		return code;
	uint64_t used = account.used;
	const uint64_t chunk = UTIL_MIN((uint64_t)CREDIT, disk->size / 64);
	uint64_t more = UTIL_MAX(bytes, chunk);
	if (used + more + kept_free(disk, account.indexes) > disk->size && may_drop &&
		(code = measure(disk, more, true, &used, &account.indexes)) < 0)
		return code;
	const uint64_t taken = used + kept_free(disk, account.indexes);
	if (taken + more > disk->size)
		more = bytes;
	if (taken + more > disk->size) {
		atomic_store_explicit(&disk->used, used, memory_order_relaxed);
		return DISK_E_FULL;
	}
	code = credit_write(disk, used, more);
	if (code == 0)
		disk_give(disk, more);
	return code;
}

/* Under the lock. */
static int reserve(struct disk *disk, uint64_t bytes)
{
	struct account account;
	int code = account_read(disk, &account);
	if (code < 0)
		return code;
	if (account.used + bytes > disk->size &&
		(code = measure(disk, bytes, false, &account.used, &account.indexes)) < 0)
		return code;
	if (account.used + bytes > disk->size)
		return DISK_E_FULL;
	code = indexes_write(disk, account.indexes + bytes);
	return code < 0 ? code : credit_write(disk, account.used, bytes);
}

int disk_reserve(struct disk *disk, uint64_t bytes)
{
	/* Nothing is kept of data then, and nothing is counted. */
	if (disk_stopped(disk) || disk->slot == SLOTS)
		return 0;
	if (bytes > disk->size)
		return DISK_E_FULL;
	int code = -EBUSY;
	for (unsigned i = 0; i < RESERVE_TRIES && code == -EBUSY; i++)
		code = disk_lock(disk);
	if (code < 0)
		return code;
	code = reserve(disk, bytes);
	disk_unlock(disk);
	return code;
}

/* Under the lock. */
static void settle(struct disk *disk, uint64_t unused)
{
	struct account account;
	if (account_read(disk, &account) < 0)
		return;
	/* A number that says too much is corrected when the folder is measured. */
	(void)used_write(disk, account.used - UTIL_MIN(unused, account.used));
	(void)indexes_write(disk, account.indexes - UTIL_MIN(unused, account.indexes));
}

void disk_settle(struct disk *disk, uint64_t taken, uint64_t stored)
{
	if (disk_stopped(disk) || disk->slot == SLOTS)
		return;
	const bool locked = disk_lock(disk) == 0;
	disk_spend(disk, taken);
	if (!locked)
		return;
	if (stored < taken)
		settle(disk, taken - stored);
	disk_unlock(disk);
}

int disk_credit(struct disk *disk, uint64_t bytes, bool may_drop)
{
	if (disk_stopped(disk) || disk->slot == SLOTS)
		return DISK_E_FULL;
	/* A reader does not wait while this process, or another one, walks the folder. */
	int code = may_drop ? disk_lock(disk) : disk_lock_short(disk);
	if (code == 0) {
		code = credit_add(disk, bytes, may_drop);
		disk_unlock(disk);
	}
	return code == -EBUSY ? DISK_E_FULL : code;
}

/* A slot of the account for this process, or SLOTS. Under the lock. */
static int slot_claim(struct disk *disk)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (lock_byte(disk->account_fd, 1 + (off_t)i, F_WRLCK) == 0) {
			disk->slot = i;
			disk->credit = 0;
			return slot_write(disk);
		}
	return -EUSERS;
}

static int folder_open(struct disk *disk, const char *cache_dir)
{
	disk->parent_fd = open(cache_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (disk->parent_fd < 0)
		return -errno;
	disk->folder_fd =
		openat(disk->parent_fd, "remote", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return disk->folder_fd < 0 ? -errno : 0;
}

/* Writes the whole account once, so that later writes need no room on the disk. */
static int account_make(struct disk *disk)
{
	struct account account;
	int code = account_read(disk, &account);
	return code < 0 ? code : whole_write(disk->account_fd, &account, sizeof account, 0);
}

static int account_open(struct disk *disk)
{
	struct stat status;
	disk->account_fd = openat(disk->folder_fd, "account",
		O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (disk->account_fd < 0 || fstat(disk->account_fd, &status) != 0)
		return -errno;
	if (!S_ISREG(status.st_mode) || status.st_uid != geteuid())
		return -EPERM;
	/* One that is not penstock's is not written to; zeros are what a crash may leave. */
	char magic[sizeof account_magic] = {0}, none[sizeof account_magic] = {0};
	const ssize_t n = whole_read(disk->account_fd, magic, sizeof magic, 0);
	if (n < 0)
		return (int)n;
	return memcmp(magic, account_magic, (size_t)n) != 0 &&
			       memcmp(magic, none, sizeof magic) != 0
		       ? -EPERM
		       : 0;
}

static int begin(struct disk *disk, const char *cache_dir)
{
	int code = store_folder_make(cache_dir);
	char *path = NULL;
	if (code == 0 && asprintf(&path, "%s/remote", cache_dir) < 0)
		return -ENOMEM;
	if (code == 0)
		code = store_folder_make(path);
	free(path);
	if (code == 0)
		code = folder_open(disk, cache_dir);
	if (code == 0)
		code = account_open(disk);
	if (code < 0 || (code = disk_lock(disk)) < 0)
		return code;
	uint64_t used = 0, indexes = 0;
	code = account_make(disk);
	if (code == 0)
		code = slot_claim(disk);
	if (code == 0)
		code = measure(disk, 0, true, &used, &indexes);
	disk_unlock(disk);
	return code;
}

static int refuse(const char *cache_dir, int code, struct fault *fault)
{
	if (code == -EBUSY)
		return fault_set(fault, code,
			"cache_dir %s: another process has kept the lock on remote/account for "
			"%d ms: nothing of remote data is kept; end that process and start again",
			cache_dir, DISK_WAIT_MS);
	return fault_set(fault, code,
		"cache_dir %s: cannot store remote data in it: %s; make it a folder that user %u "
		"may write, or set another cache_dir",
		cache_dir, strerror(-code), (unsigned)geteuid());
}

static struct disk *disk_new(uint64_t size)
{
	struct disk *disk = calloc(1, sizeof *disk);
	if (!disk)
		return NULL;
	disk->folder_fd = disk->parent_fd = disk->account_fd = -1;
	disk->slot = SLOTS;
	disk->size = size;
	(void)pthread_mutex_init(&disk->lock, NULL);
	(void)pthread_mutex_init(&disk->slot_lock, NULL);
	return disk;
}

int disk_open(const char *cache_dir, uint64_t size, struct disk **ret, struct fault *fault)
{
	struct disk *disk = disk_new(size);
	const int code = disk ? begin(disk, cache_dir) : -ENOMEM;
	if (code < 0) {
		disk_close(disk);
		return refuse(cache_dir, code, fault);
	}
	*ret = disk;
	return 0;
}

int disk_open_existing(const char *cache_dir, struct disk **ret, struct fault *fault)
{
	struct disk *disk = disk_new(0);
	int code = disk ? folder_open(disk, cache_dir) : -ENOMEM;
	if (code == -ENOENT) {
		disk_close(disk);
		return fault_set(
			fault, code, "%s: nothing of remote data is kept there", cache_dir);
	}
	if (code < 0) {
		disk_close(disk);
		return fault_set(fault, code, "%s/remote: %s", cache_dir, strerror(-code));
	}
	disk->account_fd =
		openat(disk->folder_fd, "account", O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	*ret = disk;
	return 0;
}

/* What was not spent is free again. */
static void credit_return(struct disk *disk)
{
	struct account account;
	if (disk->slot == SLOTS || disk_lock(disk) < 0)
		return;
	if (account_read(disk, &account) == 0) {
		(void)used_write(disk, account.used - UTIL_MIN(disk->credit, account.used));
		disk->credit = 0;
		(void)slot_write(disk);
	}
	disk_unlock(disk);
}

void disk_close(struct disk *disk)
{
	if (!disk)
		return;
	credit_return(disk);
	util_close_fd(&disk->account_fd);
	util_close_fd(&disk->folder_fd);
	util_close_fd(&disk->parent_fd);
	(void)pthread_mutex_destroy(&disk->lock);
	(void)pthread_mutex_destroy(&disk->slot_lock);
	free(disk);
}

void disk_stats_read(const struct disk *disk, struct disk_stats *ret)
{
	*ret = (struct disk_stats){
		.size = disk->size,
		.used = atomic_load_explicit(&disk->used, memory_order_relaxed),
		.broken_blocks = atomic_load_explicit(&disk->broken_blocks, memory_order_relaxed),
		.dropped_objects =
			atomic_load_explicit(&disk->dropped_objects, memory_order_relaxed),
		.dropped_bytes = atomic_load_explicit(&disk->dropped_bytes, memory_order_relaxed),
	};
}

struct disk_hold {
	struct disk *disk;
	int fd;
	char name[64];
};

/* Under the lock: a walk that sees the file sees its lock. */
static int hold_make(struct disk_hold *hold, const char *prefix)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
	/* The slot is this process's own: a hold of that name was left by a process that died. Any
	 * other file of that name stays. */
	for (unsigned i = 0; i < HOLD_TRIES; i++) {
		(void)snprintf(hold->name, sizeof hold->name, "hold-%u-%u", hold->disk->slot,
			atomic_fetch_add_explicit(&hold->disk->holds, 1, memory_order_relaxed));
		disk_hold_remove(hold->disk, hold->name);
		hold->fd = openat(hold->disk->folder_fd, hold->name, flags, 0600);
		if (hold->fd >= 0 || errno != EEXIST)
			break;
	}
	if (hold->fd < 0 || flock(hold->fd, LOCK_EX | LOCK_NB) != 0)
		return -errno;
	return dprintf(hold->fd, "penstock hold\n%s", prefix) < 0 ? -errno : 0;
}

int disk_hold(struct disk *disk, const char *prefix, struct disk_hold **ret)
{
	struct disk_hold *hold = malloc(sizeof *hold);
	if (!hold)
		return -ENOMEM;
	*hold = (struct disk_hold){.disk = disk, .fd = -1};
	/* A process that walks a large folder has the lock for seconds, and a dataset that is not
	 * held may be replaced by parts of itself. */
	int code = -EBUSY;
	for (unsigned i = 0; code == -EBUSY && i < HOLD_TRIES; i++)
		code = disk_lock(disk);
	if (code == 0) {
		code = hold_make(hold, prefix);
		disk_unlock(disk);
	}
	if (code < 0) {
		disk_hold_free(hold);
		return code;
	}
	*ret = hold;
	return 0;
}

void disk_hold_free(struct disk_hold *hold)
{
	if (!hold)
		return;
	if (hold->fd >= 0) {
		(void)unlinkat(hold->disk->folder_fd, hold->name, 0);
		(void)close(hold->fd);
	}
	free(hold);
}

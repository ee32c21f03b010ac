/* disk_file: see disk_file.h. */
#include "remote/cache/disk_file.h"

#include "base/hash.h"
#include "base/sum/crc32c.h"
#include "base/util.h"
#include "base/whole.h"
#include "remote/cache/disk_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

enum {
	ENTRIES = 512, /* read at once */
	TOUCH_S = 60, /* how often a file that is read notes the time */
	TRIES = 4, /* to open files that other processes remove and make meanwhile */
	DIRECTORY_BYTES = 512, /* what two names take of a directory, at most */
};

struct disk_file {
	struct disk *disk;
	int map_fd, data_fd; /* the map's lock says that the object is read */
	uint64_t size, blocks;
	bool read_only;
	_Atomic int64_t touched_s;
	/* enum disk_state. Written with release after the block's bytes are in the file, read with
	 * acquire before a reader reads them. */
	_Atomic uint8_t states[];
};

uint64_t disk_file_cost(uint64_t size)
{
	return util_align(DISK_MAP_HEADER + 8 * disk_map_blocks(size), 4096) + 4096 +
	       DIRECTORY_BYTES;
}

int disk_file_fd(const struct disk_file *file)
{
	return file->data_fd;
}

enum disk_state disk_file_state(const struct disk_file *file, uint64_t block)
{
	return (enum disk_state)atomic_load_explicit(&file->states[block], memory_order_acquire);
}

static void state_set(struct disk_file *file, uint64_t block, enum disk_state state)
{
	atomic_store_explicit(&file->states[block], (uint8_t)state, memory_order_release);
}

/* The map's time of modification is when its object was last read. */
static void touch(struct disk_file *file)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	int64_t before = atomic_load_explicit(&file->touched_s, memory_order_relaxed);
	if (file->read_only || now.tv_sec - before < TOUCH_S)
		return;
	if (atomic_compare_exchange_strong_explicit(&file->touched_s, &before, now.tv_sec,
		    memory_order_relaxed, memory_order_relaxed))
		(void)futimens(file->map_fd, NULL);
}

bool disk_file_local(struct disk_file *file, uint64_t offset, uint64_t size)
{
	if (size == 0 || offset >= file->size || size > file->size - offset)
		return false;
	for (uint64_t i = offset / DISK_BLOCK; i <= (offset + size - 1) / DISK_BLOCK; i++)
		if (disk_file_state(file, i) != DISK_VERIFIED)
			return false;
	touch(file);
	return true;
}

enum disk_state disk_file_refresh(struct disk_file *file, uint64_t block)
{
	uint64_t entry;
	enum disk_state state = disk_file_state(file, block);
	if (state == DISK_MISSING && disk_map_entries(file->map_fd, block, &entry, 1) == 0 &&
		disk_map_stored(entry, block))
		state_set(file, block, state = DISK_STORED);
	return state;
}

int disk_file_verify(struct disk_file *file, uint64_t block, void *buffer)
{
	uint64_t entry;
	const uint32_t bytes = disk_map_bytes(file->size, block);
	const int code = disk_map_entries(file->map_fd, block, &entry, 1);
	if (code < 0)
		return code;
	touch(file);
	if (disk_map_stored(entry, block) &&
		whole_read(file->data_fd, buffer, bytes, block * DISK_BLOCK) == bytes &&
		crc32c(buffer, bytes) == (uint32_t)entry) {
		state_set(file, block, DISK_VERIFIED);
		return 0;
	}
	(void)atomic_fetch_add_explicit(&file->disk->broken_blocks, 1, memory_order_relaxed);
	state_set(file, block, DISK_MISSING);
	if (!file->read_only)
		(void)disk_map_store(file->map_fd, block, 0);
	return DISK_E_BROKEN;
}

int disk_file_write(struct disk_file *file, uint64_t block, const void *data)
{
	const uint32_t bytes = disk_map_bytes(file->size, block);
	int code = file->read_only ? -EROFS : 0;
	if (code == 0)
		code = whole_write(file->data_fd, data, bytes, block * DISK_BLOCK);
	if (code == 0)
		code = disk_map_store(
			file->map_fd, block, disk_map_entry(crc32c(data, bytes), block));
	disk_spend(file->disk, disk_cost(bytes));
	if (code == 0)
		state_set(file, block, DISK_VERIFIED);
	return code;
}

struct names {
	char name[DISK_NAME + 1], map[DISK_NAME + 8], data[DISK_NAME + 8];
};

static void names_fill(struct names *ret, const char *url)
{
	disk_map_name(url, ret->name);
	(void)snprintf(ret->map, sizeof ret->map, "%s.map", ret->name);
	(void)snprintf(ret->data, sizeof ret->data, "%s.data", ret->name);
}

/* Opens one of the two files, for reading only where it cannot be written. */
static int open_existing(const struct disk *disk, const char *name, bool *ret_read_only)
{
	const int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	int fd = openat(disk->folder_fd, name, O_RDWR | flags);
	if (fd < 0 && (errno == EROFS || errno == EACCES)) {
		fd = openat(disk->folder_fd, name, O_RDONLY | flags);
		*ret_read_only = true;
	}
	struct stat status;
	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid())
		return fd;
	(void)close(fd);
	return -EBADMSG;
}

/* A process that makes room holds the exclusive lock for a moment. */
static bool lock_shared(int fd)
{
	for (int i = 0; i < 20; i++) {
		if (flock(fd, LOCK_SH | LOCK_NB) == 0)
			return true;
		(void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return false;
}

static int load(struct disk_file *file)
{
	uint64_t entries[ENTRIES];
	for (uint64_t from = 0; from < file->blocks; from += ENTRIES) {
		const size_t count = UTIL_MIN(file->blocks - from, (uint64_t)ENTRIES);
		const int code = disk_map_entries(file->map_fd, from, entries, count);
		if (code < 0)
			return code;
		for (size_t i = 0; i < count; i++)
			if (disk_map_stored(entries[i], from + i))
				state_set(file, from + i, DISK_STORED);
	}
	return 0;
}

static bool is_version(
	const struct disk_map_header *header, const char *url, const char *etag, uint64_t size)
{
	struct disk_map_header wanted;
	return disk_map_fill(&wanted, url, etag, size) == 0 && wanted.size == header->size &&
	       wanted.url_hash == header->url_hash &&
	       strcmp(disk_map_url(&wanted), disk_map_url(header)) == 0 &&
	       strcmp(disk_map_etag(&wanted), disk_map_etag(header)) == 0;
}

static bool has_data(const struct disk *disk, const struct names *names, uint64_t size)
{
	bool read_only;
	cleanup(close_fd) int fd = open_existing(disk, names->data, &read_only);
	return fd >= 0 && disk_data_look(fd, size) == DISK_DATA_OURS;
}

/* Another version, or files that a process was killed in the midst of: removes them if nobody reads
 * them. 0; DISK_E_ABSENT; DISK_E_FULL: not now; -errno. */
static int replace(struct disk *disk, const struct names *names, const char *url, const char *etag,
	uint64_t size)
{
	struct disk_map_header header;
	if (disk->account_fd < 0)
		return DISK_E_ABSENT;
	const int locked = disk_lock_short(disk);
	if (locked < 0)
		return locked == -EBUSY ? DISK_E_FULL : DISK_E_ABSENT;
	const int fd = disk_map_open_unused(disk, names->name, &header);
	/* Another process may have replaced them already. */
	if (fd >= 0 && (!is_version(&header, url, etag, size) || !has_data(disk, names, size)))
		(void)disk_unlink(disk, names->name, header.size);
	disk_unlock(disk);
	if (fd >= 0)
		(void)close(fd);
	return fd >= 0 || fd == -ENOENT ? 0 : DISK_E_ABSENT;
}

/* The data file, made under the account's lock after its map. */
static int make_data(struct disk *disk, const struct names *names, const char *url, uint64_t size)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
	struct disk_trailer trailer;
	disk_trailer_fill(&trailer, hash_mix(hash_bytes(HASH_SEED, url, strlen(url))));
	int fd = openat(disk->folder_fd, names->data, flags, 0600);
	if (fd < 0 && errno == EEXIST && disk_is_orphan(disk, names->data) &&
		unlinkat(disk->folder_fd, names->data, 0) == 0)
		fd = openat(disk->folder_fd, names->data, flags, 0600);
	if (fd < 0)
		return errno == EEXIST ? DISK_E_ABSENT : -errno;
	const int code = whole_write(fd, &trailer, sizeof trailer, size);
	(void)close(fd);
	/* Without its trailer no process would know whose it is. */
	if (code < 0)
		(void)unlinkat(disk->folder_fd, names->data, 0);
	return code;
}

static int make_both(struct disk *disk, const struct names *names, const char *url,
	const char *etag, uint64_t size)
{
	struct disk_map_header header;
	int code = disk_map_fill(&header, url, etag, size);
	if (code < 0)
		return DISK_E_ABSENT;
	cleanup(close_fd) int fd = openat(disk->folder_fd, names->map,
		O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return errno == EEXIST ? 0 : -errno; /* another process was faster */
	code = whole_write(fd, &header, sizeof header, 0);
	if (code == 0)
		code = make_data(disk, names, url, size);
	if (code != 0)
		(void)unlinkat(disk->folder_fd, names->map, 0);
	return code;
}

static int make_files(struct disk *disk, const struct names *names, const char *url,
	const char *etag, uint64_t size)
{
	const uint64_t cost = disk_file_cost(size);
	if (!disk_take(disk, cost))
		return DISK_E_FULL;
	int code = disk_lock_short(disk);
	if (code == 0) {
		code = make_both(disk, names, url, etag, size);
		disk_unlock(disk);
	}
	if (code == 0)
		disk_spend(disk, cost);
	else
		disk_give(disk, cost);
	return code == -EBUSY ? DISK_E_FULL : code;
}

/* What opening the files finds, beyond 0 and errors. */
enum { FOUND_NONE = 100, FOUND_OTHER, FOUND_AGAIN };

static int open_map(struct disk *disk, const struct names *names, const char *url, const char *etag,
	uint64_t size, struct disk_file *file)
{
	struct disk_map_header header;
	struct stat status;
	const int fd = open_existing(disk, names->map, &file->read_only);
	if (fd < 0)
		return fd == -ENOENT ? FOUND_NONE : fd == -EBADMSG ? DISK_E_ABSENT : fd;
	file->map_fd = fd;
	if (!lock_shared(fd))
		return DISK_E_FULL;
	if (fstat(fd, &status) != 0)
		return -errno;
	if (status.st_nlink == 0)
		return FOUND_AGAIN;
	const int code = disk_map_read(fd, &header);
	if (code == -ENODATA || (code == 0 && !is_version(&header, url, etag, size)))
		return FOUND_OTHER;
	return code == -EBADMSG ? DISK_E_ABSENT : code;
}

static int open_data(struct disk *disk, const struct names *names, struct disk_file *file)
{
	const int fd = open_existing(disk, names->data, &file->read_only);
	if (fd < 0)
		return fd == -ENOENT ? FOUND_OTHER : fd == -EBADMSG ? DISK_E_ABSENT : fd;
	file->data_fd = fd;
	/* Blocks are never written into a file that only has our name. */
	switch (disk_data_look(fd, file->size)) {
	case DISK_DATA_OURS:
		return 0;
	case DISK_DATA_LOST:
		return FOUND_OTHER;
	case DISK_DATA_FOREIGN:
		break;
	}
	return DISK_E_ABSENT;
}

static void close_both(struct disk_file *file)
{
	util_close_fd(&file->data_fd);
	util_close_fd(&file->map_fd);
	file->data_fd = file->map_fd = -1;
	file->read_only = false;
}

static int open_files(struct disk *disk, const char *url, const char *etag, uint64_t size,
	bool make, struct disk_file *file)
{
	struct names names;
	names_fill(&names, url);
	for (int i = 0; i < TRIES; i++) {
		int code = open_map(disk, &names, url, etag, size, file);
		if (code == 0)
			code = open_data(disk, &names, file);
		if (code < FOUND_NONE && code != DISK_E_ABSENT)
			return code;
		close_both(file);
		if (code == DISK_E_ABSENT)
			return code;
		if (code == FOUND_OTHER)
			code = replace(disk, &names, url, etag, size);
		else if (code == FOUND_NONE)
			code = make ? make_files(disk, &names, url, etag, size) : DISK_E_ABSENT;
		else
			code = 0;
		if (code != 0)
			return code;
	}
	return DISK_E_ABSENT;
}

int disk_file_open(struct disk *disk, const char *url, const char *etag, uint64_t size, bool make,
	struct disk_file **ret)
{
	const uint64_t blocks = disk_map_blocks(size);
	struct disk_file *file = calloc(1, sizeof *file + blocks);
	if (!file)
		return -ENOMEM;
	file->disk = disk;
	file->map_fd = file->data_fd = -1;
	file->size = size;
	file->blocks = blocks;
	file->touched_s = -TOUCH_S;
	int code = open_files(disk, url, etag, size, make, file);
	if (code == 0)
		code = load(file);
	if (code != 0) {
		disk_file_close(file);
		return code;
	}
	touch(file);
	*ret = file;
	return 0;
}

void disk_file_close(struct disk_file *file)
{
	if (!file)
		return;
	close_both(file);
	free(file);
}

/* disk_tools: what `penstock cache` does with a folder, see disk.h. */
#include "base/sum/crc32c.h"
#include "base/util.h"
#include "base/whole.h"
#include "remote/cache/disk_internal.h"
#include "remote/cache/disk_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

enum { ENTRIES = 512 };

/* Opens one file of an object that is ours, also where it cannot be written. -errno. */
static int open_ours(
	const struct disk *disk, const char *name, const char *suffix, bool *ret_read_only)
{
	char file[DISK_NAME + 8];
	struct stat status;
	(void)snprintf(file, sizeof file, "%s%s", name, suffix);
	int fd = openat(disk->folder_fd, file, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	*ret_read_only = fd < 0;
	if (fd < 0)
		fd = openat(disk->folder_fd, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
		return fd;
	(void)close(fd);
	return -EBADMSG;
}

/* The bytes of blocks that are stored, or -errno. */
static int64_t stored_bytes(int map_fd, uint64_t size)
{
	uint64_t entries[ENTRIES];
	const uint64_t blocks = disk_map_reach(map_fd, size);
	int64_t sum = 0;
	for (uint64_t from = 0; from < blocks; from += ENTRIES) {
		const size_t count = UTIL_MIN(blocks - from, (uint64_t)ENTRIES);
		const int code = disk_map_entries(map_fd, from, entries, count);
		if (code < 0)
			return code;
		for (size_t i = 0; i < count; i++)
			if (disk_map_stored(entries[i], from + i))
				sum += disk_map_bytes(size, from + i);
	}
	return sum;
}

static int look(struct disk *disk, const struct disk_entry *entry, const char *holds,
	int (*each)(void *context, const struct disk_object *object), void *context)
{
	struct disk_map_header header;
	bool read_only;
	if (!entry->map)
		return 0;
	cleanup(close_fd) int fd = open_ours(disk, entry->name, ".map", &read_only);
	if (fd < 0 || disk_map_read(fd, &header) < 0)
		return 0; /* removed since, or not ours */
	const int64_t stored = entry->data ? stored_bytes(fd, header.size) : 0;
	if (stored < 0)
		return (int)stored;
	const bool locked = flock(fd, LOCK_EX | LOCK_NB) != 0;
	if (!locked)
		(void)flock(fd, LOCK_UN);
	const struct disk_object object = {
		.url = disk_map_url(&header),
		.etag = disk_map_etag(&header),
		.size = header.size,
		.stored = (uint64_t)stored,
		.disk_bytes = entry->bytes,
		.read_s = entry->read_ns / 1000000000,
		.open = locked || disk_is_held(holds, disk_map_url(&header)),
	};
	return each(context, &object);
}

int disk_each(struct disk *disk, int (*each)(void *context, const struct disk_object *object),
	void *context)
{
	struct disk_walk walk;
	cleanup(free_ptr) char *holds = NULL;
	int code = disk_walk_holds(disk, false, &holds);
	if (code < 0 || (code = disk_walk(disk, &walk)) < 0)
		return code;
	for (size_t i = 0; code == 0 && i < walk.count; i++)
		code = look(disk, &walk.entries[i], holds, each, context);
	disk_walk_free(&walk);
	return code;
}

static void clear_one(struct disk *disk, const struct disk_entry *entry, const char *prefix,
	const char *holds, struct disk_cleared *to)
{
	struct disk_map_header header;
	bool read_only;
	const int look_fd = entry->map ? open_ours(disk, entry->name, ".map", &read_only) : -1;
	const int known = look_fd >= 0 ? disk_map_read(look_fd, &header) : -EBADMSG;
	if (look_fd >= 0)
		(void)close(look_fd);
	if (known < 0 || strncmp(disk_map_url(&header), prefix, strlen(prefix)) != 0)
		return;
	const int fd = disk_is_held(holds, disk_map_url(&header))
			       ? -EBUSY
			       : disk_map_open_unused(disk, entry->name, &header);
	if (fd >= 0) {
		const bool gone = disk_unlink(disk, entry->name, header.size);
		(void)close(fd);
		to->objects++;
		to->bytes += gone ? entry->bytes : 0;
	} else if (fd == -EBUSY) {
		to->open_objects++;
		to->open_bytes += entry->bytes;
	}
}

int disk_clear(struct disk *disk, const char *prefix, struct disk_cleared *ret)
{
	struct disk_walk walk;
	struct disk_cleared done = {0};
	cleanup(free_ptr) char *holds = NULL;
	if (disk->account_fd < 0)
		return -EACCES;
	int code = disk_lock(disk);
	if (code < 0)
		return code;
	code = disk_walk_holds(disk, true, &holds);
	if (code == 0)
		code = disk_walk(disk, &walk);
	if (code == 0) {
		for (size_t i = 0; i < walk.count; i++)
			clear_one(disk, &walk.entries[i], prefix, holds, &done);
		disk_walk_free(&walk);
		*ret = done;
	}
	disk_unlock(disk);
	return code;
}

struct verifying {
	struct disk_verified done;
	const char *prefix;
	void (*broken)(void *context, const struct disk_object *object, uint64_t blocks);
	void *context;
	uint8_t buffer[DISK_BLOCK];
};

/* Returns how many blocks were broken, or -errno. */
static int64_t verify_blocks(
	struct verifying *to, int map_fd, int data_fd, bool read_only, uint64_t size)
{
	int64_t broken = 0;
	const uint64_t blocks = disk_map_reach(map_fd, size);
	for (uint64_t i = 0; i < blocks; i++) {
		uint64_t entry;
		const uint32_t bytes = disk_map_bytes(size, i);
		const int code = disk_map_entries(map_fd, i, &entry, 1);
		if (code < 0)
			return code;
		if (!disk_map_stored(entry, i))
			continue;
		to->done.blocks++;
		to->done.bytes += bytes;
		if (whole_read(data_fd, to->buffer, bytes, i * DISK_BLOCK) == bytes &&
			crc32c(to->buffer, bytes) == (uint32_t)entry)
			continue;
		broken++;
		if (!read_only)
			(void)disk_map_store(map_fd, i, 0);
	}
	return broken;
}

static int verify_one(struct disk *disk, const struct disk_entry *entry, struct verifying *to)
{
	struct disk_map_header header;
	bool map_read_only, data_read_only;
	if (!entry->map || !entry->data)
		return 0;
	cleanup(close_fd) int map_fd = open_ours(disk, entry->name, ".map", &map_read_only);
	cleanup(close_fd) int data_fd = open_ours(disk, entry->name, ".data", &data_read_only);
	/* Shared, so that no process removes the object meanwhile. */
	if (map_fd < 0 || data_fd < 0 || flock(map_fd, LOCK_SH | LOCK_NB) != 0 ||
		disk_map_read(map_fd, &header) < 0 ||
		strncmp(disk_map_url(&header), to->prefix, strlen(to->prefix)) != 0)
		return 0;
	const int64_t broken = verify_blocks(to, map_fd, data_fd, map_read_only, header.size);
	if (broken < 0)
		return (int)broken;
	to->done.objects++;
	to->done.broken_blocks += (uint64_t)broken;
	const struct disk_object object = {
		.url = disk_map_url(&header),
		.etag = disk_map_etag(&header),
		.size = header.size,
		.disk_bytes = entry->bytes,
		.read_s = entry->read_ns / 1000000000,
	};
	if (broken && to->broken)
		to->broken(to->context, &object, (uint64_t)broken);
	return 0;
}

int disk_verify(struct disk *disk, const char *prefix,
	void (*broken)(void *context, const struct disk_object *object, uint64_t blocks),
	void *context, struct disk_verified *ret)
{
	struct disk_walk walk;
	struct verifying *to = malloc(sizeof *to);
	if (!to)
		return -ENOMEM;
	*to = (struct verifying){.prefix = prefix, .broken = broken, .context = context};
	int code = disk_walk(disk, &walk);
	if (code == 0) {
		for (size_t i = 0; code == 0 && i < walk.count; i++)
			code = verify_one(disk, &walk.entries[i], to);
		disk_walk_free(&walk);
	}
	if (code == 0)
		*ret = to->done;
	free(to);
	return code;
}

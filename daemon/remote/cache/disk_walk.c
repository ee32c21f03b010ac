/* disk_walk: see disk_walk.h. */
#include "remote/cache/disk_walk.h"

#include "base/util.h"
#include "base/whole.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

enum { BLOCK_BYTES = 512 /* of st_blocks */, HOLD_BYTES = 16 << 10 };

enum disk_kind disk_kind(const char *name)
{
	if (strcmp(name, "account") == 0)
		return DISK_ACCOUNT;
	if (strncmp(name, "hold-", 5) == 0)
		return DISK_HOLD;
	if (strspn(name, "0123456789abcdef") != DISK_NAME)
		return DISK_OTHER;
	if (strcmp(name + DISK_NAME, ".map") == 0)
		return DISK_MAP;
	return strcmp(name + DISK_NAME, ".data") == 0 ? DISK_DATA : DISK_OTHER;
}

/* A file of a directory, or the directory itself (`name` "."). */
typedef int walk_fn(void *context, const char *name, const struct stat *status);

static int directory_each(int directory, walk_fn *each, void *context)
{
	const int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	if (!stream) {
		const int code = -errno;
		if (fd >= 0)
			(void)close(fd);
		return code;
	}
	int code = 0;
	for (;;) {
		errno = 0;
		const struct dirent *entry = readdir(stream);
		/* A walk of a part of the folder must not pass for a walk of all of it. */
		if (!entry)
			code = -errno;
		if (!entry || code)
			break;
		struct stat status;
		if (strcmp(entry->d_name, "..") == 0)
			continue;
		/* Another process may have removed it since. */
		if (fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0)
			code = each(context, entry->d_name, &status);
	}
	(void)closedir(stream);
	return code;
}

struct collecting {
	struct disk_walk walk;
	size_t room;
};

static int collect_entry(struct collecting *to, const char *name, const struct stat *status)
{
	struct disk_walk *walk = &to->walk;
	if (walk->count == to->room) {
		const size_t room = to->room ? 2 * to->room : 256;
		struct disk_entry *more = reallocarray(walk->entries, room, sizeof *more);
		if (!more)
			return -ENOMEM;
		walk->entries = more;
		to->room = room;
	}
	const bool map = disk_kind(name) == DISK_MAP;
	struct disk_entry *entry = &walk->entries[walk->count++];
	*entry = (struct disk_entry){
		.map = map,
		.data = !map,
		.bytes = (uint64_t)status->st_blocks * BLOCK_BYTES,
		.read_ns = (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec,
	};
	memcpy(entry->name, name, DISK_NAME);
	return 0;
}

static int collect(void *context, const char *name, const struct stat *status)
{
	struct collecting *to = context;
	const enum disk_kind kind = disk_kind(name);
	if (strcmp(name, ".") != 0 && (kind == DISK_OTHER || !S_ISREG(status->st_mode)))
		return 0;
	/* Files of holds are made without asking the account, as indexes are. */
	if (kind == DISK_HOLD)
		to->walk.indexes += (uint64_t)status->st_blocks * BLOCK_BYTES;
	else
		to->walk.bytes += (uint64_t)status->st_blocks * BLOCK_BYTES;
	return kind == DISK_MAP || kind == DISK_DATA ? collect_entry(to, name, status) : 0;
}

/* Indexes, which other parts of penstock store beside the folder. */
static int collect_index(void *context, const char *name, const struct stat *status)
{
	struct collecting *to = context;
	const size_t hex = strspn(name, "0123456789abcdef");
	if (hex == DISK_NAME && (name[hex] == '.' || name[hex] == '-') && S_ISREG(status->st_mode))
		to->walk.indexes += (uint64_t)status->st_blocks * BLOCK_BYTES;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct disk_entry *x = a, *y = b;
	const int order = strcmp(x->name, y->name);
	return order ? order : (int)y->map - (int)x->map;
}

static int by_time(const void *a, const void *b)
{
	const struct disk_entry *x = a, *y = b;
	return (x->read_ns > y->read_ns) - (x->read_ns < y->read_ns);
}

/* Joins the two files of each object. The map's time counts. */
static void join(struct disk_walk *walk)
{
	if (!walk->count)
		return;
	qsort(walk->entries, walk->count, sizeof *walk->entries, by_name);
	size_t kept = 0;
	for (size_t i = 1; i < walk->count; i++) {
		struct disk_entry *last = &walk->entries[kept], *entry = &walk->entries[i];
		if (strcmp(last->name, entry->name) == 0) {
			last->data |= entry->data;
			last->bytes += entry->bytes;
		} else {
			walk->entries[++kept] = *entry;
		}
	}
	walk->count = kept + 1;
	qsort(walk->entries, walk->count, sizeof *walk->entries, by_time);
}

int disk_walk(const struct disk *disk, struct disk_walk *ret)
{
	struct collecting to = {0};
	int code = directory_each(disk->folder_fd, collect, &to);
	if (code == 0)
		code = directory_each(disk->parent_fd, collect_index, &to);
	if (code < 0) {
		disk_walk_free(&to.walk);
		return code;
	}
	to.walk.bytes += to.walk.indexes;
	join(&to.walk);
	*ret = to.walk;
	return 0;
}

void disk_walk_free(struct disk_walk *walk)
{
	free(walk->entries);
	*walk = (struct disk_walk){0};
}

struct holding {
	const struct disk *disk;
	bool tidy;
	char *text;
	size_t size;
};

static const char magic[] = "penstock hold\n";

/* Whether the file is one that disk_hold has made. */
static bool hold_is_ours(int fd)
{
	struct stat status;
	char head[sizeof magic - 1];
	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid())
		return false;
	/* Empty: its process died before it wrote. */
	const ssize_t n = whole_read(fd, head, sizeof head, 0);
	return n == 0 || (n == sizeof head && memcmp(head, magic, sizeof head) == 0);
}

void disk_hold_remove(const struct disk *disk, const char *name)
{
	cleanup(close_fd) int fd =
		openat(disk->folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd >= 0 && hold_is_ours(fd))
		(void)unlinkat(disk->folder_fd, name, 0);
}

static int hold_add(struct holding *to, int fd)
{
	char text[HOLD_BYTES];
	const ssize_t n = whole_read(fd, text, sizeof text, 0);
	const size_t head = sizeof magic - 1;
	if (n <= (ssize_t)head || memcmp(text, magic, head) != 0)
		return 0;
	const size_t size = strnlen(text + head, (size_t)n - head);
	/* An empty prefix would end the list. It holds everything, as does a prefix of all URLs. */
	char *more = size ? realloc(to->text, to->size + size + 2) : to->text;
	if (size && !more)
		return -ENOMEM;
	if (size) {
		to->text = more;
		memcpy(more + to->size, text + head, size);
		more[to->size + size] = 0;
		to->size += size + 1;
		more[to->size] = 0;
	}
	return 0;
}

static int hold_look(void *context, const char *name, const struct stat *status)
{
	struct holding *to = context;
	if (disk_kind(name) != DISK_HOLD || !S_ISREG(status->st_mode))
		return 0;
	const int fd =
		openat(to->disk->folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return 0;
	int code = 0;
	if (flock(fd, LOCK_SH | LOCK_NB) != 0) {
		code = hold_add(to, fd);
	} else if (to->tidy && hold_is_ours(fd)) {
		(void)unlinkat(to->disk->folder_fd, name, 0);
	}
	(void)close(fd);
	return code;
}

int disk_walk_holds(const struct disk *disk, bool tidy, char **ret)
{
	struct holding to = {.disk = disk, .tidy = tidy, .text = calloc(1, 1)};
	int code = to.text ? directory_each(disk->folder_fd, hold_look, &to) : -ENOMEM;
	if (code < 0) {
		free(to.text);
		return code;
	}
	*ret = to.text;
	return 0;
}

bool disk_is_held(const char *holds, const char *url)
{
	for (; *holds; holds += strlen(holds) + 1)
		if (strncmp(holds, url, strlen(holds)) == 0)
			return true;
	return false;
}

/* output_folder: see output_folder.h. */
#include "client/cli/pack/output_folder.h"

#include "base/util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

enum { PLACE_NAME = PATTERN_NAME + 16, PLACE_MANIFEST_MOST = 1 << 30 };

static int output_folder_fault(const struct output_folder *place, const char *name,
	const char *what, int error, struct fault *fault)
{
	return fault_set(fault, -error, "%s/%s cannot be %s: %s", place->pattern->folder, name,
		what, strerror(error));
}

static void output_folder_part_name(const char *name, char ret[PLACE_NAME])
{
	(void)snprintf(ret, PLACE_NAME, "%s.part", name);
}

static void output_folder_row_name(
	const struct output_folder *place, const char *ending, char ret[PLACE_NAME])
{
	(void)snprintf(ret, PLACE_NAME, "%s.pack.%s", place->pattern->stem, ending);
}

/* The lock file may have been removed by its owner while this process waited for the lock. 1 if it
 * stands, 0 if not, or a negative errno. */
static int output_folder_lock_stands(
	const struct output_folder *place, const char *name, struct fault *fault)
{
	struct stat here, there;
	if (fstat(place->lock_fd, &here) == 0 &&
		fstatat(place->folder_fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0)
		return here.st_ino == there.st_ino && here.st_dev == there.st_dev;
	if (errno == ENOENT)
		return 0;
	return output_folder_fault(place, name, "examined", errno, fault);
}

static int output_folder_lock(struct output_folder *place, struct fault *fault)
{
	char name[PLACE_NAME];
	int stands;
	output_folder_row_name(place, "lock", name);
	do {
		util_close_fd(&place->lock_fd);
		place->lock_fd = openat(
			place->folder_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
		if (place->lock_fd < 0)
			return output_folder_fault(place, name, "made", errno, fault);
		if (flock(place->lock_fd, LOCK_EX | LOCK_NB) < 0)
			return errno == EWOULDBLOCK
				       ? fault_set(fault, -EBUSY,
						 "another penstock pack is writing %s/%s; wait for "
						 "it or choose another output",
						 place->pattern->folder, place->pattern->name)
				       : output_folder_fault(place, name, "locked", errno, fault);
		stands = output_folder_lock_stands(place, name, fault);
	} while (stands == 0);
	return stands < 0 ? stands : 0;
}

int output_folder_open(
	struct output_folder *place, const struct pattern *pattern, struct fault *fault)
{
	*place = (struct output_folder){.pattern = pattern, .folder_fd = -1, .lock_fd = -1};
	(void)snprintf(place->manifest_path, sizeof place->manifest_path, "%s/%s.pack.json",
		pattern->folder, pattern->stem);
	place->folder_fd = open(pattern->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (place->folder_fd < 0)
		return fault_set(fault, -errno, "the output's folder %s cannot be opened: %s%s",
			pattern->folder, strerror(errno),
			errno == ENOENT ? "; make it first (mkdir -p)" : "");
	return output_folder_lock(place, fault);
}

void output_folder_close(struct output_folder *place)
{
	char name[PLACE_NAME];
	if (!place->pattern)
		return;
	if (place->lock_fd >= 0 && flock(place->lock_fd, LOCK_EX | LOCK_NB) == 0) {
		output_folder_row_name(place, "lock", name);
		(void)unlinkat(place->folder_fd, name, 0);
	}
	util_close_fd(&place->lock_fd);
	util_close_fd(&place->folder_fd);
	*place = (struct output_folder){0};
}

/* ---- the manifest ---- */

static int output_folder_read_all(int fd, char *text, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = pread(fd, text + done, size - done, (off_t)done);
		if (n == 0)
			return -EIO;
		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

int output_folder_manifest_read(
	const struct output_folder *place, char **ret_text, size_t *ret_size, struct fault *fault)
{
	char name[PLACE_NAME];
	struct stat status;
	output_folder_row_name(place, "json", name);
	cleanup(close_fd) int fd = openat(place->folder_fd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return -ENOENT;
	if (fd < 0 || fstat(fd, &status) < 0)
		return output_folder_fault(place, name, "read", errno, fault);
	if (!S_ISREG(status.st_mode) || status.st_size > PLACE_MANIFEST_MOST)
		return output_folder_fault(place, name, "read", EINVAL, fault);
	size_t size = (size_t)status.st_size;
	char *text = malloc(size + 1);
	int r = text ? output_folder_read_all(fd, text, size) : -ENOMEM;
	if (r < 0) {
		free(text);
		return output_folder_fault(place, name, "read", -r, fault);
	}
	text[size] = 0;
	*ret_text = text;
	*ret_size = size;
	return 0;
}

static int output_folder_write_all(int fd, const char *text, size_t size)
{
	while (size) {
		ssize_t n = write(fd, text, size);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			text += n;
			size -= (size_t)n;
		}
	}
	return fsync(fd) < 0 ? -errno : 0;
}

/* Makes a new, empty file in place of the rest of an earlier one. */
static int output_folder_create(const struct output_folder *place, const char *name)
{
	if (unlinkat(place->folder_fd, name, 0) < 0 && errno != ENOENT)
		return -errno;
	int fd = openat(
		place->folder_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
	return fd < 0 ? -errno : fd;
}

int output_folder_manifest_write(
	const struct output_folder *place, const char *text, struct fault *fault)
{
	char name[PLACE_NAME], part[PLACE_NAME + 8];
	output_folder_row_name(place, "json", name);
	(void)snprintf(part, sizeof part, "%s.part", name);
	cleanup(close_fd) int fd = output_folder_create(place, part);
	int r = fd < 0 ? fd : output_folder_write_all(fd, text, strlen(text));
	if (r == 0 && renameat(place->folder_fd, part, place->folder_fd, name) < 0)
		r = -errno;
	if (r == 0 && fsync(place->folder_fd) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(place->folder_fd, part, 0);
	return r < 0 ? output_folder_fault(place, name, "written", -r, fault) : 0;
}

/* ---- shards ---- */

int output_folder_shard_create(
	const struct output_folder *place, const char *name, struct fault *fault)
{
	char part[PLACE_NAME];
	output_folder_part_name(name, part);
	int fd = output_folder_create(place, part);
	return fd < 0 ? output_folder_fault(place, part, "made", -fd, fault) : fd;
}

static int output_folder_is_there(
	const struct output_folder *place, const char *name, uint64_t *ret_bytes)
{
	struct stat status;
	if (fstatat(place->folder_fd, name, &status, 0) < 0)
		return errno == ENOENT ? 0 : -errno;
	*ret_bytes = (uint64_t)status.st_size;
	return 1;
}

static int output_folder_occupied(
	const struct output_folder *place, const char *name, struct fault *fault)
{
	return fault_set(fault, -EEXIST,
		"%s/%s exists, but %s does not list it, so it does not belong to this pack: "
		"nothing "
		"is overwritten; choose another output or move it away",
		place->pattern->folder, name, place->manifest_path);
}

/* Some file systems lack RENAME_NOREPLACE; there, checking first has to suffice. */
static int output_folder_rename(const struct output_folder *place, const char *from, const char *to)
{
	uint64_t bytes;
	if (renameat2(place->folder_fd, from, place->folder_fd, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	if (output_folder_is_there(place, to, &bytes) != 0)
		return -EEXIST;
	return renameat(place->folder_fd, from, place->folder_fd, to) < 0 ? -errno : 0;
}

int output_folder_shard_commit(
	const struct output_folder *place, const char *name, struct fault *fault)
{
	char part[PLACE_NAME];
	output_folder_part_name(name, part);
	int r = output_folder_rename(place, part, name);
	if (r == -EEXIST)
		return output_folder_occupied(place, name, fault);
	if (r == 0 && fsync(place->folder_fd) < 0)
		r = -errno;
	return r < 0 ? output_folder_fault(place, name, "put into place", -r, fault) : 0;
}

void output_folder_shard_remove(const struct output_folder *place, const char *name)
{
	char part[PLACE_NAME];
	output_folder_part_name(name, part);
	(void)unlinkat(place->folder_fd, part, 0);
}

static int output_folder_settle_shard(const struct output_folder *place,
	const struct manifest_shard *shard, bool last, struct fault *fault)
{
	char part[PLACE_NAME];
	uint64_t bytes = 0, part_bytes = 0;
	if (!pattern_matches(place->pattern, shard->name))
		return fault_set(fault, -EINVAL,
			"%s lists %s, which is not a shard of %s; move it and its shards away and "
			"start again",
			place->manifest_path, shard->name, place->pattern->name);
	output_folder_part_name(shard->name, part);
	int there = output_folder_is_there(place, shard->name, &bytes);
	if (there < 0)
		return output_folder_fault(place, shard->name, "looked at", -there, fault);
	if (there && bytes == shard->bytes)
		return 0;
	if (!there && last && output_folder_is_there(place, part, &part_bytes) == 1 &&
		part_bytes == shard->bytes)
		return output_folder_shard_commit(place, shard->name, fault);
	return fault_set(fault, -ESTALE,
		"%s lists %s with %" PRIu64 " bytes, but it %s; put it back, or move the manifest "
		"and its shards away and begin again",
		place->manifest_path, shard->name, shard->bytes,
		there ? "has another size" : "is missing");
}

/* What the name of a file in the folder means to this pack. */
enum relic { RELIC_NONE, RELIC_SHARD, RELIC_PART };

static enum relic output_folder_relic(const struct output_folder *place, const char *name)
{
	static const char tail[] = ".part";
	char base[PATTERN_NAME];
	size_t size = strlen(name), ending = sizeof tail - 1;
	if (pattern_matches(place->pattern, name))
		return RELIC_SHARD;
	if (size <= ending || size - ending >= sizeof base ||
		strcmp(name + size - ending, tail) != 0)
		return RELIC_NONE;
	(void)snprintf(base, sizeof base, "%.*s", (int)(size - ending), name);
	return pattern_matches(place->pattern, base) ? RELIC_PART : RELIC_NONE;
}

static bool output_folder_lists(
	const struct output_folder *place, const struct manifest *manifest, const char *name)
{
	unsigned long long number = strtoull(name + strlen(place->pattern->prefix), NULL, 10);
	return number < manifest->shards && strcmp(manifest->shard[number].name, name) == 0;
}

/* Removes temporary files if a manifest shows that they belong to this pack. */
static int output_folder_judge(const struct output_folder *place, const struct manifest *manifest,
	bool begun, const char *name, struct fault *fault)
{
	enum relic relic = output_folder_relic(place, name);
	if (relic == RELIC_SHARD && !output_folder_lists(place, manifest, name))
		return output_folder_occupied(place, name, fault);
	if (relic == RELIC_PART && !begun)
		return output_folder_occupied(place, name, fault);
	if (relic == RELIC_PART && unlinkat(place->folder_fd, name, 0) < 0)
		return output_folder_fault(place, name, "removed", errno, fault);
	return 0;
}

int output_folder_settle(
	const struct output_folder *place, const struct manifest *manifest, struct fault *fault)
{
	char name[PLACE_NAME];
	uint64_t bytes;
	int r = 0;
	for (size_t i = 0; i < manifest->shards && r == 0; i++)
		r = output_folder_settle_shard(
			place, &manifest->shard[i], i + 1 == manifest->shards, fault);
	if (r < 0)
		return r;
	output_folder_row_name(place, "json", name);
	bool begun = output_folder_is_there(place, name, &bytes) == 1;
	int fd = openat(place->folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	if (!folder) {
		r = output_folder_fault(place, ".", "read", errno, fault);
		util_close_fd(&fd);
		return r;
	}
	const struct dirent *entry;
	while (r == 0 && (entry = readdir(folder)))
		r = output_folder_judge(place, manifest, begun, entry->d_name, fault);
	(void)closedir(folder);
	return r;
}

int output_folder_room(const struct output_folder *place, uint64_t *ret_bytes, struct fault *fault)
{
	struct statvfs status;
	if (fstatvfs(place->folder_fd, &status) < 0)
		return fault_set(fault, -errno, "cannot find out the free space in %s: %s",
			place->pattern->folder, strerror(errno));
	*ret_bytes = (uint64_t)status.f_bavail * status.f_frsize;
	return 0;
}

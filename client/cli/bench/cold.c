/* cold: see cold.h. */
#include "client/cli/bench/cold.h"

#include "base/fault.h"
#include "base/util.h"
#include "client/cli/cli.h"
#include "client/cli/progress.h"
#include "client/cli/table.h"
#include "dataset/dataset.h"
#include "dataset/sidecar.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
	/* Bytes mapped at once: a tar file may be larger than the free address space. */
	COLD_WINDOW = 256 << 20,
	COLD_PATH = 8192,
	COLD_TRIES = 4,
	COLD_TRY_US = 50000, /* a page that is being read cannot be dropped before it arrives */
};

/* One pass over all files. */
struct cold_pass {
	const struct dataset *dataset;
	struct progress progress;
	bool drop; /* drop, then count; otherwise only count */
	uint64_t files, bytes, cached;
	unsigned char *resident; /* a byte for each page of a window */
	size_t page;
	char where[COLD_PATH]; /* the current file */
};

static int cold_fail(const struct cold_pass *pass, int error, const char *what)
{
	return cli_fail(
		cli_exit_code(error), "--cold: %s %s: %s", what, pass->where, strerror(-error));
}

/* How many pages of a part of the file are in memory. */
static int cold_resident_window(
	struct cold_pass *pass, int fd, uint64_t offset, size_t bytes, uint64_t *ret_pages)
{
	size_t pages = (bytes + pass->page - 1) / pass->page;
	void *map = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, fd, (off_t)offset);
	if (map == MAP_FAILED)
		return -errno;
	int r = mincore(map, bytes, pass->resident) < 0 ? -errno : 0;
	(void)munmap(map, bytes);
	for (size_t i = 0; r == 0 && i < pages; i++)
		*ret_pages += pass->resident[i] & 1;
	return r;
}

static int cold_resident(struct cold_pass *pass, int fd, uint64_t size, uint64_t *ret_bytes)
{
	uint64_t pages = 0;
	for (uint64_t at = 0; at < size; at += COLD_WINDOW) {
		size_t bytes = (size_t)UTIL_MIN(size - at, (uint64_t)COLD_WINDOW);
		int r = cold_resident_window(pass, fd, at, bytes, &pages);
		if (r < 0)
			return r;
	}
	*ret_bytes = UTIL_MIN(pages * pass->page, size);
	return 0;
}

/* For other users' files that this user may only read, mincore() reports every page as resident. */
static bool cold_may_look(int fd, const struct stat *st)
{
	char path[64];
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return st->st_uid == geteuid() || geteuid() == 0 || access(path, W_OK) == 0;
}

/* The kernel does not drop dirty pages, so they are written first. fsync would also wait for the
 * disk's own cache, which is not needed. */
static void cold_let_go(int fd)
{
	if (sync_file_range(fd, 0, 0,
		    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
			    SYNC_FILE_RANGE_WAIT_AFTER) < 0)
		(void)fdatasync(fd);
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

static int cold_file(struct cold_pass *pass, int fd)
{
	struct stat st;
	uint64_t cached = 0;
	if (fstat(fd, &st) < 0)
		return cold_fail(pass, -errno, "cannot examine");
	if (!cold_may_look(fd, &st))
		return cli_fail(CLI_FAILED,
			"--cold: %s belongs to another user, so the kernel does not say how much "
			"of it is in the page cache, and the run might not be cold; run this as "
			"the files' owner",
			pass->where);
	uint64_t size = (uint64_t)st.st_size;
	if (pass->drop)
		cold_let_go(fd);
	int r = cold_resident(pass, fd, size, &cached);
	if (r < 0)
		return cold_fail(pass, r, "cannot examine the page cache of");
	pass->files++;
	pass->bytes += size;
	pass->cached += cached;
	return CLI_OK;
}

static int cold_path(struct cold_pass *pass)
{
	cleanup(close_fd) int fd = open(pass->where, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return fd < 0 ? cold_fail(pass, -errno, "cannot open") : cold_file(pass, fd);
}

/* Handles the images of a folder. */
static int cold_images(struct cold_pass *pass)
{
	struct fault fault = {0};
	uint64_t count = dataset_count(pass->dataset);
	for (uint64_t i = 0; i < count; i++) {
		int r = dataset_path(pass->dataset, i, pass->where, sizeof pass->where, &fault);
		if (r < 0)
			return cli_fail(cli_exit_code(r), "--cold: %s", fault.text);
		int code = cold_path(pass);
		if (code != CLI_OK)
			return code;
		progress_update(&pass->progress, i, NULL);
	}
	return CLI_OK;
}

/* Handles a tar file (a folder has none), its index, and its entry points, which may not exist. */
static int cold_shard(struct cold_pass *pass, uint32_t shard)
{
	struct fault fault = {0};
	int fd, code = CLI_OK;
	(void)snprintf(
		pass->where, sizeof pass->where, "%s", dataset_shard_path(pass->dataset, shard));
	if (dataset_kind(pass->dataset) == DATASET_TARS)
		code = cold_path(pass);
	if (code != CLI_OK)
		return code;
	int r = dataset_index_acquire(pass->dataset, shard, &fd, &fault);
	if (r < 0)
		return cli_fail(cli_exit_code(r), "--cold: %s", fault.text);
	code = cold_file(pass, fd);
	dataset_index_release(pass->dataset, shard);
	fd = code == CLI_OK ? sidecar_peek(pass->dataset, shard) : -ENOENT;
	if (fd < 0)
		return code;
	code = cold_file(pass, fd);
	(void)close(fd);
	return code;
}

static int cold_all(struct cold_pass *pass)
{
	if (dataset_remote(pass->dataset))
		return cli_fail(CLI_USAGE,
			"--cold drops files from this machine's page cache, and %s is remote",
			dataset_shard_path(pass->dataset, 0));
	uint32_t shards = dataset_shards(pass->dataset);
	bool folder = dataset_kind(pass->dataset) == DATASET_FOLDER;
	pass->files = pass->bytes = pass->cached = 0;
	progress_begin(&pass->progress, pass->drop ? "dropping" : "looking", PROGRESS_ITEMS,
		folder ? dataset_count(pass->dataset) : shards, false);
	int code = folder ? cold_images(pass) : CLI_OK;
	for (uint32_t i = 0; code == CLI_OK && i < shards; i++) {
		code = cold_shard(pass, i);
		if (!folder)
			progress_update(&pass->progress, i, NULL);
	}
	progress_end(&pass->progress);
	return code;
}

static int cold_refuse(const struct dataset *dataset, const char *source, const struct cold *cold)
{
	struct statfs fs = {0};
	struct table_words left = table_bytes(cold->cached_after), all = table_bytes(cold->bytes);
	(void)statfs(dataset_shard_path(dataset, 0), &fs);
	bool memory = fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC;
	if (memory)
		return cli_fail(CLI_USAGE,
			"--cold: the file system of %s is memory (tmpfs): %s of %s stay there, so "
			"no run can be cold; copy the dataset to a disk",
			source, left.text, all.text);
	return cli_fail(CLI_FAILED,
		"--cold: %s of %s of %s stay in the page cache, so the run would not be cold: "
		"another process maps, locks or reads the files, or their file system does not "
		"drop them; as root, try `echo 1 > /proc/sys/vm/drop_caches`",
		left.text, all.text, source);
}

static int cold_passes(struct cold_pass *pass, struct cold *ret)
{
	int code = cold_all(pass);
	ret->cached_before = pass->cached;
	pass->drop = true;
	for (int i = 0; code == CLI_OK && i < COLD_TRIES; i++) {
		if (i > 0)
			(void)usleep(COLD_TRY_US);
		code = cold_all(pass);
		if (pass->cached == 0)
			break;
	}
	ret->files = pass->files;
	ret->bytes = pass->bytes;
	ret->cached_after = pass->cached;
	return code;
}

int cold_drop(const struct dataset *dataset, const char *source, struct cold *ret)
{
	struct cold_pass pass = {.dataset = dataset, .page = (size_t)sysconf(_SC_PAGESIZE)};
	cleanup(free_ptr) unsigned char *resident = malloc(COLD_WINDOW / pass.page);
	struct cold cold = {0};
	if (!resident)
		return cli_fail(CLI_FAILED, "--cold: not enough memory to examine the page cache");
	pass.resident = resident;
	int code = cold_passes(&pass, &cold);
	if (code != CLI_OK)
		return code;
	if (cold.cached_after > cold.bytes / COLD_REST_PART)
		return cold_refuse(dataset, source, &cold);
	*ret = cold;
	return CLI_OK;
}

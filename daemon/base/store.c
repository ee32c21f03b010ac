/* store: see store.h. */
#include "base/store.h"

#include "base/hash.h"
#include "base/util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

enum {
	STORE_RANDOM = 6, /* characters that mkostemp chooses */
	STORE_TRIES = 8,
};

int store_unlinked(const char *folder)
{
	const char *where = folder ? folder : getenv("TMPDIR");
	if (!where || !*where)
		where = "/tmp";
	int fd = open(where, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	/* Not every file system has O_TMPFILE. */
	cleanup(free_ptr) char *name = NULL;
	if (asprintf(&name, "%s/.penstock-XXXXXX", where) < 0) {
		name = NULL;
		return -ENOMEM;
	}
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	(void)unlink(name);
	return fd;
}

static char *parent_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	if (!slash)
		return strdup(".");
	return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

static int parts_open(struct store_file *file, const char *folder)
{
	file->names_fd = store_unlinked(folder);
	if (file->names_fd < 0)
		return file->names_fd;
	file->tables_fd = store_unlinked(folder);
	return file->tables_fd < 0 ? file->tables_fd : 0;
}

/* Makes a locked file, which store_tidy leaves alone. -EAGAIN where store_tidy of another process
 * removed it before it was locked. Where files cannot be locked, store_tidy removes none. */
static int temporary_locked(char *name)
{
	struct stat st;
	int fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	bool taken = flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
	if (!taken && (fstat(fd, &st) < 0 || st.st_nlink > 0))
		return fd;
	(void)unlink(name);
	(void)close(fd);
	return -EAGAIN;
}

int store_temporary(const char *path, mode_t mode, char **ret_name)
{
	*ret_name = NULL;
	cleanup(free_ptr) char *name = NULL;
	int fd = -EAGAIN;
	for (int i = 0; i < STORE_TRIES && fd == -EAGAIN; i++) {
		free(name);
		if (asprintf(&name, "%s.tmp-XXXXXX", path) < 0) {
			name = NULL;
			return -ENOMEM;
		}
		fd = temporary_locked(name);
	}
	if (fd < 0)
		return fd;
	/* The users who can read the shard can read its index. */
	if (fchmod(fd, mode & 0666) < 0) {
		int rc = -errno;
		(void)unlink(name);
		(void)close(fd);
		return rc;
	}
	*ret_name = name;
	name = NULL;
	return fd;
}

static bool is_temporary(const char *name)
{
	static const char *const marks[] = {".idx.tmp-", ".ckp.tmp-", ".dim.tmp-"};
	size_t size = strlen(name);
	for (size_t i = 0; i < UTIL_COUNT(marks); i++) {
		size_t tail = strlen(marks[i]) + STORE_RANDOM;
		if (size > tail && strncmp(name + size - tail, marks[i], strlen(marks[i])) == 0)
			return true;
	}
	return false;
}

static void temporary_remove(int folder, const char *name)
{
	struct stat st;
	cleanup(close_fd) int fd =
		openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
		flock(fd, LOCK_EX | LOCK_NB) < 0)
		return;
	(void)unlinkat(folder, name, 0);
}

void store_tidy(const char *path)
{
	cleanup(free_ptr) char *folder = parent_of(path);
	DIR *dir = folder ? opendir(folder) : NULL;
	if (!dir)
		return;
	for (const struct dirent *entry; (entry = readdir(dir));)
		if (is_temporary(entry->d_name))
			temporary_remove(dirfd(dir), entry->d_name);
	(void)closedir(dir);
}

static int temporary_open(struct store_file *file, const char *path, mode_t mode)
{
	file->path = strdup(path);
	if (!file->path)
		return -ENOMEM;
	file->fd = store_temporary(path, mode, &file->temporary);
	return file->fd < 0 ? file->fd : 0;
}

int store_begin(struct store_file *file, const char *path, mode_t mode)
{
	*file = (struct store_file){.fd = -1, .names_fd = -1, .tables_fd = -1, .folder_fd = -1};
	cleanup(free_ptr) char *folder = parent_of(path);
	if (!folder)
		return -ENOMEM;
	int rc = 0;
	file->folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (file->folder_fd < 0)
		rc = -errno;
	if (rc == 0)
		rc = temporary_open(file, path, mode);
	if (rc == 0)
		rc = parts_open(file, folder);
	if (rc < 0)
		store_end(file);
	return rc;
}

int store_begin_unlinked(struct store_file *file, int fd, uint64_t base)
{
	*file = (struct store_file){
		.fd = fd, .base = base, .names_fd = -1, .tables_fd = -1, .folder_fd = -1};
	int rc = parts_open(file, NULL);
	if (rc < 0)
		store_end(file);
	return rc;
}

static struct {
	pthread_rwlock_t lock;
	const struct store_bound *bound;
} store_bounded = {.lock = PTHREAD_RWLOCK_INITIALIZER};

void store_bound_set(const struct store_bound *bound)
{
	(void)pthread_rwlock_wrlock(&store_bounded.lock);
	store_bounded.bound = bound;
	(void)pthread_rwlock_unlock(&store_bounded.lock);
}

/* Without slashes at the end. */
static size_t folder_bytes(const char *folder, size_t size)
{
	while (size > 1 && folder[size - 1] == '/')
		size--;
	return size;
}

/* The bound on a folder, with the lock, which bound_leave gives back; NULL: none. */
static const struct store_bound *bound_enter(const char *folder, size_t size)
{
	(void)pthread_rwlock_rdlock(&store_bounded.lock);
	const struct store_bound *bound = store_bounded.bound;
	size = folder_bytes(folder, size);
	if (bound && folder_bytes(bound->folder, strlen(bound->folder)) == size &&
		strncmp(bound->folder, folder, size) == 0)
		return bound;
	(void)pthread_rwlock_unlock(&store_bounded.lock);
	return NULL;
}

static void bound_leave(void)
{
	(void)pthread_rwlock_unlock(&store_bounded.lock);
}

static size_t parent_bytes(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? (size_t)(slash - path) : 0;
}

uint64_t store_bound_size(const char *folder)
{
	const struct store_bound *bound = bound_enter(folder, strlen(folder));
	const uint64_t size = bound ? bound->size : 0;
	if (bound)
		bound_leave();
	return size;
}

int store_bound_take(const char *path, uint64_t bytes)
{
	const struct store_bound *bound = bound_enter(path, parent_bytes(path));
	const int rc = bound ? bound->take(bound->context, bytes) : 0;
	if (bound)
		bound_leave();
	return rc;
}

void store_bound_settle(const char *path, uint64_t taken, uint64_t stored)
{
	const struct store_bound *bound = bound_enter(path, parent_bytes(path));
	if (!bound)
		return;
	bound->settle(bound->context, taken, stored);
	bound_leave();
}

uint64_t store_bytes(int fd)
{
	struct stat status;
	return fstat(fd, &status) == 0 ? (uint64_t)status.st_blocks * 512 : 0;
}

const char *store_error(int code)
{
	return code == STORE_E_BOUND ? "cache_size has no room for it"
				     : strerror(code < 0 ? -code : code);
}

int store_commit(struct store_file *file)
{
	if (!file->temporary)
		return 0;
	if (fsync(file->fd) < 0)
		return -errno;
	const uint64_t bytes = store_bytes(file->fd);
	int rc = store_bound_take(file->path, bytes);
	if (rc == 0) {
		rc = rename(file->temporary, file->path) < 0 ? -errno : 0;
		store_bound_settle(file->path, bytes, rc == 0 ? bytes : 0);
	}
	if (rc < 0)
		return rc;
	free(file->temporary);
	file->temporary = NULL;
	(void)close(file->fd);
	file->fd = -1;
	/* If the machine fails and the rename is lost, the index is built once more. So an error
	 * does not matter here. */
	(void)fsync(file->folder_fd);
	return 0;
}

void store_end(struct store_file *file)
{
	if (file->temporary) {
		(void)unlink(file->temporary);
		free(file->temporary);
		(void)close(file->fd);
	}
	free(file->path);
	util_close_fd(&file->names_fd);
	util_close_fd(&file->tables_fd);
	util_close_fd(&file->folder_fd);
	*file = (struct store_file){.fd = -1, .names_fd = -1, .tables_fd = -1, .folder_fd = -1};
}

/* A folder of this user only, in a place where every user may make folders: the daemon would trust
 * an index that another user planted there. */
static int store_temporary_folder(char *buffer, size_t room)
{
	const char *temporary = getenv("TMPDIR");
	struct stat status;
	int n = snprintf(buffer, room, "%s/penstock-%ld",
		temporary && temporary[0] == '/' ? temporary : "/tmp", (long)getuid());
	if (n < 0 || (size_t)n + sizeof "/cache" > room)
		return -ENAMETOOLONG;
	if ((mkdir(buffer, 0700) && errno != EEXIST) || lstat(buffer, &status))
		return -errno;
	if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 077))
		return -EPERM;
	(void)strcpy(buffer + n, "/cache");
	return 0;
}

int store_cache_folder(const char *given, char *buffer, size_t room)
{
	/* The XDG base directory specification says to ignore relative paths; a relative HOME would
	 * scatter indexes too. */
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int n;
	if (given && *given)
		n = snprintf(buffer, room, "%s", given);
	else if (cache && cache[0] == '/')
		n = snprintf(buffer, room, "%s/penstock", cache);
	/* `/` is what containers give to a user without an account, who may not write there. */
	else if (home && !strcmp(home, "/") && geteuid() &&
		 store_temporary_folder(buffer, room) == 0)
		return 0;
	else if (home && home[0] == '/')
		n = snprintf(buffer, room, "%s/.cache/penstock", home[1] ? home : "");
	else
		return store_temporary_folder(buffer, room);
	return n < 0 || (size_t)n >= room ? -ENAMETOOLONG : 0;
}

int store_folder_make(const char *folder)
{
	cleanup(free_ptr) char *path = strdup(folder);
	if (!path)
		return -ENOMEM;
	int first = 0; /* what went wrong with a parent */
	for (char *at = path + 1; *at; at++) {
		if (*at != '/')
			continue;
		*at = 0;
		if (mkdir(path, 0700) < 0 && errno != EEXIST && !first)
			first = -errno;
		*at = '/';
	}
	if (mkdir(path, 0700) == 0 || errno == EEXIST)
		return 0;
	/* A folder that is missing is missing because its parent could not be made. */
	return errno == ENOENT && first ? first : -errno;
}

char *store_cache_path(const char *folder, const char *shard, const char *suffix)
{
	size_t size = strlen(shard);
	uint64_t high = hash_mix(hash_bytes(HASH_SEED, shard, size));
	uint64_t low = hash_mix(hash_bytes(~HASH_SEED, shard, size));
	char *path;
	if (asprintf(&path, "%s/%016llx%016llx%s", folder, (unsigned long long)high,
		    (unsigned long long)low, suffix) < 0)
		return NULL;
	return path;
}

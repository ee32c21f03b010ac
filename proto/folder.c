/* folder: see folder.h.
 *
 * Removing a folder in which other processes lock files is safe for this reason: the process that
 * removes it holds spawn.lock, and a process that has taken a spawn.lock checks that the name still
 * leads to the locked file. If the folder was removed in the meantime, that process starts
 * again. */
#include "proto/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define FOLDER_PREFIX "job-"
#define FOLDER_SOCKET "/penstock.sock"

enum { FOLDER_HEX = 16, FOLDER_PATH = sizeof((struct sockaddr_un *)NULL)->sun_path + 32 };

/* How many bytes of a socket's path are its folder. */
static int folder_bytes(const char *socket)
{
	const char *slash = strrchr(socket, '/');
	return slash ? (int)(slash - socket) : 0;
}

/* "job-" and 16 hexadecimal digits, `bytes` in all. */
static bool folder_is_name(const char *name, size_t bytes)
{
	size_t prefix = strlen(FOLDER_PREFIX);
	return bytes == prefix + FOLDER_HEX && strncmp(name, FOLDER_PREFIX, prefix) == 0 &&
	       strspn(name + prefix, "0123456789abcdef") >= FOLDER_HEX;
}

static bool folder_is_job(const char *socket)
{
	size_t end = (size_t)folder_bytes(socket), begin = end;
	while (begin && socket[begin - 1] != '/')
		begin--;
	return begin && strcmp(socket + end, FOLDER_SOCKET) == 0 &&
	       folder_is_name(socket + begin, end - begin);
}

int folder_job_socket(const char *common, uint64_t hash, char *buffer, size_t room)
{
	int n = snprintf(buffer, room, "%.*s/" FOLDER_PREFIX "%016" PRIx64 FOLDER_SOCKET,
		folder_bytes(common), common, hash);
	return n < 0 || (size_t)n >= room ? -ENAMETOOLONG : 0;
}

/* ---- locks ---- */

static void folder_lock_path(const char *socket, char path[FOLDER_PATH])
{
	(void)snprintf(path, FOLDER_PATH, "%.*s/spawn.lock", folder_bytes(socket), socket);
}

/* Whether the name still leads to the open file. */
static bool folder_is_there(int fd, const char *path)
{
	struct stat opened, named;
	return fstat(fd, &opened) == 0 && stat(path, &named) == 0 &&
	       opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

int folder_lock(const char *socket, int *ret_fd)
{
	char path[FOLDER_PATH];
	folder_lock_path(socket, path);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	int result = flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
	if (result == 0 && folder_is_there(fd, path)) {
		*ret_fd = fd;
		return 0;
	}
	(void)close(fd);
	return result == 0 ? -ENOENT : result;
}

void folder_unlock(int fd)
{
	/* Not only by close: a process that another thread has just forked has a copy of the
	 * descriptor. */
	(void)flock(fd, LOCK_UN);
	(void)close(fd);
}

bool folder_is_taken(const char *socket)
{
	char path[FOLDER_PATH];
	(void)snprintf(path, sizeof path, "%s.lock", socket);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return false;
	bool taken = flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
	folder_unlock(fd);
	return taken;
}

/* ---- folders ---- */

int folder_visit_jobs(const char *common, int (*visit)(const char *socket, void *data), void *data)
{
	char path[FOLDER_PATH];
	int result = 0;
	(void)snprintf(path, sizeof path, "%.*s/", folder_bytes(common), common);
	DIR *folder = opendir(path);
	const struct dirent *entry;
	while (folder && result == 0 && (entry = readdir(folder))) {
		if (!folder_is_name(entry->d_name, strlen(entry->d_name)))
			continue;
		int n = snprintf(path, sizeof path, "%.*s/%s" FOLDER_SOCKET, folder_bytes(common),
			common, entry->d_name);
		if (n > 0 && (size_t)n < sizeof((struct sockaddr_un *)NULL)->sun_path)
			result = visit(path, data);
	}
	if (folder)
		(void)closedir(folder);
	return result;
}

/* Removes spawn.lock last before the folder: without it, other processes may make a new one. */
static int folder_empty(const char *socket)
{
	static const char *const names[] = {
		"penstock.sock", "penstock.sock.lock", "http.sock", "penstockd.log", "spawn.lock"};
	char path[FOLDER_PATH];
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		(void)snprintf(
			path, sizeof path, "%.*s/%s", folder_bytes(socket), socket, names[i]);
		(void)unlink(path);
	}
	(void)snprintf(path, sizeof path, "%.*s", folder_bytes(socket), socket);
	return rmdir(path) < 0 ? -errno : 0;
}

int folder_remove_job(const char *socket)
{
	int lock;
	if (!folder_is_job(socket))
		return -EINVAL;
	int result = folder_lock(socket, &lock);
	if (result < 0)
		return result == -EWOULDBLOCK ? -EBUSY : result;
	result = folder_is_taken(socket) ? -EBUSY : folder_empty(socket);
	folder_unlock(lock);
	return result;
}

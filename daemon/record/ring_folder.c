/* ring_folder: see ring_folder.h. */
#include "record/ring_folder.h"

#include "base/util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

enum { RING_FOLDER_FILES = 4096, RING_FOLDER_NAME = 64 };

int ring_folder_resolve(const char *given, char *buffer, size_t room, struct fault *fault)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	int n;
	if (given && given[0] != '/')
		return fault_set(fault, -EINVAL,
			"recorder: expected auto, off or the absolute path of a folder, got \"%s\"",
			given);
	if (given)
		n = snprintf(buffer, room, "%s", given);
	else if (state && state[0] == '/')
		n = snprintf(buffer, room, "%s/penstock", state);
	else if (home && home[0] == '/')
		n = snprintf(buffer, room, "%s/.local/state/penstock", home[1] ? home : "");
	else
		return fault_set(fault, -ENOENT,
			"the flight recorder has no folder: set recorder to one, or set "
			"XDG_STATE_HOME or HOME");
	if (n < 0 || (size_t)n + RING_FOLDER_NAME > room)
		return fault_set(fault, -ENAMETOOLONG,
			"the path of the flight recorder's folder is too long: set recorder to a "
			"shorter one");
	return 0;
}

/* Makes each folder of the path in turn; one that exists is good, whichever user owns it. */
static int ring_folder_make_path(const char *folder)
{
	char path[PATH_MAX];
	if (strlen(folder) >= sizeof path)
		return -ENAMETOOLONG;
	(void)snprintf(path, sizeof path, "%s", folder);
	for (char *slash = path; slash;) {
		slash = strchr(slash + 1, '/');
		if (slash)
			*slash = 0;
		if (mkdir(path, 0700) && errno != EEXIST)
			return -errno;
		if (slash)
			*slash = '/';
	}
	return 0;
}

int ring_folder_make(const char *folder, struct fault *fault)
{
	struct stat status;
	int result = ring_folder_make_path(folder);
	if (!result && lstat(folder, &status))
		result = -errno;
	if (result)
		return fault_set(fault, result,
			"cannot create the flight recorder's folder %s: %s; set recorder to "
			"another, or to off",
			folder, strerror(-result));
	if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || status.st_mode & 022)
		return fault_set(fault, -EPERM,
			"the flight recorder cannot use %s: it must be a folder, not a link, that "
			"belongs to you and that no other user may write; set recorder to "
			"another, or to off",
			folder);
	return 0;
}

void ring_folder_name(pid_t pid, char *buffer, size_t room)
{
	struct tm parts;
	char stamp[32];
	time_t now = time(NULL);
	(void)gmtime_r(&now, &parts);
	(void)strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &parts);
	(void)snprintf(
		buffer, room, RING_FOLDER_PREFIX "%s-%d" RING_FOLDER_SUFFIX, stamp, (int)pid);
}

/* ---- tidying ---- */

static bool ring_folder_is_ours(const char *name)
{
	size_t size = strlen(name), end = sizeof RING_FOLDER_SUFFIX - 1;
	return size < RING_FOLDER_NAME && size > end &&
	       strncmp(name, RING_FOLDER_PREFIX, sizeof RING_FOLDER_PREFIX - 1) == 0 &&
	       strcmp(name + size - end, RING_FOLDER_SUFFIX) == 0;
}

static int ring_folder_order(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Lists the files, oldest first: the names begin with the time of the start. */
static size_t ring_folder_list(DIR *dir, char (*name)[RING_FOLDER_NAME])
{
	size_t count = 0;
	for (const struct dirent *entry; count < RING_FOLDER_FILES && (entry = readdir(dir));)
		if (ring_folder_is_ours(entry->d_name))
			memcpy(name[count++], entry->d_name, strlen(entry->d_name) + 1);
	qsort(name, count, sizeof *name, ring_folder_order);
	return count;
}

/* False: the file stays, because a recorder writes it or it is not a regular file. */
static bool ring_folder_remove(int dir, const char *name)
{
	struct stat status;
	cleanup(close_fd) int fd =
		openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) || !S_ISREG(status.st_mode) ||
		flock(fd, LOCK_EX | LOCK_NB))
		return false;
	return unlinkat(dir, name, 0) == 0;
}

void ring_folder_tidy(const char *folder, unsigned keep)
{
	DIR *dir = opendir(folder);
	char(*name)[RING_FOLDER_NAME] = dir ? calloc(RING_FOLDER_FILES, sizeof *name) : NULL;
	size_t count = name ? ring_folder_list(dir, name) : 0, left = count;
	for (size_t i = 0; i < count && left > keep; i++)
		left -= ring_folder_remove(dirfd(dir), name[i]);
	free(name);
	if (dir)
		(void)closedir(dir);
}

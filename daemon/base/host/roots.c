/* roots: see roots.h. */
#include "base/host/roots.h"

#include "base/host/limits.h"
#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char roots_of[ROOTS_MAX][ROOTS_PATH];
static unsigned roots_used;
static bool roots_bound;
static char roots_cache[PATH_MAX]; /* "": none */

void roots_clear(void)
{
	roots_used = 0;
	roots_bound = false;
	roots_cache[0] = 0;
}

void roots_bind(void)
{
	roots_bound = true;
}

bool roots_apply(void)
{
	return roots_used || roots_bound;
}

unsigned roots_count(void)
{
	return roots_used;
}

const char *roots_path(unsigned i)
{
	return roots_of[i];
}

int roots_add(const char *path, struct fault *fault)
{
	char real[PATH_MAX];
	struct stat status;
	if (path[0] != '/')
		return fault_set(fault, -EINVAL,
			"roots: expected the absolute path of a folder, got \"%s\"", path);
	if (roots_used == ROOTS_MAX)
		return fault_set(fault, -E2BIG, "roots: at most %d folders", ROOTS_MAX);
	if (!realpath(path, real) || stat(real, &status))
		return fault_set(fault, -errno, "roots: %s: %s; create it, or remove it from roots",
			path, strerror(errno));
	if (!S_ISDIR(status.st_mode))
		return fault_set(fault, -EINVAL, "roots: %s is not a folder", path);
	if (strlen(real) >= ROOTS_PATH)
		return fault_set(fault, -EINVAL, "roots: %s: paths have at most %d bytes", path,
			ROOTS_PATH - 1);
	memcpy(roots_of[roots_used++], real, strlen(real) + 1);
	return 0;
}

/* Whether `path` is `folder` or below it; both without symbolic links. */
static bool roots_is_beneath(const char *path, const char *folder)
{
	size_t size = strlen(folder);
	return strncmp(path, folder, size) == 0 && (size == 1 || !path[size] || path[size] == '/');
}

static bool roots_hold(const char *real)
{
	for (unsigned i = 0; i < roots_used; i++)
		if (roots_is_beneath(real, roots_of[i]))
			return true;
	return false;
}

const char *roots_within(const char *real)
{
	for (unsigned i = 0; i < roots_used; i++)
		if (roots_is_beneath(roots_of[i], real))
			return roots_of[i];
	return NULL;
}

/* `real` is what the path resolves to or, where it does not exist (not `whole`), the longest part
 * of it that does; NULL where that is not known either. */
static int roots_refuse(
	const char *what, const char *path, const char *real, bool whole, struct fault *fault)
{
	char list[FAULT_TEXT / 3] = "", leads[FAULT_TEXT / 3] = "";
	size_t used = 0;
	for (unsigned i = 0; i < roots_used && used < sizeof list; i++)
		used += (size_t)snprintf(
			list + used, sizeof list - used, "%s%s", i ? ", " : "", roots_of[i]);
	if (real && !whole)
		(void)snprintf(leads, sizeof leads, " does not exist (only %s does), and", real);
	else if (real && strcmp(real, path) != 0)
		(void)snprintf(leads, sizeof leads, " leads to %s, which", real);
	return fault_set(fault, -EACCES,
		"%s: %s%s is outside the folders that this penstockd may read (roots: %s): name a "
		"path below them, or have the folder added to roots: and penstockd restarted",
		what, path, leads, roots_used ? list : "URLs only");
}

/* Resolves the path, or the longest part of it that exists; `ret_whole` says which. */
static bool roots_resolve(const char *path, char real[PATH_MAX], bool *ret_whole)
{
	char part[PATH_MAX];
	size_t size = strlen(path);
	if (size >= sizeof part)
		return false;
	memcpy(part, path, size + 1);
	*ret_whole = true;
	while (!realpath(part, real)) {
		char *slash = strrchr(part, '/');
		*ret_whole = false;
		if ((errno != ENOENT && errno != ENOTDIR) || !slash || slash == part)
			return (errno == ENOENT || errno == ENOTDIR) &&
			       realpath(slash ? "/" : ".", real);
		*slash = 0;
	}
	return true;
}

int roots_check(const char *what, const char *path, struct fault *fault)
{
	char real[PATH_MAX];
	bool whole;
	if (!roots_apply())
		return 0;
	if (!roots_resolve(path, real, &whole))
		return roots_refuse(what, path, NULL, false, fault);
	return roots_hold(real) ? 0 : roots_refuse(what, path, real, whole, fault);
}

void roots_set_cache(const char *cache_dir)
{
	if (!realpath(cache_dir, roots_cache))
		roots_cache[0] = 0;
}

/* client/python/penstock/kept.py writes lists into these two folders of the cache folder. */
static bool roots_keep_list(const char *real)
{
	size_t size = strlen(roots_cache);
	return size && strncmp(real, roots_cache, size) == 0 &&
	       (strncmp(real + size, "/indices/", 9) == 0 ||
		       strncmp(real + size, "/weights/", 9) == 0);
}

int roots_check_list(const char *what, const char *path, struct fault *fault)
{
	char real[PATH_MAX];
	bool whole;
	if (roots_apply() && roots_resolve(path, real, &whole) && roots_keep_list(real))
		return 0;
	return roots_check(what, path, fault);
}

int roots_check_at(
	const char *what, int folder, const char *name, const char *shown, struct fault *fault)
{
	char link[64], real[PATH_MAX];
	if (!roots_apply())
		return 0;
	cleanup(close_fd) int fd = openat(folder, name, O_PATH | O_CLOEXEC);
	/* A dangling link, or one that this user may not follow: the sample is missing. */
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EACCES))
		return 0;
	if (fd < 0)
		return fault_set(fault, -errno,
			"%s: cannot find out whether %s is below roots: %s%s", what, shown,
			strerror(errno), limits_hint(errno));
	(void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t size = readlink(link, real, sizeof real - 1);
	if (size < 0)
		return roots_refuse(what, shown, NULL, false, fault);
	real[size] = 0;
	return roots_hold(real) ? 0 : roots_refuse(what, shown, real, true, fault);
}

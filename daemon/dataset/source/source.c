/* source: see source.h. Braces are expanded first, in memory; then each path that has a star is
 * globbed, and each result is examined. */
#include "dataset/source/source.h"

#include "base/host/roots.h"
#include "base/util.h"
#include "dataset/blob.h"
#include "dataset/container/container.h"
#include "dataset/source/braces.h"
#include "dataset/source/own.h"
#include "dataset/source/source_remote.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

/* Writes the nearest parent of `path` that exists and returns true. If no part of a relative path
 * exists, writes the current folder and returns false. */
static bool nearest_parent(const char *path, char *buffer, size_t room)
{
	(void)snprintf(buffer, room, "%s", path);
	struct stat st;
	while (stat(buffer, &st) < 0) {
		char *slash = strrchr(buffer, '/');
		if (!slash || !strcmp(buffer, "/") || (slash == buffer + 1 && buffer[0] == '.')) {
			cleanup(free_ptr) char *here = getcwd(NULL, 0);
			(void)snprintf(buffer, room, "%s", here ? here : ".");
			return false;
		}
		slash[slash == buffer] = 0; /* the root keeps its slash */
	}
	return true;
}

/* Whether the path looks as datasets of the Hugging Face Hub are named: "org/name". */
static bool is_hub_name(const char *path)
{
	const char *slash = strchr(path, '/');
	return slash && slash != path && slash[1] && !strchr(slash + 1, '/') && path[0] != '.' &&
	       !strpbrk(path, "*?[{");
}

/* A hint for names that are not paths; "" for others. */
static const char *missing_hint(const char *path)
{
	if (path[0] == '~')
		return " (quotes keep the shell from expanding ~)";
	if (!strncmp(path, "stream:", strlen("stream:")))
		return " (a stream that penstockd knows by name cannot be used here)";
	if (strstr(path, "://"))
		return " (a URL begins with its scheme, and URLs and local paths are sources of "
		       "their own)";
	if (strstr(path, ".zip@/"))
		return " (name the ZIP without what follows the @)";
	if (is_hub_name(path))
		return " (if it is a dataset of the Hugging Face Hub, get it first: `hf download "
		       "ORG/NAME --repo-type dataset --local-dir FOLDER`)";
	return "";
}

static int fault_missing(const char *path, int code, struct fault *fault)
{
	char parent[SOURCE_TEXT_MAX + 1];
	bool part = nearest_parent(path, parent, sizeof parent);
	if (code != -ENOENT && code != -ENOTDIR)
		return fault_set(fault, code,
			"%s cannot be examined: %s (its path can be followed up to %s)", path,
			strerror(-code), parent);
	if (!part)
		return fault_set(fault, -ENOENT,
			"%s does not exist in %s%s: expected a folder, a file or a pattern of "
			"files",
			path, parent, missing_hint(path));
	return fault_set(fault, -ENOENT,
		"%s does not exist (its path exists only up to %s): expected a folder, a file or a "
		"pattern of files",
		path, parent);
}

/* Whether the absolute path has a part "", "." or "..". */
static bool path_has_dots(const char *path)
{
	for (const char *at = strchr(path, '/'); at; at = strchr(at, '/')) {
		size_t size = strcspn(++at, "/");
		if (size == 0 || !strncmp(at, ".", size) || !strncmp(at, "..", size))
			return true;
	}
	return false;
}

/* Takes over an absolute path and removes such parts by asking the file system, because ".." after
 * a link does not lead back. Links are resolved only then, and even then a last part with a name of
 * its own is kept: the user knows the dataset by that name. A path that cannot be resolved stays as
 * it is. */
static char *path_without_dots(char *whole)
{
	if (!whole || !whole[1] || !path_has_dots(whole))
		return whole;
	char *last = strrchr(whole, '/'), *plain = NULL;
	cleanup(free_ptr) char *folder = NULL;
	if (!strcmp(last, "/.") || !strcmp(last, "/..")) {
		plain = realpath(whole, NULL);
	} else {
		*last = 0;
		folder = realpath(last == whole ? "/" : whole, NULL);
		*last = '/';
		if (folder && asprintf(&plain, "%s%s", strcmp(folder, "/") ? folder : "", last) < 0)
			plain = NULL;
	}
	if (!plain)
		return whole;
	free(whole);
	return plain;
}

/* Makes `path`, which exists, absolute, without a leading "./", ".." within it and trailing
 * slashes. */
static char *path_absolute(const char *path)
{
	while (path[0] == '.' && path[1] == '/')
		path += 2 + strspn(path + 2, "/");
	char *whole = NULL;
	if (path[0] == '/') {
		whole = strdup(path);
	} else {
		cleanup(free_ptr) char *here = getcwd(NULL, 0);
		const char *slash = here && !strcmp(here, "/") ? "" : "/";
		bool dot = !strcmp(path, ".") || !*path;
		if (here && asprintf(&whole, "%s%s%s", here, dot ? "" : slash, dot ? "" : path) < 0)
			whole = NULL;
	}
	for (size_t n = whole ? strlen(whole) : 0; n > 1 && whole[n - 1] == '/'; n--)
		whole[n - 1] = 0;
	return path_without_dots(whole);
}

/* Collects the paths of one expansion and their kinds. */
struct looked {
	struct source_paths *paths;
	size_t folders, files;
	/* borrowed from `paths`, which does not move its strings */
	char *first_folder, *first_file;
};

static int look_add(struct looked *looked, const char *path, struct fault *fault)
{
	struct stat st;
	int allowed = roots_check("source", path, fault);
	if (allowed < 0)
		return allowed;
	if (stat(path, &st) < 0)
		return fault_missing(path, -errno, fault);
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return fault_set(fault, -EINVAL, "%s is neither a folder nor a regular file", path);
	char *whole = path_absolute(path);
	int rc = source_paths_add(looked->paths, whole, fault);
	if (rc < 0)
		return rc;
	if (S_ISDIR(st.st_mode) && looked->folders++ == 0)
		looked->first_folder = whole;
	if (S_ISREG(st.st_mode) && looked->files++ == 0)
		looked->first_file = whole;
	return 0;
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int glob_fault(const char *pattern, int code, struct fault *fault)
{
	if (code == GLOB_NOSPACE)
		return fault_set(fault, -ENOMEM, "no memory for the matches of %s", pattern);
	if (code == GLOB_ABORTED && errno != ENOENT)
		return fault_set(
			fault, -EIO, "a folder of %s cannot be read: %s", pattern, strerror(errno));
	char parent[SOURCE_TEXT_MAX + 1];
	(void)snprintf(parent, sizeof parent, "%s", pattern);
	char *star = strpbrk(parent, "*?[");
	if (star)
		*star = 0;
	char *slash = strrchr(parent, '/');
	if (slash)
		slash[slash == parent] = 0;
	else
		(void)snprintf(parent, sizeof parent, ".");
	char found[SOURCE_TEXT_MAX + 1];
	nearest_parent(parent, found, sizeof found);
	return fault_set(fault, -ENOENT, "nothing matches %s (searched below %s)%s", pattern, found,
		strstr(pattern, "://") ? missing_hint(pattern) : "");
}

/* Checks that the folder at the beginning of a pattern may be read. */
static int glob_check(const char *pattern, struct fault *fault)
{
	char folder[SOURCE_TEXT_MAX + 2];
	(void)snprintf(folder, sizeof folder, "%s", pattern);
	folder[strcspn(folder, "*?[")] = 0;
	char *slash = strrchr(folder, '/');
	if (slash)
		slash[slash == folder] = 0;
	else
		(void)strcpy(folder, ".");
	return roots_check("source", folder, fault);
}

enum {
	GLOB_ENTRY = 50, /* bytes of memory for an entry, besides its path */
	GLOB_BYTES_MAX = 128 << 20, /* for all entries of the folders that are read */
};

/* What glob() reads is counted, because it keeps what matches until it returns: links in circles
 * multiply with each star. */
static _Thread_local struct {
	uint64_t bytes; /* for the paths of all entries so far */
	size_t folder; /* bytes of the path of the only folder that is being read */
	bool ended;
} globbing;

static void *glob_opendir(const char *path)
{
	errno = ENOMEM;
	globbing.folder = strlen(path);
	return globbing.ended ? NULL : opendir(path);
}

static struct dirent *glob_readdir(void *folder)
{
	struct dirent *entry = globbing.ended ? NULL : readdir(folder);
	if (!entry)
		return NULL;
	globbing.bytes += globbing.folder + strlen(entry->d_name) + GLOB_ENTRY;
	globbing.ended = globbing.bytes > GLOB_BYTES_MAX;
	return globbing.ended ? NULL : entry;
}

static void glob_closedir(void *folder)
{
	(void)closedir(folder);
}

/* glob() would sort by the locale. Sorting bytewise gives every process the same order. */
static int glob_add(struct looked *looked, const char *pattern, struct fault *fault)
{
	glob_t found = {
		.gl_opendir = glob_opendir,
		.gl_readdir = glob_readdir,
		.gl_closedir = glob_closedir,
		.gl_lstat = lstat,
		.gl_stat = stat,
	};
	int allowed = glob_check(pattern, fault);
	if (allowed < 0)
		return allowed;
	globbing.bytes = 0;
	globbing.ended = false;
	int code = glob(
		pattern, GLOB_NOSORT | GLOB_ERR | GLOB_NOESCAPE | GLOB_ALTDIRFUNC, NULL, &found);
	int rc = globbing.ended
			 ? fault_set(fault, -E2BIG,
				   "%s: the folders that it reads have too many entries (more than "
				   "%d MiB of names): write a folder's name in place of a star",
				   pattern, GLOB_BYTES_MAX >> 20)
		 : code ? glob_fault(pattern, code, fault)
			: 0;
	size_t before = looked->paths->count;
	if (rc == 0)
		qsort(found.gl_pathv, found.gl_pathc, sizeof found.gl_pathv[0], compare_paths);
	for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++)
		if (source_is_own(pattern) || !source_is_own(found.gl_pathv[i]))
			rc = look_add(looked, found.gl_pathv[i], fault);
	if (rc == 0 && looked->paths->count == before)
		rc = glob_fault(pattern, GLOB_NOMATCH, fault);
	globfree(&found);
	return rc;
}

static int look_at(struct looked *looked, const char *path, struct fault *fault)
{
	struct stat st;
	if (strpbrk(path, "*?[") && lstat(path, &st) < 0)
		return glob_add(looked, path, fault);
	return look_add(looked, path, fault);
}

static int look_verdict(const struct looked *looked, struct fault *fault)
{
	if (looked->folders && looked->files)
		return fault_set(fault, -EINVAL,
			"names both folders (%s) and files (%s): name one folder, or only files",
			looked->first_folder, looked->first_file);
	if (looked->folders > 1)
		return fault_set(fault, -EINVAL,
			"names %zu folders, the first is %s: name the one folder that holds them, "
			"or files",
			looked->folders, looked->first_folder);
	/* A pattern of all files takes the index of MDS and LitData along, too. */
	for (size_t i = 0; looked->paths->count > 1 && i < looked->paths->count; i++) {
		const char *path = looked->paths->path[i], *slash = strrchr(path, '/');
		if (!strcmp(slash ? slash + 1 : path, "index.json"))
			return fault_set(fault, -EINVAL,
				"names %s along with other files, which is read along with its "
				"shards: name their folder",
				path);
	}
	return 0;
}

/* A folder is the dataset of a container if one recognizes it; the paths of its files then replace
 * its own. Otherwise it is a folder of images. */
static int folder_kind(struct source_paths *paths, enum dataset_kind *ret, struct fault *fault)
{
	struct source_paths files = {0};
	*ret = DATASET_FOLDER;
	cleanup(close_fd) int fd = open(paths->path[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* A folder that cannot be opened is reported by dataset_open. */
	int rc = fd < 0 ? 0 : container_expand(paths->path[0], fd, &files, ret, fault);
	if (rc > 0 && files.count > 0) {
		source_paths_free(paths);
		*paths = files;
		return 0;
	}
	source_paths_free(&files);
	return rc < 0 ? rc : 0;
}

/* The kind of the first file. */
static int file_kind(const struct source_paths *paths, enum dataset_kind *ret, struct fault *fault)
{
	cleanup(close_blob) struct blob blob = {0};
	*ret = DATASET_TARS;
	/* A file that cannot be opened is reported by dataset_open. */
	if (blob_open(paths->path[0], &blob, NULL) < 0)
		return 0;
	int rc = container_kind(paths->path[0], &blob, ret, fault);
	return rc < 0 ? rc : 0;
}

int source_expand(
	const char *spec, struct source_paths *paths, enum dataset_kind *ret, struct fault *fault)
{
	struct looked looked = {.paths = paths};
	struct source_paths braces = {0};
	struct stat st;
	if (!*spec)
		return fault_set(fault, -EINVAL,
			"an empty name: expected a folder, a file or a pattern of files");
	int rc = lstat(spec, &st) == 0 ? source_paths_add(&braces, strdup(spec), fault)
				       : source_braces(spec, &braces, fault);
	if (rc < 0)
		rc = fault_prefix(fault, rc, "%.200s", spec);
	const bool remote = rc == 0 && braces.count && blob_is_url(braces.path[0]);
	if (remote)
		rc = source_remote(&braces, paths, ret, fault);
	for (size_t i = 0; rc == 0 && !remote && i < braces.count; i++)
		rc = look_at(&looked, braces.path[i], fault);
	source_paths_free(&braces);
	if (remote)
		return rc;
	if (rc < 0)
		return rc;
	rc = look_verdict(&looked, fault);
	if (rc < 0)
		return fault_prefix(fault, rc, "%.200s", spec);
	return looked.folders ? folder_kind(paths, ret, fault) : file_kind(paths, ret, fault);
}

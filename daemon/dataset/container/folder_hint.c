/* folder_hint: see folder_hint.h. */
#include "dataset/container/folder_hint.h"

#include "base/array.h"
#include "base/host/roots.h"
#include "base/util.h"
#include "base/whole.h"
#include "dataset/container/container.h"
#include "dataset/container/unread.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
	HINT_NAMES = 4096, /* of one folder */
	HINT_OPENED = 64, /* files and folders */
	HINT_DEPTH = 2, /* folders below the named one: torchvision's MNIST/raw */
	HINT_PATH = 4352,
};

/* A file, or a folder that is a dataset as a whole. */
struct place {
	enum dataset_kind kind;
	char path[HINT_PATH];
	bool whole; /* the folder */
};

struct hint {
	const char *root;
	struct place first, second; /* the second: of another kind, or in another folder */
	unsigned places;
	unsigned opened;
	struct fault unread; /* about the first file that is not read; otherwise empty */
};

struct names {
	char **name;
	size_t count, room;
};

static void names_free(struct names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->name[i]);
	free(names->name);
}

static int names_order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a folder, in bytewise order. Those beyond HINT_NAMES are left out. */
static void names_read(int folder, struct names *names)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		util_close_fd(&fd);
		return;
	}
	for (struct dirent *dent; names->count < HINT_NAMES && (dent = readdir(dir));) {
		char **grown = dent->d_name[0] == '.' ? NULL
						      : array_grown(names->name, names->count,
								&names->room, sizeof *names->name);
		if (!grown)
			continue;
		names->name = grown;
		names->name[names->count] = strdup(dent->d_name);
		names->count += names->name[names->count] != NULL;
	}
	(void)closedir(dir);
	if (names->count)
		qsort(names->name, names->count, sizeof *names->name, names_order);
}

static size_t folder_size(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? (size_t)(slash - path) : 0;
}

static void hint_add(struct hint *hint, const char *path, enum dataset_kind kind, bool whole)
{
	struct place *place = hint->places ? &hint->second : &hint->first;
	const size_t size = folder_size(path);
	if (hint->places && !whole && !hint->first.whole && kind == hint->first.kind &&
		size == folder_size(hint->first.path) && !strncmp(path, hint->first.path, size))
		return;
	if (hint->places++ > 1)
		return;
	place->kind = kind;
	place->whole = whole;
	(void)snprintf(place->path, sizeof place->path, "%s", path);
}

static bool is_tar_name(const char *path)
{
	const size_t size = strlen(path);
	return size > 4 && !strcmp(path + size - 4, ".tar");
}

static void hint_file(struct hint *hint, const char *path, int fd, uint64_t size)
{
	enum dataset_kind kind = DATASET_TARS;
	uint8_t head[CONTAINER_HEAD];
	const struct blob blob = {.fd = fd, .size = size};
	if (container_kind(path, &blob, &kind, NULL) > 0 || is_tar_name(path)) {
		hint_add(hint, path, kind, false);
		return;
	}
	const ssize_t n = whole_read(fd, head, (size_t)UTIL_MIN((uint64_t)sizeof head, size), 0);
	if (n > 0 && !hint->unread.text[0])
		(void)unread_fault(path, head, (size_t)n, &hint->unread);
}

static int hint_folder(struct hint *hint, const char *path, int fd, int depth, struct fault *fault);

/* A folder below the named one. */
static int hint_below(struct hint *hint, const char *path, int fd, int depth, struct fault *fault)
{
	struct source_paths paths = {0};
	enum dataset_kind kind = DATASET_FOLDER;
	const int rc = container_expand(path, fd, &paths, &kind, fault);
	source_paths_free(&paths);
	if (rc < 0)
		return fault_prefix(fault, rc, "%s holds no images", hint->root);
	if (rc == 0)
		return hint_folder(hint, path, fd, depth, fault);
	hint_add(hint, path, kind, true);
	return 0;
}

/* Looks at the files of a folder, or at its folders. */
static int hint_each(struct hint *hint, const char *path, int fd, const struct names *names,
	int depth, bool folders, struct fault *fault)
{
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < names->count && hint->opened < HINT_OPENED; i++) {
		char whole[HINT_PATH];
		struct stat st;
		if (fstatat(fd, names->name[i], &st, 0) < 0 ||
			!(folders ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode)) ||
			snprintf(whole, sizeof whole, "%s/%s", path, names->name[i]) >=
				(int)sizeof whole ||
			roots_check("source", whole, NULL) < 0)
			continue;
		cleanup(close_fd) int file =
			openat(fd, names->name[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		hint->opened++;
		if (file < 0)
			continue;
		if (folders)
			rc = hint_below(hint, whole, file, depth + 1, fault);
		else
			hint_file(hint, whole, file, (uint64_t)st.st_size);
	}
	return rc;
}

static int hint_folder(struct hint *hint, const char *path, int fd, int depth, struct fault *fault)
{
	struct names names = {0};
	const unsigned before = hint->places;
	names_read(fd, &names);
	int rc = hint_each(hint, path, fd, &names, depth, false, fault);
	if (rc == 0 && hint->places == before && depth < HINT_DEPTH)
		rc = hint_each(hint, path, fd, &names, depth, true, fault);
	names_free(&names);
	return rc;
}

/* What to write for all files like this one: "train-00000-of-00002.parquet" gives
 * "train-*.parquet", "a.rec" gives "*.rec". */
static void pattern_of(const char *path, char *ret, size_t room)
{
	const size_t folder = folder_size(path) + 1;
	const char *name = path + folder, *of = strstr(name, "-of-"), *dot = strrchr(name, '.');
	size_t begin = of ? (size_t)(of - name) : 0;
	while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9')
		begin--;
	if (begin == 0 && (!dot || dot == name)) {
		(void)snprintf(ret, room, "%s", path);
		return;
	}
	const char *rest = dot && (!begin || dot > of) ? dot : "";
	(void)snprintf(ret, room, "%.*s%.*s*%s", (int)folder, path, (int)begin, name, rest);
}

static const char *kind_files(enum dataset_kind kind, char *buffer, size_t room)
{
	(void)snprintf(buffer, room, "%s files", container_of(kind)->name);
	return kind == DATASET_TARS ? "tars" : buffer;
}

static int hint_fault(const struct hint *hint, struct fault *fault)
{
	const struct place *first = &hint->first, *second = &hint->second;
	const size_t root = strlen(hint->root), folder = folder_size(first->path);
	char pattern[HINT_PATH], files[64];
	const char *kind = kind_files(first->kind, files, sizeof files);
	pattern_of(first->path, pattern, sizeof pattern);
	if (first->whole && hint->places > 1)
		return fault_set(fault, -EINVAL,
			"%s holds no images, but its folders hold datasets: name one of them, as "
			"in "
			"\"%s\" (%s)",
			hint->root, first->path, container_of(first->kind)->name);
	if (first->whole)
		return fault_set(fault, -EINVAL,
			"%s holds no images, but its folder \"%s\" is a dataset (%s): name that",
			hint->root, first->path, container_of(first->kind)->name);
	if (hint->places > 1 && second->kind != first->kind)
		return fault_set(fault, -EINVAL,
			"%s holds no images, but files of several kinds (%s is %s, %s is %s): name "
			"files of one kind, as in \"%s\"",
			hint->root, first->path + root + 1, container_of(first->kind)->name,
			second->path + root + 1, container_of(second->kind)->name, pattern);
	if (folder > root)
		return fault_set(fault, -EINVAL,
			"%s holds no images, but %s in %.*s: name the %s, as in \"%s\"", hint->root,
			kind, (int)folder, first->path,
			first->kind == DATASET_TARS ? "tars" : "files", pattern);
	return fault_set(fault, -EINVAL, "%s holds %s, but no images: name the %s, as in \"%s\"",
		hint->root, kind, first->kind == DATASET_TARS ? "tars" : "files", pattern);
}

int folder_hint(const char *path, int fd, struct fault *fault)
{
	cleanup(free_ptr) struct hint *hint = calloc(1, sizeof *hint);
	if (!hint)
		return 0;
	hint->root = path;
	int rc = hint_folder(hint, path, fd, 0, fault);
	if (rc < 0)
		return rc;
	if (hint->places)
		return hint_fault(hint, fault);
	return hint->unread.text[0] ? fault_set(fault, -EINVAL, "%s holds no images: %s", path,
					      hint->unread.text)
				    : 0;
}

/* folder: see folder.h. */
#include "dataset/folder.h"

#include "base/array.h"
#include "base/host/limits.h"
#include "base/host/roots.h"
#include "base/util.h"
#include "dataset/dataset.h"
#include "dataset/mtime.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { DENTS_BYTES = 1 << 16, SETTLE_NS = 20000000 };

/* A name with what sorting needs. `key_size` excludes a file's extension and includes a directory's
 * slash. */
struct entry {
	uint16_t key_size, name_size;
	bool directory;
	char name[]; /* zero-terminated; a directory's name ends with a slash */
};

/* One directory's names: entries one after the other in `bytes`; `at` has the offset of each. */
struct listing {
	char *bytes;
	uint32_t *at;
	size_t used, room, count, count_room;
};

/* A directory between the root and the one being read. */
struct level {
	const struct level *up;
	dev_t dev;
	ino_t ino;
	size_t path_size; /* of its relative path with a trailing slash; 0 for the root */
};

struct walk {
	const char *root;
	const struct folder_sink *sink;
	struct fault *fault;
	char path[INDEX_NAME_MAX + NAME_MAX + 2];
	char dents[DENTS_BYTES] __attribute__((aligned(8)));
};

int folder_format(const char *name)
{
	const char *dot = strrchr(name, '.');
	if (!dot || strchr(dot, '/'))
		return 0;
	if (!strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg"))
		return SAMPLE_JPEG;
	return strcasecmp(dot, ".png") ? 0 : SAMPLE_PNG;
}

bool folder_foreign(const char *name)
{
	static const char *const extensions[] = {".gif", ".webp", ".bmp", ".tif", ".tiff", ".avif",
		".heic", ".heif", ".jp2", ".jxl", ".jpe", ".jfif", ".pgm", ".ppm", ".tga"};
	const char *dot = strrchr(name, '.');
	for (size_t i = 0; dot && i < UTIL_COUNT(extensions); i++)
		if (!strcasecmp(dot, extensions[i]))
			return true;
	return false;
}

size_t folder_key_size(const char *path)
{
	const char *dot = strrchr(path, '.');
	return dot ? (size_t)(dot - path) : strlen(path);
}

void folder_settle(int64_t mtime_ns)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	int64_t age = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - mtime_ns;
	/* A time in the future comes from another machine's clock: waiting would not help. */
	if (age < 0 || age >= SETTLE_NS)
		return;
	struct timespec pause = {.tv_nsec = SETTLE_NS - age};
	while (nanosleep(&pause, &pause) < 0 && errno == EINTR)
		;
}

static void util_listing(struct listing *listing)
{
	free(listing->bytes);
	free(listing->at);
}

static const struct entry *entry_at(const struct listing *listing, size_t i)
{
	return (const struct entry *)(listing->bytes + listing->at[i]);
}

static int listing_grow(struct listing *listing, size_t need)
{
	if (listing->used + need > listing->room) {
		size_t room = UTIL_MAX(listing->room * 2, 4096);
		char *bytes = room <= UINT32_MAX ? realloc(listing->bytes, room) : NULL;
		if (!bytes)
			return -ENOMEM;
		listing->bytes = bytes;
		listing->room = room;
	}
	uint32_t *at = array_grown(listing->at, listing->count, &listing->count_room, sizeof *at);
	listing->at = at ? at : listing->at;
	return at ? 0 : -ENOMEM;
}

static int listing_add(struct listing *listing, const char *name, bool directory)
{
	size_t size = strlen(name), key = directory ? size + 1 : folder_key_size(name);
	size_t need = (size_t)util_align(sizeof(struct entry) + size + 2, _Alignof(struct entry));
	if (listing_grow(listing, need) < 0)
		return -ENOMEM;
	struct entry *entry = (struct entry *)(listing->bytes + listing->used);
	entry->key_size = (uint16_t)key;
	entry->name_size = (uint16_t)(size + directory);
	entry->directory = directory;
	memcpy(entry->name, name, size);
	memcpy(entry->name + size, directory ? "/" : "\0", 2);
	listing->at[listing->count++] = (uint32_t)listing->used;
	listing->used += need;
	return 0;
}

static int bytes_compare(const char *a, size_t a_size, const char *b, size_t b_size)
{
	int order = memcmp(a, b, UTIL_MIN(a_size, b_size));
	return order ? order : (a_size > b_size) - (a_size < b_size);
}

static int entry_compare(const void *left, const void *right, void *context)
{
	const struct listing *listing = context;
	const struct entry *a = (const struct entry *)(listing->bytes + *(const uint32_t *)left);
	const struct entry *b = (const struct entry *)(listing->bytes + *(const uint32_t *)right);
	int order = bytes_compare(a->name, a->key_size, b->name, b->key_size);
	return order ? order : bytes_compare(a->name, a->name_size, b->name, b->name_size);
}

static int fault_at(struct walk *walk, const char *name, int code, const char *what)
{
	return fault_set(walk->fault, code, "%s/%s%s %s: %s", walk->root, walk->path, name, what,
		strerror(-code));
}

/* Whether a symbolic link to nothing fails with this error. */
static bool leads_nowhere(int error)
{
	return error == ENOENT || error == ENOTDIR || error == ELOOP;
}

/* Finds the kind of a name with stat if the directory does not tell it: for links, and on file
 * systems without types. */
static int name_kind(struct walk *walk, int fd, const char *name, unsigned char type, mode_t *ret)
{
	struct stat st;
	if (type == DT_REG || type == DT_DIR) {
		*ret = type == DT_DIR ? S_IFDIR : S_IFREG;
		return 0;
	}
	if (type != DT_LNK && type != DT_UNKNOWN) {
		*ret = S_IFIFO;
		return 0;
	}
	if (fstatat(fd, name, &st, 0) == 0) {
		*ret = st.st_mode & S_IFMT;
		return 0;
	}
	if (leads_nowhere(errno)) { /* a missing image, or a name that is left out */
		*ret = folder_format(name) ? S_IFREG : S_IFIFO;
		return 0;
	}
	return fault_at(walk, name, -errno, "cannot be examined");
}

/* Checks that a name that may be a link does not lead outside the roots. */
static int name_check(struct walk *walk, int fd, const char *name)
{
	char shown[PATH_MAX];
	if (!roots_count())
		return 0;
	(void)snprintf(shown, sizeof shown, "%s/%s%s", walk->root, walk->path, name);
	return roots_check_at("source", fd, name, shown, walk->fault);
}

static int name_take(
	struct walk *walk, struct listing *listing, int fd, const struct dirent64 *dent)
{
	const char *name = dent->d_name;
	if (name[0] == '.' || !strcmp(name, "__MACOSX"))
		return 0;
	mode_t kind = 0;
	int rc = name_kind(walk, fd, name, dent->d_type, &kind);
	if (rc < 0)
		return rc;
	if (kind == S_IFREG && !folder_format(name) && walk->sink->other)
		walk->sink->other(walk->sink->context, name);
	if (kind != S_IFDIR && (kind != S_IFREG || !folder_format(name)))
		return 0;
	if (dent->d_type != DT_REG && dent->d_type != DT_DIR)
		rc = name_check(walk, fd, name);
	if (rc < 0)
		return rc;
	rc = listing_add(listing, name, kind == S_IFDIR);
	return rc < 0 ? fault_at(walk, "", rc, "has too many names for the memory") : 0;
}

static int listing_read(struct walk *walk, int fd, struct listing *listing)
{
	ssize_t n;
	/* By number, because the function came with glibc 2.30. */
	while ((n = syscall(SYS_getdents64, fd, walk->dents, sizeof walk->dents)) > 0) {
		for (ssize_t at = 0; at < n;) {
			const struct dirent64 *dent = (const struct dirent64 *)(walk->dents + at);
			int rc = name_take(walk, listing, fd, dent);
			if (rc < 0)
				return rc;
			at += dent->d_reclen;
		}
	}
	if (n < 0)
		return fault_at(walk, "", -errno, "cannot be read");
	if (listing->count) /* qsort_r must not get a null pointer */
		qsort_r(listing->at, listing->count, sizeof listing->at[0], entry_compare, listing);
	return 0;
}

static int names_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Reports the names of the root's directories to the sink: copies without the slash, sorted by
 * themselves. */
static int classes_tell(struct walk *walk, const struct listing *listing)
{
	size_t count = 0;
	int rc = 0;
	char **names = calloc(listing->count + 1, sizeof *names);
	if (!names)
		return fault_at(walk, "", -ENOMEM, "has too many names for the memory");
	for (size_t i = 0; i < listing->count && rc == 0; i++) {
		const struct entry *entry = entry_at(listing, i);
		if (!entry->directory)
			continue;
		names[count] = strndup(entry->name, entry->name_size - 1u);
		if (names[count])
			count++;
		else
			rc = fault_at(walk, "", -ENOMEM, "has too many names for the memory");
	}
	qsort(names, count, sizeof *names, names_compare);
	if (rc == 0)
		rc = walk->sink->classes(walk->sink->context, names, count, walk->fault);
	for (size_t i = 0; i < count; i++)
		free(names[i]);
	free(names);
	return rc;
}

/* Asks for the size only, so that a network file system need not ask its server for the rest.
 * Filters of old containers forbid statx instead of denying that it exists, so glibc's own fallback
 * is not reached. */
static int file_size(int fd, const char *name, uint64_t *ret)
{
	struct statx st;
	struct stat plain;
	int result = statx(fd, name, 0, STATX_SIZE | STATX_TYPE, &st);
	if (result == 0) {
		*ret = st.stx_size;
	} else if (errno == EPERM) {
		result = fstatat(fd, name, &plain, 0);
		*ret = result == 0 ? (uint64_t)plain.st_size : 0;
	}
	return result;
}

/* A link to nothing is reported with size 0: one missing image must not make the others unusable,
 * and its reader detects it. */
static int file_tell(struct walk *walk, int fd, const char *name)
{
	uint64_t size;
	if (file_size(fd, name, &size) < 0) {
		int error = errno;
		struct stat link;
		if (leads_nowhere(error) && fstatat(fd, name, &link, AT_SYMLINK_NOFOLLOW) == 0 &&
			S_ISLNK(link.st_mode))
			return walk->sink->file(walk->sink->context, walk->path, 0, walk->fault);
		if (error == ENOENT)
			return fault_set(walk->fault, -ESTALE,
				"%s/%s disappeared while the folder was read: open it again when "
				"no other program writes there",
				walk->root, walk->path);
		return fault_set(walk->fault, -error, "%s/%s cannot be examined: %s", walk->root,
			walk->path, strerror(error));
	}
	return walk->sink->file(walk->sink->context, walk->path, size, walk->fault);
}

static int directory_walk(
	struct walk *walk, int fd, const struct level *up, size_t path_size, int depth);

static int directory_enter(
	struct walk *walk, int fd, const struct entry *entry, const struct level *here, int depth)
{
	char name[NAME_MAX + 1];
	memcpy(name, entry->name, entry->name_size - 1u);
	name[entry->name_size - 1] = 0;
	cleanup(close_fd) int child = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (child < 0)
		return fault_set(walk->fault, -errno, "%s/%s cannot be opened: %s%s", walk->root,
			walk->path, strerror(errno), limits_hint(errno));
	return directory_walk(walk, child, here, here->path_size + entry->name_size, depth + 1);
}

static int entry_walk(
	struct walk *walk, int fd, const struct entry *entry, const struct level *here, int depth)
{
	if (here->path_size + entry->name_size > INDEX_NAME_MAX)
		return fault_set(walk->fault, -ENAMETOOLONG,
			"%s/%s%s: a path below %s may have at most %d bytes", walk->root,
			walk->path, entry->name, walk->root, INDEX_NAME_MAX);
	memcpy(walk->path + here->path_size, entry->name, entry->name_size + 1u);
	int rc = entry->directory ? directory_enter(walk, fd, entry, here, depth)
				  : file_tell(walk, fd, entry->name);
	walk->path[here->path_size] = 0;
	return rc;
}

static int level_check(struct walk *walk, const struct level *here, int depth)
{
	for (const struct level *up = here->up; up; up = up->up)
		if (up->dev == here->dev && up->ino == here->ino)
			return fault_set(walk->fault, -ELOOP,
				"%s/%s leads back to %s/%.*s, which contains it: remove that link",
				walk->root, walk->path, walk->root, (int)up->path_size, walk->path);
	if (depth > FOLDER_DEPTH_MAX)
		return fault_set(walk->fault, -ELOOP, "%s/%s is more than %d folders deep",
			walk->root, walk->path, FOLDER_DEPTH_MAX);
	return 0;
}

/* Reports this directory to the sink, by its path without the trailing slash. */
static int directory_tell(struct walk *walk, size_t path_size, int64_t mtime_ns)
{
	if (path_size)
		walk->path[path_size - 1] = 0;
	int rc = walk->sink->directory(walk->sink->context, walk->path, mtime_ns, walk->fault);
	if (path_size)
		walk->path[path_size - 1] = '/';
	return rc;
}

static int directory_list(
	struct walk *walk, int fd, const struct level *here, int64_t mtime_ns, struct listing *ret)
{
	folder_settle(mtime_ns);
	int rc = listing_read(walk, fd, ret);
	struct stat st;
	if (rc == 0 && fstat(fd, &st) < 0)
		return fault_at(walk, "", -errno, "cannot be examined");
	if (rc == 0 && mtime_of(&st) != mtime_ns)
		return fault_set(walk->fault, -ESTALE,
			"%s/%s changed while it was read: open it again when no other program "
			"writes there",
			walk->root, walk->path);
	if (rc == 0 && !here->up)
		rc = classes_tell(walk, ret);
	return rc;
}

/* walk->path holds the relative path, `path_size` bytes with its slash. FOLDER_DEPTH_MAX bounds the
 * recursion. */
static int directory_walk(
	struct walk *walk, int fd, const struct level *up, size_t path_size, int depth)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return fault_at(walk, "", -errno, "cannot be examined");
	struct level here = {.up = up, .dev = st.st_dev, .ino = st.st_ino, .path_size = path_size};
	int rc = level_check(walk, &here, depth);
	if (rc < 0)
		return rc;
	cleanup(listing) struct listing listing = {0};
	rc = directory_list(walk, fd, &here, mtime_of(&st), &listing);
	if (rc == 0)
		rc = directory_tell(walk, path_size, mtime_of(&st));
	for (size_t i = 0; rc == 0 && i < listing.count; i++)
		rc = entry_walk(walk, fd, entry_at(&listing, i), &here, depth);
	return rc;
}

int folder_walk(int root_fd, const char *root, const struct folder_sink *sink, struct fault *fault)
{
	/* Not root_fd itself: reading moves its position, and other threads may use it. */
	cleanup(close_fd) int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return fault_set(fault, -errno, "%s cannot be opened: %s%s", root, strerror(errno),
			limits_hint(errno));
	cleanup(free_ptr) struct walk *walk = malloc(sizeof *walk);
	if (!walk)
		return fault_set(fault, -ENOMEM, "no memory to read %s", root);
	walk->root = root;
	walk->sink = sink;
	walk->fault = fault;
	walk->path[0] = 0;
	return directory_walk(walk, fd, NULL, 0, 0);
}

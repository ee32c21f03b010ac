/* folder: see folder.h. */
#include "dataset/container/folder.h"

#include "base/array.h"
#include "base/hash.h"
#include "base/host/limits.h"
#include "base/host/roots.h"
#include "base/name_order.h"
#include "base/util.h"
#include "dataset/container/image_names.h"
#include "dataset/dataset.h"
#include "dataset/mtime.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { DENTS_BYTES = 1 << 16, SETTLE_NS = 20000000, LINKS_SLOTS_LEAST = 64 };

struct entry {
	bool directory;
	bool link; /* or of a kind that the directory does not tell */
	char name[]; /* zero-terminated */
};

/* One directory's names: entries one after the other in `bytes`; `at` has the offset of each. */
struct listing {
	char *bytes;
	uint32_t *at;
	size_t used, room, count, count_room;
	enum class_order order; /* of its directories */
};

/* A directory that the walk has seen. It lives until it and all directories below it were read. */
struct place {
	struct place *up; /* NULL: it is the root */
	uint32_t below; /* places whose `up` it is */
	int depth;
	bool linked; /* it is a link, or below one */
	dev_t dev; /* and ino: once it was entered */
	ino_t ino;
	size_t path_size;
	char path[]; /* relative to the root, zero-terminated; "" for the root */
};

/* Places that were seen and not entered: a heap, the first in name_order at its top. */
struct queue {
	struct place **place;
	size_t count, room;
};

/* How often a directory was entered through links. */
struct link {
	dev_t dev;
	ino_t ino;
	uint32_t count; /* 0: a free slot */
};

/* A hash table with linear probing, at most half full. */
struct links { /* zeroed is empty */
	struct link *slot;
	size_t used, slots; /* slots: a power of two */
};

struct walk {
	int root_fd;
	const char *root;
	enum class_order order;
	const struct folder_sink *sink;
	struct fault *fault;
	struct queue queue;
	struct links links;
	char path[INDEX_NAME_MAX + NAME_MAX + 2];
	char dents[DENTS_BYTES] __attribute__((aligned(8)));
};

int folder_format(const char *name)
{
	const char *dot = strrchr(name, '.');
	if (!dot || strchr(dot, '/'))
		return 0;
	return image_names_folder(dot + 1);
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

static int listing_add(struct listing *listing, const char *name, bool directory, bool link)
{
	size_t size = strlen(name);
	size_t need = (size_t)util_align(sizeof(struct entry) + size + 1, _Alignof(struct entry));
	if (listing_grow(listing, need) < 0)
		return -ENOMEM;
	struct entry *entry = (struct entry *)(listing->bytes + listing->used);
	entry->directory = directory;
	entry->link = link;
	memcpy(entry->name, name, size + 1);
	listing->at[listing->count++] = (uint32_t)listing->used;
	listing->used += need;
	return 0;
}

/* Files come before directories. */
static int entry_compare(const void *left, const void *right, void *context)
{
	const struct listing *listing = context;
	const struct entry *a = (const struct entry *)(listing->bytes + *(const uint32_t *)left);
	const struct entry *b = (const struct entry *)(listing->bytes + *(const uint32_t *)right);
	if (a->directory != b->directory)
		return a->directory - b->directory;
	if (a->directory && listing->order == CLASS_ORDER_NATURAL)
		return name_order_natural(a->name, b->name);
	return name_order(a->name, b->name);
}

/* The parent of the entry at `at` in the heap. */
static size_t queue_up(size_t at)
{
	return (at - 1) / 2;
}

static bool queue_before(const struct queue *queue, size_t a, size_t b)
{
	return name_order(queue->place[a]->path, queue->place[b]->path) < 0;
}

static void queue_swap(struct queue *queue, size_t a, size_t b)
{
	struct place *place = queue->place[a];
	queue->place[a] = queue->place[b];
	queue->place[b] = place;
}

static int queue_add(struct queue *queue, struct place *place)
{
	struct place **grown =
		array_grown((void *)queue->place, queue->count, &queue->room, sizeof *queue->place);
	if (!grown)
		return -ENOMEM;
	queue->place = grown;
	size_t at = queue->count++;
	queue->place[at] = place;
	for (; at && queue_before(queue, at, queue_up(at)); at = queue_up(at))
		queue_swap(queue, at, queue_up(at));
	return 0;
}

/* Takes out the first place, of at least one. */
static struct place *queue_take(struct queue *queue)
{
	struct place *first = queue->place[0];
	queue->place[0] = queue->place[--queue->count];
	for (size_t at = 0;;) {
		size_t least = at;
		for (size_t down = 2 * at + 1; down <= 2 * at + 2; down++)
			if (down < queue->count && queue_before(queue, down, least))
				least = down;
		if (least == at)
			return first;
		queue_swap(queue, at, least);
		at = least;
	}
}

/* Called when the place was read, or will not be: frees it, and what is above it and finished. */
static void place_end(struct place *place)
{
	while (place && !place->below) {
		struct place *up = place->up;
		free(place);
		place = up;
		if (place)
			place->below--;
	}
}

static void queue_deinit(struct queue *queue)
{
	while (queue->count)
		place_end(queue_take(queue));
	free((void *)queue->place);
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
	if (!roots_apply())
		return 0;
	(void)snprintf(shown, sizeof shown, "%s/%s%s", walk->root, walk->path, name);
	return roots_check_at("source", fd, name, shown, walk->fault);
}

static int name_take(
	struct walk *walk, struct listing *listing, int fd, const struct dirent64 *dent)
{
	const char *name = dent->d_name;
	/* "._x.jpg" is what macOS keeps beside x.jpg, and is not an image. */
	if (name[0] == '.' && name[1] != '_' && dent->d_type != DT_DIR && folder_format(name) &&
		walk->sink->other)
		walk->sink->other(walk->sink->context, name);
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
	rc = listing_add(listing, name, kind == S_IFDIR, dent->d_type != DT_DIR);
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

/* Reports the names of the root's directories to the sink. */
static int classes_tell(struct walk *walk, const struct listing *listing)
{
	size_t count = 0;
	cleanup(free_ptr) const char **names = calloc(listing->count + 1, sizeof *names);
	if (!names)
		return fault_at(walk, "", -ENOMEM, "has too many names for the memory");
	for (size_t i = 0; i < listing->count; i++)
		if (entry_at(listing, i)->directory)
			names[count++] = entry_at(listing, i)->name;
	return walk->sink->classes(walk->sink->context, names, count, walk->fault);
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

/* Puts a directory below `here` into the queue, to be entered later. */
static int place_add(struct walk *walk, struct place *here, const struct entry *entry)
{
	const char *name = entry->name;
	size_t size = strlen(walk->path) + strlen(name);
	struct place *place = malloc(sizeof *place + size + 1);
	if (place) {
		*place = (struct place){.up = here,
			.depth = here->depth + 1,
			.linked = here->linked || entry->link,
			.path_size = size};
		(void)snprintf(place->path, size + 1, "%s%s", walk->path, name);
	}
	if (!place || queue_add(&walk->queue, place) < 0) {
		free(place);
		return fault_at(
			walk, name, -ENOMEM, "has too many folders beside it for the memory");
	}
	here->below++;
	return 0;
}

/* Makes walk->path the path of a place, with a slash after it unless it is the root. */
static void path_begin(struct walk *walk, const struct place *place)
{
	(void)snprintf(
		walk->path, sizeof walk->path, "%s%s", place->path, place->path_size ? "/" : "");
}

static int entry_take(struct walk *walk, struct place *here, int fd, const struct entry *entry)
{
	size_t used = strlen(walk->path), size = strlen(entry->name);
	if (used + size + entry->directory > INDEX_NAME_MAX)
		return fault_set(walk->fault, -ENAMETOOLONG,
			"%s/%s%s: a path below %s may have at most %d bytes", walk->root,
			walk->path, entry->name, walk->root, INDEX_NAME_MAX);
	if (entry->directory)
		return place_add(walk, here, entry);
	memcpy(walk->path + used, entry->name, size + 1);
	int rc = file_tell(walk, fd, entry->name);
	walk->path[used] = 0;
	return rc;
}

static int place_check(struct walk *walk, const struct place *here)
{
	for (const struct place *up = here->up; up; up = up->up)
		if (up->dev == here->dev && up->ino == here->ino)
			return fault_set(walk->fault, -ELOOP,
				"%s/%s leads back to %s/%s, which contains it: remove that link",
				walk->root, walk->path, walk->root, up->path);
	if (here->depth > FOLDER_DEPTH_MAX)
		return fault_set(walk->fault, -ELOOP, "%s/%s is more than %d folders deep",
			walk->root, walk->path, FOLDER_DEPTH_MAX);
	return 0;
}

/* The directory's slot, or the free one where it belongs. */
static struct link *links_at(const struct links *links, dev_t dev, ino_t ino)
{
	uint64_t at = hash_mix(hash_u64(hash_u64(HASH_SEED, dev), ino));
	for (;; at++) {
		struct link *link = &links->slot[at & (links->slots - 1)];
		if (!link->count || (link->dev == dev && link->ino == ino))
			return link;
	}
}

static struct links links_grown(const struct links *links)
{
	struct links grown = {.slots = UTIL_MAX(links->slots * 2, (size_t)LINKS_SLOTS_LEAST)};
	grown.slot = calloc(grown.slots, sizeof *grown.slot);
	for (size_t i = 0; grown.slot && i < links->slots; i++) {
		const struct link *link = &links->slot[i];
		if (link->count)
			*links_at(&grown, link->dev, link->ino) = *link;
	}
	grown.used = links->used;
	return grown;
}

/* Counts one more entry into a directory and returns how often it was entered; 0 without memory. */
static uint32_t links_add(struct links *links, dev_t dev, ino_t ino)
{
	if (links->used * 2 >= links->slots) {
		struct links grown = links_grown(links);
		if (!grown.slot)
			return 0;
		free(links->slot);
		*links = grown;
	}
	struct link *link = links_at(links, dev, ino);
	links->used += !link->count;
	*link = (struct link){dev, ino, link->count + 1};
	return link->count;
}

/* Links in directories that are linked themselves multiply: 30 directories with two links each to
 * the next one are 2^30 paths. */
static int place_count(struct walk *walk, const struct place *here)
{
	if (!here->linked)
		return 0;
	uint32_t count = links_add(&walk->links, here->dev, here->ino);
	if (!count)
		return fault_at(walk, "", -ENOMEM, "has too many links for the memory");
	if (count <= FOLDER_LINKS_MAX)
		return 0;
	return fault_set(walk->fault, -ELOOP,
		"%s/%s is a folder that links lead to more than %d times: each time its images are "
		"samples again, and links in linked folders multiply; remove links",
		walk->root, here->path, FOLDER_LINKS_MAX);
}

static int place_list(
	struct walk *walk, const struct place *here, int fd, int64_t mtime_ns, struct listing *ret)
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
	if (rc == 0)
		rc = walk->sink->directory(walk->sink->context, here->path, mtime_ns, walk->fault);
	return rc;
}

/* Opens a directory, checks it, and reads its names. */
static int place_enter(
	struct walk *walk, struct place *here, int *ret_fd, struct listing *ret_listing)
{
	struct stat st;
	path_begin(walk, here);
	/* The root, too, is opened anew: reading moves its position, and other threads may use
	 * it. */
	int fd = openat(walk->root_fd, here->path_size ? here->path : ".",
		O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return fault_set(walk->fault, -errno, "%s%s%s cannot be opened: %s%s", walk->root,
			here->path_size ? "/" : "", walk->path, strerror(errno),
			limits_hint(errno));
	*ret_fd = fd;
	if (fstat(fd, &st) < 0)
		return fault_at(walk, "", -errno, "cannot be examined");
	here->dev = st.st_dev;
	here->ino = st.st_ino;
	int rc = place_check(walk, here);
	if (rc == 0)
		rc = place_count(walk, here);
	return rc < 0 ? rc : place_list(walk, here, fd, mtime_of(&st), ret_listing);
}

static int place_walk(struct walk *walk, struct place *here)
{
	cleanup(close_fd) int fd = -1;
	cleanup(listing) struct listing listing = {0};
	int rc = place_enter(walk, here, &fd, &listing);
	for (size_t i = 0; rc == 0 && i < listing.count; i++)
		rc = entry_take(walk, here, fd, entry_at(&listing, i));
	return rc;
}

/* Walks what is in the queue: a class, and the directories below it that it turns out to have. */
static int class_walk(struct walk *walk)
{
	int rc = 0;
	while (rc == 0 && walk->queue.count) {
		struct place *place = queue_take(&walk->queue);
		rc = place_walk(walk, place);
		place_end(place);
	}
	return rc;
}

static int root_walk(struct walk *walk, struct place *root)
{
	cleanup(close_fd) int fd = -1;
	cleanup(listing) struct listing listing = {.order = walk->order};
	int rc = place_enter(walk, root, &fd, &listing);
	for (size_t i = 0; rc == 0 && i < listing.count; i++) {
		const struct entry *entry = entry_at(&listing, i);
		rc = entry_take(walk, root, fd, entry);
		if (rc == 0 && entry->directory)
			rc = class_walk(walk);
		path_begin(walk, root);
	}
	return rc;
}

int folder_walk(int root_fd, const char *root, enum class_order order,
	const struct folder_sink *sink, struct fault *fault)
{
	cleanup(free_ptr) struct walk *walk = malloc(sizeof *walk);
	struct place *place = calloc(1, sizeof *place + 1);
	if (!walk || !place) {
		free(place);
		return fault_set(fault, -ENOMEM, "no memory to read %s", root);
	}
	walk->root_fd = root_fd;
	walk->root = root;
	walk->order = order;
	walk->sink = sink;
	walk->fault = fault;
	walk->queue = (struct queue){0};
	walk->links = (struct links){0};
	place->below = 1; /* so that it lives until the last class was walked */
	int rc = root_walk(walk, place);
	queue_deinit(&walk->queue);
	free(walk->links.slot);
	free(place);
	return rc;
}

/* dataset_open: from what a user names to an open dataset: finds each shard's index, builds what is
 * missing or stale, and sums up. One thread; blocks. What a dataset can answer afterwards is in
 * dataset.c.
 *
 * Two passes over the shards, so that progress knows how much there is to build: the first looks
 * for indexes, the second builds. An index is looked for and written beside its shard, else in the
 * cache folder, else it goes into one unlinked file that all such shards share. With labels asked
 * for explicitly the default index (SHARD.idx) serves when its labels came from there; otherwise
 * there is one of its own (SHARD.cls.idx, ...), so that two users do not rebuild each other's.
 * Indexes with labels of a rule (a manifest, a path into JSON) lie in the cache folder alone, under
 * the hash of what the rule says and what its files hold; so do those of folders, under that of the
 * roots that they were walked by. */
#include "source/dataset_impl.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/roots.h"
#include "base/util.h"
#include "source/digest.h"
#include "source/folder.h"
#include "source/index_build.h"
#include "source/label_rule.h"
#include "source/labels.h"
#include "source/spec.h"
#include "source/store.h"
#include "source/tar.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

static const char *const suffixes[] = {
	[DATASET_LABELS_AUTO] = ".idx",
	[DATASET_LABELS_NONE] = ".none.idx",
	[DATASET_LABELS_FOLDER] = ".folder.idx",
	[DATASET_LABELS_CLS] = ".cls.idx",
	[DATASET_LABELS_JSON] = ".json.idx",
};

static const char *const label_names[] = {
	[DATASET_LABELS_AUTO] = "auto",
	[DATASET_LABELS_NONE] = "none",
	[DATASET_LABELS_FOLDER] = "folder",
	[DATASET_LABELS_CLS] = "cls",
	[DATASET_LABELS_JSON] = "json",
	[DATASET_LABELS_PATH] = "a path into json",
	[DATASET_LABELS_MANIFEST] = "a manifest",
};

enum found { FOUND, FOUND_NOTHING, FOUND_STALE, FOUND_DAMAGED, FOUND_FOREIGN };

enum place { PLACE_BESIDE, PLACE_CACHE, PLACES };
enum { PLACE_SUFFIX = 80 };

struct opening {
	struct dataset_options options;
	enum dataset_labels asked;
	struct labels *labels; /* NULL: a word says it all */
	uint64_t rule; /* labels_index_hash; 0: indexes of a word */
	struct dataset *dataset;
	struct fault *fault;
	char *cache; /* NULL: there is none */
	struct index_head *heads; /* per shard, as loaded */
	bool *missing; /* per shard: to be built */
	struct progress progress;
	uint64_t damaged, homeless, dotted, labelless;
	int place_error[PLACES]; /* why the last index found no home */
	char *tidied[PLACES]; /* in whose folder what others left was removed */
	char example[512]; /* a shard that the notice names */
};

/* Class names on their way from an index to the dataset. */
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

static void util_names(struct names *names)
{
	names_free(names);
}

static int names_add(struct names *names, const char *text)
{
	if (names->count == names->room) {
		size_t room = UTIL_MAX(names->room * 2, 16);
		char **grown = realloc(names->name, room * sizeof *grown);
		if (!grown)
			return -ENOMEM;
		names->name = grown;
		names->room = room;
	}
	names->name[names->count] = strdup(text);
	return names->name[names->count] ? (names->count++, 0) : -ENOMEM;
}

static int64_t mtime_of(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

/* Does the index hold the labels that were asked for? Without labels any index will do. */
static bool head_serves(const struct index_head *head, enum dataset_labels asked, uint64_t rule)
{
	if (rule || head->rule)
		return head->rule == rule;
	if (asked == DATASET_LABELS_NONE || head->asked == (uint32_t)asked)
		return true;
	return head->asked == DATASET_LABELS_AUTO && head->source == (uint32_t)asked &&
	       head->samples > 0;
}

/* Only a rule brings labels that are not single classes; their width is what rows are made for. */
static bool head_label_sound(const struct index_head *head)
{
	if (head->label_type == LABEL_TYPE_CLASS)
		return true;
	return head->rule != 0 && head->label_type <= LABEL_TYPE_FLOAT &&
	       head->label_width <= LABEL_WIDTH_MAX &&
	       (head->label_type != LABEL_TYPE_AUTO || head->samples == 0);
}

/* Is what the head says of its labels possible? A checksum proves no good will. */
static bool head_sound(const struct index_head *head, bool folder)
{
	if (head->asked > DATASET_LABELS_MANIFEST || head->classes > head->table_bytes ||
		!head_label_sound(head))
		return false;
	switch (head->source) {
	case DATASET_LABELS_NONE:
		return true;
	case DATASET_LABELS_FOLDER:
		return folder && head->classes > 0;
	case DATASET_LABELS_MANIFEST:
		return head->classes == 0;
	case DATASET_LABELS_CLS:
	case DATASET_LABELS_JSON:
	case DATASET_LABELS_PATH:
		return !folder && head->classes == 0;
	default:
		return false;
	}
}

/* Reads a folder's tables: are its directories as they were, and what are its classes? */
static int tables_check(const struct opening *opening, int fd, uint64_t base,
	const struct index_head *head, struct names *ret_names)
{
	cleanup(free_ptr) struct index_table *table = malloc(sizeof *table);
	struct index_entry entry;
	char text[INDEX_NAME_MAX + 1];
	uint64_t directories = 0;
	int rc;
	if (!table)
		return -ENOMEM;
	index_table_init(table, fd, base, head);
	while ((rc = index_table_next(table, &entry, text)) > 0) {
		struct stat st;
		if (entry.kind == 'C') {
			rc = names_add(ret_names, text);
			if (rc < 0)
				return rc;
			continue;
		}
		directories++;
		if (fstatat(opening->dataset->root_fd, text[0] ? text : ".", &st, 0) < 0 ||
			!S_ISDIR(st.st_mode) || mtime_of(&st) != entry.mtime_ns)
			return FOUND_STALE;
	}
	if (rc < 0 || directories != head->directories || ret_names->count != head->classes)
		return FOUND_DAMAGED;
	return FOUND;
}

/* Takes what the index says over into the dataset. */
static void index_adopt(struct opening *opening, uint32_t number, const struct index_head *head,
	uint32_t crc, uint64_t base, struct names *names)
{
	struct dataset_shard *shard = &opening->dataset->shard[number];
	opening->heads[number] = *head;
	shard->index_base = base;
	shard->record_pages = head->record_pages;
	shard->name_pages = head->name_pages;
	shard->head_crc = crc;
	shard->source = head->source;
	shard->label_width = head->label_width;
	shard->samples = head->samples;
	shard->bytes = head->bytes;
	shard->digest_unlabelled = head->digest_unlabelled;
	shard->classes = (uint32_t)head->classes;
	opening->dataset->class_names = names->name;
	opening->dataset->classes = (uint32_t)names->count;
	*names = (struct names){0};
}

/* Is what lies at `base` an index of this shard as it is now? If so it is taken. */
static int index_examine(
	struct opening *opening, uint32_t number, int fd, uint64_t base, uint64_t file_size)
{
	const struct dataset_shard *shard = &opening->dataset->shard[number];
	struct index_head head;
	uint32_t crc;
	int rc = index_head_read(fd, base, file_size, &head, &crc);
	if (rc != 0)
		return rc == INDEX_E_OTHER     ? FOUND_STALE
		       : rc == INDEX_E_FOREIGN ? FOUND_FOREIGN
					       : FOUND_DAMAGED;
	bool folder = opening->dataset->kind == DATASET_FOLDER;
	if (head.kind != (uint32_t)opening->dataset->kind ||
		!head_serves(&head, opening->asked, opening->rule))
		return FOUND_STALE;
	if (!head_sound(&head, folder))
		return FOUND_DAMAGED;
	if (!folder && (head.shard_size != shard->size || head.shard_mtime_ns != shard->mtime_ns))
		return FOUND_STALE;
	cleanup(names) struct names names = {0};
	rc = folder ? tables_check(opening, fd, base, &head, &names) : FOUND;
	if (rc == FOUND)
		index_adopt(opening, number, &head, crc, base, &names);
	return rc;
}

/* Looks at the index at `path`, which the shard takes over when it serves. FOUND_* or -ENOMEM. */
static int index_try(struct opening *opening, uint32_t number, const char *path)
{
	cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return FOUND_NOTHING;
	if (!S_ISREG(st.st_mode))
		return FOUND_FOREIGN;
	cleanup(free_ptr) char *copy = strdup(path); /* before the dataset takes anything over */
	if (!copy)
		return -ENOMEM;
	int rc = st.st_size ? index_examine(opening, number, fd, 0, (uint64_t)st.st_size)
			    : FOUND_DAMAGED;
	if (rc == FOUND) {
		free(opening->dataset->shard[number].index_path);
		opening->dataset->shard[number].index_path = copy;
		copy = NULL;
	}
	return rc;
}

/* What lies in a folder was looked at by the rules that were in force: with other roots its links
 * are looked at again. */
static uint64_t place_bounds(const struct opening *opening)
{
	uint64_t hash = HASH_SEED;
	if (opening->dataset->kind != DATASET_FOLDER || !roots_count())
		return 0;
	for (unsigned i = 0; i < roots_count(); i++)
		hash = hash_bytes(hash, roots_path(i), strlen(roots_path(i)) + 1);
	return hash_mix(hash);
}

/* The name of an index in the cache behind its shard's: ".in-....labels-....idx". */
static void place_suffix(
	const struct opening *opening, enum dataset_labels labels, char ret[PLACE_SUFFIX])
{
	char text[PLACE_SUFFIX];
	uint64_t bounds = place_bounds(opening);
	if (opening->rule)
		(void)snprintf(text, sizeof text, ".labels-%016llx.idx",
			(unsigned long long)opening->rule);
	else
		(void)snprintf(text, sizeof text, "%s", suffixes[labels]);
	if (bounds)
		(void)snprintf(
			ret, PLACE_SUFFIX, ".in-%016llx%s", (unsigned long long)bounds, text);
	else
		memcpy(ret, text, strlen(text) + 1);
}

/* The path of an index in a place; NULL where the place is not to be used (or without memory: the
 * next one will tell). */
static char *place_path(const struct opening *opening, uint32_t number, enum place place,
	enum dataset_labels labels)
{
	const char *shard = opening->dataset->shard[number].path;
	char *path = NULL, suffix[PLACE_SUFFIX];
	if (place == PLACE_CACHE) {
		place_suffix(opening, labels, suffix);
		return opening->cache ? store_cache_path(opening->cache, shard, suffix) : NULL;
	}
	if (opening->rule || opening->options.index_in_cache ||
		opening->dataset->kind == DATASET_FOLDER)
		return NULL;
	return asprintf(&path, "%s%s", shard, suffixes[labels]) < 0 ? NULL : path;
}

static int index_find(
	struct opening *opening, uint32_t number, enum dataset_labels labels, bool *damaged)
{
	for (enum place place = 0; place < PLACES; place++) {
		cleanup(free_ptr) char *path = place_path(opening, number, place, labels);
		int rc = path ? index_try(opening, number, path) : FOUND_NOTHING;
		*damaged |= rc == FOUND_DAMAGED;
		if (rc <= FOUND)
			return rc;
	}
	return FOUND_NOTHING;
}

/* The tar, or the folder's root, open for reading. */
static int shard_open(const struct opening *opening, uint32_t number)
{
	const struct dataset_shard *shard = &opening->dataset->shard[number];
	int fd = opening->dataset->kind == DATASET_FOLDER
			 ? dup(opening->dataset->root_fd)
			 : open(shard->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return fault_set(opening->fault, -errno, "%s cannot be opened: %s%s", shard->path,
			strerror(errno), limits_hint(errno));
	return fd;
}

static int shard_look(struct opening *opening, uint32_t number)
{
	struct dataset_shard *shard = &opening->dataset->shard[number];
	cleanup(close_fd) int fd = shard_open(opening, number);
	struct stat st;
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return fault_set(opening->fault, -errno, "%s cannot be looked at: %s", shard->path,
			strerror(errno));
	shard->dev = st.st_dev;
	shard->ino = st.st_ino;
	shard->mtime_ns = mtime_of(&st);
	shard->size = opening->dataset->kind == DATASET_FOLDER ? 0 : (uint64_t)st.st_size;
	return 0;
}

/* First pass. */
static int shard_find(struct opening *opening, uint32_t number)
{
	int rc = shard_look(opening, number);
	if (rc < 0)
		return rc;
	bool damaged = false;
	rc = index_find(opening, number, DATASET_LABELS_AUTO, &damaged);
	if (rc > FOUND && opening->asked != DATASET_LABELS_AUTO && !opening->rule)
		rc = index_find(opening, number, opening->asked, &damaged);
	if (rc < 0)
		return fault_set(
			opening->fault, rc, "no memory for %u shards", opening->dataset->shards);
	opening->missing[number] = rc != FOUND;
	opening->damaged += damaged && rc != FOUND;
	opening->progress.total_bytes += rc == FOUND ? 0 : opening->dataset->shard[number].size;
	return 0;
}

/* What a tar was when it was read from must be what it is when the index is done. */
static int shard_unchanged(struct opening *opening, uint32_t number, int fd)
{
	const struct dataset_shard *shard = &opening->dataset->shard[number];
	struct stat st;
	if (opening->dataset->kind == DATASET_FOLDER)
		return 0; /* folder_walk has looked at each directory */
	if (fstat(fd, &st) < 0 || mtime_of(&st) != shard->mtime_ns ||
		(uint64_t)st.st_size != shard->size)
		return fault_set(opening->fault, -ESTALE,
			"%s changed while it was indexed: open it again when it is complete",
			shard->path);
	return 0;
}

/* Builds an index into `file`. A negative result with writer.error set (`ret_place`) is the place's
 * fault. */
static int index_write(
	struct opening *opening, uint32_t number, int fd, struct store_file *file, bool *ret_place)
{
	const struct dataset_shard *shard = &opening->dataset->shard[number];
	struct index_writer writer;
	uint64_t bytes;
	int rc = index_writer_init(&writer, file->fd, file->base, file->names_fd, file->tables_fd);
	if (rc < 0)
		return fault_set(opening->fault, rc, "no memory to index %s", shard->path);
	bool folder = opening->dataset->kind == DATASET_FOLDER;
	struct index_job job = {
		.path = shard->path,
		.fd = fd,
		.size = shard->size,
		.asked = opening->asked,
		.labels = opening->rule ? opening->labels : NULL,
		.writer = &writer,
		.progress = &opening->progress,
	};
	writer.head.kind = (uint32_t)opening->dataset->kind;
	writer.head.asked = (uint32_t)opening->asked;
	writer.head.rule = opening->rule;
	writer.head.label_type = opening->rule ? labels_type(opening->labels) : LABEL_TYPE_CLASS;
	writer.head.shard_size = shard->size;
	writer.head.shard_mtime_ns = folder ? 0 : shard->mtime_ns;
	rc = folder ? index_folder(&job, opening->fault) : index_tar(&job, opening->fault);
	if (rc == 0)
		rc = shard_unchanged(opening, number, fd);
	if (rc == 0 && job.labels)
		rc = labels_unchanged(opening->labels, opening->fault);
	if (rc == 0)
		rc = index_writer_finish(&writer, &bytes);
	*ret_place = writer.error != 0;
	opening->progress.samples += rc == 0 ? writer.head.samples : 0;
	index_writer_deinit(&writer);
	return rc;
}

/* What became of an index that was just built and looked at again. */
static int index_readback(struct opening *opening, uint32_t number, int found, bool *ret_place)
{
	*ret_place = found != FOUND_STALE;
	if (found == FOUND_STALE)
		return fault_set(opening->fault, -ESTALE,
			"%s changed while it was indexed: open it again when nobody writes there",
			opening->dataset->shard[number].path);
	return found == FOUND ? 0 : -EIO; /* it cannot be read back, or somebody removed it */
}

/* Builds the index at `path`. `ret_place`: a failure was the place's. */
static int index_build_at(
	struct opening *opening, uint32_t number, int fd, const char *path, bool *ret_place)
{
	struct stat st;
	struct store_file file;
	mode_t mode = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? st.st_mode : 0600;
	*ret_place = true;
	int rc = store_begin(&file, path, mode);
	if (rc < 0)
		return rc;
	rc = index_write(opening, number, fd, &file, ret_place);
	if (rc == 0) {
		*ret_place = true;
		rc = store_commit(&file);
	}
	store_end(&file);
	return rc < 0 ? rc
		      : index_readback(
				opening, number, index_try(opening, number, path), ret_place);
}

/* The last resort: behind the other homeless indexes in the scratch file. */
static int index_build_scratch(struct opening *opening, uint32_t number, int fd)
{
	struct dataset *dataset = opening->dataset;
	const char *shard = dataset->shard[number].path;
	struct store_file file;
	bool place = true;
	if (dataset->scratch_fd < 0)
		dataset->scratch_fd = store_unlinked(NULL);
	uint64_t base = dataset->scratch_bytes;
	int rc = dataset->scratch_fd < 0 ? dataset->scratch_fd
					 : store_begin_unlinked(&file, dataset->scratch_fd, base);
	if (rc == 0) {
		rc = index_write(opening, number, fd, &file, &place);
		store_end(&file);
	}
	if (rc == 0)
		rc = index_readback(opening, number,
			index_examine(opening, number, dataset->scratch_fd, base, 0), &place);
	if (rc < 0 && place)
		return fault_set(opening->fault, rc,
			"the index of %s can be written neither beside it (%s) nor into the cache "
			"folder %s (%s) nor into "
			"a temporary file (%s): make room or give write permission in one of them",
			shard, strerror(-opening->place_error[PLACE_BESIDE]),
			opening->cache ? opening->cache : "(none)",
			strerror(-opening->place_error[PLACE_CACHE]), strerror(-rc));
	const struct index_head *head = &opening->heads[number];
	if (rc == 0)
		dataset->scratch_bytes +=
			(1 + head->record_pages + head->name_pages + head->table_pages) *
			INDEX_PAGE;
	opening->homeless++;
	return rc;
}

static void example_set(struct opening *opening, const char *path)
{
	if (!opening->example[0])
		(void)snprintf(opening->example, sizeof opening->example, "%.300s", path);
}

/* Neighbours mostly lie in one folder: it is looked through once. */
static void place_tidy(struct opening *opening, enum place place, const char *path)
{
	char **last = &opening->tidied[place];
	size_t size = (size_t)(strrchr(path, '/') - path) + 1;
	if (*last && strlen(*last) == size && strncmp(*last, path, size) == 0)
		return;
	free(*last);
	*last = strndup(path, size);
	store_tidy(path);
}

/* Tries one place: 0 built (or somebody else has done so meanwhile), 1 the place cannot be used, or
 * a fault. */
static int index_build_place(struct opening *opening, uint32_t number, int fd, enum place place)
{
	cleanup(free_ptr) char *path = place_path(opening, number, place, opening->asked);
	bool at_fault = true;
	int rc = -ENOENT;
	if (path && place == PLACE_CACHE)
		rc = store_folder_make(opening->cache);
	else if (path)
		rc = 0;
	if (rc == 0) {
		rc = index_try(opening, number, path);
		if (rc == FOUND)
			return 0;
		place_tidy(opening, place, path);
		rc = rc == FOUND_FOREIGN ? -EEXIST
		     : rc < 0            ? rc
					 : index_build_at(opening, number, fd, path, &at_fault);
	}
	if (rc < 0 && at_fault) {
		opening->place_error[place] = rc;
		return 1;
	}
	return rc;
}

/* Second pass, for one shard. */
static int shard_build(struct opening *opening, uint32_t number)
{
	const struct dataset_shard *shard = &opening->dataset->shard[number];
	cleanup(close_fd) int fd = shard_open(opening, number);
	if (fd < 0)
		return fd;
	if (opening->dataset->kind == DATASET_TARS)
		folder_settle(shard->mtime_ns);
	int rc = 1;
	for (enum place place = 0; rc > 0 && place < PLACES; place++)
		rc = index_build_place(opening, number, fd, place);
	if (rc > 0) {
		example_set(opening, shard->path);
		rc = index_build_scratch(opening, number, fd);
	}
	opening->progress.bytes += shard->size;
	return rc;
}

/* The first index has to be built. */
static int labels_ready(struct opening *opening)
{
	int rc = opening->rule && opening->cache ? store_folder_make(opening->cache) : 0;
	/* A folder that cannot be made is no matter here: the table goes elsewhere then. */
	return opening->rule ? labels_prepare(opening->labels, rc == 0 ? opening->cache : NULL,
				       opening->fault)
			     : 0;
}

static int shards_index(struct opening *opening)
{
	uint32_t shards = opening->dataset->shards;
	bool built = false;
	uint64_t began = clock_ns();
	for (uint32_t i = 0; i < shards; i++) {
		int rc = shard_find(opening, i);
		if (rc < 0)
			return rc;
	}
	for (uint32_t i = 0; i < shards; i++) {
		int rc = opening->missing[i] && !built ? labels_ready(opening) : 0;
		if (rc == 0 && opening->missing[i])
			rc = shard_build(opening, i);
		if (rc < 0)
			return rc;
		built |= opening->missing[i];
	}
	opening->dataset->indexed_ns = built ? clock_ns() - began : 0;
	return 0;
}

/* Shards with samples must agree on where their labels come from. */
static int sources_agree(const struct opening *opening, uint32_t *first, uint32_t number)
{
	const struct dataset *dataset = opening->dataset;
	if (*first == UINT32_MAX)
		*first = number;
	const struct dataset_shard *a = &dataset->shard[*first], *b = &dataset->shard[number];
	if (opening->asked == DATASET_LABELS_NONE || a->source == b->source)
		return 0;
	return fault_set(opening->fault, -EINVAL,
		"the labels of %s come from \"%s\", those of %s from \"%s\": label all shards in "
		"the same way, or ask "
		"for labels: none",
		a->path, label_names[a->source], b->path, label_names[b->source]);
}

static int dataset_sum(struct opening *opening)
{
	struct dataset *dataset = opening->dataset;
	bool labels = opening->asked != DATASET_LABELS_NONE;
	uint64_t digest = 0;
	uint32_t first = UINT32_MAX;
	for (uint32_t i = 0; i < dataset->shards; i++) {
		const struct index_head *head = &opening->heads[i];
		dataset->shard[i].first = dataset->count;
		opening->dotted += head->dotted;
		opening->labelless += head->labelless;
		if (head->dotted)
			example_set(opening, dataset->shard[i].path);
		if (head->samples == 0)
			continue;
		int rc = sources_agree(opening, &first, i);
		if (rc < 0)
			return rc;
		dataset->count += head->samples;
		dataset->bytes += head->bytes;
		dataset->largest = UTIL_MAX(dataset->largest, head->largest);
		digest = digest_concat(
			digest, labels ? head->digest : head->digest_unlabelled, head->samples);
	}
	dataset->labelled = labels && first != UINT32_MAX &&
			    dataset->shard[first].source != DATASET_LABELS_NONE;
	dataset->fingerprint = digest_finish(digest, dataset->count);
	return 0;
}

/* Does a folder without images hold tars? Then they were meant. */
static bool folder_has_tars(int root_fd)
{
	int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	bool tars = false;
	if (!dir) {
		if (fd >= 0)
			(void)close(fd);
		return false;
	}
	for (struct dirent *dent; !tars && (dent = readdir(dir));) {
		size_t size = strlen(dent->d_name);
		tars = size > 4 && !strcmp(dent->d_name + size - 4, ".tar");
	}
	(void)closedir(dir);
	return tars;
}

/* Says what there is instead of images: the first file of the first tar, unless that tar has none.
 */
static void first_member(const struct opening *opening, char *buffer, size_t room)
{
	const struct dataset_shard *shard = &opening->dataset->shard[0];
	cleanup(close_fd) int fd = open(shard->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	cleanup(free_ptr) struct tar_reader *reader = malloc(sizeof *reader);
	struct tar_member member;
	if (fd < 0 || !reader)
		return;
	tar_init(reader, fd, shard->size, shard->path);
	int rc;
	do
		rc = tar_next(reader, &member, NULL);
	while (rc > 0 && member.kind == TAR_OTHER);
	if (rc > 0)
		(void)snprintf(buffer, room, ", the first is %.400s", member.name);
	tar_deinit(reader);
}

static int dataset_nonempty(const struct opening *opening)
{
	const struct dataset *dataset = opening->dataset;
	const char *path = dataset->shard[0].path;
	uint64_t members = 0;
	if (dataset->count)
		return 0;
	if (dataset->kind == DATASET_FOLDER && folder_has_tars(dataset->root_fd))
		return fault_set(opening->fault, -EINVAL,
			"%s holds no images, but tars: name them, as in \"%s/*.tar\"", path, path);
	if (dataset->kind == DATASET_FOLDER)
		return fault_set(opening->fault, -EINVAL,
			"%s holds no images: expected .jpg, .jpeg or .png files in it or in its "
			"folders",
			path);
	for (uint32_t i = 0; i < dataset->shards; i++)
		members += opening->heads[i].members;
	char first[512] = "", dotted[96] = "";
	if (members)
		first_member(opening, first, sizeof first);
	if (opening->dotted)
		(void)snprintf(dotted, sizeof dotted,
			" (%llu of them for a second dot before the extension)",
			(unsigned long long)opening->dotted);
	return fault_set(opening->fault, -EINVAL,
		"%s%s: no images among %llu members%s%s: expected KEY.jpg, KEY.jpeg or KEY.png, "
		"and no dot in KEY",
		path, dataset->shards > 1 ? " and the tars behind it" : "",
		(unsigned long long)members, dotted, first);
}

static void notice_add(struct dataset *dataset, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void notice_add(struct dataset *dataset, const char *format, ...)
{
	size_t used = strlen(dataset->notice);
	if (used && used + 1 < sizeof dataset->notice)
		dataset->notice[used++] = ' ';
	va_list args;
	va_start(args, format);
	(void)vsnprintf(dataset->notice + used, sizeof dataset->notice - used, format, args);
	va_end(args);
}

/* Which places were tried, and why each could not be used. */
static void notice_homeless(struct opening *opening)
{
	struct dataset *dataset = opening->dataset;
	notice_add(dataset,
		"%llu of %u indexes (%s) lie in a temporary file and are built again at each "
		"start:",
		(unsigned long long)opening->homeless, dataset->shards, opening->example);
	if (dataset->kind == DATASET_TARS && !opening->options.index_in_cache)
		notice_add(dataset, "beside the shard none can be written (%s), and",
			strerror(-opening->place_error[PLACE_BESIDE]));
	if (opening->cache)
		notice_add(dataset, "the cache folder %.300s cannot be used (%s).", opening->cache,
			strerror(-opening->place_error[PLACE_CACHE]));
	else
		notice_add(dataset, "there is no cache folder (neither XDG_CACHE_HOME nor HOME "
				    "names one).");
}

static void dataset_notices(struct opening *opening)
{
	struct dataset *dataset = opening->dataset;
	if (opening->homeless)
		notice_homeless(opening);
	if (opening->damaged)
		notice_add(dataset, "%llu damaged index%s built again.",
			(unsigned long long)opening->damaged,
			opening->damaged == 1 ? " was" : "es were");
	if (opening->dotted)
		notice_add(dataset,
			"%llu images (%s) were left out: their names have a second dot before the "
			"extension, which "
			"WebDataset takes for another kind of member.",
			(unsigned long long)opening->dotted, opening->example);
	if (opening->labelless && opening->asked == DATASET_LABELS_AUTO)
		notice_add(dataset,
			"The images have no labels: %llu .json beside them hold neither \"label\" "
			"nor \"cls\".",
			(unsigned long long)opening->labelless);
}

/* Is the open file the index that was loaded? */
static int index_same(const struct dataset_shard *shard, int fd, struct fault *fault)
{
	struct index_head head;
	uint32_t crc;
	struct stat st;
	if (fstat(fd, &st) < 0)
		return fault_set(fault, -errno, "%s cannot be looked at: %s", shard->index_path,
			strerror(errno));
	if (index_head_read(fd, 0, (uint64_t)st.st_size, &head, &crc) != 0 ||
		crc != shard->head_crc)
		return fault_set(fault, -ESTALE,
			"%s was replaced by another index since the dataset was opened: open the "
			"dataset again",
			shard->index_path);
	return 0;
}

/* Lends index files again after they were closed. */
static int index_reopen(const void *context, uint32_t number, struct fault *fault)
{
	const struct dataset *dataset = context;
	const struct dataset_shard *shard = &dataset->shard[number];
	int fd = open(shard->index_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return fault_set(fault, -errno, "%s cannot be opened: %s%s", shard->index_path,
			strerror(errno), limits_hint(errno));
	int rc = index_same(shard, fd, fault);
	if (rc < 0) {
		(void)close(fd);
		return rc;
	}
	return fd;
}

static int lend_prepare(struct dataset *dataset)
{
	struct rlimit limit = {.rlim_cur = 1024};
	(void)getrlimit(RLIMIT_NOFILE, &limit);
	return lend_new(dataset->shards, lend_slots_for(limit.rlim_cur), index_reopen, dataset,
		&dataset->lend);
}

/* Makes the dataset's row of shards out of the paths, which it takes over. */
static int dataset_prepare(
	struct dataset *dataset, struct spec_paths *paths, int is_folder, struct fault *fault)
{
	dataset->kind = is_folder ? DATASET_FOLDER : DATASET_TARS;
	dataset->shard = calloc(paths->count, sizeof *dataset->shard);
	if (!dataset->shard)
		return fault_set(fault, -ENOMEM, "no memory for %zu shards", paths->count);
	dataset->shards = (uint32_t)paths->count;
	for (uint32_t i = 0; i < dataset->shards; i++)
		dataset->shard[i].path = paths->path[i];
	paths->count = 0;
	if (!is_folder)
		return 0;
	dataset->root_fd = open(dataset->shard[0].path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dataset->root_fd < 0)
		return fault_set(fault, -errno, "%s cannot be opened: %s%s", dataset->shard[0].path,
			strerror(errno), limits_hint(errno));
	return 0;
}

/* What the rule asks to be looked up, before indexes are. */
static int labels_begin(struct opening *opening)
{
	const struct label_rule *rule = opening->options.rule;
	struct dataset *dataset = opening->dataset;
	bool folder = dataset->kind == DATASET_FOLDER;
	opening->asked = rule ? rule->from : opening->options.labels;
	if (!rule || label_rule_plain(rule))
		return 0;
	int rc = labels_open(&opening->options, folder ? dataset->shard[0].path : NULL,
		&opening->labels, opening->fault);
	if (rc < 0)
		return rc;
	opening->rule = labels_index_hash(opening->labels);
	dataset->rule = labels_hash(opening->labels);
	return 0;
}

static int opening_run(struct opening *opening)
{
	struct dataset *dataset = opening->dataset;
	assert(dataset->shards > 0);
	char folder[4096];
	int begun = labels_begin(opening);
	if (begun < 0)
		return begun;
	if (!dataset_cache_folder(opening->options.cache_dir, folder, sizeof folder))
		opening->cache = strdup(folder);
	opening->heads = calloc(dataset->shards, sizeof *opening->heads);
	opening->missing = calloc(dataset->shards, sizeof *opening->missing);
	if (!opening->heads || !opening->missing)
		return fault_set(
			opening->fault, -ENOMEM, "no memory for %u shards", dataset->shards);
	int rc = shards_index(opening);
	if (rc == 0)
		rc = dataset_sum(opening);
	if (rc == 0)
		rc = dataset_nonempty(opening);
	if (rc == 0 && lend_prepare(dataset) < 0)
		rc = fault_set(opening->fault, -ENOMEM, "no memory for %u shards", dataset->shards);
	if (rc == 0 && opening->labels)
		rc = dataset_labels_settle(
			dataset, opening->heads, opening->labels, opening->cache, opening->fault);
	if (rc == 0)
		dataset_notices(opening);
	dataset->cache_folder = opening->cache;
	dataset->index_in_cache = opening->options.index_in_cache;
	opening->cache = NULL;
	return rc;
}

/* Asked to leave labels out, a dataset has no classes either; and shards of unlabelled folders have
 * none. */
static void classes_drop(struct dataset *dataset)
{
	if (dataset->labelled)
		return;
	for (uint32_t i = 0; i < dataset->classes; i++)
		free(dataset->class_names[i]);
	free(dataset->class_names);
	dataset->class_names = NULL;
	dataset->classes = 0;
}

int dataset_open(const char *spec, const struct dataset_options *options, struct dataset **ret,
	struct fault *fault)
{
	static const struct dataset_options defaults;
	struct spec_paths paths = {0};
	int is_folder = 0;
	struct dataset *dataset = calloc(1, sizeof *dataset);
	if (!dataset)
		return fault_set(fault, -ENOMEM, "no memory for a dataset");
	dataset->root_fd = dataset->scratch_fd = -1;
	dataset->label_type = LABEL_TYPE_CLASS;
	dataset->label_width = 1;
	struct opening opening = {
		.options = options ? *options : defaults, .dataset = dataset, .fault = fault};
	opening.progress.call = opening.options.progress;
	opening.progress.context = opening.options.progress_context;
	int rc = spec_expand(spec, &paths, &is_folder, fault);
	if (rc == 0)
		rc = dataset_prepare(dataset, &paths, is_folder, fault);
	if (rc == 0)
		rc = opening_run(&opening);
	spec_paths_free(&paths);
	labels_free(opening.labels);
	free(opening.cache);
	free(opening.heads);
	free(opening.missing);
	for (enum place place = 0; place < PLACES; place++)
		free(opening.tidied[place]);
	if (rc < 0) {
		dataset_free(dataset);
		return rc;
	}
	classes_drop(dataset);
	*ret = dataset;
	return 0;
}

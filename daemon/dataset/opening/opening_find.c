/* opening_find: see opening.h. Looks for a shard's index in each place, judges the one that it
 * finds, and takes what it says over into the dataset.
 *
 * An index is stored beside its shard, or else in the cache folder. If the caller asks for a
 * particular source of labels, the default index (SHARD.idx) is used if its labels came from there;
 * otherwise such a request has an index of its own (SHARD.cls.idx, ...), so that two users do not
 * rebuild each other's indexes. Indexes with labels of a rule (a manifest, a path into JSON) are
 * stored only in the cache folder, under a hash of the rule and of the contents of its files;
 * indexes with the places of fields are stored there under a hash of the fields' names, and those
 * for chosen columns under a hash of the choice; indexes of folders are stored there too, under a
 * hash of the roots that applied to the walk. */
#include "dataset/opening/opening.h"

#include "base/array.h"
#include "base/hash.h"
#include "base/host/limits.h"
#include "base/host/roots.h"
#include "base/store.h"
#include "base/util.h"
#include "dataset/container/class_folders.h"
#include "dataset/container/image_names.h"
#include "dataset/mtime.h"
#include "remote/object.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum { PLACE_SUFFIX = 128 };

static const char *const suffixes[] = {
	[DATASET_LABELS_AUTO] = ".idx",
	[DATASET_LABELS_NONE] = ".none.idx",
	[DATASET_LABELS_FOLDER] = ".folder.idx",
	[DATASET_LABELS_CLS] = ".cls.idx",
	[DATASET_LABELS_JSON] = ".json.idx",
};

/* Class names on their way from an index to the dataset. */
struct names {
	char **name;
	size_t count, room;
};

static void util_names(struct names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->name[i]);
	free(names->name);
}

static int names_add(struct names *names, const char *text)
{
	char **grown = array_grown(names->name, names->count, &names->room, sizeof *grown);
	if (!grown)
		return -ENOMEM;
	names->name = grown;
	names->name[names->count] = strdup(text);
	return names->name[names->count] ? (names->count++, 0) : -ENOMEM;
}

/* Whether the index holds the labels that were asked for. If none were asked for, any index will
 * do. */
static bool head_serves(const struct index_head *head, const struct opening *opening)
{
	const enum dataset_labels asked = opening->asked;
	if (head->fields != opening->fields_hash || head->field_count != opening->fields.count ||
		head->columns != opening->columns_hash)
		return false;
	if (opening->rule || head->rule)
		return head->rule == opening->rule;
	if (asked == DATASET_LABELS_NONE || head->asked == (uint32_t)asked)
		return true;
	return head->asked == DATASET_LABELS_AUTO && head->source == (uint32_t)asked &&
	       head->samples > 0;
}

/* Only a rule or a container's column gives labels that are not single classes. Their width
 * determines the memory of a row. */
static bool head_label_sound(const struct index_head *head)
{
	if (head->label_type == LABEL_TYPE_CLASS)
		return true;
	const bool column = head->source == DATASET_LABELS_COLUMN || head->samples == 0;
	const bool packed = head->version == INDEX_VERSION_PACKED;
	return (head->rule != 0 || (packed && column)) && head->label_type <= LABEL_TYPE_CLASSES &&
	       head->label_width <= LABEL_WIDTH_MAX &&
	       (head->label_type != LABEL_TYPE_AUTO || head->samples == 0);
}

/* Whether the head's statements about labels are possible: a right checksum does not exclude
 * forgery. */
static bool head_sound(const struct index_head *head, const struct container *container)
{
	if (head->asked > DATASET_LABELS_MANIFEST || head->source > DATASET_LABELS_COLUMN ||
		head->classes > head->table_bytes || !head_label_sound(head) ||
		head->class_order > CLASS_ORDER_NATURAL || head->direct > head->samples ||
		!(container->labels >> head->source & 1))
		return false;
	return head->source == DATASET_LABELS_NONE || head->source == DATASET_LABELS_COLUMN ||
	       (head->classes > 0) == (head->source == DATASET_LABELS_FOLDER);
}

/* Whether the version is one that indexes of the kind have. */
static bool version_serves(const struct index_head *head, enum dataset_kind kind, bool remote)
{
	if (kind == DATASET_FOLDER && remote)
		return head->version == INDEX_VERSION_BUCKET;
	if (kind == DATASET_FOLDER)
		return head->version == INDEX_VERSION_FOLDER ||
		       head->version == INDEX_VERSION_FOLDER_OLD;
	if (kind == DATASET_TARS)
		return head->version == INDEX_VERSION || head->version == INDEX_VERSION_TAR_OLD;
	return head->version == INDEX_VERSION_PACKED;
}

/* Whether an earlier release's index of a tar may have left out images that are samples now: the
 * tar has members that are neither images nor labels of the samples in it. */
static bool tar_may_gain(const struct index_head *head)
{
	const bool labels = head->source == DATASET_LABELS_CLS ||
			    head->source == DATASET_LABELS_JSON ||
			    head->source == DATASET_LABELS_PATH;
	const uint64_t known = head->samples + (labels ? head->samples : head->labelless);
	return head->version == INDEX_VERSION_TAR_OLD && head->members > known;
}

/* The same for a folder, by an extension that was passed over. */
static bool folder_gains(const struct index_head *head, const char *passed)
{
	return head->version == INDEX_VERSION_FOLDER_OLD &&
	       (!strcmp(passed, INDEX_PASSED_OTHERS) ||
		       (passed[0] == '.' && passed[1] && image_names_folder(passed + 1)));
}

/* Files that were passed over; a number that no walk can have counted is shown as it is. */
static void passed_take(struct opening *opening, const struct index_entry *entry, const char *text)
{
	if (opening->passed_kinds == UTIL_COUNT(opening->passed))
		return;
	struct opening_passed *passed = &opening->passed[opening->passed_kinds++];
	passed->count = (uint64_t)entry->mtime_ns;
	(void)snprintf(passed->text, sizeof passed->text, "%.*s", INDEX_PASSED_TEXT - 1, text);
}

/* Notes a directory "train/x". */
static void split_note(struct opening *opening, const char *path)
{
	const char *slash = strchr(path, '/');
	if (slash && class_folders_split_like(path, (size_t)(slash - path)))
		(void)snprintf(opening->split_like, sizeof opening->split_like, "%.*s",
			(int)(slash - path), path);
}

/* Reads the tables: checks that a folder's directories are unchanged, and collects the classes. */
static int tables_check(struct opening *opening, int fd, uint64_t base,
	const struct index_head *head, struct names *ret_names)
{
	cleanup(free_ptr) struct index_table *table = malloc(sizeof *table);
	struct index_entry entry;
	char text[INDEX_NAME_MAX + 1];
	uint64_t directories = 0;
	int rc;
	if (!table)
		return -ENOMEM;
	opening->passed_kinds = 0;
	opening->split_like[0] = 0;
	index_table_init(table, fd, base, head);
	while ((rc = index_table_next(table, &entry, text)) > 0) {
		struct stat st;
		if (entry.kind == 'C') {
			rc = names_add(ret_names, text);
			if (rc < 0)
				return rc;
			continue;
		}
		if (entry.kind == 'X') {
			if (folder_gains(head, text)) {
				opening->heads[0] = *head;
				return FOUND_STALE;
			}
			passed_take(opening, &entry, text);
			continue;
		}
		if (!opening->dataset->container->files)
			return FOUND_DAMAGED;
		directories++;
		split_note(opening, text);
		if (dataset_remote(opening->dataset)) {
			if (entry.mtime_ns != opening->dataset->shard[0].mtime_ns)
				return FOUND_STALE;
			continue;
		}
		if (fstatat(opening->dataset->root_fd, text[0] ? text : ".", &st, 0) < 0 ||
			!S_ISDIR(st.st_mode) || mtime_of(&st) != entry.mtime_ns)
			return FOUND_STALE;
	}
	if (rc < 0 || directories != head->directories || ret_names->count != head->classes)
		return FOUND_DAMAGED;
	return FOUND;
}

/* Takes over the class names of a shard: the first ones that are found are the dataset's, and those
 * of the other shards with labels must be the same. */
static void classes_adopt(struct opening *opening, uint32_t number, const struct index_head *head,
	struct names *names)
{
	struct dataset *dataset = opening->dataset;
	const struct dataset_shard *shard = dataset->shard;
	const bool none = head->samples == 0 || head->source == DATASET_LABELS_NONE;
	size_t at = 0;
	if (none && !dataset->container->files)
		return;
	if (!opening->classes_known) {
		opening->classes_known = true;
		opening->classes_shard = number;
		dataset->class_names = names->name;
		dataset->classes = (uint32_t)names->count;
		*names = (struct names){0};
		return;
	}
	while (at < names->count && at < dataset->classes &&
		!strcmp(names->name[at], dataset->class_names[at]))
		at++;
	if ((at == names->count && at == dataset->classes) || opening->classes_differ[0])
		return;
	const char *one = at < dataset->classes ? dataset->class_names[at] : NULL;
	const char *other = at < names->count ? names->name[at] : NULL;
	const char *quote_one = one ? "\"" : "", *quote_other = other ? "\"" : "";
	(void)snprintf(opening->classes_differ, sizeof opening->classes_differ,
		"the classes of %.300s and %.300s differ: class %zu is %s%.80s%s in the first and "
		"%s%.80s%s in the second: all files of a dataset need the same classes, or ask for "
		"labels: none",
		shard[opening->classes_shard].path, shard[number].path, at, quote_one,
		one ? one : "missing", quote_one, quote_other, other ? other : "missing",
		quote_other);
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
	shard->version = head->version;
	shard->packed = head->packed != 0;
	shard->head_crc = crc;
	shard->source = head->source;
	shard->label_width = head->label_width;
	shard->samples = head->samples;
	shard->bytes = head->bytes;
	shard->digest_unlabelled = head->digest_unlabelled;
	shard->classes = (uint32_t)head->classes;
	classes_adopt(opening, number, head, names);
}

/* Whether the caller found the sizes in this index out of date, and it was not built again yet. */
static bool is_instead_of(const struct opening *opening, uint32_t number, uint32_t crc)
{
	const struct dataset *old = opening->options.instead_of;
	if (opening->anew)
		return false;
	return opening->options.anew ||
	       (old && number < old->shards && old->shard[number].head_crc == crc);
}

int opening_state_beside(struct opening *opening, uint32_t number, uint32_t *ret)
{
	const struct container *container = opening->dataset->container;
	struct fault *fault = opening->fault;
	int rc = 0;
	*ret = 0;
	if (!container->beside)
		return 0;
	opening_pause(opening);
	rc = container->beside(opening->dataset->shard[number].path, &opening->columns, ret, fault);
	opening_resume(opening, fault);
	return rc;
}

int opening_examine(
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
	const struct container *container = opening->dataset->container;
	if (container->files && head.version < INDEX_VERSION_FOLDER_OLD) {
		opening->reordered = true;
		return FOUND_STALE;
	}
	if (head.kind != (uint32_t)opening->dataset->kind ||
		!version_serves(&head, opening->dataset->kind, dataset_remote(opening->dataset)) ||
		head.class_order != (uint32_t)opening->options.class_order ||
		!head_serves(&head, opening))
		return FOUND_STALE;
	if (!head_sound(&head, container))
		return FOUND_DAMAGED;
	if (!container->files &&
		(head.shard_size != shard->size || head.shard_mtime_ns != shard->mtime_ns))
		return FOUND_STALE;
	if (container->parts && head.packed == INDEX_PACKED_WHOLE) {
		opening->partless = true;
		return FOUND_STALE;
	}
	uint32_t beside;
	rc = opening_state_beside(opening, number, &beside);
	if (rc < 0)
		return rc;
	if (container->beside && head.beside != beside)
		return FOUND_STALE;
	cleanup(names) struct names names = {0};
	/* opening_build compares the number of samples with that of a head that it finds. */
	if (!container->files && tar_may_gain(&head)) {
		opening->heads[number] = head;
		return FOUND_STALE;
	}
	rc = container->files || head.classes ? tables_check(opening, fd, base, &head, &names)
					      : FOUND;
	if (rc == FOUND && container->files && is_instead_of(opening, number, crc))
		rc = FOUND_STALE;
	if (rc == FOUND)
		index_adopt(opening, number, &head, crc, base, &names);
	else if (rc == FOUND_STALE && container->files)
		opening->replaced = head;
	return rc == -ENOMEM
		       ? fault_set(opening->fault, rc, "no memory for the index of %s", shard->path)
		       : rc;
}

int opening_try(struct opening *opening, uint32_t number, const char *path)
{
	cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return FOUND_NOTHING;
	if (!S_ISREG(st.st_mode))
		return FOUND_FOREIGN;
	cleanup(free_ptr) char *copy = strdup(path); /* before the dataset takes anything over */
	if (!copy)
		return fault_set(opening->fault, -ENOMEM, "no memory for the path %s", path);
	int rc = st.st_size ? opening_examine(opening, number, fd, 0, (uint64_t)st.st_size)
			    : FOUND_DAMAGED;
	if (rc == FOUND) {
		free(opening->dataset->shard[number].index_path);
		opening->dataset->shard[number].index_path = copy;
		copy = NULL;
	}
	return rc;
}

/* A hash of the roots that apply to a folder: with other roots, its links must be checked again. 0
 * if none apply. */
static uint64_t place_bounds(const struct opening *opening)
{
	uint64_t hash = HASH_SEED;
	if (!opening->dataset->container->files || !roots_apply())
		return 0;
	for (unsigned i = 0; i < roots_count(); i++)
		hash = hash_bytes(hash, roots_path(i), strlen(roots_path(i)) + 1);
	return hash_mix(hash);
}

/* The end of an index's name in the cache folder: ".in-....labels-....idx". */
static void place_suffix(
	const struct opening *opening, enum dataset_labels labels, char ret[PLACE_SUFFIX])
{
	char text[40];
	uint64_t bounds = place_bounds(opening);
	if (opening->rule)
		(void)snprintf(text, sizeof text, ".labels-%016llx.idx",
			(unsigned long long)opening->rule);
	else
		(void)snprintf(text, sizeof text, "%s", suffixes[labels]);
	char within[32] = "", fields[32] = "", columns[32] = "";
	if (bounds)
		(void)snprintf(within, sizeof within, ".in-%016llx", (unsigned long long)bounds);
	if (opening->fields_hash)
		(void)snprintf(fields, sizeof fields, ".fields-%016llx",
			(unsigned long long)opening->fields_hash);
	if (opening->columns_hash)
		(void)snprintf(columns, sizeof columns, ".columns-%016llx",
			(unsigned long long)opening->columns_hash);
	(void)snprintf(ret, PLACE_SUFFIX, "%s%s%s%s%s", within,
		opening->options.class_order == CLASS_ORDER_NATURAL ? ".natural" : "", fields,
		columns, text);
}

char *opening_place(const struct opening *opening, uint32_t number, enum place place,
	enum dataset_labels labels)
{
	const char *shard = opening->dataset->shard[number].path;
	char suffix[PLACE_SUFFIX];
	if (place == PLACE_CACHE) {
		place_suffix(opening, labels, suffix);
		return opening->cache ? store_cache_path(opening->cache, shard, suffix) : NULL;
	}
	if (opening->options.index_in_cache || blob_is_url(shard))
		return NULL;
	return opening_beside(opening, number, labels);
}

char *opening_beside(const struct opening *opening, uint32_t number, enum dataset_labels labels)
{
	const char *shard = opening->dataset->shard[number].path;
	char *path = NULL;
	/* A query is a signature for the shard only. */
	if (opening->rule || opening->fields_hash || opening->columns_hash ||
		opening->dataset->container->files || (blob_is_url(shard) && strchr(shard, '?')))
		return NULL;
	return asprintf(&path, "%s%s", shard, suffixes[labels]) < 0 ? NULL : path;
}

static int index_find(
	struct opening *opening, uint32_t number, enum dataset_labels labels, bool *damaged)
{
	for (enum place place = 0; place < PLACES; place++) {
		cleanup(free_ptr) char *path = opening_place(opening, number, place, labels);
		int rc = path ? opening_try(opening, number, path) : FOUND_NOTHING;
		*damaged |= rc == FOUND_DAMAGED;
		if (rc <= FOUND)
			return rc;
	}
	return FOUND_NOTHING;
}

int opening_shard(const struct opening *opening, uint32_t number, struct blob *ret)
{
	const struct dataset_shard *shard = &opening->dataset->shard[number];
	if (shard->remote) {
		*ret = blob_of_remote(shard->remote);
		return 0;
	}
	if (!opening->dataset->container->files)
		return blob_open(shard->path, ret, opening->fault);
	/* A folder in a bucket has no descriptor; its stamp was found before. */
	*ret = BLOB_OF(-1);
	ret->stamp = shard->mtime_ns;
	if (dataset_remote(opening->dataset))
		return 0;
	*ret = BLOB_OF(dup(opening->dataset->root_fd));
	if (ret->fd < 0)
		return fault_set(opening->fault, -errno, "%s cannot be opened: %s%s", shard->path,
			strerror(errno), limits_hint(errno));
	int rc = blob_look(ret, ret);
	return rc < 0 ? fault_set(opening->fault, rc, "%s cannot be examined: %s", shard->path,
				strerror(-rc))
		      : 0;
}

static int shard_look(struct opening *opening, uint32_t number)
{
	struct dataset_shard *shard = &opening->dataset->shard[number];
	cleanup(close_blob) struct blob blob = {0};
	int rc = opening_shard(opening, number, &blob);
	if (rc < 0)
		return rc;
	shard->dev = blob.dev;
	shard->ino = blob.ino;
	shard->mtime_ns = blob.stamp;
	shard->size = opening->dataset->container->files ? 0 : blob.size;
	if (blob.remote && !shard->remote)
		shard->remote = remote_object_ref(blob.remote);
	return 0;
}

int opening_find(struct opening *opening, uint32_t number)
{
	int rc = shard_look(opening, number);
	if (rc < 0)
		return rc;
	bool damaged = false;
	rc = index_find(opening, number, DATASET_LABELS_AUTO, &damaged);
	if (rc > FOUND && opening->asked != DATASET_LABELS_AUTO && !opening->rule)
		rc = index_find(opening, number, opening->asked, &damaged);
	if (rc < 0)
		return rc;
	opening->missing[number] = rc != FOUND;
	opening->damaged += damaged && rc != FOUND;
	opening->progress.total_bytes += rc == FOUND ? 0 : opening->dataset->shard[number].size;
	return 0;
}

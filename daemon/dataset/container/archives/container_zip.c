/* container_zip: a ZIP of images, in class folders (class_folders.h) or in none.
 *
 * The order, the classes and the labels are those that ImageFolder has after the archive is
 * unpacked, with one difference: a folder that holds everything is taken as the root (zip_root.h).
 * A sample's name is the member's whole name; its key is the name without the extension. A ZIP
 * whose class folders are at its root is the same dataset as the folder, with the same fingerprint.
 * Labels beside images (KEY.cls, KEY.json), as in WebDataset, are not read from a ZIP.
 *
 * Stored members are plain ranges of the file; deflated ones are unpacked when they are read, and
 * their CRC is checked. (A stored member's CRC is not: as with a file, a decoder finds the damage.)
 * Members that overlap each other, or have the same name, are refused.
 *
 * The members are sorted outside the memory (sorted.h), which so depends only on the number of
 * classes. The directory is walked three or four times, each member's header is read once. */
#include "dataset/container/container.h"

#include "base/util.h"
#include "dataset/container/archives/sorted.h"
#include "dataset/container/archives/zip.h"
#include "dataset/container/archives/zip_root.h"
#include "dataset/container/class_folders.h"
#include "dataset/container/image_names.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

/* No stream of deflate is unpacked to more than this many times its size (zlib, "Technical
 * details"). */
enum { DEFLATE_MOST = 1032 };

/* What is sorted beside a member's key. */
struct place {
	uint64_t header, offset;
	uint32_t stored, size, crc;
	uint16_t method, reserved;
};

struct listing {
	const struct index_job *job;
	struct zip_reader zip;
	struct zip_root root;
	struct zip_member member;
	struct class_folders *classes;
	struct sorted *samples; /* by label, folder and name */
	uint64_t last_end; /* of the members so far */
	bool unordered; /* members are not in the order of the directory, or overlap */
	struct sorted *ranges; /* of an unordered archive: by the header's offset */
	uint8_t key[SORTED_KEY_MAX], last[SORTED_KEY_MAX];
	size_t last_size;
	char name[INDEX_NAME_MAX + 1];
};

static bool zip_sniff(const struct container_probe *probe)
{
	/* These are ZIPs too, but of arrays: unread.h says what to do with them. */
	static const char *const arrays[] = {".npz", ".pt", ".pth"};
	const size_t size = strlen(probe->path);
	const char *dot = strrchr(probe->path, '.');
	for (size_t i = 0; dot && i < UTIL_COUNT(arrays); i++)
		if (strcasecmp(dot, arrays[i]) == 0)
			return false;
	if (probe->head_size >= 4 &&
		(memcmp(probe->head, "PK\3\4", 4) == 0 || memcmp(probe->head, "PK\5\6", 4) == 0))
		return true;
	return size > 4 && strcasecmp(probe->path + size - 4, ".zip") == 0;
}

/* The key of a sample: the number of its class, from 1 on, or 0 in the root; its folder; a zero
 * byte; its file. In this order bytes are sorted as a folder's walk is (folder.h): well-formed
 * UTF-8 has the order of its code points. */
static size_t key_make(struct listing *listing)
{
	const struct zip_member *member = &listing->member;
	const char *name = member->name, *slash = strrchr(name, '/');
	const char *part = name + listing->root.size;
	const size_t first = strcspn(part, "/");
	uint32_t rank = 0;
	if (part[first])
		rank = zip_root_label(&listing->root, part, first) + 1;
	for (int i = 0; i < 4; i++)
		listing->key[i] = (uint8_t)(rank >> (24 - 8 * i));
	memcpy(listing->key + 4, name, member->name_size);
	size_t size = 4 + member->name_size;
	if (slash)
		listing->key[4 + (slash - name)] = 0;
	return size;
}

/* Writes a sample's name, as key_make was given it. */
static void key_name(const struct sorted_item *item, char *ret, size_t *ret_size)
{
	*ret_size = item->key_size - 4;
	memcpy(ret, item->key + 4, *ret_size);
	ret[*ret_size] = 0;
	char *zero = memchr(ret, 0, *ret_size);
	if (zero)
		*zero = '/';
}

/* Notes where a member is. All its bytes are counted if `offset` is known; otherwise those of the
 * extra field are not. */
static void range_note(struct listing *listing, uint64_t offset)
{
	const struct zip_member *member = &listing->member;
	const uint64_t from = offset ? offset : member->header + member->raw_size;
	const uint64_t most = listing->zip.directory;
	listing->unordered |= member->header < listing->last_end;
	const uint64_t end =
		from > most || member->stored > most - from ? most : from + member->stored;
	listing->last_end = UTIL_MAX(listing->last_end, end);
}

static int size_check(const struct listing *listing, struct fault *fault)
{
	const struct zip_member *member = &listing->member;
	if (member->size > UINT32_MAX || member->stored > UINT32_MAX)
		return zip_fault(&listing->zip, member, member->at, fault,
			"has %llu bytes: an image has at most %u",
			(unsigned long long)UTIL_MAX(member->size, member->stored), UINT32_MAX);
	if (member->method == ZIP_DEFLATED && member->size > member->stored * DEFLATE_MOST)
		return zip_fault(&listing->zip, member, member->at, fault,
			"is said to unpack from %llu bytes to %llu, which deflate cannot do: the "
			"archive is damaged",
			(unsigned long long)member->stored, (unsigned long long)member->size);
	return 0;
}

static int image_collect(struct listing *listing, struct fault *fault)
{
	const struct zip_member *member = &listing->member;
	struct place place = {.header = member->header,
		.stored = (uint32_t)member->stored,
		.size = (uint32_t)member->size,
		.crc = member->crc,
		.method = member->method};
	int rc = zip_data(&listing->zip, member, &place.offset, fault);
	if (rc == 0)
		rc = size_check(listing, fault);
	if (rc < 0)
		return rc;
	range_note(listing, place.offset);
	const struct sorted_item item = {.key = listing->key,
		.key_size = key_make(listing),
		.value = (const uint8_t *)&place,
		.value_size = sizeof place};
	return sorted_add(listing->samples, &item, fault);
}

/* The last part of a name. */
static const char *base_name(const char *name)
{
	const char *slash = strrchr(name, '/');
	return slash ? slash + 1 : name;
}

static int member_collect(struct listing *listing, struct fault *fault)
{
	struct zip_member *member = &listing->member;
	const char *base = base_name(member->name);
	const bool image = !member->cut && folder_format(base);
	if (member->folder)
		return 0;
	if (zip_root_counts(member) && image)
		return image_collect(listing, fault);
	range_note(listing, 0);
	/* An image whose name begins with a dot was left out, unless it is what macOS keeps beside
	 * another one. */
	const bool hidden = base[0] == '.' && base[1] != '_' && image;
	if (zip_root_counts(member) || hidden)
		class_folders_other(listing->classes, base);
	return 0;
}

static int members_collect(struct listing *listing, struct fault *fault)
{
	const struct index_job *job = listing->job;
	int rc;
	zip_rewind(&listing->zip);
	while ((rc = zip_next(&listing->zip, &listing->member, fault)) > 0) {
		rc = member_collect(listing, fault);
		if (rc == 0)
			rc = index_progress_step(job->progress, 0, listing->last_end, fault);
		if (rc < 0)
			return rc;
	}
	return rc;
}

/* The same name twice: zipfile would unpack the second one over the first. */
static int twice_check(struct listing *listing, const struct sorted_item *item,
	const struct place *place, struct fault *fault)
{
	const bool same = listing->last_size == item->key_size &&
			  memcmp(listing->last, item->key, item->key_size) == 0;
	memcpy(listing->last, item->key, item->key_size);
	listing->last_size = item->key_size;
	if (!same)
		return 0;
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: member %.200s is there twice: unpack the archive and make it again",
		listing->job->path, (unsigned long long)place->header, listing->name);
}

/* Adds a member's range to those that are checked for overlaps. */
static int range_add(struct listing *listing, const struct place *place, struct fault *fault)
{
	if (!listing->unordered)
		return 0;
	uint8_t key[8];
	for (int i = 0; i < 8; i++)
		key[i] = (uint8_t)(place->header >> (56 - 8 * i));
	const struct sorted_item item = {.key = key,
		.key_size = sizeof key,
		.value = (const uint8_t *)place,
		.value_size = sizeof *place};
	return sorted_add(listing->ranges, &item, fault);
}

static int ranges_check(struct listing *listing, struct fault *fault)
{
	struct sorted_item item;
	uint64_t end = 0;
	int rc = 0;
	while (listing->unordered && (rc = sorted_next(listing->ranges, &item, fault)) > 0) {
		struct place place;
		memcpy(&place, item.value, sizeof place);
		if (place.header < end)
			return fault_set(fault, -EINVAL,
				"%s: byte %llu: two members overlap here: the archive is damaged, "
				"or was made to unpack to more than it holds; make it again",
				listing->job->path, (unsigned long long)place.header);
		end = place.offset + place.stored;
	}
	return rc;
}

/* A sample's directories, for class folders that are named like splits. */
static int directory_check(struct listing *listing, struct fault *fault)
{
	char *path = listing->name + listing->root.size, *slash = strrchr(path, '/');
	if (!slash)
		return 0;
	*slash = 0;
	int rc = class_folders_directory(listing->classes, path, fault);
	*slash = '/';
	return rc;
}

/* The places of fields, of which a ZIP has none, are stored beside the name. */
static int room_check(const struct listing *listing, size_t size, struct fault *fault)
{
	const size_t room = index_writer_room(listing->job->writer);
	if (size <= room)
		return 0;
	return fault_set(fault, -EINVAL,
		"%s!%.80s...: its name has %zu bytes, but an index with %u fields has room for "
		"only %zu",
		listing->job->path, listing->name, size, listing->job->writer->head.field_count,
		room);
}

static int sample_emit(struct listing *listing, const struct sorted_item *item, struct fault *fault)
{
	struct place place;
	struct index_sample sample = {.name = listing->name, .key = listing->name};
	memcpy(&place, item->value, sizeof place);
	key_name(item, listing->name, &sample.name_size);
	int rc = twice_check(listing, item, &place, fault);
	if (rc == 0)
		rc = range_add(listing, &place, fault);
	if (rc == 0)
		rc = directory_check(listing, fault);
	if (rc == 0)
		rc = room_check(listing, sample.name_size, fault);
	if (rc < 0)
		return rc;
	sample.key_size = folder_key_size(listing->name);
	sample.record.offset = place.offset;
	sample.record.size = place.size;
	sample.record.format = (uint8_t)folder_format(listing->name);
	if (place.method == ZIP_DEFLATED && place.size)
		sample.record.packed = (struct packed){.stored = place.stored,
			.whole = place.size,
			.crc = place.crc,
			.method = PACKED_DEFLATE,
			.checked = 1};
	return class_folders_image(
		listing->classes, &sample, listing->name + listing->root.size, fault);
}

static int samples_emit(struct listing *listing, struct fault *fault)
{
	const struct index_job *job = listing->job;
	struct sorted_item item;
	int rc = class_folders_names(
		listing->classes, listing->root.names, listing->root.classes, fault);
	if (rc < 0)
		return rc;
	while ((rc = sorted_next(listing->samples, &item, fault)) > 0) {
		rc = sample_emit(listing, &item, fault);
		if (rc >= 0) /* 1: the manifest leaves the sample out */
			rc = index_progress_step(
				job->progress, job->writer->head.samples, listing->last_end, fault);
		if (rc < 0)
			return rc;
	}
	if (rc == 0)
		rc = ranges_check(listing, fault);
	return rc < 0 ? rc : class_folders_end(listing->classes, fault);
}

static int listing_run(struct listing *listing, struct fault *fault)
{
	const struct index_job *job = listing->job;
	int rc = zip_init(&listing->zip, job->blob, job->path, job->size, fault);
	listing->root.progress = job->progress;
	if (rc == 0)
		rc = zip_root_find(&listing->root, &listing->zip, job->class_order, fault);
	if (rc == 0)
		rc = class_folders_new(job, &listing->classes, fault);
	if (rc == 0)
		rc = sorted_new(job->path, SORTED_BUFFER, &listing->samples, fault);
	if (rc == 0)
		rc = members_collect(listing, fault);
	if (rc == 0 && listing->unordered)
		rc = sorted_new(job->path, SORTED_BUFFER, &listing->ranges, fault);
	return rc < 0 ? rc : samples_emit(listing, fault);
}

static int zip_index(const struct index_job *job, struct fault *fault)
{
	struct listing *listing = calloc(1, sizeof *listing);
	if (!listing)
		return fault_set(fault, -ENOMEM, "no memory to index %s", job->path);
	listing->job = job;
	int rc = listing_run(listing, fault);
	sorted_free(listing->samples);
	sorted_free(listing->ranges);
	class_folders_free(listing->classes);
	zip_root_deinit(&listing->root);
	zip_deinit(&listing->zip);
	free(listing);
	return rc;
}

static bool zip_key(const char *name, const char **ret_key, size_t *ret_size)
{
	*ret_key = name;
	*ret_size = folder_key_size(name);
	return true;
}

static int zip_empty(const struct container_empty *empty, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s%s: no images among %llu file%s: expected members named " IMAGE_NAMES_FOLDER
		", in class folders or in none",
		empty->path, empty->shards > 1 ? " and the ZIPs after it" : "",
		(unsigned long long)empty->members, empty->members == 1 ? "" : "s");
}

const struct container container_zip = {
	.name = "ZIP",
	.sniff = zip_sniff,
	.labels = 1 << DATASET_LABELS_NONE | 1 << DATASET_LABELS_FOLDER |
		  1 << DATASET_LABELS_MANIFEST,
	.joint = "!",
	.naming = "a member's name, its name without the extension, or ARCHIVE!MEMBER",
	.index = zip_index,
	.key = zip_key,
	.empty = zip_empty,
};

/* container_lmdb: an LMDB database whose values are images (LSUN) or Caffe's Datums.
 *
 * A user names the database's folder, or a file of any name (MDB_NOSUBDIR). The samples have the
 * order of the keys, which is that of a cursor. Each value says what it is:
 *
 *   an image      by its first bytes; unlabeled
 *   a Datum       the image in its `data` (encoded), or raw pixels of one channel, with its label
 *
 * Refused: raw pixels of three channels, which Caffe stores as blue, green, red; Datums of floats;
 * Python pickles, which are never read, because reading one may run any program; everything else.
 * Keys that begin and end with two underscores ("__len__", "__keys__") belong to programs that
 * pickle, and are passed over.
 *
 * A sample's name, and its key, is the key of its value; of a database of integer keys, the number;
 * in hexadecimal if it is not printable UTF-8 or begins with a slash. Values are ranges of the
 * file, so a replaced database is noticed by its size and time, as a tar is. */
#include "dataset/container/container.h"

#include "base/util.h"
#include "base/whole.h"
#include "dataset/container/archives/archives.h"
#include "dataset/container/archives/datum.h"
#include "dataset/container/archives/lmdb.h"
#include "dataset/container/records/records.h"
#include "proto/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

struct walk {
	const struct index_job *job;
	struct lmdb lmdb;
	struct lmdb_entry entry;
	size_t name_size;
	char name[INDEX_NAME_MAX + 1];
};

static bool lmdb_sniff(const struct container_probe *probe)
{
	return lmdb_looks(probe->head, probe->head_size);
}

/* The file in a database's folder always has this name. */
static int lmdb_expand(const char *folder, int fd, struct source_paths *paths, struct fault *fault)
{
	struct stat st;
	char *path;
	if (fstatat(fd, "data.mdb", &st, 0) < 0 || !S_ISREG(st.st_mode))
		return 0;
	if (asprintf(&path, "%s/data.mdb", folder) < 0)
		path = NULL;
	int rc = source_paths_add(paths, path, fault);
	return rc < 0 ? rc : 1;
}

static bool key_is_printable(const char *text, size_t size)
{
	if (size == 0 || text[0] == '/' || strlen(text) != size || !utf8_is_valid(text))
		return false;
	for (size_t i = 0; i < size; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return false;
	return true;
}

static void name_number(struct walk *walk)
{
	const struct lmdb_entry *entry = &walk->entry;
	const uint64_t number =
		entry->key_size == 8 ? little_64(entry->key) : little_32(entry->key);
	walk->name_size =
		(size_t)snprintf(walk->name, sizeof walk->name, "%llu", (unsigned long long)number);
}

static void name_hex(struct walk *walk)
{
	const struct lmdb_entry *entry = &walk->entry;
	const size_t size = UTIL_MIN(entry->key_size, (size_t)INDEX_NAME_MAX / 2);
	for (size_t i = 0; i < size; i++)
		(void)snprintf(walk->name + 2 * i, 3, "%02x", entry->key[i]);
	walk->name_size = 2 * size;
}

/* Makes a sample's name of the entry's key. LMDB has no empty keys, but a damaged file may. */
static void name_make(struct walk *walk)
{
	const struct lmdb_entry *entry = &walk->entry;
	const size_t size = entry->key_size;
	if (lmdb_integers(&walk->lmdb) && (size == 4 || size == 8)) {
		name_number(walk);
		return;
	}
	if (size == 0) {
		walk->name_size = records_row(walk->job->writer->head.members, walk->name);
		return;
	}
	if (size <= INDEX_NAME_MAX) {
		memcpy(walk->name, entry->key, size);
		walk->name[size] = 0;
		walk->name_size = size;
	}
	if (size > INDEX_NAME_MAX || !key_is_printable(walk->name, size))
		name_hex(walk);
}

static bool key_is_inner(const struct walk *walk)
{
	const char *name = walk->name;
	const size_t size = walk->name_size;
	return size > 4 && memcmp(name, "__", 2) == 0 && memcmp(name + size - 2, "__", 2) == 0;
}

static int fault_value(const struct walk *walk, const char *what, struct fault *fault)
{
	return fault_set(fault, -EINVAL, "%s: byte %llu: the value of key %.200s %s",
		walk->job->path, (unsigned long long)walk->entry.offset, walk->name, what);
}

static int fault_other(
	const struct walk *walk, const uint8_t *head, size_t size, struct fault *fault)
{
	if (size >= 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5)
		return fault_value(walk,
			"is a Python pickle, which penstock never reads, because that may run any "
			"program: write the bytes of the image file as the value, and the labels "
			"into a manifest",
			fault);
	return fault_value(walk,
		"is neither an image nor a Datum of Caffe: write the bytes of the image file as "
		"the value, and the labels into a manifest",
		fault);
}

/* Raw pixels of one channel are a sample that is unpacked. */
static int datum_pixels(const struct walk *walk, const struct datum *datum,
	struct index_record *record, struct fault *fault)
{
	if (datum->channels == 3)
		return fault_value(walk,
			"is a Datum of raw pixels in the order blue, green, red: encode the images "
			"(convert_imageset -encoded)",
			fault);
	if (datum->channels != 1 || datum->width == 0 || datum->height == 0 ||
		datum->width > UINT16_MAX || datum->height > UINT16_MAX ||
		datum->width * datum->height != datum->data_size)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: the value of key %.200s is a Datum of %llu bytes, but with "
			"%llu channels, height %llu and width %llu: expected one channel, and as "
			"many bytes as pixels; encode the images (convert_imageset -encoded)",
			walk->job->path, (unsigned long long)walk->entry.offset, walk->name,
			(unsigned long long)datum->data_size, (unsigned long long)datum->channels,
			(unsigned long long)datum->height, (unsigned long long)datum->width);
	if (datum->data_size > UINT32_MAX - PACKED_HEADER)
		return fault_value(walk, "has more than 4 GiB: an image has less", fault);
	const uint32_t pixels = (uint32_t)datum->data_size;
	record->size = pixels + PACKED_HEADER;
	record->packed = (struct packed){.stored = pixels,
		.whole = pixels + PACKED_HEADER,
		.method = PACKED_PIXELS,
		.channels = 1,
		.width = (uint16_t)datum->width,
		.height = (uint16_t)datum->height};
	return 0;
}

static int datum_label(const struct walk *walk, const struct datum *datum, struct fault *fault)
{
	struct label_found *found = walk->job->found;
	if (datum->label < 0 || datum->label > INT32_MAX)
		return fault_set(fault, -EINVAL,
			"%s!%.200s: its label is %lld: expected a class from 0 to %d; to ignore "
			"labels, ask for labels: none (--labels none)",
			walk->job->path, walk->name, (long long)datum->label, INT32_MAX);
	label_found_begin(found, LABEL_TYPE_CLASS);
	found->count = 1;
	found->first = (int32_t)datum->label;
	found->class[0] = (uint32_t)datum->label;
	return 0;
}

static int datum_take(const struct walk *walk, const struct datum *datum,
	struct index_record *record, struct fault *fault)
{
	if (datum->floats || !datum->data)
		return fault_value(walk,
			"is a Datum without bytes of an image (it may have floats): encode the "
			"images (convert_imageset -encoded)",
			fault);
	record->offset = datum->data_at;
	record->size = (uint32_t)datum->data_size;
	int rc = datum->encoded ? 0 : datum_pixels(walk, datum, record, fault);
	if (rc == 0 && datum->labelled && walk->job->asked == DATASET_LABELS_AUTO)
		rc = datum_label(walk, datum, fault);
	return rc;
}

/* Finds out what a value is. 1: the sample has a label; 0: it has none; or a fault. */
static int value_take(const struct walk *walk, struct index_record *record, struct fault *fault)
{
	const struct lmdb_entry *entry = &walk->entry;
	const char *path = walk->job->path;
	uint8_t head[RECORDS_IMAGE_HEAD];
	struct datum datum;
	const size_t most = UTIL_MIN((size_t)entry->size, sizeof head);
	const ssize_t n = blob_read(walk->job->blob, head, most, entry->offset);
	*record = (struct index_record){
		.offset = entry->offset, .size = entry->size, .format = SAMPLE_OTHER};
	if (n > 0 && records_image(head, (size_t)n, &record->format))
		return 0;
	int rc = n < 0 ? (int)n : datum_read(walk->job->blob, entry->offset, entry->size, &datum);
	if (rc < 0)
		return fault_set(fault, rc, "%s cannot be read at byte %llu: %s", path,
			(unsigned long long)entry->offset, blob_error(rc));
	if (rc == 0)
		return fault_other(walk, head, (size_t)n, fault);
	record->format = SAMPLE_OTHER;
	rc = datum_take(walk, &datum, record, fault);
	return rc < 0 ? rc : datum.labelled;
}

static int entry_take(struct walk *walk, struct fault *fault)
{
	const struct index_job *job = walk->job;
	name_make(walk);
	job->writer->head.members++;
	if (key_is_inner(walk))
		return 0;
	struct index_sample sample = {.name = walk->name,
		.key = walk->name,
		.name_size = walk->name_size,
		.key_size = walk->name_size};
	int rc = value_take(walk, &sample.record, fault);
	return rc < 0 ? rc : container_sample(job, &sample, rc ? job->found : NULL, fault);
}

static int walk_run(struct walk *walk, struct fault *fault)
{
	const struct index_job *job = walk->job;
	int rc = lmdb_init(&walk->lmdb, job->blob, job->path, job->size, fault);
	if (rc < 0)
		return rc;
	while ((rc = lmdb_next(&walk->lmdb, &walk->entry, fault)) > 0) {
		rc = entry_take(walk, fault);
		if (rc >= 0) /* 1: the manifest leaves the sample out */
			rc = index_progress_step(job->progress, job->writer->head.samples,
				job->writer->head.bytes, fault);
		if (rc < 0)
			return rc;
	}
	return rc;
}

static int lmdb_index(const struct index_job *job, struct fault *fault)
{
	const bool manifest = job->asked == DATASET_LABELS_MANIFEST;
	job->writer->head.source = manifest ? DATASET_LABELS_MANIFEST : DATASET_LABELS_NONE;
	struct walk *walk = calloc(1, sizeof *walk);
	if (!walk)
		return fault_set(fault, -ENOMEM, "no memory to index %s", job->path);
	walk->job = job;
	int rc = walk_run(walk, fault);
	lmdb_deinit(&walk->lmdb);
	free(walk);
	return rc;
}

static bool lmdb_key(const char *name, const char **ret_key, size_t *ret_size)
{
	*ret_key = name;
	*ret_size = strlen(name);
	return true;
}

static int lmdb_empty(const struct container_empty *empty, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s: no images among %llu values: expected images, or Datums of Caffe, under their "
		"keys",
		empty->path, (unsigned long long)empty->members);
}

const struct container container_lmdb = {
	.name = "LMDB",
	.sniff = lmdb_sniff,
	.expand = lmdb_expand,
	.labels = 1 << DATASET_LABELS_NONE | 1 << DATASET_LABELS_COLUMN |
		  1 << DATASET_LABELS_MANIFEST,
	.joint = "!",
	.naming = "a key, or DATABASE!KEY",
	.index = lmdb_index,
	.key = lmdb_key,
	.empty = lmdb_empty,
};

/* container_recordio: RecordIO files of images, as MXNet, InsightFace and DALI read them.
 *
 * Order and keys: if X.idx is beside X.rec, its lines, as MXNet's MXIndexedRecordIO has them, and
 * only those; each line's key is the sample's name and key. (DALI sorts the lines by their bytes,
 * which changes nothing in files that MXNet's tools wrote.) Otherwise the records in the order of
 * the file; a sample's name is the number of its record, and its key the id of its header.
 *
 * Labels: one whole number, not negative, is a class; other numbers, and several, are a row of
 * numbers. What the first LABELS_LOOKED records have decides for all.
 *
 * InsightFace: record 0 has labels but no image. The first label is N: the images are records 1 to
 * N - 1, and the records from N on describe persons. A sample's label is the header's, or else the
 * first of several. (insightface, recognition/arcface_torch/dataset.py.) */
#include "dataset/container/container.h"

#include "base/util.h"
#include "dataset/container/beside.h"
#include "dataset/container/records/recordio.h"
#include "proto/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

enum { LABELS_LOOKED = 4096, LABELS_ROOM = LABEL_VALUES_MAX };

/* One shard that is being indexed. */
struct reading {
	const struct index_job *job;
	struct recordio reader;
	struct recordio_idx idx;
	struct beside beside;
	bool keyed; /* there is an .idx file */
	uint64_t at, number; /* of the next record, if it is not keyed */
	uint64_t parts; /* of the records so far, without their first ones */
	uint64_t faces; /* InsightFace: N; otherwise 0 */
	enum label_type type;
	float label[LABELS_ROOM];
	uint32_t labels; /* of the current record */
};

/* A record, and what it is called. */
struct entry {
	struct recordio_record record;
	struct recordio_image image;
	struct recordio_line line;
	uint64_t number; /* of the record or of the line */
};

static bool ends_with(const char *text, const char *end)
{
	size_t size = strlen(text), tail = strlen(end);
	return size >= tail && strcmp(text + size - tail, end) == 0;
}

static bool recordio_sniff(const struct container_probe *probe)
{
	uint32_t magic = 0;
	if (probe->head_size >= sizeof magic)
		memcpy(&magic, probe->head, sizeof magic);
	return magic == RECORDIO_MAGIC || ends_with(probe->path, ".rec");
}

/* X.rec has X.idx; other names have none. */
static bool idx_name(const char *path, char *ret, size_t room)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const int stem = (int)strlen(name) - 3;
	return ends_with(name, ".rec") && snprintf(ret, room, "%.*sidx", stem, name) < (int)room;
}

static int idx_open(struct reading *reading, struct fault *fault)
{
	char name[NAME_MAX + 1];
	if (!idx_name(reading->job->path, name, sizeof name))
		return 0;
	int rc = beside_open(reading->job->path, name, &reading->beside, fault);
	reading->keyed = rc == 0;
	return rc < 0 ? rc : 0;
}

static int recordio_beside(
	const char *path, const struct column_choice *columns, uint32_t *ret, struct fault *fault)
{
	char name[NAME_MAX + 1];
	(void)columns;
	return idx_name(path, name, sizeof name) ? beside_state(ret, path, name, fault) : 0;
}

static void reading_begin(struct reading *reading)
{
	const struct index_job *job = reading->job;
	recordio_init(&reading->reader, job->blob, job->path, job->size);
	recordio_idx_init(
		&reading->idx, &reading->beside.blob, reading->beside.path, reading->beside.size);
	reading->at = 0;
	reading->number = 0;
	reading->parts = 0;
}

static void reading_end(struct reading *reading)
{
	recordio_deinit(&reading->reader);
	recordio_idx_deinit(&reading->idx);
}

static int keyed_next(struct reading *reading, struct entry *ret, struct fault *fault)
{
	struct recordio_idx *idx = &reading->idx;
	int rc = recordio_idx_next(idx, &ret->line, fault);
	if (rc <= 0)
		return rc;
	if (ret->line.record >= reading->job->size || ret->line.record % 4)
		return fault_set(fault, -EINVAL,
			"%s: byte %" PRIu64 ": line %" PRIu64 " says that a record begins at byte "
			"%" PRIu64 ", but %s has %" PRIu64 " bytes, and records begin at multiples "
			"of 4: make the file again (MXNet's tools/rec2idx.py)",
			idx->window.path, ret->line.at, idx->number, ret->line.record,
			reading->job->path, reading->job->size);
	ret->number = idx->number - 1;
	return recordio_at(&reading->reader, ret->line.record, &ret->record, fault);
}

/* Lines may name a record several times. One of many parts would then be walked for hours. */
static int parts_check(struct reading *reading, const struct entry *entry, struct fault *fault)
{
	reading->parts += entry->record.parts - 1;
	if (reading->parts <= reading->job->size / RECORDIO_HEAD)
		return 0;
	return fault_set(fault, -EINVAL,
		"%s: byte %" PRIu64 ": the records that the lines up to this one name have more "
		"parts than %s has room for: make the file again (MXNet's tools/rec2idx.py)",
		reading->idx.window.path, entry->line.at, reading->job->path);
}

/* 1 and the next record; 0 at the end; or a fault. */
static int entry_next(struct reading *reading, struct entry *ret, struct fault *fault)
{
	int rc = reading->keyed ? keyed_next(reading, ret, fault)
				: recordio_at(&reading->reader, reading->at, &ret->record, fault);
	if (rc <= 0)
		return rc;
	if (!reading->keyed) {
		ret->number = reading->number++;
		reading->at = ret->record.next;
	} else if ((rc = parts_check(reading, ret, fault)) < 0) {
		return rc;
	}
	rc = recordio_image(&reading->reader, &ret->record, &ret->image, fault);
	return rc < 0 ? rc : 1;
}

/* Reads the record's labels. */
static int labels_read(struct reading *reading, const struct entry *entry, struct fault *fault)
{
	reading->label[0] = entry->image.label;
	reading->labels = 1;
	if (entry->image.flag == 0)
		return 0;
	/* InsightFace's label is the first one. */
	reading->labels = reading->faces ? 1 : entry->image.flag;
	if (reading->labels > LABELS_ROOM)
		return fault_set(fault, -EINVAL,
			"%s: byte %" PRIu64 ": a record has %u labels, but at most %d are allowed: "
			"ask for labels: none (--labels none), or name the labels in a manifest",
			reading->job->path, entry->record.at, reading->labels, LABELS_ROOM);
	return recordio_copy(&reading->reader, &entry->record, RECORDIO_IR, reading->label,
		reading->labels * sizeof(float), fault);
}

static bool is_class(float value)
{
	return value >= 0 && value < 2147483648.0f && floorf(value) == value;
}

/* The number that InsightFace knows a record by; -1: none. */
static int64_t face_number(const struct reading *reading, const struct entry *entry)
{
	if (!reading->keyed)
		return (int64_t)UTIL_MIN(entry->number, (uint64_t)INT64_MAX);
	int64_t value = 0;
	for (size_t i = 0; i < entry->line.key_size; i++) {
		const unsigned digit = (unsigned)(entry->line.key[i] - '0');
		if (digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, digit, &value))
			return -1;
	}
	return value;
}

/* Whether the first record is InsightFace's: labels and no image. */
static int faces_find(struct reading *reading, const struct entry *entry, struct fault *fault)
{
	if (entry->image.flag == 0 || entry->image.skip != entry->record.size ||
		face_number(reading, entry) != 0)
		return 0;
	int rc = labels_read(reading, entry, fault);
	if (rc < 0)
		return rc;
	const float count = reading->label[0];
	if (!is_class(count) || count < 1)
		return fault_set(fault, -EINVAL,
			"%s: byte %" PRIu64 ": record 0 has no image, and its first label is %g, "
			"but in InsightFace's files it is the number of records, at least 1: the "
			"file is damaged, make it again",
			reading->job->path, entry->record.at, (double)count);
	reading->faces = (uint64_t)count;
	return 0;
}

/* Looks at the first records: decides what kind of labels the file has, and whether InsightFace
 * made it. */
static int labels_decide(struct reading *reading, struct fault *fault)
{
	struct entry entry;
	int rc = 0;
	reading->type = LABEL_TYPE_CLASS;
	reading_begin(reading);
	for (unsigned i = 0; i < LABELS_LOOKED; i++) {
		rc = entry_next(reading, &entry, fault);
		const int faces = rc > 0 && i == 0 ? faces_find(reading, &entry, fault) : 0;
		if (faces < 0)
			rc = faces;
		if (rc <= 0 || reading->faces || reading->job->asked == DATASET_LABELS_NONE)
			break;
		rc = labels_read(reading, &entry, fault);
		if (rc < 0)
			break;
		if (reading->labels != 1 || !is_class(reading->label[0])) {
			reading->type = LABEL_TYPE_FLOAT;
			break;
		}
	}
	reading_end(reading);
	return UTIL_MIN(rc, 0);
}

static int label_found(struct reading *reading, const struct entry *entry, struct fault *fault)
{
	static const struct label_classes none;
	struct label_found *found = reading->job->found;
	int rc = labels_read(reading, entry, fault);
	if (rc < 0)
		return rc;
	label_found_begin(found, reading->type);
	if (reading->type == LABEL_TYPE_CLASS) {
		if (reading->labels != 1 || !is_class(reading->label[0]))
			return fault_set(fault, -EINVAL,
				"%s: byte %" PRIu64 ": a record has %u labels, the first is %g, "
				"but the records before it have one class each: ask for labels: "
				"none (--labels none), or name the labels in a manifest",
				reading->job->path, entry->record.at, reading->labels,
				(double)reading->label[0]);
		rc = label_found_class(found, (int64_t)reading->label[0], &none, fault);
	}
	for (uint32_t i = 0; rc == 0 && reading->type == LABEL_TYPE_FLOAT && i < reading->labels;
		i++)
		rc = label_found_number(found, (double)reading->label[i], fault);
	if (rc == 0)
		rc = label_found_end(found, fault);
	return rc < 0 ? fault_prefix(fault, rc, "%s: byte %" PRIu64, reading->job->path,
				entry->record.at)
		      : 0;
}

/* Where the image is: in a record of one part its bytes are next to each other. */
static void place_take(const struct entry *entry, struct index_record *ret)
{
	const struct recordio_record *record = &entry->record;
	const uint32_t skip = entry->image.skip;
	*ret = (struct index_record){.size = (uint32_t)(record->size - skip),
		.format = SAMPLE_OTHER,
		.label = -1,
		.offset = record->at + RECORDIO_HEAD + skip};
	if (record->parts == 1)
		return;
	ret->offset = record->at;
	ret->packed = (struct packed){.method = PACKED_PARTS,
		.stored = (uint32_t)record->stored,
		.inner = skip,
		.whole = (uint32_t)record->size};
}

static int entry_write(struct reading *reading, const struct entry *entry, struct fault *fault)
{
	const struct index_job *job = reading->job;
	char name[24], key[24];
	struct index_sample sample = {.name = name, .key = key};
	place_take(entry, &sample.record);
	if (reading->keyed) {
		if (entry->line.key[0] == '/' || !utf8_is_valid(entry->line.key))
			return fault_set(fault, -EINVAL,
				"%s: byte %" PRIu64 ": the key of line %" PRIu64 " begins with a "
				"slash or is not UTF-8: make the file again (MXNet's "
				"tools/rec2idx.py)",
				reading->beside.path, entry->line.at, entry->number + 1);
		sample.name = sample.key = entry->line.key;
		sample.name_size = sample.key_size = entry->line.key_size;
	} else {
		sample.name_size = (size_t)snprintf(name, sizeof name, "%" PRIu64, entry->number);
		sample.key_size = (size_t)snprintf(key, sizeof key, "%" PRIu64, entry->image.id);
	}
	int rc = job->asked == DATASET_LABELS_AUTO ? label_found(reading, entry, fault) : 0;
	return rc < 0 ? rc : container_sample(job, &sample, job->found, fault);
}

static bool entry_is_sample(const struct reading *reading, const struct entry *entry)
{
	const int64_t number = reading->faces ? face_number(reading, entry) : 1;
	return !reading->faces || (number >= 1 && (uint64_t)number < reading->faces);
}

static int records_run(struct reading *reading, struct fault *fault)
{
	const struct index_job *job = reading->job;
	struct entry entry;
	int rc;
	while ((rc = entry_next(reading, &entry, fault)) > 0) {
		job->writer->head.members++;
		rc = entry_is_sample(reading, &entry) ? entry_write(reading, &entry, fault) : 0;
		if (rc >= 0)
			rc = index_progress_step(
				job->progress, job->writer->head.samples, entry.record.next, fault);
		if (rc < 0)
			return rc;
	}
	return rc;
}

static int recordio_index(const struct index_job *job, struct fault *fault)
{
	cleanup(free_ptr) struct reading *reading = calloc(1, sizeof *reading);
	if (!reading)
		return fault_set(fault, -ENOMEM, "no memory to index %s", job->path);
	reading->job = job;
	reading->beside.blob = BLOB_OF(-1);
	int rc = container_begin(job, "a RecordIO file", fault);
	if (rc == 0)
		rc = idx_open(reading, fault);
	if (rc == 0)
		rc = labels_decide(reading, fault);
	if (rc == 0 && job->asked == DATASET_LABELS_AUTO)
		job->writer->head.label_type = reading->type;
	if (rc == 0) {
		reading_begin(reading);
		rc = records_run(reading, fault);
		reading_end(reading);
	}
	beside_close(&reading->beside);
	return rc;
}

static int recordio_empty(const struct container_empty *empty, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s%s: no images among %llu records: expected records with MXNet's header and an "
		"image after it",
		empty->path, empty->shards > 1 ? " and the files after it" : "",
		(unsigned long long)empty->members);
}

const struct container container_recordio = {
	.name = "RecordIO",
	.sniff = recordio_sniff,
	.labels = 1 << DATASET_LABELS_NONE | 1 << DATASET_LABELS_MANIFEST |
		  1 << DATASET_LABELS_COLUMN,
	.joint = "!",
	.naming = "a record's key, or SHARD!KEY",
	.index = recordio_index,
	.empty = recordio_empty,
	.beside = recordio_beside,
};

/* container_tfrecord: TFRecord files whose records are tf.Examples (example.h).
 *
 *   u64 length, u32 masked CRC-32C of the length, the bytes, u32 masked CRC-32C of the bytes
 *   (tensorflow/core/lib/io/record_writer.h)
 *
 * Checked while indexing: the checksum of every length, and that of the bytes of records that have
 * at most TFRECORD_CHECKED bytes. Longer records are not read as a whole: only the names and
 * lengths of their features, and the label.
 *
 * The first record of a shard decides which features count. The image is `image_column`, or else
 * "image/encoded" (ImageNet), or else "image" (TensorFlow Datasets), or else the only feature whose
 * bytes begin like an image. The label is `label_column`, or else "image/class/label", or else
 * "label". A sample's name is its "image/filename", "file_name" or "filename", or else its row.
 * An integer is a class, several integers are a list of classes, and floats are a row of numbers.
 * TensorFlow Datasets stores the names of the classes beside the shards, as LABEL.labels.txt. */
#include "dataset/container/container.h"

#include "base/sum/crc32c.h"
#include "base/util.h"
#include "base/whole.h"
#include "dataset/container/beside.h"
#include "dataset/container/records/example.h"
#include "dataset/container/records/records.h"
#include "dataset/container/window.h"
#include "labels/labels.h"
#include "proto/utf8.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

enum {
	TFRECORD_HEAD = 12,
	TFRECORD_FOOT = 4,
	TFRECORD_CHECKED = 32 << 10,
	LABELS_TXT_MAX = 16 << 20,
	FEATURES_LISTED = 400, /* bytes of the list of features in a fault */
};

/* One shard that is being read. */
struct tfrecord {
	const struct index_job *job;
	struct window window;
	struct example example;
	uint64_t row, at; /* of the record that is being read */
	/* The features that count; "": none. */
	char image[COLUMN_NAME_MAX + 1], label[COLUMN_NAME_MAX + 1], name[COLUMN_NAME_MAX + 1];
	uint32_t classes; /* names in LABEL.labels.txt; 0: none */
};

/* What one record has of them. */
struct row {
	bool image_seen, label_seen;
	uint64_t image_at, image_size;
	struct example_feature label;
	size_t name_size;
	char name[INDEX_NAME_MAX + 1];
};

/* What the first record has. */
struct features {
	bool encoded, plain, class_label, plain_label;
	bool file_name, filename, image_filename;
	bool asked_image, asked_label;
	unsigned images; /* features whose bytes begin like an image */
	char guess[COLUMN_NAME_MAX + 1]; /* the first of those */
	size_t used;
	char list[FEATURES_LISTED];
};

static int record_fault(const struct tfrecord *file, int code, struct fault *fault)
{
	if (code != -EBADMSG)
		return code;
	const struct example *example = &file->example;
	if (file->row == 0)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: the first record is not a tf.Example: found %s, expected a "
			"protobuf with a map of features; write the images as tf.Example, with the "
			"features image/encoded and image/class/label",
			file->job->path, (unsigned long long)example->wrong_at, example->wrong);
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: record %llu is damaged, or is not a tf.Example as those before it: "
		"found %s; copy the file again from where it came from",
		file->job->path, (unsigned long long)example->wrong_at,
		(unsigned long long)file->row, example->wrong);
}

/* ---- which features count ---- */

static void features_list(struct features *features, const char *name, enum example_type type)
{
	static const char *const types[] = {"empty", "bytes", "floats", "integers"};
	if (features->used >= sizeof features->list)
		return;
	int n = snprintf(features->list + features->used, sizeof features->list - features->used,
		"%s%.80s (%s)", features->used ? ", " : "", name, types[type]);
	features->used += (size_t)UTIL_MAX(n, 0);
}

/* Whether the feature's first value begins like an image. 1, 0 or negative. */
static int feature_image(
	struct tfrecord *file, const struct example_feature *feature, struct fault *fault)
{
	struct example_values values;
	uint64_t at, size;
	const uint8_t *bytes;
	uint8_t format;
	example_values_init(&values, feature);
	int rc = example_bytes(&file->example, &values, &at, &size, fault);
	if (rc <= 0)
		return rc;
	const size_t head = (size_t)UTIL_MIN(size, (uint64_t)RECORDS_IMAGE_HEAD);
	rc = window_get(&file->window, at, head, "an image", &bytes, fault);
	return rc < 0 ? rc : records_image(bytes, head, &format);
}

static int feature_note(struct tfrecord *file, const struct example_feature *feature,
	struct features *features, struct fault *fault)
{
	const struct column_choice *columns = file->job->columns;
	const char *name = feature->name;
	const bool bytes = feature->type == EXAMPLE_BYTES;
	features_list(features, name, feature->type);
	features->asked_image |= !strcmp(name, columns->image);
	features->asked_label |= !strcmp(name, columns->label);
	features->class_label |= !strcmp(name, "image/class/label");
	features->plain_label |= !strcmp(name, "label");
	if (!bytes)
		return 0;
	features->encoded |= !strcmp(name, "image/encoded");
	features->plain |= !strcmp(name, "image");
	features->image_filename |= !strcmp(name, "image/filename");
	features->file_name |= !strcmp(name, "file_name");
	features->filename |= !strcmp(name, "filename");
	int rc = feature_image(file, feature, fault);
	if (rc > 0 && feature->name_size <= COLUMN_NAME_MAX && features->images++ == 0)
		(void)snprintf(features->guess, sizeof features->guess, "%s", name);
	return UTIL_MIN(rc, 0);
}

static int image_choose(struct tfrecord *file, const struct features *features, struct fault *fault)
{
	const char *path = file->job->path, *asked = file->job->columns->image;
	const char *chosen = *asked                  ? asked
			     : features->encoded     ? "image/encoded"
			     : features->plain       ? "image"
			     : features->images == 1 ? features->guess
						     : NULL;
	if (*asked && !features->asked_image)
		return fault_set(fault, -EINVAL,
			"%s: record 0 has no feature %s (image_column): its features are %s", path,
			asked, features->list);
	if (!chosen)
		return fault_set(fault, -EINVAL,
			"%s: record 0 has %s: say which feature is the image with image_column "
			"(--image-column); its features are %s",
			path,
			features->images ? "several features with images"
					 : "neither image/encoded nor image nor another feature "
					   "that begins like an image",
			features->list);
	(void)snprintf(file->image, sizeof file->image, "%s", chosen);
	return 0;
}

static int label_choose(struct tfrecord *file, const struct features *features, struct fault *fault)
{
	const char *asked = file->job->columns->label;
	if (!records_labelled(file->job))
		return 0;
	if (*asked && !features->asked_label)
		return fault_set(fault, -EINVAL,
			"%s: record 0 has no feature %s (label_column): its features are %s",
			file->job->path, asked, features->list);
	(void)snprintf(file->label, sizeof file->label, "%s",
		*asked                  ? asked
		: features->class_label ? "image/class/label"
		: features->plain_label ? "label"
					: "");
	return 0;
}

/* Reads the first record, and decides which features count. */
static int choose(struct tfrecord *file, uint64_t at, uint64_t size, struct fault *fault)
{
	struct features features = {.used = 0};
	struct example_feature feature;
	int rc;
	example_init(&file->example, &file->window, at, size);
	while ((rc = example_next(&file->example, &feature, fault)) > 0) {
		rc = feature_note(file, &feature, &features, fault);
		if (rc < 0)
			break;
	}
	if (rc < 0)
		return record_fault(file, rc, fault);
	if (!features.used) {
		file->example.wrong = "no features";
		file->example.wrong_at = at;
		return record_fault(file, -EBADMSG, fault);
	}
	(void)snprintf(file->name, sizeof file->name, "%s",
		features.image_filename ? "image/filename"
		: features.file_name    ? "file_name"
		: features.filename     ? "filename"
					: "");
	rc = image_choose(file, &features, fault);
	return rc < 0 ? rc : label_choose(file, &features, fault);
}

/* ---- names of classes ---- */

/* The file that TensorFlow Datasets writes for a ClassLabel: '/' in a feature's name becomes '-'
 * (tensorflow_datasets/core/features/class_label_feature.py and features_dict.py). */
static void labels_txt(const char *label, char *ret, size_t room)
{
	(void)snprintf(ret, room, "%s.labels.txt", label);
	for (char *c = ret; *c; c++)
		*c = *c == '/' ? '-' : *c;
}

/* Writes the names in a file with one on each line; those that the label offset moves below 0 are
 * left out. */
static int classes_write(struct tfrecord *file, const char *text, size_t size)
{
	int64_t number = file->job->columns->label_offset;
	int rc = 0;
	for (size_t at = 0; rc == 0 && at < size; number++) {
		const char *end = memchr(text + at, '\n', size - at);
		const size_t line = end ? (size_t)(end - text) - at : size - at;
		if (number >= 0) {
			rc = index_writer_entry(file->job->writer, 'C', 0, text + at, line);
			file->classes++;
		}
		at += line + 1;
	}
	return rc;
}

static int classes_read(struct tfrecord *file, struct fault *fault)
{
	char name[COLUMN_NAME_MAX + 16];
	cleanup(free_ptr) char *text = NULL;
	size_t size;
	/* Names cannot be moved up, where there would be classes without one. */
	if (!file->label[0] || file->job->columns->label_offset > 0)
		return 0;
	labels_txt(file->label, name, sizeof name);
	int rc = records_beside(file->job->path, name, LABELS_TXT_MAX, &text, &size, fault);
	if (rc <= 0)
		return rc;
	if (strlen(text) != size || !utf8_is_valid(text))
		return fault_set(fault, -EINVAL,
			"%s beside %s is not UTF-8 text: expected the name of a class on each line",
			name, file->job->path);
	for (size_t at = 0; at < size; at += strcspn(text + at, "\n") + 1)
		if (strcspn(text + at, "\n") > INDEX_NAME_MAX)
			return fault_set(fault, -EINVAL,
				"%s beside %s has a line of more than %d bytes: expected the name "
				"of a class on each line",
				name, file->job->path, INDEX_NAME_MAX);
	return classes_write(file, text, size);
}

/* ---- a record ---- */

/* Takes the first value of the feature, which has to be the only one. */
static int image_take(struct tfrecord *file, const struct example_feature *feature, struct row *row,
	struct fault *fault)
{
	const char *path = file->job->path;
	struct example_values values;
	uint64_t at, size;
	if (feature->type != EXAMPLE_BYTES && feature->type != EXAMPLE_EMPTY)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: record %llu: the feature %s holds numbers, but an image is "
			"bytes: name another one with image_column (--image-column)",
			path, (unsigned long long)feature->at, (unsigned long long)file->row,
			file->image);
	example_values_init(&values, feature);
	int rc = feature->type == EXAMPLE_EMPTY ? 0
						: example_bytes(&file->example, &values,
							  &row->image_at, &row->image_size, fault);
	row->image_seen = rc > 0;
	if (rc > 0)
		rc = example_bytes(&file->example, &values, &at, &size, fault);
	if (rc < 0)
		return record_fault(file, rc, fault);
	if (rc > 0)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: record %llu: the feature %s has several values: a sample "
			"is one image (videos are not read)",
			path, (unsigned long long)feature->at, (unsigned long long)file->row,
			file->image);
	return 0;
}

/* Takes a name that an index may have; others are passed over, and the row is the name. */
static int name_take(struct tfrecord *file, const struct example_feature *feature, struct row *row,
	struct fault *fault)
{
	struct example_values values;
	uint64_t at, size;
	const uint8_t *bytes;
	example_values_init(&values, feature);
	int rc = feature->type != EXAMPLE_BYTES
			 ? 0
			 : example_bytes(&file->example, &values, &at, &size, fault);
	if (rc < 0)
		return record_fault(file, rc, fault);
	if (rc == 0 || size == 0 || size > INDEX_NAME_MAX)
		return 0;
	rc = window_get(&file->window, at, (size_t)size, "a name", &bytes, fault);
	if (rc < 0)
		return rc;
	memcpy(row->name, bytes, (size_t)size);
	row->name[size] = 0;
	bool good = row->name[0] != '/' && strlen(row->name) == size && utf8_is_valid(row->name);
	for (size_t i = 0; good && i < size; i++)
		good = (unsigned char)row->name[i] >= ' ' && row->name[i] != 0x7f;
	row->name_size = good ? (size_t)size : 0;
	return 0;
}

/* Notes where the feature is if it is a field that was asked for. */
static int field_take(
	struct tfrecord *file, const struct example_feature *feature, struct fault *fault)
{
	const struct index_job *job = file->job;
	struct example_values values;
	uint64_t at, size;
	uint32_t i = 0;
	while (i < job->fields->count && strcmp(job->fields->at[i].name, feature->name) != 0)
		i++;
	if (i == job->fields->count || feature->type == EXAMPLE_EMPTY)
		return 0;
	if (feature->type != EXAMPLE_BYTES)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: record %llu: the feature %s holds numbers, which a "
			"TFRecord does not store as plain bytes: fields can be features of bytes",
			job->path, (unsigned long long)feature->at, (unsigned long long)file->row,
			feature->name);
	example_values_init(&values, feature);
	int rc = example_bytes(&file->example, &values, &at, &size, fault);
	if (rc < 0)
		return record_fault(file, rc, fault);
	if (rc > 0)
		job->writer->field[i] = (struct index_field){.offset = at,
			.size = (uint32_t)UTIL_MIN(size, (uint64_t)UINT32_MAX),
			.present = 1};
	return 0;
}

static int feature_take(struct tfrecord *file, const struct example_feature *feature,
	struct row *row, struct fault *fault)
{
	int rc = 0;
	if (!strcmp(feature->name, file->image))
		rc = image_take(file, feature, row, fault);
	if (rc == 0 && file->name[0] && !strcmp(feature->name, file->name))
		rc = name_take(file, feature, row, fault);
	/* A first record without a label must not hide that others have one. */
	if (!file->label[0] && records_labelled(file->job) &&
		(!strcmp(feature->name, "image/class/label") || !strcmp(feature->name, "label")))
		(void)snprintf(file->label, sizeof file->label, "%s", feature->name);
	if (file->label[0] && !strcmp(feature->name, file->label)) {
		row->label = *feature;
		row->label_seen = true;
	}
	if (rc == 0 && file->job->fields && file->job->fields->count)
		rc = field_take(file, feature, fault);
	return rc;
}

/* Integers: one is a class; several are a list of classes. */
static int label_ints(
	struct tfrecord *file, const struct example_feature *label, struct fault *fault)
{
	struct example_values values;
	int64_t value;
	uint64_t count = 0;
	int rc;
	example_values_init(&values, label);
	while ((rc = example_int(&file->example, &values, &value, fault)) > 0 && count < 2)
		count++;
	if (rc < 0)
		return record_fault(file, rc, fault);
	label_found_begin(file->job->found, count == 1 ? LABEL_TYPE_CLASS : LABEL_TYPE_MULTI_HOT);
	example_values_init(&values, label);
	while ((rc = example_int(&file->example, &values, &value, fault)) > 0) {
		rc = records_class(file->job, file->row, value, fault);
		if (rc < 0)
			return rc;
		const struct label_found *found = file->job->found;
		if (file->classes && found->class[found->count - 1] >= file->classes)
			return fault_set(fault, -EINVAL,
				"%s: row %llu: its label is %lld, but %s.labels.txt beside the "
				"file names only %u classes",
				file->job->path, (unsigned long long)file->row, (long long)value,
				file->label, file->classes);
	}
	return record_fault(file, rc, fault);
}

static int label_floats(
	struct tfrecord *file, const struct example_feature *label, struct fault *fault)
{
	struct example_values values;
	float value;
	int rc;
	label_found_begin(file->job->found, LABEL_TYPE_FLOAT);
	example_values_init(&values, label);
	while ((rc = example_float(&file->example, &values, &value, fault)) > 0) {
		rc = records_number(file->job, file->row, (double)value, fault);
		if (rc < 0)
			return rc;
	}
	return record_fault(file, rc, fault);
}

/* tf.Example does not tell one integer from a list of one, so a shard in which both occur does not
 * say what its labels are. */
static int label_mixture(const struct tfrecord *file, struct fault *fault)
{
	const struct label_found *found = file->job->found;
	const struct index_head *head = &file->job->writer->head;
	if (!head->samples || head->label_type == (uint32_t)found->type ||
		found->type == LABEL_TYPE_FLOAT || head->label_type == LABEL_TYPE_FLOAT)
		return 0;
	return fault_set(fault, -EINVAL,
		"%s: row %llu: its label (the feature %s) has %u classes, but the labels before it "
		"have %s: a TFRecord does not say whether one integer is a class or a list of one; "
		"give the labels in a manifest, with type: multi_hot",
		file->job->path, (unsigned long long)file->row, file->label, found->count,
		head->label_type == LABEL_TYPE_CLASS ? "one" : "several");
}

/* Puts the label into job->found. 1, or 0 if the record has none. */
static int label_read(struct tfrecord *file, const struct row *row, struct fault *fault)
{
	const struct example_feature *label = &row->label;
	int rc = -EINVAL;
	if (!row->label_seen || label->type == EXAMPLE_EMPTY)
		return 0;
	if (label->type == EXAMPLE_BYTES)
		return fault_set(fault, rc,
			"%s: byte %llu: record %llu: its label (the feature %s) is bytes, but a "
			"label is integers or floats: name another feature with label_column "
			"(--label-column), or ask for labels: none (--labels none)",
			file->job->path, (unsigned long long)label->at,
			(unsigned long long)file->row, file->label);
	rc = label->type == EXAMPLE_INTS ? label_ints(file, label, fault)
					 : label_floats(file, label, fault);
	if (rc == 0)
		rc = label_found_end(file->job->found, fault);
	if (rc == 0 && file->job->found->count)
		rc = label_mixture(file, fault);
	return rc < 0 ? rc : file->job->found->count != 0;
}

static int row_write(struct tfrecord *file, struct row *row, struct fault *fault)
{
	char number[RECORDS_ROW];
	const uint8_t *bytes;
	const size_t head = (size_t)UTIL_MIN(row->image_size, (uint64_t)RECORDS_IMAGE_HEAD);
	struct index_sample sample = {.name = row->name, .name_size = row->name_size};
	if (!row->name_size) {
		sample.name_size = records_row(file->row, number);
		sample.name = number;
	}
	sample.key = sample.name;
	sample.key_size = sample.name_size;
	if (row->image_size > UINT32_MAX)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: the image of record %llu has %llu bytes: an image has at "
			"most %u",
			file->job->path, (unsigned long long)row->image_at,
			(unsigned long long)file->row, (unsigned long long)row->image_size,
			UINT32_MAX);
	int rc = window_get(&file->window, row->image_at, head, "an image", &bytes, fault);
	if (rc < 0)
		return rc;
	sample.record.offset = row->image_at;
	sample.record.size = (uint32_t)row->image_size;
	(void)records_image(bytes, head, &sample.record.format);
	rc = label_read(file, row, fault);
	if (rc < 0)
		return rc;
	rc = container_sample(file->job, &sample, rc ? file->job->found : NULL, fault);
	return UTIL_MIN(rc, 0); /* 1: the manifest leaves it out */
}

static int record_take(struct tfrecord *file, uint64_t at, uint64_t size, struct fault *fault)
{
	struct row row = {.image_seen = false};
	struct example_feature feature;
	int rc;
	row.name_size = 0;
	memset(file->job->writer->field, 0, sizeof file->job->writer->field);
	example_init(&file->example, &file->window, at, size);
	while ((rc = example_next(&file->example, &feature, fault)) > 0) {
		rc = feature_take(file, &feature, &row, fault);
		if (rc < 0)
			return rc;
	}
	if (rc < 0)
		return record_fault(file, rc, fault);
	if (!row.image_seen)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: record %llu has no image: its feature %s is missing or "
			"empty; write it again without such records",
			file->job->path, (unsigned long long)file->at,
			(unsigned long long)file->row, file->image);
	return row_write(file, &row, fault);
}

/* ---- the file ---- */

static bool is_gzip(const uint8_t *bytes, size_t size)
{
	return size >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

static bool is_zlib(const uint8_t *bytes, size_t size)
{
	return size >= 2 && bytes[0] == 0x78 && (bytes[0] * 256 + bytes[1]) % 31 == 0;
}

static int length_fault(const struct tfrecord *file, const uint8_t *head, struct fault *fault)
{
	const char *path = file->job->path;
	if (file->at == 0 && is_gzip(head, TFRECORD_HEAD))
		return fault_set(fault, -EINVAL,
			"%s is compressed (GZIP): records are read where they are, so unpack it: "
			"gzip -dc %s > FILE",
			path, path);
	if (file->at == 0 && is_zlib(head, TFRECORD_HEAD))
		return fault_set(fault, -EINVAL,
			"%s is compressed (ZLIB): records are read where they are, so unpack it: "
			"zlib-flate -uncompress < %s > FILE",
			path, path);
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: the length of record %llu has the checksum %08x, expected %08x: "
		"the file is damaged or not a TFRecord; copy it again from where it came from",
		path, (unsigned long long)file->at, (unsigned long long)file->row,
		records_u32(head + 8), crc32c_masked(head, 8));
}

/* Checks the bytes of a short record. */
static int bytes_check(struct tfrecord *file, uint64_t at, uint64_t size, struct fault *fault)
{
	const uint8_t *bytes;
	if (size > TFRECORD_CHECKED)
		return 0;
	int rc = window_get(
		&file->window, at, (size_t)size + TFRECORD_FOOT, "a record", &bytes, fault);
	if (rc < 0)
		return rc;
	const uint32_t found = records_u32(bytes + size), expected = crc32c_masked(bytes, size);
	return found == expected
		       ? 0
		       : fault_set(fault, -EINVAL,
				 "%s: byte %llu: the bytes of record %llu have the checksum %08x, "
				 "expected %08x: the file is damaged; copy it again from where it "
				 "came from",
				 file->job->path, (unsigned long long)at,
				 (unsigned long long)file->row, found, expected);
}

/* Reads the record at file->at, and moves file->at past it. */
static int record_next(struct tfrecord *file, struct fault *fault)
{
	const struct index_job *job = file->job;
	const uint8_t *head;
	int rc = window_get(
		&file->window, file->at, TFRECORD_HEAD, "the header of a record", &head, fault);
	if (rc < 0)
		return rc;
	if (crc32c_masked(head, 8) != records_u32(head + 8))
		return length_fault(file, head, fault);
	const uint64_t size = records_u64(head), at = file->at + TFRECORD_HEAD;
	if (size > job->size - at || job->size - at - size < TFRECORD_FOOT)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: record %llu has %llu bytes, but the file ends at byte "
			"%llu: it was cut off; copy it again from where it came from",
			job->path, (unsigned long long)file->at, (unsigned long long)file->row,
			(unsigned long long)size, (unsigned long long)job->size);
	rc = bytes_check(file, at, size, fault);
	if (rc == 0 && file->row == 0)
		rc = choose(file, at, size, fault);
	if (rc == 0 && file->row == 0)
		rc = classes_read(file, fault);
	if (rc == 0)
		rc = record_take(file, at, size, fault);
	file->row++;
	file->at = at + size + TFRECORD_FOOT;
	return rc;
}

static int tfrecord_index(const struct index_job *job, struct fault *fault)
{
	int rc = 0;
	cleanup(free_ptr) struct tfrecord *file = calloc(1, sizeof *file);
	if (!file)
		return fault_set(fault, -ENOMEM, "no memory to index %s", job->path);
	file->job = job;
	records_begin(job);
	window_init(&file->window, job->blob, job->path, job->size);
	while (rc == 0 && file->at < job->size) {
		rc = record_next(file, fault);
		if (rc == 0)
			rc = index_progress_step(
				job->progress, job->writer->head.samples, file->at, fault);
	}
	window_deinit(&file->window);
	job->writer->head.members = file->row;
	return rc;
}

static bool all_digits(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (!isdigit((unsigned char)text[i]))
			return false;
	return size > 0;
}

/* Whether a file's name is one that TFRecords have: "x.tfrecord...", "x.tfrec", or
 * "x-00000-of-01024", which is the name of an ImageNet shard. */
static bool tfrecord_named(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	if (strstr(name, ".tfrec"))
		return true;
	const char *of = strstr(name, "-of-"), *dash = of;
	if (!of)
		return false;
	while (dash > name && dash[-1] != '-')
		dash--;
	return dash > name && all_digits(dash, (size_t)(of - dash)) &&
	       all_digits(of + 4, strcspn(of + 4, "."));
}

static bool tfrecord_sniff(const struct container_probe *probe)
{
	const uint8_t *head = probe->head;
	if (probe->size >= TFRECORD_HEAD + TFRECORD_FOOT && probe->head_size >= TFRECORD_HEAD &&
		crc32c_masked(head, 8) == records_u32(head + 8) &&
		records_u64(head) <= probe->size - TFRECORD_HEAD - TFRECORD_FOOT)
		return true;
	const char *dot = strstr(probe->path, ".tfrec");
	if (!tfrecord_named(probe->path))
		return false;
	return dot || probe->size == 0 || is_gzip(head, probe->head_size) ||
	       is_zlib(head, probe->head_size);
}

/* ---- a folder of TensorFlow Datasets ---- */

/* The names of the files of one split. */
struct split {
	const char *folder;
	struct source_paths *paths;
	size_t first; /* of them, in paths */
	char name[NAME_MAX + 1]; /* "mnist-train"; "": no file yet */
	char other[NAME_MAX + 1]; /* another split; "": none */
	bool array_record;
};

static int split_take(struct split *split, const char *name, struct fault *fault)
{
	const char *dot = strstr(name, ".tfrecord");
	char *path = NULL;
	split->array_record |= strstr(name, ".array_record") != NULL;
	if (!dot || dot == name || name[0] == '.' || strstr(name, ".idx"))
		return 0;
	const size_t size = (size_t)(dot - name);
	if (!split->name[0])
		(void)snprintf(split->name, sizeof split->name, "%.*s", (int)size, name);
	if (strlen(split->name) != size || memcmp(split->name, name, size) != 0)
		(void)snprintf(split->other, sizeof split->other, "%.*s", (int)size, name);
	if (asprintf(&path, "%s/%s", split->folder, name) < 0)
		path = NULL;
	return source_paths_add(split->paths, path, fault);
}

static int split_list(struct split *split, int fd, struct fault *fault)
{
	int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = own < 0 ? NULL : fdopendir(own);
	int rc = 0;
	if (!dir) {
		rc = -errno;
		util_close_fd(&own);
		return fault_set(fault, rc, "%s cannot be read: %s", split->folder, strerror(-rc));
	}
	errno = 0;
	for (struct dirent *dent; rc == 0 && (dent = readdir(dir)); errno = 0)
		rc = split_take(split, dent->d_name, fault);
	if (rc == 0 && errno)
		rc = fault_set(
			fault, -errno, "%s cannot be read: %s", split->folder, strerror(errno));
	(void)closedir(dir);
	return rc;
}

static int path_order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* TensorFlow Datasets writes both files into the folder of each dataset that it prepares, and all
 * splits of it as NAME-SPLIT.tfrecord-00000-of-00001. */
static int tfrecord_expand(
	const char *folder, int fd, struct source_paths *paths, struct fault *fault)
{
	struct split split = {.folder = folder, .paths = paths, .first = paths->count};
	if (faccessat(fd, "dataset_info.json", F_OK, 0) < 0 ||
		faccessat(fd, "features.json", F_OK, 0) < 0)
		return 0;
	int rc = split_list(&split, fd, fault);
	if (rc < 0)
		return rc;
	if (!split.name[0] && split.array_record)
		return fault_set(fault, -EINVAL,
			"%s holds ArrayRecord files, which are not read: prepare the dataset with "
			"file_format=\"tfrecord\"",
			folder);
	if (split.other[0])
		return fault_set(fault, -EINVAL,
			"%s holds several splits (%.60s, %.60s): name the files of one, as in "
			"\"%s/%.60s.tfrecord*\"",
			folder, split.name, split.other, folder, split.name);
	if (!split.name[0])
		return 0;
	qsort(paths->path + split.first, paths->count - split.first, sizeof *paths->path,
		path_order);
	return 1;
}

/* The names of the classes of the label that is asked for, or of the features that are labels if
 * none is. */
static int tfrecord_beside(
	const char *path, const struct column_choice *columns, uint32_t *ret, struct fault *fault)
{
	char name[COLUMN_NAME_MAX + 16];
	labels_txt(columns->label, name, sizeof name);
	if (columns->label[0])
		return beside_state(ret, path, name, fault);
	const int rc = beside_state(ret, path, "label.labels.txt", fault);
	return rc < 0 ? rc : beside_state(ret, path, "image-class-label.labels.txt", fault);
}

static int tfrecord_empty(const struct container_empty *empty, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s%s: no samples among %llu records: expected records of tf.Example with an image",
		empty->path, empty->shards > 1 ? " and the files after it" : "",
		(unsigned long long)empty->members);
}

const struct container container_tfrecord = {
	.name = "TFRecord",
	.sniff = tfrecord_sniff,
	.expand = tfrecord_expand,
	.columns = true,
	.fields = true,
	.labels = 1 << DATASET_LABELS_NONE | 1 << DATASET_LABELS_MANIFEST |
		  1 << DATASET_LABELS_COLUMN,
	.joint = "!",
	.naming = "a sample's name, or its row in decimal where it has none",
	.index = tfrecord_index,
	.beside = tfrecord_beside,
	.empty = tfrecord_empty,
};

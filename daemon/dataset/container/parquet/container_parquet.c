/* container_parquet: Parquet as Hugging Face's `datasets` writes it: each row is a sample, in the
 * order of the rows.
 *
 * The columns of a row group are walked side by side, page by page, so that memory does not grow
 * with the number of rows. Images are not read: their lengths are. Where a page is compressed, all
 * images in it share its bytes, and each is a part of what they unpack to; such pages are unpacked
 * once while they are indexed, because nothing else says where their images begin. */
#include "dataset/container/class_folders.h"
#include "dataset/container/container.h"
#include "dataset/container/parquet/choice.h"
#include "dataset/container/parquet/cursor.h"
#include "dataset/container/parquet/features.h"
#include "dataset/container/parquet/label.h"
#include "dataset/container/parquet/parquet.h"

#include "base/util.h"
#include "labels/labels.h"
#include "proto/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A dictionary stores a repeated image once, so that a few bytes can stand for any number of rows,
 * each of which takes some 70 bytes of index. So a file has at most ROWS_ALWAYS rows, and one more
 * for each BYTES_A_ROW of its bytes; more is taken for damage. MNIST's images, of 270 bytes, fit
 * where five rows share each. */
enum { ROWS_ALWAYS = 1 << 16, BYTES_A_ROW = 16 };

enum { COLUMN_IMAGE, COLUMN_PATH, COLUMN_LABEL, COLUMN_FIELD, COLUMNS = COLUMN_FIELD + FIELDS_MAX };

struct rows {
	const struct index_job *job;
	struct parquet parquet;
	struct features features;
	struct choice choice;
	uint32_t columns; /* that are read */
	uint32_t node[COLUMNS]; /* of the columns that are read, without gaps */
	struct cursor *cursor[COLUMNS]; /* the same */
	struct parquet_chunk chunk[COLUMNS];
	uint64_t stored[COLUMNS]; /* bytes of the chunks so far */
	struct cursor *image, *path, *field[FIELDS_MAX]; /* one of those; NULL: not read */
	struct label_reader label; /* without a cursor: not read */
	uint64_t row, farthest;
	char name[INDEX_NAME_MAX + 1];
};

/* ---- set up ---- */

static struct cursor *column_add(struct rows *rows, uint32_t node, bool reads_text)
{
	struct cursor *cursor = cursor_new(&rows->parquet, node, reads_text);
	rows->node[rows->columns] = node;
	rows->cursor[rows->columns] = cursor;
	rows->columns += cursor != NULL;
	return cursor;
}

static int columns_open(struct rows *rows, struct fault *fault)
{
	const struct choice *choice = &rows->choice;
	const struct field_list *fields = rows->job->fields;
	bool made = (rows->image = column_add(rows, choice->image, false));
	if (made && choice->path != SCHEMA_NONE)
		made = (rows->path = column_add(rows, choice->path, true));
	if (made && choice->label != SCHEMA_NONE)
		made = (rows->label.cursor = column_add(rows, choice->label, false));
	for (uint32_t i = 0; made && fields && i < fields->count; i++)
		made = (rows->field[i] = column_add(rows, choice->field[i], false));
	rows->label.list = choice->list;
	rows->label.offset = rows->job->columns->label_offset;
	rows->label.classes = json_array_size(choice->classes);
	return made ? 0 : fault_set(fault, -ENOMEM, "no memory to index %s", rows->job->path);
}

static int rows_open(struct rows *rows, struct fault *fault)
{
	const struct index_job *job = rows->job;
	struct parquet *parquet = &rows->parquet;
	const bool labelled =
		job->asked != DATASET_LABELS_NONE && job->asked != DATASET_LABELS_MANIFEST;
	int rc = parquet_open(parquet, job->blob, job->path, job->size, fault);
	if (rc == 0)
		rc = features_read(&rows->features, parquet->features, parquet->features_size,
			job->path, fault);
	if (rc == 0)
		rc = choice_make(parquet, &rows->features, job->columns, job->fields, labelled,
			&rows->choice, fault);
	if (rc == 0 && parquet->rows > ROWS_ALWAYS + job->size / BYTES_A_ROW)
		rc = fault_set(fault, -EINVAL,
			"%s: the footer says that it has %llu rows, which its %llu bytes cannot "
			"hold: it is damaged; copy it again from where it came from",
			job->path, (unsigned long long)parquet->rows,
			(unsigned long long)job->size);
	return rc < 0 ? rc : columns_open(rows, fault);
}

static void rows_close(struct rows *rows)
{
	for (uint32_t i = 0; i < rows->columns; i++)
		cursor_free(rows->cursor[i]);
	features_deinit(&rows->features);
	parquet_close(&rows->parquet);
}

/* ---- a row ---- */

/* The last part of the path that the file has for the image, if it is a name; or the number of the
 * row. */
static size_t row_name(struct rows *rows, const struct cursor_value *path)
{
	const char *text = path->text;
	size_t size = text ? path->size : 0;
	for (size_t i = size; i > 0; i--)
		if (text[i - 1] == '/') {
			text += i;
			size -= i;
			break;
		}
	bool sound = size > 0;
	for (size_t i = 0; i < size; i++)
		sound &= (unsigned char)text[i] >= ' ' && text[i] != 0x7f;
	if (sound) {
		memcpy(rows->name, text, size);
		rows->name[size] = 0;
		sound = utf8_is_valid(rows->name) && strcmp(rows->name, ".") != 0 &&
			strcmp(rows->name, "..") != 0;
	}
	if (sound && size <= index_writer_room(rows->job->writer))
		return size;
	return (size_t)snprintf(
		rows->name, sizeof rows->name, "%llu", (unsigned long long)rows->row);
}

static int fault_no_image(
	const struct rows *rows, const struct cursor_value *path, struct fault *fault)
{
	const unsigned long long row = rows->row;
	if (path->text && path->size)
		return fault_set(fault, -EINVAL,
			"%s: row %llu has only the place of its image (%.*s), not its bytes: write "
			"the file with the images in it (datasets: push_to_hub, or to_parquet of "
			"version 4.6 or later)",
			rows->job->path, row, (int)UTIL_MIN(path->size, (uint32_t)200), path->text);
	return fault_set(fault, -EINVAL,
		"%s: row %llu has no image (null in column %s): write the file without such rows "
		"(datasets: filter(lambda row: row[...] is not None))",
		rows->job->path, row, rows->image->name);
}

/* The index refuses such a place, too: what unpacks that far is not images. */
static int place_check(const struct rows *rows, const struct cursor *cursor,
	const struct cursor_value *value, struct fault *fault)
{
	if (!value->present || packed_sound(&value->packed, value->size))
		return 0;
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: row %llu of column %s needs %llu bytes that %u bytes unpack to, "
		"more than %d times as many and %d MiB: the file is damaged or made to waste time; "
		"copy it again from where it came from, or write it without compression",
		rows->job->path, (unsigned long long)value->offset, (unsigned long long)rows->row,
		cursor->name, (unsigned long long)value->packed.inner + value->size,
		value->packed.stored, PACKED_RATIO, PACKED_ALWAYS >> 20);
}

static int fields_take(struct rows *rows, struct fault *fault)
{
	const struct field_list *fields = rows->job->fields;
	struct cursor_value value;
	int rc = 1;
	for (uint32_t i = 0; rc > 0 && fields && i < fields->count; i++) {
		rc = cursor_next(rows->field[i], &value, fault);
		if (rc > 0 && place_check(rows, rows->field[i], &value, fault) < 0)
			rc = -EINVAL;
		if (rc > 0)
			rows->job->writer->field[i] =
				value.present ? (struct index_field){.offset = value.offset,
							.size = value.size,
							.present = 1,
							.packed = value.packed}
					      : (struct index_field){0};
	}
	return rc;
}

/* Reads the row from all columns and writes it. 0; 1: the manifest leaves it out. */
static int row_take(struct rows *rows, struct fault *fault)
{
	const struct index_job *job = rows->job;
	struct cursor_value image, path = {.text = NULL};
	bool has_label = false;
	int rc = cursor_next(rows->image, &image, fault);
	if (rc > 0 && rows->path)
		rc = cursor_next(rows->path, &path, fault);
	if (rc > 0)
		rc = fields_take(rows, fault);
	/* The chunks have as many values as the row group has rows. */
	if (rc <= 0)
		return rc;
	if (!image.present)
		return fault_no_image(rows, &path, fault);
	rc = place_check(rows, rows->image, &image, fault);
	if (rc < 0)
		return rc;
	if (rows->label.cursor)
		rc = label_next(&rows->label, rows->row, job->found, &has_label, fault);
	if (rc < 0)
		return rc;
	const size_t name_size = row_name(rows, &path);
	struct index_sample sample = {rows->name, rows->name, name_size, name_size,
		{
			.offset = image.offset,
			.size = image.size,
			.format = SAMPLE_OTHER,
			.label = -1,
			.packed = image.packed,
		}};
	rows->farthest = UTIL_MAX(rows->farthest, image.offset);
	return container_sample(job, &sample, has_label ? job->found : NULL, fault);
}

/* ---- row groups ---- */

/* Row groups that share a chunk would have it read once for each of them: a file of a few megabytes
 * would be read for hours. */
static int overlap_check(struct rows *rows, uint32_t i, struct fault *fault)
{
	const struct parquet_chunk *chunk = &rows->chunk[i];
	rows->stored[i] += chunk->end - chunk->at;
	if (rows->stored[i] <= rows->parquet.footer)
		return 0;
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: the chunks of column %s up to this one have %llu bytes, but the "
		"footer begins at byte %llu, so that they overlap: the file is damaged; copy it "
		"again from where it came from",
		rows->job->path, (unsigned long long)chunk->at, rows->cursor[i]->name,
		(unsigned long long)rows->stored[i], (unsigned long long)rows->parquet.footer);
}

static int group_begin(struct rows *rows, uint64_t count, struct fault *fault)
{
	for (uint32_t i = 0; i < rows->columns; i++) {
		const bool list = rows->parquet.schema.node[rows->node[i]].repeated != 0;
		const unsigned long long values = rows->chunk[i].values;
		if (list ? values < count : values != count)
			return fault_set(fault, -EINVAL,
				"%s: column %s has %llu values in a row group of %llu rows: the "
				"file "
				"is damaged; copy it again from where it came from",
				rows->job->path, rows->cursor[i]->name, values,
				(unsigned long long)count);
		int rc = overlap_check(rows, i, fault);
		if (rc < 0)
			return rc;
		cursor_begin(rows->cursor[i], &rows->chunk[i]);
	}
	label_begin(&rows->label);
	return 0;
}

static int group_run(struct rows *rows, uint64_t count, struct fault *fault)
{
	const struct index_job *job = rows->job;
	int rc = group_begin(rows, count, fault);
	for (; rc >= 0 && count; count--) {
		rc = row_take(rows, fault);
		if (rc >= 0)
			rc = index_progress_step(
				job->progress, job->writer->head.samples, rows->farthest, fault);
		rows->row++;
	}
	return rc < 0 || !rows->label.cursor ? UTIL_MIN(rc, 0) : label_end(&rows->label, fault);
}

/* Writes the names of the classes. Those that the label offset moves below 0 are left out; where it
 * moves all up, the first classes would have none, so there are none. */
static int classes_write(struct rows *rows, struct fault *fault)
{
	const struct index_job *job = rows->job;
	const int64_t offset = job->columns->label_offset;
	size_t i = (size_t)(offset < 0 ? -offset : 0);
	int rc = 0;
	if (job->writer->head.source != DATASET_LABELS_COLUMN || offset > 0 ||
		job->writer->head.label_type == LABEL_TYPE_FLOAT)
		return 0;
	for (; rc == 0 && i < json_array_size(rows->choice.classes); i++) {
		const char *name = json_string_value(json_array_get(rows->choice.classes, i));
		if (strlen(name) > INDEX_NAME_MAX)
			return fault_set(fault, -EINVAL,
				"%s: the name of class %zu has %zu bytes: expected at most %d",
				job->path, i, strlen(name), INDEX_NAME_MAX);
		rc = index_writer_entry(job->writer, 'C', 0, name, strlen(name));
	}
	return rc;
}

static int rows_run(struct rows *rows, struct fault *fault)
{
	uint64_t count = 0;
	int rc = rows_open(rows, fault);
	if (rc < 0)
		return rc;
	while ((rc = parquet_group(&rows->parquet, rows->node, rows->columns, rows->chunk, &count,
			fault)) > 0) {
		rc = group_run(rows, count, fault);
		if (rc < 0)
			return rc;
	}
	rows->job->writer->head.members = rows->row;
	return rc < 0 ? rc : classes_write(rows, fault);
}

static int parquet_index(const struct index_job *job, struct fault *fault)
{
	cleanup(free_ptr) struct rows *rows = calloc(1, sizeof *rows);
	if (!rows)
		return fault_set(fault, -ENOMEM, "no memory to index %s", job->path);
	rows->job = job;
	job->writer->head.source = job->asked == DATASET_LABELS_MANIFEST ? DATASET_LABELS_MANIFEST
									 : DATASET_LABELS_NONE;
	int rc = rows_run(rows, fault);
	rows_close(rows);
	return rc;
}

/* ---- what a user names ---- */

static bool is_named_parquet(const char *path)
{
	static const char extension[] = ".parquet";
	const size_t size = strlen(path);
	return size > sizeof extension - 1 &&
	       strcmp(path + size - (sizeof extension - 1), extension) == 0;
}

static bool parquet_sniff(const struct container_probe *probe)
{
	return (probe->head_size >= 4 && (memcmp(probe->head, "PAR1", 4) == 0 ||
						 memcmp(probe->head, "PARE", 4) == 0)) ||
	       is_named_parquet(probe->path);
}

/* How much of the name of a file says of which split it is, as `datasets` names them: "train" of
 * train.parquet and "photos-train" of photos-train-00000-of-00002.parquet; 0: it does not say
 * it. */
static size_t split_part(const char *name)
{
	const char *end = strstr(name, "-of-");
	size_t size = 0;
	while (end && end > name && end[-1] >= '0' && end[-1] <= '9')
		end--;
	if (end && end - name > 1 && end[-1] == '-')
		return (size_t)(end - name) - 1;
	while ((name[size] | 0x20) >= 'a' && (name[size] | 0x20) <= 'z')
		size++;
	return class_folders_split_like(name, size) ? size : 0;
}

struct listing {
	const char *folder;
	struct source_paths *paths;
	size_t first; /* of the paths that are this folder's */
	bool other; /* it holds images or folders: it is a folder of images */
	bool mixed; /* of several splits */
	char split[64], second[64];
};

/* Whether a file is named as those of another kind are: then the folder is not only Parquet's, and
 * which files are meant is not clear. */
static bool is_other_shard(const char *name)
{
	static const char *const ends[] = {"tar", "zip", "tfrecord", "tfrecords", "rec", "mds"};
	const char *dot = strrchr(name, '.');
	for (size_t i = 0; dot && i < UTIL_COUNT(ends); i++)
		if (strcmp(dot + 1, ends[i]) == 0)
			return true;
	return false;
}

static int listing_take(
	struct listing *list, int fd, const struct dirent *dent, struct fault *fault)
{
	const char *name = dent->d_name;
	struct stat st = {.st_mode = 0};
	char *path = NULL;
	if (name[0] == '.')
		return 0;
	bool folder = dent->d_type == DT_DIR;
	if (dent->d_type == DT_UNKNOWN || dent->d_type == DT_LNK)
		folder = fstatat(fd, name, &st, 0) == 0 && S_ISDIR(st.st_mode);
	list->other |= folder || folder_format(name) || is_other_shard(name);
	if (list->other || !is_named_parquet(name))
		return 0;
	const size_t part = split_part(name);
	char *split = list->paths->count == list->first ? list->split : list->second;
	(void)snprintf(split, sizeof list->split, "%.*s", (int)UTIL_MIN(part, (size_t)60), name);
	list->mixed |= split == list->second && strcmp(list->split, list->second) != 0;
	/* What the fault names stays. */
	if (!list->mixed && asprintf(&path, "%s/%s", list->folder, name) < 0)
		path = NULL;
	return list->mixed ? 0 : source_paths_add(list->paths, path, fault);
}

static int path_order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Takes back what was added. */
static void listing_drop(struct listing *list)
{
	while (list->paths->count > list->first)
		free(list->paths->path[--list->paths->count]);
}

/* A folder of Parquet files, without images and folders. Stops at the first of those, so that a
 * large folder of images is not read twice. */
static int parquet_expand(
	const char *folder, int fd, struct source_paths *paths, struct fault *fault)
{
	struct listing list = {.folder = folder, .paths = paths, .first = paths->count};
	int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = own < 0 ? NULL : fdopendir(own);
	int rc = 0;
	/* A folder of images gives the reason, too. */
	if (!dir) {
		util_close_fd(&own);
		return 0;
	}
	for (struct dirent *dent; rc == 0 && !list.other && !list.mixed && (dent = readdir(dir));)
		rc = listing_take(&list, fd, dent, fault);
	(void)closedir(dir);
	if (list.other)
		listing_drop(&list);
	if (rc < 0 || list.other || paths->count == list.first)
		return UTIL_MIN(rc, 0);
	if (list.mixed)
		return fault_set(fault, -EINVAL,
			"%s holds Parquet files of several splits (\"%s\" and \"%s\"): name the "
			"files of one, as in \"%s/%s*.parquet\"",
			folder, list.split, list.second, folder,
			strcmp(list.second, "train") == 0 || !list.split[0] ? list.second
									    : list.split);
	qsort(paths->path + list.first, paths->count - list.first, sizeof *paths->path, path_order);
	return 1;
}

static int parquet_empty(const struct container_empty *empty, struct fault *fault)
{
	return fault_set(fault, -EINVAL, "%s%s: no rows, and so no samples", empty->path,
		empty->shards > 1 ? " and the files after it" : "");
}

const struct container container_parquet = {
	.name = "Parquet",
	.sniff = parquet_sniff,
	.expand = parquet_expand,
	.columns = true,
	.parts = true,
	.fields = true,
	.labels = 1 << DATASET_LABELS_NONE | 1 << DATASET_LABELS_MANIFEST |
		  1 << DATASET_LABELS_COLUMN,
	.joint = "!",
	.naming = "a sample's name, which is the file name in column path, or its row in decimal",
	.index = parquet_index,
	.empty = parquet_empty,
};

/* columns: see columns.h. */
#include "dataset/container/records/columns.h"

#include "base/util.h"
#include "dataset/container/window.h"
#include "labels/labels.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

enum { NONE = -1, COLUMNS_LISTED = 400, PIL_HEAD = 12, PIL_MODE_MAX = 16, TEXT_INT_MAX = 32 };

/* One shard that is being read. */
struct reader {
	const struct index_job *job;
	const struct columns *columns;
	struct window table, items;
	uint64_t row;
	int32_t image, label; /* columns; NONE */
	int32_t field[FIELDS_MAX];
	const struct columns_source *source; /* NULL: items */
	struct columns_value value[COLUMNS_MAX]; /* of the row that is being read */
};

void column_name(struct column *column, const char *name, const char *encoding)
{
	/* A name that is too long is the name of no column. */
	(void)snprintf(column->name, sizeof column->name, "%s",
		strlen(name) <= COLUMN_NAME_MAX ? name : "");
	(void)snprintf(column->encoding, sizeof column->encoding, "%s", encoding);
}

static const char *columns_list(const struct columns *columns, char ret[COLUMNS_LISTED])
{
	size_t used = 0;
	ret[0] = 0;
	for (uint32_t i = 0; i < columns->count && used < COLUMNS_LISTED; i++) {
		int n = snprintf(ret + used, COLUMNS_LISTED - used, "%s%.80s (%s)", i ? ", " : "",
			columns->at[i].name, columns->at[i].encoding);
		used += (size_t)UTIL_MAX(n, 0);
	}
	return ret;
}

static int32_t column_find(const struct columns *columns, const char *name)
{
	for (uint32_t i = 0; i < columns->count; i++)
		if (*name && !strcmp(columns->at[i].name, name))
			return (int32_t)i;
	return NONE;
}

/* ---- which columns count ---- */

static int asked_fault(const struct reader *reader, const char *key, const char *name,
	int32_t found, const char *expected, struct fault *fault)
{
	char list[COLUMNS_LISTED];
	const char *path = reader->job->path;
	if (found == NONE)
		return fault_set(fault, -EINVAL, "%s has no column %s (%s): its columns are %s",
			path, name, key, columns_list(reader->columns, list));
	const struct column *column = &reader->columns->at[found];
	return fault_set(fault, -EINVAL,
		"%s: the column %s (%s) holds values of type %s, expected %s: its columns are %s",
		path, column->name, key, column->encoding, expected,
		columns_list(reader->columns, list));
}

static bool may_be_image(const struct column *column)
{
	return column->kind == COLUMN_IMAGE || column->kind == COLUMN_BYTES ||
	       column->kind == COLUMN_PIL || column->kind == COLUMN_ARRAY;
}

static bool may_be_label(const struct column *column)
{
	return column->kind == COLUMN_NUMBER || column->kind == COLUMN_TEXT_INT ||
	       column->kind == COLUMN_ARRAY || column->kind == COLUMN_BIT;
}

/* Finds the value of a column, if that was not done with its row. */
static int value_find(struct reader *reader, int32_t column, struct fault *fault)
{
	const struct columns_source *source = reader->source;
	return source && column != NONE ? source->find(source->context, reader->row,
						  (uint32_t)column, &reader->value[column], fault)
					: 0;
}

static int value_read(struct reader *reader, int32_t column, uint64_t from, size_t size,
	const char *what, const uint8_t **ret, struct fault *fault)
{
	const struct columns_value *value = &reader->value[column];
	const struct columns_source *source = reader->source;
	return source ? source->read(source->context, value, from, size, ret, fault)
		      : window_get(&reader->items, value->offset + from, size, what, ret, fault);
}

/* Reads the first bytes of a column's value, at most `most`. */
static int value_head(struct reader *reader, int32_t column, size_t most, const uint8_t **ret,
	size_t *ret_size, struct fault *fault)
{
	*ret_size = UTIL_MIN(most, (size_t)reader->value[column].size);
	return value_read(reader, column, 0, *ret_size, "a value", ret, fault);
}

/* Whether a column's value begins like an image. 1, 0 or a fault. */
static int value_image(struct reader *reader, int32_t column, struct fault *fault)
{
	const uint8_t *bytes;
	uint8_t format;
	size_t size;
	int rc = value_find(reader, column, fault);
	if (rc < 0 || reader->value[column].absent)
		return rc;
	rc = value_head(reader, column, RECORDS_IMAGE_HEAD, &bytes, &size, fault);
	return rc < 0 ? rc : records_image(bytes, size, &format);
}

/* Finds the only column of images: first by its type, then by what the first item has in columns of
 * bytes. *ret_count: how many there are. */
static int image_guess(
	struct reader *reader, int32_t *ret, unsigned *ret_count, struct fault *fault)
{
	const struct columns *columns = reader->columns;
	*ret_count = 0;
	for (uint32_t i = 0; i < columns->count; i++) {
		const enum column_kind kind = columns->at[i].kind;
		if ((kind == COLUMN_IMAGE || kind == COLUMN_PIL) && (*ret_count)++ == 0)
			*ret = (int32_t)i;
	}
	for (uint32_t i = 0, found = *ret_count; !found && i < columns->count; i++) {
		if (columns->at[i].kind != COLUMN_BYTES)
			continue;
		int rc = value_image(reader, (int32_t)i, fault);
		if (rc < 0)
			return rc;
		if (rc > 0 && (*ret_count)++ == 0)
			*ret = (int32_t)i;
	}
	return 0;
}

static int image_choose(struct reader *reader, struct fault *fault)
{
	char list[COLUMNS_LISTED];
	unsigned count;
	const char *asked = reader->job->columns->image;
	reader->image = column_find(reader->columns, asked);
	if (*asked && (reader->image == NONE || !may_be_image(&reader->columns->at[reader->image])))
		return asked_fault(reader, "image_column", asked, reader->image, "an image", fault);
	if (*asked)
		return 0;
	int rc = image_guess(reader, &reader->image, &count, fault);
	if (rc < 0 || count == 1)
		return rc;
	return fault_set(fault, -EINVAL,
		"%s has %s: say which column is the image with image_column (--image-column); its "
		"columns are %s",
		reader->job->path,
		count ? "several columns of images"
		      : "no column of images, and no column of bytes whose first value begins like "
			"an image",
		columns_list(reader->columns, list));
}

static int32_t label_guess(const struct columns *columns)
{
	static const char *const names[] = {"label", "class", "cls", "y"};
	int32_t found = NONE;
	for (size_t i = 0; i < UTIL_COUNT(names) && found == NONE; i++)
		found = column_find(columns, names[i]);
	if (!columns->unnamed)
		return found;
	for (uint32_t i = 0, count = 0; i < columns->count; i++)
		if (columns->at[i].kind == COLUMN_NUMBER && number_whole(columns->at[i].number))
			found = count++ ? NONE : (int32_t)i;
	return found;
}

static int label_choose(struct reader *reader, struct fault *fault)
{
	const char *asked = reader->job->columns->label;
	reader->label = NONE;
	if (!records_labelled(reader->job))
		return 0;
	reader->label = *asked ? column_find(reader->columns, asked) : label_guess(reader->columns);
	if (!*asked && reader->label == NONE)
		return 0;
	if (reader->label == NONE || !may_be_label(&reader->columns->at[reader->label]))
		return asked_fault(reader, "label_column", asked, reader->label,
			"a number or an array of numbers (to ignore labels, ask for labels: none)",
			fault);
	return 0;
}

static int fields_choose(struct reader *reader, struct fault *fault)
{
	char list[COLUMNS_LISTED];
	const struct field_list *fields = reader->job->fields;
	for (uint32_t i = 0; fields && i < fields->count; i++) {
		reader->field[i] = column_find(reader->columns, fields->at[i].name);
		if (reader->field[i] == NONE)
			return fault_set(fault, -EINVAL,
				"%s has no column %s (fields): its columns are %s",
				reader->job->path, fields->at[i].name,
				columns_list(reader->columns, list));
		const struct column *column = &reader->columns->at[reader->field[i]];
		if (column->kind == COLUMN_BIT || column->kind == COLUMN_APART)
			return asked_fault(reader, "fields", fields->at[i].name, reader->field[i],
				"bytes, a text or a number", fault);
	}
	return 0;
}

static int choose(struct reader *reader, struct fault *fault)
{
	int rc = image_choose(reader, fault);
	if (rc == 0)
		rc = label_choose(reader, fault);
	return rc < 0 ? rc : fields_choose(reader, fault);
}

/* ---- an item ---- */

static int item_fault(const struct reader *reader, uint64_t at, const char *what,
	unsigned long long found, unsigned long long expected, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: row %llu: %s: found %llu, expected %llu: the file is damaged; copy "
		"it again from where it came from",
		reader->job->path, (unsigned long long)at, (unsigned long long)reader->row, what,
		found, expected);
}

/* Finds out where the columns of the item are. */
static int item_columns(struct reader *reader, uint64_t begin, uint64_t end, struct fault *fault)
{
	const struct columns *columns = reader->columns;
	const uint8_t *sizes = NULL;
	uint32_t listed = 0;
	for (uint32_t i = 0; i < columns->count; i++)
		listed += columns->at[i].fixed == 0;
	if (end - begin < 4 * (uint64_t)listed)
		return item_fault(reader, begin, "its bytes, which begin with sizes of columns",
			end - begin, 4ULL * listed, fault);
	int rc = window_get(&reader->items, begin, 4 * (size_t)listed, "an item", &sizes, fault);
	if (rc < 0)
		return rc;
	uint64_t at = begin + 4 * (uint64_t)listed;
	for (uint32_t i = 0; i < columns->count; i++) {
		reader->value[i].size = columns->at[i].fixed;
		if (!columns->at[i].fixed) {
			reader->value[i].size = records_u32(sizes);
			sizes += 4;
		}
		reader->value[i].offset = at;
		at += reader->value[i].size;
	}
	return at == end ? 0
			 : item_fault(reader, begin, "its bytes, and those of its columns",
				   end - begin, at - begin, fault);
}

static int pixels_fault(const struct reader *reader, const char *what, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: row %llu: the column %s %s: expected RGB or gray pixels of 8 bits, "
		"as many as its width and height say, and at most 65535 in a row; store images as "
		"JPEG or PNG",
		reader->job->path, (unsigned long long)reader->value[reader->image].offset,
		(unsigned long long)reader->row, reader->columns->at[reader->image].name, what);
}

/* Fills the record of an image whose pixels have no header that a reader of images knows. */
static int pixels_take(const struct reader *reader, uint64_t width, uint64_t height,
	uint32_t channels, bool planes, uint64_t at, struct index_record *record,
	struct fault *fault)
{
	const uint64_t bytes = width * height * channels;
	const uint64_t size = reader->value[reader->image].size;
	if (!width || !height || width > UINT16_MAX || height > UINT16_MAX || at > size ||
		bytes != size - at || bytes > UINT32_MAX - PACKED_HEADER)
		return pixels_fault(reader, "has another size than its head says", fault);
	if (reader->value[reader->image].packed.method != PACKED_NONE)
		return pixels_fault(reader, "is compressed", fault);
	record->offset = reader->value[reader->image].offset + at;
	record->size = (uint32_t)bytes + PACKED_HEADER;
	record->format = SAMPLE_OTHER;
	record->packed = (struct packed){.stored = (uint32_t)bytes,
		.whole = (uint32_t)bytes + PACKED_HEADER,
		.method = planes ? PACKED_PLANES : PACKED_PIXELS,
		.channels = (uint8_t)channels,
		.width = (uint16_t)width,
		.height = (uint16_t)height};
	return 0;
}

static int pil_take(struct reader *reader, struct index_record *record, struct fault *fault)
{
	const uint8_t *head;
	size_t size;
	char mode[PIL_MODE_MAX + 32];
	int rc = value_head(reader, reader->image, PIL_HEAD + PIL_MODE_MAX, &head, &size, fault);
	if (rc < 0)
		return rc;
	const uint32_t mode_size = size < PIL_HEAD ? UINT32_MAX : records_u32(head + 8);
	if (mode_size > size - UTIL_MIN(size, (size_t)PIL_HEAD) || mode_size > PIL_MODE_MAX)
		return pixels_fault(reader, "has no head of an image of Pillow", fault);
	const bool rgb = mode_size == 3 && !memcmp(head + PIL_HEAD, "RGB", 3);
	if (!rgb && (mode_size != 1 || head[PIL_HEAD] != 'L')) {
		size_t used = (size_t)snprintf(mode, sizeof mode, "has the mode ");
		for (uint32_t i = 0; i < mode_size; i++)
			mode[used++] = isgraph(head[PIL_HEAD + i]) ? (char)head[PIL_HEAD + i] : '?';
		mode[used] = 0;
		return pixels_fault(reader, mode, fault);
	}
	return pixels_take(reader, records_u32(head), records_u32(head + 4), rgb ? 3 : 1, false,
		PIL_HEAD + (uint64_t)mode_size, record, fault);
}

static int array_head(struct reader *reader, int32_t column, struct array *ret, struct fault *fault)
{
	const struct column *of = &reader->columns->at[column];
	const uint8_t *head;
	size_t size;
	int rc = value_head(reader, column, ARRAY_HEAD, &head, &size, fault);
	if (rc < 0)
		return rc;
	const char *wrong = array_read(&of->array, head, size, reader->value[column].size, ret);
	return wrong ? fault_set(fault, -EINVAL,
			       "%s: byte %llu: row %llu: the column %s (%s): its array %s: the "
			       "file is damaged; copy it again from where it came from",
			       reader->job->path, (unsigned long long)reader->value[column].offset,
			       (unsigned long long)reader->row, of->name, of->encoding, wrong)
		     : 0;
}

/* An array of bytes is an image of height x width, height x width x channels, or channels x height
 * x width. */
static int array_take(struct reader *reader, struct index_record *record, struct fault *fault)
{
	struct array array;
	int rc = array_head(reader, reader->image, &array, fault);
	if (rc < 0)
		return rc;
	const uint64_t *dim = array.dim;
	const uint32_t last = array.dims - 1;
	if (array.number != NUMBER_U8 || (array.dims != 2 && array.dims != 3))
		return pixels_fault(reader, "is an array of another type or shape", fault);
	if (array.dims == 2)
		return pixels_take(reader, dim[1], dim[0], 1, false, array.at, record, fault);
	if (dim[last] == 1 || dim[last] == 3)
		return pixels_take(reader, dim[1], dim[0], (uint32_t)dim[last], false, array.at,
			record, fault);
	if (dim[0] == 1 || dim[0] == 3)
		return pixels_take(reader, dim[2], dim[1], (uint32_t)dim[0], dim[0] == 3, array.at,
			record, fault);
	return pixels_fault(reader, "is an array of another shape", fault);
}

static int image_take(struct reader *reader, struct index_record *record, struct fault *fault)
{
	const enum column_kind kind = reader->columns->at[reader->image].kind;
	const uint8_t *bytes;
	size_t size;
	if (kind == COLUMN_PIL)
		return pil_take(reader, record, fault);
	if (kind == COLUMN_ARRAY)
		return array_take(reader, record, fault);
	const struct columns_value *value = &reader->value[reader->image];
	record->offset = value->offset;
	record->size = value->size;
	record->packed = value->packed;
	record->format = SAMPLE_OTHER;
	/* Where images are read in place of being passed over, their content says what they are
	 * when they are decoded. */
	if (reader->source)
		return 0;
	int rc = value_head(reader, reader->image, RECORDS_IMAGE_HEAD, &bytes, &size, fault);
	if (rc < 0)
		return rc;
	(void)records_image(bytes, size, &record->format);
	return 0;
}

/* A decimal integer with a sign, as Python's str(int) writes it. */
static bool text_int(const uint8_t *text, size_t size, int64_t *ret)
{
	const bool minus = size && text[0] == '-';
	int64_t value = 0;
	if (size == minus)
		return false;
	for (size_t i = minus; i < size; i++)
		if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, text[i] - '0', &value))
			return false;

	*ret = minus ? -value : value;
	return true;
}

static int label_array(struct reader *reader, struct fault *fault)
{
	struct array array;
	const uint8_t *bytes;
	int rc = array_head(reader, reader->label, &array, fault);
	if (rc < 0)
		return rc;
	label_found_begin(reader->job->found, LABEL_TYPE_FLOAT);
	if (array.count > LABEL_VALUES_MAX)
		return item_fault(reader, reader->value[reader->label].offset,
			"the numbers of its label, of which there may be so many", array.count,
			LABEL_VALUES_MAX, fault);
	const size_t each = number_size(array.number);
	rc = value_read(reader, reader->label, array.at, (size_t)array.count * each, "a label",
		&bytes, fault);
	for (uint64_t i = 0; rc == 0 && i < array.count; i++)
		rc = records_number(reader->job, reader->row,
			number_double(array.number, bytes + i * each), fault);
	return rc;
}

static int label_bit(struct reader *reader, struct fault *fault)
{
	const uint8_t *byte;
	int rc = value_read(reader, reader->label, 0, 1, "a label", &byte, fault);
	if (rc < 0)
		return rc;
	label_found_begin(reader->job->found, LABEL_TYPE_CLASS);
	return records_class(
		reader->job, reader->row, *byte >> reader->value[reader->label].bit & 1, fault);
}

/* Puts the label into job->found. */
static int label_take(struct reader *reader, struct fault *fault)
{
	const struct column *column = &reader->columns->at[reader->label];
	const uint32_t expected =
		column->kind == COLUMN_NUMBER ? number_size(column->number) : TEXT_INT_MAX;
	const uint32_t size = reader->value[reader->label].size;
	const uint8_t *bytes;
	size_t read;
	int64_t value;
	if (column->kind == COLUMN_ARRAY)
		return label_array(reader, fault);
	if (column->kind == COLUMN_BIT)
		return label_bit(reader, fault);
	if (column->kind == COLUMN_NUMBER ? size != expected : size > expected)
		return item_fault(reader, reader->value[reader->label].offset,
			"the bytes of its label", size, expected, fault);
	int rc = value_head(reader, reader->label, TEXT_INT_MAX, &bytes, &read, fault);
	if (rc < 0)
		return rc;
	if (column->kind == COLUMN_NUMBER && !number_whole(column->number)) {
		label_found_begin(reader->job->found, LABEL_TYPE_FLOAT);
		return records_number(
			reader->job, reader->row, number_double(column->number, bytes), fault);
	}
	label_found_begin(reader->job->found, LABEL_TYPE_CLASS);
	if (column->kind == COLUMN_NUMBER)
		value = number_int(column->number, bytes);
	else if (!text_int(bytes, read, &value))
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: row %llu: its label (%s) is not a decimal integer of at "
			"most 64 bits",
			reader->job->path, (unsigned long long)reader->value[reader->label].offset,
			(unsigned long long)reader->row, column->encoding);
	return records_class(reader->job, reader->row, value, fault);
}

static int fields_take(struct reader *reader, struct fault *fault)
{
	const struct index_job *job = reader->job;
	int rc = 0;
	for (uint32_t i = 0; rc == 0 && job->fields && i < job->fields->count; i++) {
		const struct columns_value *value = &reader->value[reader->field[i]];
		rc = value_find(reader, reader->field[i], fault);
		job->writer->field[i] = value->absent
						? (struct index_field){0}
						: (struct index_field){.offset = value->offset,
							  .size = value->size,
							  .present = 1,
							  .packed = value->packed};
	}
	return rc;
}

static int item_write(struct reader *reader, struct fault *fault)
{
	const struct index_job *job = reader->job;
	char name[RECORDS_ROW];
	const size_t size = records_row(reader->row, name);
	struct index_sample sample = {
		.name = name, .key = name, .name_size = size, .key_size = size};
	int rc = fields_take(reader, fault);
	if (rc == 0)
		rc = value_find(reader, reader->image, fault);
	if (rc == 0)
		rc = value_find(reader, reader->label, fault);
	if (rc == 0 && reader->value[reader->image].absent)
		rc = fault_set(fault, -EINVAL,
			"%s: row %llu has no image (null in column %s): write the dataset without "
			"such rows",
			job->path, (unsigned long long)reader->row,
			reader->columns->at[reader->image].name);
	if (rc == 0)
		rc = image_take(reader, &sample.record, fault);
	const bool labelled = reader->label != NONE && !reader->value[reader->label].absent;
	if (rc == 0 && labelled)
		rc = label_take(reader, fault);
	if (rc == 0)
		rc = container_sample(job, &sample, labelled ? job->found : NULL, fault);
	return UTIL_MIN(rc, 0); /* 1: the manifest leaves it out */
}

static int item_next(struct reader *reader, const struct columns_table *table, uint64_t *begin,
	struct fault *fault)
{
	const uint8_t *bytes;
	const uint64_t at = table->offsets + 4 * (reader->row + 1);
	int rc = window_get(&reader->table, at, 4, "the table of offsets", &bytes, fault);
	if (rc < 0)
		return rc;
	const uint64_t end = records_u32(bytes), size = reader->job->size;
	if (end < *begin)
		return item_fault(reader, at,
			"the end of its bytes, which must follow their "
			"beginning",
			end, *begin, fault);
	if (end > size)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: row %llu ends at byte %llu, but the file ends at byte "
			"%llu: it was cut off; copy it again from where it came from",
			reader->job->path, (unsigned long long)at, (unsigned long long)reader->row,
			(unsigned long long)end, (unsigned long long)size);
	rc = item_columns(reader, *begin, end, fault);
	if (rc == 0 && reader->row == 0)
		rc = choose(reader, fault);
	if (rc == 0)
		rc = item_write(reader, fault);
	*begin = end;
	return rc;
}

static int items_read(struct reader *reader, const struct columns_table *table, struct fault *fault)
{
	const struct index_job *job = reader->job;
	const uint8_t *bytes;
	int rc = window_get(
		&reader->table, table->offsets, 4, "the table of offsets", &bytes, fault);
	uint64_t begin = rc == 0 ? records_u32(bytes) : 0;
	if (rc == 0 && begin < table->begin)
		return item_fault(
			reader, table->offsets, "its first byte", begin, table->begin, fault);
	for (; rc == 0 && reader->row < table->count; reader->row++) {
		rc = item_next(reader, table, &begin, fault);
		if (rc == 0)
			rc = index_progress_step(
				job->progress, job->writer->head.samples, begin, fault);
	}
	return rc;
}

int columns_rows(const struct index_job *job, const struct columns *columns,
	const struct columns_source *source, uint64_t count, struct fault *fault)
{
	cleanup(free_ptr) struct reader *reader = calloc(1, sizeof *reader);
	int rc = 0;
	if (!reader)
		return fault_set(fault, -ENOMEM, "no memory to index %s", job->path);
	reader->job = job;
	reader->columns = columns;
	reader->source = source;
	for (uint64_t done = 0; rc == 0 && reader->row < count; reader->row++) {
		if (reader->row == 0)
			rc = choose(reader, fault);
		if (rc == 0)
			rc = item_write(reader, fault);
		if (rc == 0)
			done = UTIL_MAX(done, reader->value[reader->image].offset);
		if (rc == 0)
			rc = index_progress_step(
				job->progress, job->writer->head.samples, done, fault);
	}
	job->writer->head.members = reader->row;
	return rc;
}

int columns_index(const struct index_job *job, const struct columns *columns,
	const struct columns_table *table, struct fault *fault)
{
	cleanup(free_ptr) struct reader *reader = calloc(1, sizeof *reader);
	if (!reader)
		return fault_set(fault, -ENOMEM, "no memory to index %s", job->path);
	reader->job = job;
	reader->columns = columns;
	window_init(&reader->table, job->blob, job->path, job->size);
	window_init(&reader->items, job->blob, job->path, job->size);
	int rc = items_read(reader, table, fault);
	window_deinit(&reader->table);
	window_deinit(&reader->items);
	job->writer->head.members = reader->row;
	return rc;
}

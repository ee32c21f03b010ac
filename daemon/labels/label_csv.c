/* label_csv: see label_csv.h. */
#include "labels/label_csv.h"

#include "base/hash.h"
#include "base/util.h"
#include "base/whole.h"
#include "proto/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* The state of the parser. */
struct cursor {
	struct csv_record *record;
	const char *text;
	size_t size, at, used; /* bytes taken of `text`, and written to record->text */
	bool end;
	char separator;
	struct fault *fault;
};

enum { CSV_SHORT = 1, CSV_FIELD, CSV_LINE }; /* how a field ended */

static int cursor_fault(const struct cursor *cursor, const char *what)
{
	return fault_set(cursor->fault, -EINVAL, "%s", what);
}

/* The size of the line end at the cursor; 0: none; CSV_MORE: the window ends within it. */
enum { CSV_MORE = 9 };
static size_t line_end(const struct cursor *cursor)
{
	const char *p = cursor->text + cursor->at;
	size_t left = cursor->size - cursor->at;
	if (left && p[0] == '\n')
		return 1;
	if (!left || p[0] != '\r')
		return 0;
	if (left == 1)
		return cursor->end ? 0 : CSV_MORE;
	return p[1] == '\n' ? 2 : 0;
}

/* After a field: expects a separator, a line end, or the end. */
static int field_end(struct cursor *cursor)
{
	size_t line = line_end(cursor);
	if (line == CSV_MORE || (cursor->at == cursor->size && !cursor->end))
		return CSV_SHORT;
	if (cursor->at == cursor->size)
		return CSV_LINE;
	if (line) {
		cursor->at += line;
		cursor->record->lines++;
		return CSV_LINE;
	}
	if (cursor->text[cursor->at] != cursor->separator)
		return cursor_fault(cursor, cursor->text[cursor->at] == '\r'
						    ? "a carriage return without a line feed"
						    : "text after the closing quote of a field");
	cursor->at++;
	return CSV_FIELD;
}

static void field_put(struct cursor *cursor, char c)
{
	cursor->record->text[cursor->used++] = c;
}

static int field_quoted(struct cursor *cursor)
{
	for (cursor->at++; cursor->at < cursor->size; cursor->at++) {
		char c = cursor->text[cursor->at];
		if (c != '"') {
			cursor->record->lines += c == '\n';
			field_put(cursor, c);
			continue;
		}
		if (cursor->at + 1 == cursor->size && !cursor->end)
			return CSV_SHORT;
		if (cursor->at + 1 == cursor->size || cursor->text[cursor->at + 1] != '"') {
			cursor->at++;
			return field_end(cursor);
		}
		cursor->at++;
		field_put(cursor, '"');
	}
	return cursor->end ? cursor_fault(cursor, "a quote is opened but never closed") : CSV_SHORT;
}

static int field_plain(struct cursor *cursor)
{
	for (; cursor->at < cursor->size; cursor->at++) {
		char c = cursor->text[cursor->at];
		if (c == cursor->separator || c == '\n' || c == '\r')
			break;
		if (c == '"')
			return cursor_fault(cursor,
				"a quote within a field that does not begin with one: write the "
				"field as \"...\", with the quotes in it doubled");
		field_put(cursor, c);
	}
	return field_end(cursor);
}

static int field_check(const struct cursor *cursor, const struct csv_field *field)
{
	if (memchr(field->text, 0, field->size))
		return cursor_fault(cursor, "a zero byte: expected UTF-8 text");
	return utf8_is_valid(field->text)
		       ? 0
		       : cursor_fault(cursor, "a byte that is not UTF-8: save the file as UTF-8");
}

static int field_take(struct cursor *cursor)
{
	struct csv_record *record = cursor->record;
	if (record->fields == CSV_FIELDS_MAX)
		return fault_set(cursor->fault, -EINVAL, "more than %d columns", CSV_FIELDS_MAX);
	struct csv_field *field = &record->field[record->fields];
	field->text = record->text + cursor->used;
	bool quoted = cursor->at < cursor->size && cursor->text[cursor->at] == '"';
	size_t from = cursor->used, lines = record->lines;
	int rc = quoted ? field_quoted(cursor) : field_plain(cursor);
	if (rc < 0 || rc == CSV_SHORT)
		return rc;
	field->size = cursor->used - from;
	field_put(cursor, 0);
	record->fields++;
	int checked = field_check(cursor, field);
	if (checked < 0)
		record->lines = lines; /* the line where the field begins */
	return checked < 0 ? checked : rc;
}

int64_t csv_parse(struct csv_record *ret, const char *text, size_t size, bool end, char separator,
	struct fault *fault)
{
	struct cursor cursor = {.record = ret,
		.text = text,
		.size = UTIL_MIN(size, (size_t)CSV_RECORD_MAX),
		.end = end && size <= CSV_RECORD_MAX,
		.separator = separator,
		.fault = fault};
	ret->fields = ret->lines = 0;
	size_t line = line_end(&cursor);
	if (line == CSV_MORE)
		return 0;
	if (line) {
		ret->lines = 1;
		return (int64_t)line;
	}
	int rc;
	do
		rc = field_take(&cursor);
	while (rc == CSV_FIELD);
	if (rc < 0)
		return rc;
	if (rc == CSV_SHORT && cursor.size == CSV_RECORD_MAX)
		return fault_set(fault, -EINVAL,
			"a record of more than %d bytes: perhaps a quote is never closed",
			CSV_RECORD_MAX);
	return rc == CSV_SHORT ? 0 : (int64_t)cursor.at;
}

/* Fills the window with the bytes from csv->next on; keeps those that it has. */
static int csv_fill(struct csv *csv, struct fault *fault)
{
	uint64_t end = csv->window_at + csv->window_size;
	size_t keep =
		csv->next >= csv->window_at && csv->next < end ? (size_t)(end - csv->next) : 0;
	memmove(csv->window, csv->window + (csv->window_size - keep), keep);
	csv->window_at = csv->next;
	csv->window_size = keep;
	/* After csv_seek, reads small steps; a longer record asks again. */
	size_t most = csv->line ? sizeof csv->window : UTIL_MIN(keep + 4096, sizeof csv->window);
	if (keep >= most)
		return 0;
	ssize_t n = whole_read(csv->fd, csv->window + keep, most - keep, csv->window_at + keep);
	if (n < 0)
		return fault_set(
			fault, (int)n, "%s cannot be read: %s", csv->path, strerror((int)-n));
	csv->window_size += (size_t)n;
	csv->window_end |= csv->window_size < most;
	return 0;
}

int csv_init(struct csv *csv, int fd, const char *path, char separator, struct fault *fault)
{
	csv->fd = fd;
	csv->path = path;
	csv->separator = separator;
	csv->next = csv->at = csv->window_at = 0;
	csv->line = 1;
	csv->at_line = 0;
	csv->hash = HASH_SEED;
	csv->window_size = 0;
	csv->window_end = false;
	int rc = csv_fill(csv, fault);
	if (rc == 0 && csv->window_size >= 3 && memcmp(csv->window, "\xef\xbb\xbf", 3) == 0)
		csv->next = 3;
	return rc;
}

void csv_seek(struct csv *csv, uint64_t offset)
{
	uint64_t end = csv->window_at + csv->window_size;
	if (offset < csv->window_at || offset >= end) {
		csv->window_at = offset;
		csv->window_size = 0;
		csv->window_end = false;
	}
	csv->next = offset;
	csv->line = 0;
}

/* Takes the next record, or an empty line, from the window or from a fuller one. */
static int64_t csv_take(struct csv *csv, struct fault *fault)
{
	for (;;) {
		size_t from = (size_t)(csv->next - csv->window_at);
		size_t left = csv->window_size - from;
		if (left == 0 && csv->window_end)
			return 0;
		int64_t n = left == 0 ? 0
				      : csv_parse(&csv->record, csv->window + from, left,
						csv->window_end, csv->separator, fault);
		if (n < 0)
			return fault_prefix(fault, (int)n, "%s:%" PRIu64, csv->path,
				csv->line + csv->record.lines);
		if (n > 0) {
			csv->hash = hash_bytes(csv->hash, csv->window + from, (size_t)n);
			return n;
		}
		int rc = csv_fill(csv, fault);
		if (rc < 0)
			return rc;
	}
}

int csv_next(struct csv *csv, struct fault *fault)
{
	for (;;) {
		int64_t n = csv_take(csv, fault);
		if (n <= 0)
			return (int)n;
		csv->at = csv->next;
		csv->at_line = csv->line;
		csv->next += (uint64_t)n;
		if (csv->line)
			csv->line += csv->record.lines;
		if (csv->record.fields)
			return 1;
	}
}

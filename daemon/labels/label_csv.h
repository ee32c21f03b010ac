/* label_csv: reads the records of a CSV or TSV file, one at a time.
 *
 * RFC 4180 with a given separator: a quoted field may hold separators, line ends and doubled
 * quotes; lines end in LF or CRLF. Text is UTF-8 without zero bytes. Other input is an error that
 * names the line. Empty lines are skipped.
 *
 * The reader holds one window of the file of at most CSV_RECORD_MAX bytes, so its memory does not
 * depend on the file's size. One thread; blocks. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CSV_RECORD_MAX = 65536, /* bytes of a record with its line end; longer is an error */
	CSV_FIELDS_MAX = 1100, /* columns; more is an error */
};

struct csv_field {
	const char *text; /* zero-terminated, UTF-8 */
	size_t size;
};

struct csv_record {
	size_t fields; /* 0: an empty line */
	size_t lines; /* line ends in it */
	struct csv_field field[CSV_FIELDS_MAX];
	char text[CSV_RECORD_MAX + CSV_FIELDS_MAX]; /* of the fields, without quotes */
};

/* Splits the record at the beginning of `text` into fields. Returns its bytes including its line
 * end; 0 if `size` does not hold all of it (never 0 if `end` says that the file ends there);
 * -EINVAL with a fault that names no place (`ret->lines`: how many lines further down). Pure. */
int64_t csv_parse(struct csv_record *ret, const char *text, size_t size, bool end, char separator,
	struct fault *fault);

struct csv {
	int fd; /* borrowed */
	const char *path; /* borrowed; for faults */
	char separator;
	uint64_t next; /* where the next record begins */
	uint64_t line; /* its line, from 1; 0: unknown, after csv_seek */
	uint64_t at; /* where the current record begins */
	uint64_t at_line; /* its first line; 0: unknown */
	uint64_t hash; /* of all bytes that csv_next has read since csv_init */
	uint64_t window_at;
	size_t window_size;
	bool window_end; /* the file ends with the window */
	struct csv_record record;
	char window[CSV_RECORD_MAX];
};

/* Begins at the start of the file, after a byte order mark. 0 or negative errno. */
int csv_init(struct csv *csv, int fd, const char *path, char separator, struct fault *fault);

/* 1 and csv->record; 0 at the end; -EINVAL with "path:line: ..."; -errno. */
int csv_next(struct csv *csv, struct fault *fault);

/* Makes the record that begins at `offset` the next one. A record must have been found there
 * before. */
void csv_seek(struct csv *csv, uint64_t offset);

/* label_manifest: see label_manifest.h. Reads the file once for its form, perhaps once more for
 * names, and once for the table; then line by line as samples are looked up. */
#include "labels/label_manifest.h"

#include "base/hash.h"
#include "base/hash_name.h"
#include "base/host/roots.h"
#include "base/store.h"
#include "base/util.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>

static const uint64_t manifest_used = UINT64_C(1) << 63; /* in a place: its line is marked */

uint64_t manifest_mark(uint64_t place)
{
	return hash_mix(place);
}

static int line_fault(const struct manifest *manifest, int code, uint64_t line, struct fault *fault)
{
	return fault_prefix(fault, code, "%s:%llu", manifest->path, (unsigned long long)line);
}

/* Called after each record of a pass over all of them. 0 or -ECANCELED. */
static int manifest_step(const struct manifest *manifest, struct fault *fault)
{
	enum { MANIFEST_ROUND = 4096 };
	const struct csv *csv = manifest->csv;
	if (csv->at_line % MANIFEST_ROUND || !manifest->progress ||
		!manifest->progress(manifest->progress_context, 0, csv->next,
			(uint64_t)manifest->opened.st_size))
		return 0;
	return fault_set(fault, -ECANCELED, "stopped while reading %s", manifest->path);
}

/* --- words of a line --- */

struct word {
	const char *text;
	size_t size;
	size_t column; /* from 0, which is the path, if each column holds one word */
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static struct word word_trim(const char *from, const char *end)
{
	while (from < end && is_blank(*from))
		from++;
	while (end > from && is_blank(end[-1]))
		end--;
	return (struct word){.text = from, .size = (size_t)(end - from)};
}

/* Takes the next word of a list from `*at` on, which ends with a zero byte. Empty words between
 * semicolons are skipped. False: the list has ended. */
static bool word_next(const char **at, bool semicolons, struct word *ret)
{
	while (**at) {
		const char *from = *at, *end = from;
		while (*end && (semicolons ? *end != ';' : !is_blank(*end)))
			end++;
		*at = *end ? end + 1 : end;
		*ret = word_trim(from, end);
		if (ret->size)
			return true;
	}
	return false;
}

/* Called for each word of a line. */
typedef int word_fn(void *context, const struct word *word, struct fault *fault);

static int words_of_list(
	const struct csv_field *field, word_fn *each, void *context, struct fault *fault)
{
	const char *at = field->text;
	bool semicolons = strchr(at, ';') != NULL;
	struct word word;
	int rc = 0;
	while (rc == 0 && word_next(&at, semicolons, &word))
		rc = each(context, &word, fault);
	return rc;
}

static int columns_check(
	const struct manifest *manifest, const struct csv_record *record, struct fault *fault)
{
	if (manifest->columns && record->fields != manifest->columns)
		return fault_set(fault, -EINVAL, "expected %zu columns, found %zu",
			manifest->columns, record->fields);
	if (record->field[0].size == 0)
		return fault_set(fault, -EINVAL, "the path is empty");
	if (record->field[0].size > LABEL_NAME_MAX + 4096)
		return fault_set(fault, -EINVAL, "the path has %zu bytes", record->field[0].size);
	return 0;
}

/* The number of columns is checked each time, because the file may have changed since it was
 * surveyed. */
static int words_of(const struct manifest *manifest, const struct csv_record *record, word_fn *each,
	void *context, struct fault *fault)
{
	int rc = columns_check(manifest, record, fault);
	if (rc == 0 && manifest->form == MANIFEST_LIST)
		return words_of_list(&record->field[1], each, context, fault);
	for (size_t i = 1; rc == 0 && i < record->fields; i++) {
		const struct csv_field *field = &record->field[i];
		struct word word = word_trim(field->text, field->text + field->size);
		word.column = i;
		if (word.size == 0)
			return fault_set(fault, -EINVAL, "column %zu is empty: expected %s", i + 1,
				manifest->form == MANIFEST_INDICATORS ? "0 or 1" : "a label");
		rc = each(context, &word, fault);
	}
	return rc;
}

/* --- what the file is --- */

static char separator_of(const char *path, const char *text, size_t size)
{
	size_t length = strlen(path);
	const char *end = length > 4 ? path + length - 4 : "";
	if (!strcasecmp(end, ".tsv"))
		return '\t';
	if (!strcasecmp(end, ".csv"))
		return ',';
	const char *line = memchr(text, '\n', size);
	return memchr(text, '\t', line ? (size_t)(line - text) : size) ? '\t' : ',';
}

static bool field_is(const struct csv_field *field, const char *text)
{
	struct word word = word_trim(field->text, field->text + field->size);
	return word.size == strlen(text) && memcmp(word.text, text, word.size) == 0;
}

static int header_take(
	struct manifest *manifest, const struct csv_record *record, struct fault *fault)
{
	bool label = false;
	for (size_t i = 1; i < record->fields; i++)
		label |= field_is(&record->field[i], "label") ||
			 field_is(&record->field[i], "labels");
	if (label && record->fields > 2)
		return fault_set(fault, -EINVAL,
			"expected path,label or path,labels, or a path and columns of numbers; "
			"found %zu columns, one of them a label: remove the other columns",
			record->fields);
	manifest->form = !label                                 ? MANIFEST_COLUMNS
			 : field_is(&record->field[1], "label") ? MANIFEST_ONE
								: MANIFEST_LIST;
	return 0;
}

static int names_word(void *context, const struct word *word, struct fault *fault)
{
	for (size_t i = 0; i < word->size; i++)
		if ((unsigned char)word->text[i] < ' ')
			return fault_set(
				fault, -EINVAL, "the name of a class has a control character");
	int rc = classes_add(context, word->text, word->size, fault);
	return rc < 0 ? rc : 0;
}

/* Each column is a class with the column's name. */
static int indicators_take(
	struct manifest *manifest, const struct csv_record *record, struct fault *fault)
{
	manifest->form = MANIFEST_INDICATORS;
	for (size_t i = 1; i < record->fields; i++) {
		const struct csv_field *field = &record->field[i];
		struct word name = word_trim(field->text, field->text + field->size);
		if (name.size == 0)
			return fault_set(fault, -EINVAL,
				"column %zu has no name: expected the name of a class, because "
				"type is multi_hot",
				i + 1);
		int rc = names_word(&manifest->names, &name, fault);
		uint32_t number;
		if (rc < 0)
			return rc;
		if (manifest->names.count < i)
			return fault_set(fault, -EINVAL,
				"column %zu is the second one with the name \"%.*s\": expected "
				"each class once",
				i + 1, (int)UTIL_MIN(name.size, (size_t)100), name.text);
		if (manifest->classes->count &&
			!classes_find(manifest->classes, name.text, name.size, &number))
			return fault_set(fault, -EINVAL,
				"column %zu, \"%.*s\", is not one of the %u classes", i + 1,
				(int)UTIL_MIN(name.size, (size_t)100), name.text,
				manifest->classes->count);
	}
	return 0;
}

/* Learns header, columns and form from the first record. */
static int form_take(struct manifest *manifest, enum label_type asked, struct fault *fault)
{
	const struct csv *csv = manifest->csv;
	const struct csv_record *record = &csv->record;
	if (record->fields < 2)
		return fault_set(fault, -EINVAL,
			"expected a path and its label, separated by a %s, found one column",
			manifest->separator == '\t' ? "tab" : "comma");
	manifest->header = field_is(&record->field[0], "path");
	manifest->first = manifest->header ? csv->next : csv->at;
	manifest->columns = record->fields;
	manifest->form = record->fields == 2 ? MANIFEST_ONE : MANIFEST_COLUMNS;
	int rc = manifest->header ? header_take(manifest, record, fault) : 0;
	if (rc < 0 || (asked != LABEL_TYPE_MULTI_HOT && asked != LABEL_TYPE_CLASSES))
		return rc;
	if (manifest->form == MANIFEST_ONE)
		manifest->form = MANIFEST_LIST;
	if (manifest->form != MANIFEST_COLUMNS || asked == LABEL_TYPE_CLASSES)
		return 0;
	if (manifest->header)
		return indicators_take(manifest, record, fault);
	manifest->columns = 0;
	return 0;
}

/* The kinds of words in the file, and where a number first appeared that cannot be a class. */
struct survey {
	bool name, fraction, whole;
	bool semicolon; /* in a file without a header */
	/* a word is neither 0 nor 1, nor a name in a line that may be meant as a header */
	bool counted;
	bool ragged; /* a line has another number of columns than the first */
	size_t columns; /* of the first */
	uint64_t whole_line;
};

/* Only "0" or "1", in no other notation. */
static bool word_bit(const struct word *word)
{
	return word->size == 1 && (word->text[0] == '0' || word->text[0] == '1');
}

static int survey_word(void *context, const struct word *word, struct fault *fault)
{
	(void)fault;
	struct survey *survey = context;
	enum label_word kind = label_word(word->text, word->size);
	survey->name |= kind == LABEL_WORD_NAME;
	survey->fraction |= kind == LABEL_WORD_FRACTION;
	survey->whole |= kind == LABEL_WORD_WHOLE;
	survey->counted |= !word_bit(word) && (survey->columns || kind != LABEL_WORD_NAME);
	return 0;
}

static int survey_line(struct manifest *manifest, struct survey *survey, struct fault *fault)
{
	const struct csv_record *record = &manifest->csv->record;
	bool whole = survey->whole;
	int rc = words_of(manifest, record, survey_word, survey, fault);
	if (rc < 0)
		return line_fault(manifest, rc, manifest->csv->at_line, fault);
	if (survey->whole && !whole)
		survey->whole_line = manifest->csv->at_line;
	survey->semicolon |= !manifest->header && manifest->form == MANIFEST_ONE &&
			     strchr(record->field[1].text, ';') != NULL;
	if (!survey->columns)
		survey->columns = record->fields;
	survey->ragged |= record->fields != survey->columns;
	manifest->sum += manifest_mark(manifest->csv->at + 1);
	if (++manifest->lines > MANIFEST_LINES)
		return fault_set(fault, -E2BIG, "%s has more than %llu lines", manifest->path,
			(unsigned long long)MANIFEST_LINES);
	return 0;
}

/* Refuses columns without a header that hold only 0 and 1 and are equally long. They were meant as
 * one column per class; as lists of classes, every sample would have both classes. */
static int lists_check(
	const struct manifest *manifest, const struct survey *survey, struct fault *fault)
{
	if (manifest->form != MANIFEST_COLUMNS || survey->counted || survey->ragged ||
		survey->columns < 3)
		return 0;
	return fault_set(fault, -EINVAL,
		"%s: all columns hold 0 or 1: if each column is a class, begin with a header of "
		"path and the classes' names, as in path,cat,dog; if 0 and 1 are classes, write "
		"them into one column, as 0;1",
		manifest->path);
}

/* Decides the type: the one asked for, or the one that the words have. */
static int type_settle(struct manifest *manifest, enum label_type asked,
	const struct survey *survey, struct fault *fault)
{
	bool named = survey->name || manifest->classes->count;
	manifest->type = asked;
	if (survey->semicolon && manifest->form == MANIFEST_ONE)
		manifest->form = MANIFEST_LIST;
	if (asked == LABEL_TYPE_MULTI_HOT)
		return lists_check(manifest, survey, fault);
	if (asked != LABEL_TYPE_AUTO)
		return 0;
	if (manifest->form == MANIFEST_COLUMNS || (!named && survey->fraction))
		manifest->type = LABEL_TYPE_FLOAT;
	else
		manifest->type =
			manifest->form == MANIFEST_LIST ? LABEL_TYPE_MULTI_HOT : LABEL_TYPE_CLASS;
	if (!named && survey->whole && manifest->type != LABEL_TYPE_FLOAT)
		return fault_set(fault, -EINVAL,
			"%s:%llu: a number with a sign is not a class, and no number has a "
			"fraction: say type: float, or number the classes from 0",
			manifest->path, (unsigned long long)survey->whole_line);
	return 0;
}

/* Reads all lines after the header and calls `each` for every record in manifest->csv. */
static int lines_each(struct manifest *manifest,
	int (*each)(struct manifest *manifest, void *context, struct fault *fault), void *context,
	struct fault *fault)
{
	int rc = csv_init(manifest->csv, manifest->fd, manifest->path, manifest->separator, fault);
	while (rc == 0 && (rc = csv_next(manifest->csv, fault)) > 0) {
		rc = manifest->csv->at < manifest->first ? 0 : each(manifest, context, fault);
		if (rc == 0)
			rc = manifest_step(manifest, fault);
	}
	return rc;
}

static int names_line(struct manifest *manifest, void *context, struct fault *fault)
{
	int rc = words_of(manifest, &manifest->csv->record, names_word, context, fault);
	return rc < 0 ? line_fault(manifest, rc, manifest->csv->at_line, fault) : 0;
}

/* --- one line's label --- */

struct taking {
	const struct manifest *manifest;
	const struct label_classes *classes;
	struct label_found *found;
};

static int take_indicator(const struct taking *taking, const struct word *word, struct fault *fault)
{
	const char *name = taking->manifest->names.name[word->column - 1];
	if (!word_bit(word))
		return fault_set(fault, -EINVAL,
			"column %zu, \"%.100s\": expected 0 or 1, which says whether the sample "
			"has that class, found \"%.*s\": names or numbers of classes go into one "
			"column labels, as cat;dog",
			word->column + 1, name, (int)UTIL_MIN(word->size, (size_t)100), word->text);
	return word->text[0] == '0' ? 0
				    : label_found_name(taking->found, name, strlen(name),
					      taking->classes, fault);
}

static int fault_number(const struct taking *taking, const struct word *word, struct fault *fault)
{
	static const char advice[] = " hold numbers; a class goes into one column label, several "
				     "classes into one column labels, as cat;big";
	const struct manifest *manifest = taking->manifest;
	bool columns = manifest->form == MANIFEST_COLUMNS;
	const char *which = manifest->header ? ": columns with names other than label or labels"
					     : ": several columns without a header";
	return fault_set(fault, -EINVAL, "expected a number, found \"%.*s\"%s%s",
		(int)UTIL_MIN(word->size, (size_t)100), word->text, columns ? which : "",
		columns ? advice : "");
}

static int take_word(void *context, const struct word *word, struct fault *fault)
{
	const struct taking *taking = context;
	enum label_word kind = label_word(word->text, word->size);
	char text[64];
	if (taking->manifest->form == MANIFEST_INDICATORS)
		return take_indicator(taking, word, fault);
	if (taking->found->type != LABEL_TYPE_FLOAT && taking->classes->count)
		return label_found_name(
			taking->found, word->text, word->size, taking->classes, fault);
	/* No sensible number is that long. */
	if (kind == LABEL_WORD_NAME || word->size >= sizeof text)
		return fault_number(taking, word, fault);
	(void)snprintf(text, sizeof text, "%.*s", (int)word->size, word->text);
	double number = label_word_number(text);
	if (taking->found->type == LABEL_TYPE_FLOAT)
		return label_found_number(taking->found, number, fault);
	if (kind != LABEL_WORD_INTEGER || number > INT32_MAX)
		return fault_set(fault, -EINVAL,
			"expected a class from 0 to %d, found %s (for numbers say type: float)",
			INT32_MAX, text);
	return label_found_class(taking->found, (int64_t)number, taking->classes, fault);
}

static const struct label_classes *classes_of(const struct manifest *manifest)
{
	return manifest->classes->count ? manifest->classes : &manifest->names;
}

static int line_label(struct manifest *manifest, struct label_found *ret, struct fault *fault)
{
	struct taking taking = {manifest, classes_of(manifest), ret};
	label_found_begin(ret, manifest->type);
	int rc = words_of(manifest, &manifest->csv->record, take_word, &taking, fault);
	if (rc == 0)
		rc = label_found_end(ret, fault);
	if (rc == 0 && label_type_is_even(ret->type) && manifest->width &&
		ret->count != manifest->width)
		rc = fault_set(fault, -EINVAL, "expected %u %s, as in the first line, found %u",
			manifest->width, ret->type == LABEL_TYPE_FLOAT ? "numbers" : "classes",
			ret->count);
	return rc;
}

/* --- opening --- */

static int manifest_survey(struct manifest *manifest, struct survey *survey, enum label_type asked,
	struct fault *fault)
{
	struct csv *csv = manifest->csv;
	int rc = csv_init(csv, manifest->fd, manifest->path, manifest->separator, fault);
	if (rc < 0)
		return rc;
	manifest->separator = csv->separator =
		separator_of(manifest->path, csv->window, csv->window_size);
	for (bool begun = false; (rc = csv_next(csv, fault)) > 0; begun = true) {
		if (!begun)
			rc = form_take(manifest, asked, fault);
		if (rc < 0)
			return line_fault(manifest, rc, csv->at_line, fault);
		rc = csv->at < manifest->first ? 0 : survey_line(manifest, survey, fault);
		if (rc == 0)
			rc = manifest_step(manifest, fault);
		if (rc < 0)
			return rc;
	}
	manifest->hash = hash_mix(csv->hash);
	/* The columns used to be read as numbers of classes: such an index must not be used
	 * again. */
	if (manifest->form == MANIFEST_INDICATORS)
		manifest->hash = hash_mix(hash_u64(manifest->hash, MANIFEST_INDICATORS));
	if (rc == 0 && manifest->lines == 0)
		rc = fault_set(fault, -EINVAL,
			"%s names no samples: expected a line for each sample, with its path and "
			"its label",
			manifest->path);
	return rc;
}

static int manifest_read(struct manifest *manifest, enum label_type asked, struct fault *fault)
{
	struct survey survey = {0};
	int rc = manifest_survey(manifest, &survey, asked, fault);
	if (rc == 0)
		rc = type_settle(manifest, asked, &survey, fault);
	bool classes = manifest->type != LABEL_TYPE_FLOAT && manifest->form != MANIFEST_INDICATORS;
	if (rc == 0 && classes && !manifest->classes->count && survey.name) {
		rc = lines_each(manifest, names_line, &manifest->names, fault);
		classes_sort(&manifest->names);
	}
	return rc;
}

static int manifest_changed(const struct manifest *manifest, struct fault *fault)
{
	return fault_set(fault, -ESTALE,
		"%s changed while it was read: write a new file beside it and rename that",
		manifest->path);
}

int manifest_unchanged(const struct manifest *manifest, struct fault *fault)
{
	struct stat st;
	const struct stat *was = &manifest->opened;
	if (fstat(manifest->fd, &st) < 0 || st.st_size != was->st_size ||
		st.st_mtim.tv_sec != was->st_mtim.tv_sec ||
		st.st_mtim.tv_nsec != was->st_mtim.tv_nsec)
		return manifest_changed(manifest, fault);
	return 0;
}

int manifest_open(struct manifest *manifest, const char *path, const char *root,
	enum label_type asked, const struct label_classes *classes, struct fault *fault)
{
	manifest->path = path;
	manifest->root = root;
	manifest->classes = classes;
	manifest->fd = -1;
	int allowed = roots_check("labels: manifest", path, fault);
	if (allowed < 0)
		return allowed;
	manifest->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (manifest->fd < 0 || fstat(manifest->fd, &manifest->opened) < 0)
		return fault_set(
			fault, -errno, "labels: %s cannot be read: %s", path, strerror(errno));
	if (!S_ISREG(manifest->opened.st_mode))
		return fault_set(fault, -EINVAL,
			"labels: %s is not a regular file: expected a CSV or TSV file of paths and "
			"labels",
			path);
	manifest->csv = malloc(sizeof *manifest->csv);
	if (!manifest->csv)
		return fault_set(fault, -ENOMEM, "no memory to read %s", path);
	int rc = manifest_read(manifest, asked, fault);
	return rc < 0 ? rc : manifest_unchanged(manifest, fault);
}

static void table_free(struct manifest *manifest)
{
	if (manifest->table)
		(void)munmap(manifest->table, manifest->slots * sizeof *manifest->table);
	manifest->table = NULL;
}

void manifest_close(struct manifest *manifest)
{
	if (!manifest->path)
		return;
	table_free(manifest);
	util_close_fd(&manifest->fd);
	classes_deinit(&manifest->names);
	free(manifest->csv);
	*manifest = (struct manifest){0};
}

/* --- the table --- */

/* A path in the form in which samples are named: relative to the folder, without a leading "./". */
static struct word path_plain(const struct manifest *manifest, const char *path, size_t size)
{
	size_t root = manifest->root ? strlen(manifest->root) : 0;
	while (root > 1 && manifest->root[root - 1] == '/')
		root--;
	if (root && size > root && path[0] == '/' && memcmp(path, manifest->root, root) == 0 &&
		(path[root] == '/' || root == 1)) {
		path += root;
		size -= root;
		while (size && *path == '/') {
			path++;
			size--;
		}
	}
	while (size > 2 && path[0] == '.' && path[1] == '/') {
		path += 2;
		size -= 2;
	}
	return (struct word){.text = path, .size = size};
}

static uint64_t path_hash(const struct word *path)
{
	return hash_name(path->text, path->size);
}

static int table_new(struct manifest *manifest, const char *folder, struct fault *fault)
{
	uint64_t slots = 64;
	while (slots < manifest->lines * 2)
		slots *= 2;
	size_t bytes = slots * sizeof *manifest->table;
	cleanup(close_fd) int fd = store_unlinked(folder);
	if (fd < 0 && folder)
		fd = store_unlinked(NULL);
	int rc = fd < 0 ? -fd : posix_fallocate(fd, 0, (off_t)bytes);
	void *table = MAP_FAILED;
	/* Allocated first: on a full disk, touching a mapped page would raise a signal. */
	if (rc == 0) {
		table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		rc = table == MAP_FAILED ? errno : 0;
	}
	if (rc != 0)
		return fault_set(fault, -rc,
			"a temporary file of %llu MiB for the %llu lines of %s cannot be made in "
			"%s: %s; free disk space there, or set TMPDIR",
			(unsigned long long)(bytes >> 20) + 1, (unsigned long long)manifest->lines,
			manifest->path, folder ? folder : "TMPDIR", strerror(rc));
	manifest->table = table;
	manifest->slots = slots;
	return 0;
}

/* Reads the line at `place` into manifest->csv. */
static int line_read(struct manifest *manifest, uint64_t place, struct fault *fault)
{
	csv_seek(manifest->csv, (place & ~manifest_used) - 1);
	int rc = csv_next(manifest->csv, fault);
	return rc > 0    ? 0
	       : rc == 0 ? fault_set(fault, -ESTALE, "%s became shorter while it was read",
				   manifest->path)
			 : rc;
}

/* Finds the line with this path in the table, or the free slot where it belongs. Reads the lines
 * whose paths have the same hash, so manifest->csv has the line that was found. 0 or negative. */
static int table_at(struct manifest *manifest, const struct word *path, struct manifest_line **ret,
	struct fault *fault)
{
	uint64_t hash = path_hash(path);
	for (uint64_t at = hash;; at++) {
		struct manifest_line *line = &manifest->table[at & (manifest->slots - 1)];
		*ret = line;
		if (!line->place)
			return 0;
		if (line->hash != hash)
			continue;
		int rc = line_read(manifest, line->place, fault);
		if (rc < 0)
			return rc;
		const struct csv_field *field = &manifest->csv->record.field[0];
		struct word other = path_plain(manifest, field->text, field->size);
		if (other.size == path->size && !memcmp(other.text, path->text, path->size))
			return 0;
	}
}

/* The number of the line at `place`, found by counting the line ends before it; 0 if that fails. */
static uint64_t manifest_line_number(struct manifest *manifest, uint64_t place)
{
	char buffer[4096];
	uint64_t line = 1, left = (place & ~manifest_used) - 1;
	for (uint64_t at = 0; at < left;) {
		ssize_t n =
			pread(manifest->fd, buffer, UTIL_MIN(left - at, sizeof buffer), (off_t)at);
		if (n <= 0)
			return 0;
		for (ssize_t i = 0; i < n; i++)
			line += buffer[i] == '\n';
		at += (uint64_t)n;
	}
	return line;
}

static int fault_twice(
	struct manifest *manifest, const char *path, uint64_t a, uint64_t b, struct fault *fault)
{
	unsigned long long first = manifest_line_number(manifest, a);
	unsigned long long second = manifest_line_number(manifest, b);
	return fault_set(fault, -EINVAL,
		"%s:%llu: \"%.300s\" appeared before, in line %llu: expected each sample once",
		manifest->path, UTIL_MAX(first, second), path, UTIL_MIN(first, second));
}

/* For making the table: lines that may be equal are read through a window of their own, apart from
 * the one that goes from line to line. */
struct preparing {
	struct csv other;
	struct label_found found;
	uint64_t lines;
};

static int table_line(struct manifest *manifest, void *context, struct fault *fault)
{
	struct preparing *preparing = context;
	struct csv *lines = manifest->csv;
	const struct csv_field *field = &lines->record.field[0];
	struct word path = path_plain(manifest, field->text, field->size);
	struct manifest_line *line;
	/* The table has no room for more. */
	if (preparing->lines++ == manifest->lines)
		return manifest_changed(manifest, fault);
	int rc = line_label(manifest, &preparing->found, fault);
	if (rc < 0)
		return line_fault(manifest, rc, lines->at_line, fault);
	if (label_type_is_even(manifest->type))
		manifest->width = preparing->found.count;
	manifest->csv = &preparing->other;
	rc = table_at(manifest, &path, &line, fault);
	if (rc == 0 && line->place)
		rc = fault_twice(manifest, field->text, line->place, lines->at + 1, fault);
	else if (rc == 0)
		*line = (struct manifest_line){path_hash(&path), lines->at + 1};
	manifest->csv = lines;
	return rc;
}

int manifest_prepare(struct manifest *manifest, const char *folder, struct fault *fault)
{
	if (manifest->table)
		return 0;
	cleanup(free_ptr) struct preparing *preparing = malloc(sizeof *preparing);
	if (!preparing)
		return fault_set(fault, -ENOMEM, "no memory to read %s", manifest->path);
	preparing->lines = 0;
	int rc = table_new(manifest, folder, fault);
	if (rc == 0)
		rc = csv_init(&preparing->other, manifest->fd, manifest->path, manifest->separator,
			fault);
	if (rc == 0)
		rc = lines_each(manifest, table_line, preparing, fault);
	if (rc == 0)
		rc = manifest_unchanged(manifest, fault);
	if (rc < 0)
		table_free(manifest);
	return rc;
}

/* --- looking up --- */

static uint64_t line_place(const struct manifest_line *line)
{
	return line->place & ~manifest_used;
}

static int locate_one(struct manifest *manifest, const char *path, size_t size,
	struct manifest_line **found, struct fault *fault)
{
	struct word plain = path_plain(manifest, path, size);
	struct manifest_line *line;
	int rc = table_at(manifest, &plain, &line, fault);
	if (rc < 0 || !line->place)
		return rc;
	if (*found && *found != line)
		return fault_twice(manifest, path, line_place(*found), line_place(line), fault);
	*found = line;
	return 0;
}

/* Finds the sample's line; NULL: no line names it. */
static int locate(struct manifest *manifest, const struct manifest_sample *sample,
	struct manifest_line **ret, struct fault *fault)
{
	*ret = NULL;
	int rc = locate_one(manifest, sample->name, strlen(sample->name), ret, fault);
	if (rc < 0 || !sample->shard)
		return rc;
	rc = locate_one(manifest, sample->key, sample->key_size, ret, fault);
	if (rc < 0)
		return rc;
	cleanup(free_ptr) char *path = NULL;
	int size = asprintf(&path, "%s!%s", sample->shard, sample->name);
	if (size < 0) {
		path = NULL;
		return fault_set(fault, -ENOMEM, "no memory to look a sample up");
	}
	return locate_one(manifest, path, (size_t)size, ret, fault);
}

int manifest_find(struct manifest *manifest, const struct manifest_sample *sample,
	struct label_found *ret, uint64_t *ret_place, struct fault *fault)
{
	struct manifest_line *line;
	int rc = locate(manifest, sample, &line, fault);
	if (rc < 0)
		return rc;
	if (!line && manifest->only)
		return 1;
	if (!line)
		return fault_set(fault, -EINVAL,
			"none of the %llu lines of %s names it: expected a line for each sample; "
			"add one, remove the sample from the dataset, or say only: true to leave "
			"out samples that the file does not name",
			(unsigned long long)manifest->lines, manifest->path);
	*ret_place = line_place(line);
	rc = line_read(manifest, *ret_place, fault);
	if (rc == 0)
		rc = line_label(manifest, ret, fault);
	return rc < 0 ? line_fault(manifest, rc, manifest_line_number(manifest, *ret_place), fault)
		      : 0;
}

int manifest_use(
	struct manifest *manifest, const struct manifest_sample *sample, struct fault *fault)
{
	struct manifest_line *line;
	int rc = locate(manifest, sample, &line, fault);
	if (rc < 0)
		return rc;
	if (!line)
		return MANIFEST_NONE;
	bool again = line->place & manifest_used;
	line->place |= manifest_used;
	return again ? MANIFEST_AGAIN : MANIFEST_FRESH;
}

int manifest_unused(
	struct manifest *manifest, uint64_t *ret_line, char *path, size_t room, struct fault *fault)
{
	uint64_t first = 0;
	for (uint64_t i = 0; i < manifest->slots; i++) {
		uint64_t place = manifest->table[i].place;
		if (place && !(place & manifest_used) && (!first || place < first))
			first = place;
	}
	if (!first)
		return 0;
	int rc = line_read(manifest, first, fault);
	if (rc < 0)
		return rc;
	*ret_line = manifest_line_number(manifest, first);
	(void)snprintf(path, room, "%s", manifest->csv->record.field[0].text);
	return 1;
}

/* label_classes: see label_classes.h. */
#include "labels/label_classes.h"

#include "base/hash.h"
#include "base/hash_name.h"
#include "base/host/roots.h"
#include "base/util.h"
#include "labels/label_json.h"
#include "labels/label_rule.h"
#include "proto/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* The longest line: a byte order mark, a name, CR and LF. */
enum { LINE_MOST = 3 + LABEL_NAME_MAX + 2 };

void classes_deinit(struct label_classes *classes)
{
	for (uint32_t i = 0; i < classes->count; i++)
		free(classes->name[i]);
	free(classes->name);
	free(classes->table);
	*classes = (struct label_classes){0};
}

/* Finds a name's slot in the table, or the free slot where it belongs. */
static uint32_t *table_at(const struct label_classes *classes, const char *name, size_t size)
{
	uint64_t at = hash_name(name, size);
	for (;; at++) {
		uint32_t *slot = &classes->table[at & (classes->slots - 1)];
		if (*slot == 0)
			return slot;
		const char *other = classes->name[*slot - 1];
		if (strlen(other) == size && memcmp(other, name, size) == 0)
			return slot;
	}
}

static void table_fill(struct label_classes *classes)
{
	memset(classes->table, 0, classes->slots * sizeof *classes->table);
	for (uint32_t i = 0; i < classes->count; i++)
		*table_at(classes, classes->name[i], strlen(classes->name[i])) = i + 1;
}

/* Makes room for one more name. */
static int classes_grow(struct label_classes *classes)
{
	if (classes->count < classes->room)
		return 0;
	uint32_t room = UTIL_MAX(classes->room * 2, 64u);
	char **name = realloc(classes->name, room * sizeof *name);
	if (!name)
		return -ENOMEM;
	classes->name = name;
	uint32_t *table = realloc(classes->table, (size_t)room * 2 * sizeof *table);
	if (!table)
		return -ENOMEM;
	classes->table = table;
	classes->room = room;
	classes->slots = room * 2;
	table_fill(classes);
	return 0;
}

int classes_add(struct label_classes *classes, const char *name, size_t size, struct fault *fault)
{
	if (classes->count && *table_at(classes, name, size))
		return 0;
	if (classes->count == CLASSES_MAX || classes->bytes + size > CLASSES_BYTES)
		return fault_set(fault, -E2BIG,
			"more than %d classes, or more than %d bytes of names: if these are "
			"numbers, say type: float",
			CLASSES_MAX, CLASSES_BYTES);
	char *copy = classes_grow(classes) == 0 ? strndup(name, size) : NULL;
	if (!copy)
		return fault_set(fault, -ENOMEM, "no memory for class names");
	uint32_t *slot = table_at(classes, name, size);
	classes->name[classes->count++] = copy;
	classes->bytes += size;
	*slot = classes->count;
	return 1;
}

static int name_order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void classes_sort(struct label_classes *classes)
{
	if (!classes->count)
		return;
	qsort(classes->name, classes->count, sizeof *classes->name, name_order);
	table_fill(classes);
}

bool classes_find(const struct label_classes *classes, const char *name, size_t size, uint32_t *ret)
{
	uint32_t number = classes->count ? *table_at(classes, name, size) : 0;
	if (number)
		*ret = number - 1;
	return number != 0;
}

uint64_t classes_hash(const struct label_classes *classes)
{
	uint64_t h = hash_u64(HASH_SEED, classes->count);
	for (uint32_t i = 0; i < classes->count; i++)
		h = hash_bytes(h, classes->name[i], strlen(classes->name[i]) + 1);
	return hash_mix(h);
}

static int name_check(const char *name, size_t size, struct fault *fault)
{
	if (size == 0)
		return fault_set(fault, -EINVAL, "an empty line: expected one name on each line");
	if (strlen(name) != size)
		return fault_set(fault, -EINVAL, "a zero byte: expected UTF-8 text");
	if (!utf8_is_valid(name))
		return fault_set(
			fault, -EINVAL, "a byte that is not UTF-8: save the file as UTF-8");
	return 0;
}

/* Checks and adds a name, which must be a new one. */
static int name_take(
	struct label_classes *classes, const char *name, size_t size, struct fault *fault)
{
	int rc = name_check(name, size, fault);
	if (rc == 0)
		rc = classes_add(classes, name, size, fault);
	if (rc == 0)
		return fault_set(
			fault, -EINVAL, "\"%.200s\" appeared before: names must be distinct", name);
	return rc < 0 ? rc : 0;
}

static int line_take(struct label_classes *classes, char *line, size_t size, struct fault *fault)
{
	size -= size && line[size - 1] == '\n';
	size -= size && line[size - 1] == '\r';
	if (size > LABEL_NAME_MAX)
		return fault_set(fault, -EINVAL,
			"a line of more than %d bytes: expected one name on each line",
			LABEL_NAME_MAX);
	line[size] = 0;
	return name_take(classes, line, size, fault);
}

/* Reads a line with its end, or as much of a longer one as is too long. 0: the file has ended. */
static size_t line_read(FILE *file, char line[LINE_MOST])
{
	size_t size = 0;
	for (int c = 0; size < LINE_MOST && c != '\n' && (c = getc_unlocked(file)) != EOF;)
		line[size++] = (char)c;
	return size;
}

static int lines_take(
	struct label_classes *classes, FILE *file, const char *path, struct fault *fault)
{
	char line[LINE_MOST + 1];
	size_t size;
	for (uint64_t number = 1; (size = line_read(file, line)) > 0; number++) {
		size_t mark = number == 1 && size >= 3 && !memcmp(line, "\xef\xbb\xbf", 3) ? 3 : 0;
		int rc = line_take(classes, line + mark, size - mark, fault);
		if (rc < 0)
			return fault_prefix(fault, rc, "%s:%llu", path, (unsigned long long)number);
	}
	return ferror(file) ? fault_set(fault, -EIO, "%s cannot be read", path) : 0;
}

static int classes_file(const char *path, FILE **ret, struct fault *fault)
{
	int allowed = roots_check("labels: classes", path, fault);
	if (allowed < 0)
		return allowed;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	int rc = 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		rc = fault_set(fault, -errno, "%s cannot be read: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode) || st.st_size > 2L * CLASSES_BYTES)
		rc = fault_set(fault, -EINVAL,
			"%s is not a regular file of class names, one on each line", path);
	else if (!(*ret = fdopen(fd, "r")))
		rc = fault_set(fault, -ENOMEM, "no memory to read %s", path);
	if (rc < 0)
		util_close_fd(&fd);
	return rc;
}

/* --- the NAME.pack.json of penstock pack --- */

static int packed_name(struct label_classes *classes, const json_t *value, struct fault *fault)
{
	const char *name = json_string_value(value);
	if (!name || label_json_odd(value))
		return fault_set(fault, -EINVAL, "one of \"classes\" is not text");
	return name_take(classes, name, json_string_length(value), fault);
}

static int packed_take(
	struct label_classes *classes, FILE *file, const char *path, struct fault *fault)
{
	struct stat st;
	if (fstat(fileno(file), &st) < 0 || st.st_size > CLASSES_PACKED)
		return fault_set(fault, -E2BIG,
			"%s has more than %d bytes: write the names of its \"classes\" into a "
			"file, one on each line",
			path, CLASSES_PACKED);
	cleanup(free_ptr) char *text = malloc((size_t)st.st_size + 1);
	if (!text)
		return fault_set(fault, -ENOMEM, "no memory to read %s", path);
	json_t *root = label_json(
		text, fread(text, 1, (size_t)st.st_size, file), CLASSES_PACKED_PARTS, fault);
	const json_t *names = json_object_get(root, "classes");
	int rc = 0;
	if (!root)
		rc = -EINVAL;
	else if (!json_array_size(names))
		rc = fault_set(fault, -EINVAL,
			"has no \"classes\": expected the file that penstock pack writes for a "
			"source with named classes");
	for (size_t i = 0; rc == 0 && i < json_array_size(names); i++)
		rc = packed_name(classes, json_array_get(names, i), fault);
	json_decref(root);
	return rc < 0 ? fault_prefix(fault, rc, "%s", path) : 0;
}

static bool is_packed(const char *path)
{
	static const char end[] = ".pack.json";
	size_t size = strlen(path), tail = sizeof end - 1;
	return size > tail && strcmp(path + size - tail, end) == 0;
}

int classes_load(struct label_classes *classes, const char *path, struct fault *fault)
{
	cleanup(close_file) FILE *file = NULL;
	int rc = classes_file(path, &file, fault);
	if (rc == 0)
		rc = (is_packed(path) ? packed_take : lines_take)(classes, file, path, fault);
	if (rc == 0 && classes->count == 0)
		rc = fault_set(
			fault, -EINVAL, "%s is empty: expected one class name on each line", path);
	return rc;
}

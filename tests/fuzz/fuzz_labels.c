/* fuzz_labels: labels from outside, for any bytes: with libFuzzer, and as a test with inputs built
 * at random from the words of such files (drive.h).
 *
 * The first byte tells what the rest is: a manifest, with the requested type; records of CSV; a
 * path, a zero byte and a JSON document; the contents of a .cls or a .json; or a file of names
 * of classes. Expected: no read beyond the input (each input ends at the end of its allocation);
 * a sentence with every refusal; records cover all bytes exactly once; every line of a manifest
 * is found by its path and no line remains; labels are within their bounds. */
#include "labels/label.h"
#include "labels/label_csv.h"
#include "labels/label_json.h"
#include "labels/label_manifest.h"
#include "labels/label_path.h"
#include "labels/label_value.h"

#include "fuzz/drive.h"
#include "fuzz/want.h"

#include "base/util.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WORDS_MOST = 40, SIZE_MOST = 2048 };

static void want_refusal(int64_t result, const struct fault *fault)
{
	want(result == -EINVAL || result == -E2BIG, "refused with another code");
	want(fault->text[0] != 0, "refused without a sentence");
}

static void check_found(const struct label_found *found)
{
	want(found->count <= LABEL_VALUES_MAX, "more values than fit");
	want(found->type != LABEL_TYPE_CLASS || found->count == 1, "one class, but not one value");
	want(found->type != LABEL_TYPE_CLASSES || found->count, "classes, but none");
	for (uint32_t i = 0; i < found->count; i++) {
		if (found->type == LABEL_TYPE_CLASSES)
			want(found->class[i] <= INT32_MAX, "a class that is too high");
		if (found->type == LABEL_TYPE_FLOAT)
			want(isfinite(found->number[i]), "a number without end");
		if (found->type == LABEL_TYPE_MULTI_HOT)
			want(found->class[i] < LABEL_WIDTH_MAX &&
					(i == 0 || found->class[i - 1] < found -> class[i]),
				"classes that are too high, or out of order");
	}
}

static void try_csv(const char *text, size_t size, char separator)
{
	static struct csv_record record;
	for (size_t at = 0; at < size;) {
		struct fault fault = {{0}};
		int64_t part =
			csv_parse(&record, text + at, (size - at) / 2, false, separator, &fault);
		want(part >= 0 || part == -EINVAL, "a part refused with another code");
		fault.text[0] = 0;
		int64_t n = csv_parse(&record, text + at, size - at, true, separator, &fault);
		if (n < 0) {
			want_refusal(n, &fault);
			return;
		}
		want(n > 0 && (size_t)n <= size - at, "a record that ends elsewhere");
		want(part <= 0 || part == n, "the same bytes give another record");
		for (size_t i = 0; i < record.fields; i++)
			want(strlen(record.field[i].text) == record.field[i].size,
				"a field of another size");
		at += (size_t)n;
	}
}

static void try_json(const char *text, size_t size, enum label_type asked)
{
	static struct label_path path;
	static struct label_found found;
	static const struct label_classes none;
	const char *zero = memchr(text, 0, size);
	struct fault fault = {{0}};
	if (!zero || label_path_parse(text, &path, &fault) < 0) {
		want(!zero || fault.text[0] != 0, "a path refused without a sentence");
		return;
	}
	json_t *root =
		label_json(zero + 1, size - (size_t)(zero + 1 - text), LABEL_JSON_PARTS, &fault);
	want(root || fault.text[0] != 0, "no JSON, without a sentence");
	if (!root)
		return;
	const json_t *value = label_path_find(&path, root, &fault);
	want(value || fault.text[0] != 0, "nothing found, without a sentence");
	fault.text[0] = 0;
	int rc = value ? label_from_value(value, asked, &none, &found, &fault) : 0;
	if (rc < 0)
		want_refusal(rc, &fault);
	else if (value)
		check_found(&found);
	json_decref(root);
}

/* Each line's sample finds that line, and then no line remains. */
static void check_lines(struct manifest *manifest)
{
	static struct csv csv;
	static struct label_found found;
	struct fault fault = {{0}};
	uint64_t sum = 0, line;
	char path[64];
	want(csv_init(&csv, manifest->fd, manifest->path, manifest->separator, &fault) == 0,
		"it cannot be read again");
	while (csv_next(&csv, &fault) > 0) {
		if (csv.at < manifest->first)
			continue;
		const struct manifest_sample sample = {.name = csv.record.field[0].text};
		uint64_t place = 0;
		want(manifest_find(manifest, &sample, &found, &place, &fault) == 0,
			"a line's path does not find it");
		want(found.type == manifest->type, "a label of another type");
		check_found(&found);
		want(manifest_use(manifest, &sample, &fault) == MANIFEST_FRESH, "used twice");
		sum += manifest_mark(place);
	}
	want(sum == manifest->sum, "the sums differ");
	want(manifest_unused(manifest, &line, path, sizeof path, &fault) == 0, "a line remains");
}

static int memory_file(const char *text, size_t size)
{
	int fd = memfd_create("labels", MFD_CLOEXEC);
	want(fd >= 0 && write(fd, text, size) == (ssize_t)size, "no memory");
	return fd;
}

/* For functions that open a path; valid until the next call. */
static const char *memory_path(int fd)
{
	static char path[64];
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return path;
}

static void try_manifest(const char *text, size_t size, enum label_type asked)
{
	struct manifest manifest = {0};
	static const struct label_classes none;
	struct fault fault = {{0}};
	cleanup(close_fd) int fd = memory_file(text, size);
	int rc = manifest_open(&manifest, memory_path(fd), NULL, asked, &none, &fault);
	if (rc == 0)
		rc = manifest_prepare(&manifest, NULL, &fault);
	if (rc < 0)
		want_refusal(rc, &fault);
	else
		check_lines(&manifest);
	manifest_close(&manifest);
}

/* The contents of a .cls or .json member, as datasets without a rule read it. */
static void try_plain(const char *text, size_t size)
{
	struct fault fault = {{0}};
	int32_t label = -2;
	int rc = label_from_cls(text, UTIL_MIN(size, (size_t)LABEL_CLS_MAX), &label, &fault);
	want(rc || label >= 0, "not a valid label");
	if (rc)
		want_refusal(rc, &fault);
	label = -2;
	fault.text[0] = 0;
	rc = label_from_json(text, size, &label, &fault);
	want(rc || label >= 0, "not a valid label");
	if (rc < 0)
		want_refusal(rc, &fault);
}

/* Each name has the number of its position, and sorting keeps all names. */
static void try_classes(const char *text, size_t size)
{
	struct label_classes classes = {0};
	struct fault fault = {{0}};
	uint32_t number;
	cleanup(close_fd) int fd = memory_file(text, size);
	int rc = classes_load(&classes, memory_path(fd), &fault);
	if (rc < 0)
		want_refusal(rc, &fault);
	for (int sorted = 0; rc == 0 && sorted < 2; sorted++) {
		for (uint32_t i = 0; i < classes.count; i++) {
			const char *name = classes.name[i];
			want(classes_find(&classes, name, strlen(name), &number) && number == i,
				"a name is not found at its place");
			want(!sorted || i == 0 || strcmp(classes.name[i - 1], name) < 0,
				"sorted names are not in order");
		}
		classes_sort(&classes);
	}
	classes_deinit(&classes);
}

enum kind { KIND_CSV, KIND_PATH, KIND_PLAIN, KIND_CLASSES, KIND_MANIFEST, KINDS = 6 };

static void try_kind(unsigned kind, unsigned how, const char *text, size_t size)
{
	enum label_type asked = (enum label_type)(how % 5);
	switch (kind) {
	case KIND_CSV:
		try_csv(text, size, how % 2 ? '\t' : ',');
		break;
	case KIND_PATH:
		try_json(text, size, asked);
		break;
	case KIND_PLAIN:
		try_plain(text, size);
		break;
	case KIND_CLASSES:
		try_classes(text, size);
		break;
	default:
		try_manifest(text, size, asked);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	char *exact = malloc(size);
	want(exact != NULL, "no memory");
	memcpy(exact, data + 1, size - 1);
	try_kind(data[0] % KINDS, data[0] / KINDS, exact, size - 1);
	free(exact);
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static size_t put(uint8_t *bytes, size_t at, struct random *random, bool json_text)
{
	static const char *const csv[] = {"path", "label", "labels", "x", ",", ",", "\n", "\n",
		"\r\n", "\t", "\"", "\"\"", "a.jpg", "b/c.png", "./a.jpg", "1", "2", "0;1", "3 4",
		"0.5", "-1", "nan", "1e9", "cat", "\xc3\xa4", "\xff", " ", ";", "\xef\xbb\xbf",
		"99999999999", ""};
	static const char *const json[] = {"a", "b", "0", ".", ".", "\\.", "\\",
		"{\"a\": ", "{\"b\": ", "[", "]", "}", ",", "\"a\"", "1", "2", "-3", "0.5", "1e400",
		"null", "true", " ", ":", "{\"label\": ", "\"cls\": ", "\"\\u0000\"", "[1, 2]",
		"[0.5, 1]", "\xc3\xa4"};
	if (json_text && one_in(random, 12)) {
		bytes[at] = 0;
		return at + 1;
	}
	const char *word = json_text ? json[draw(random, UTIL_COUNT(json))]
				     : csv[draw(random, UTIL_COUNT(csv))];
	size_t size = strlen(word);
	memcpy(bytes + at, word, size);
	return at + size;
}

/* Lines that fit together, sometimes with a fault, because most random lines would be refused at
 * once. */
static size_t put_lines(uint8_t *bytes, size_t at, struct random *random)
{
	static const struct {
		const char *front, *between, *behind;
	} forms[] = {{"a/", ".jpg,", "\n"}, {"\"", "\",", ";7\r\n"}, {"p", "\t", "\n"},
		{"./", ".png,", ".5\n"}, {"k", ",n", "\n"}};
	const size_t form = draw(random, UTIL_COUNT(forms));
	int lines = (int)draw(random, 30);
	for (int i = 0; i < lines; i++)
		at += (size_t)snprintf((char *)bytes + at, SIZE_MOST - at, "%s%d%s%d%s",
			forms[form].front, i, forms[form].between, (int)draw(random, 5),
			forms[form].behind);
	return at;
}

static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	(void)room;
	bytes[0] = (uint8_t)draw(random, 256);
	const unsigned kind = bytes[0] % KINDS;
	size_t at = 1;
	if (kind >= KIND_MANIFEST && one_in(random, 2))
		return put_lines(bytes, at, random);
	for (uint32_t words = draw(random, WORDS_MOST); words; words--)
		at = put(bytes, at, random, kind == KIND_PATH || kind == KIND_PLAIN);
	return at;
}

const struct drive fuzz_drive = {"fuzz_labels", SIZE_MOST, compose, NULL};
#endif

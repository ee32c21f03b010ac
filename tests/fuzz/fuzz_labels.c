/* Labels from outside, over any bytes: for libFuzzer, and as a test over inputs put together at
 * random from the words that they consist of.
 *
 *     fuzz_labels [ROUNDS [FILE...]]
 *
 * The first byte says what the rest is: a manifest, with the type that is asked for; records of
 * CSV; or a path, a zero byte and a JSON document. Expected: no byte beyond the given ones is
 * looked at (each input ends where its memory does), what is refused is refused in words, records
 * take all bytes and no byte twice, a manifest's every line is found by its path and no line is
 * left, and labels are within their bounds. */
#include "source/label_csv.h"
#include "source/label_manifest.h"
#include "source/label_path.h"
#include "source/label_value.h"

#include "base/util.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { WORDS_MOST = 40, SIZE_MOST = 2048 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(int holds, const char *what)
{
	if (holds)
		return;
	(void)fprintf(stderr, "fuzz_labels: %s\n", what);
	abort();
}

static void want_refusal(int64_t result, const struct fault *fault)
{
	want(result == -EINVAL || result == -E2BIG, "refused by another code");
	want(fault->text[0] != 0, "refused without a word");
}

static void check_found(const struct label_found *found)
{
	want(found->count <= LABEL_VALUES_MAX, "more values than there is room for");
	want(found->type != LABEL_TYPE_CLASS || found->count == 1, "one class, and not one");
	for (uint32_t i = 0; i < found->count; i++) {
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
		want(part >= 0 || part == -EINVAL, "a part refused by another code");
		fault.text[0] = 0;
		int64_t n = csv_parse(&record, text + at, size - at, true, separator, &fault);
		if (n < 0) {
			want_refusal(n, &fault);
			return;
		}
		want(n > 0 && (size_t)n <= size - at, "a record that ends elsewhere");
		want(part <= 0 || part == n, "the same bytes are another record");
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
		want(!zero || fault.text[0] != 0, "a path refused without a word");
		return;
	}
	json_error_t error;
	json_t *root = json_loadb(zero + 1, size - (size_t)(zero + 1 - text),
		JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
	if (!root)
		return;
	const json_t *value = label_path_find(&path, root, &fault);
	want(value || fault.text[0] != 0, "nothing found, without a word");
	fault.text[0] = 0;
	int rc = value ? label_from_value(value, asked, &none, &found, &fault) : 0;
	if (rc < 0)
		want_refusal(rc, &fault);
	else if (value)
		check_found(&found);
	json_decref(root);
}

/* Each line's sample finds that line, and then none is left. */
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
	want(manifest_unused(manifest, &line, path, sizeof path, &fault) == 0, "a line is left");
}

static void try_manifest(const char *text, size_t size, enum label_type asked)
{
	struct manifest manifest = {0};
	static const struct label_classes none;
	struct fault fault = {{0}};
	char path[64];
	int fd = memfd_create("manifest", MFD_CLOEXEC);
	want(fd >= 0 && write(fd, text, size) == (ssize_t)size, "no memory");
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	int rc = manifest_open(&manifest, path, NULL, asked, &none, &fault);
	if (rc == 0)
		rc = manifest_prepare(&manifest, NULL, &fault);
	if (rc < 0)
		want_refusal(rc, &fault);
	else
		check_lines(&manifest);
	manifest_close(&manifest);
	(void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	char *exact = malloc(size);
	want(exact != NULL, "no memory");
	memcpy(exact, data + 1, size - 1);
	enum label_type asked = (enum label_type)(data[0] / 4 % 4);
	if (data[0] % 4 == 0)
		try_csv(exact, size - 1, data[0] & 4 ? '\t' : ',');
	else if (data[0] % 4 == 1)
		try_json(exact, size - 1, asked);
	else
		try_manifest(exact, size - 1, asked);
	free(exact);
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static uint64_t next(uint64_t *random)
{
	*random = *random * 6364136223846793005u + 1442695040888963407u;
	return *random >> 33;
}

static size_t put(uint8_t *bytes, size_t at, uint64_t *random, unsigned kind)
{
	static const char *const csv[] = {"path", "label", "labels", "x", ",", ",", "\n", "\n",
		"\r\n", "\t", "\"", "\"\"", "a.jpg", "b/c.png", "./a.jpg", "1", "2", "0;1", "3 4",
		"0.5", "-1", "nan", "1e9", "cat", "\xc3\xa4", "\xff", " ", ";", "\xef\xbb\xbf",
		"99999999999", ""};
	static const char *const json[] = {"a", "b", "0", ".", ".", "\\.", "\\",
		"{\"a\": ", "{\"b\": ", "[", "]", "}", ",", "\"a\"", "1", "2", "-3", "0.5", "1e400",
		"null", "true", " ", ":", "\"\\u0000\"", "[1, 2]", "[0.5, 1]", "\xc3\xa4"};
	if (kind == 1 && next(random) % 12 == 0) {
		bytes[at] = 0;
		return at + 1;
	}
	const char *word = kind == 1 ? json[next(random) % UTIL_COUNT(json)]
				     : csv[next(random) % UTIL_COUNT(csv)];
	size_t size = strlen(word);
	memcpy(bytes + at, word, size);
	return at + size;
}

/* Lines that go together, now and then with a fault: most random ones are refused at once. */
static size_t put_lines(uint8_t *bytes, size_t at, uint64_t *random)
{
	static const struct {
		const char *front, *between, *behind;
	} forms[] = {{"a/", ".jpg,", "\n"}, {"\"", "\",", ";7\r\n"}, {"p", "\t", "\n"},
		{"./", ".png,", ".5\n"}, {"k", ",n", "\n"}};
	const size_t form = next(random) % UTIL_COUNT(forms);
	int lines = (int)(next(random) % 30);
	for (int i = 0; i < lines; i++)
		at += (size_t)snprintf((char *)bytes + at, SIZE_MOST - at, "%s%d%s%d%s",
			forms[form].front, i, forms[form].between, (int)(next(random) % 5),
			forms[form].behind);
	if (next(random) % 4 == 0 && at)
		bytes[next(random) % at] = (uint8_t)next(random);
	return at;
}

static size_t make(uint8_t *bytes, uint64_t *random)
{
	bytes[0] = (uint8_t)next(random);
	size_t at = 1;
	if (bytes[0] % 4 > 1 && next(random) % 2)
		return put_lines(bytes, at, random);
	for (uint64_t words = next(random) % WORDS_MOST; words; words--)
		at = put(bytes, at, random, bytes[0] % 4);
	return at;
}

static int try_file(const char *path)
{
	static uint8_t bytes[1 << 20];
	FILE *file = fopen(path, "rb");
	if (!file)
		return perror(path), 1;
	size_t size = fread(bytes, 1, sizeof bytes, file);
	(void)fclose(file);
	return LLVMFuzzerTestOneInput(bytes, size);
}

int main(int argc, char **argv)
{
	static uint8_t bytes[SIZE_MOST];
	uint64_t random = 9, rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000;
	for (int i = 2; i < argc; i++)
		if (try_file(argv[i]))
			return 1;
	for (uint64_t i = 0; i < rounds; i++)
		(void)LLVMFuzzerTestOneInput(bytes, make(bytes, &random));
	printf("%llu inputs\n", (unsigned long long)rounds);
	return 0;
}
#endif

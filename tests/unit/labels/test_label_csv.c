/* label_csv: RFC 4180 and violations of it: quoting, line ends, zero bytes, text that is not UTF-8,
 * fields and records of any size; a refusal names the line. */
#include "labels/label_csv.h"
#include "unit/source_fixture.h"

#include "base/util.h"

#include <errno.h>

static struct csv_record record;

/* Parses a copy that ends at the end of its allocation, so that sanitizers detect reads beyond
 * it. */
static int64_t parse(const char *text, size_t size, bool end, struct fault *fault)
{
	char *exact = malloc(size ? size : 1);
	assert_non_null(exact);
	memcpy(exact, text, size);
	fault->text[0] = 0;
	int64_t result = csv_parse(&record, exact, size, end, ',', fault);
	free(exact);
	return result;
}

/* `want`: the fields, joined by | */
static void takes(const char *text, const char *want, size_t bytes, size_t lines)
{
	struct fault fault;
	char joined[1024] = "";
	int64_t n = parse(text, strlen(text), true, &fault);
	if (n < 0)
		fail_msg("%s: %s", text, fault.text);
	assert_int_equal(n, bytes);
	assert_int_equal(record.lines, lines);
	for (size_t i = 0; i < record.fields; i++) {
		assert_int_equal(strlen(record.field[i].text), record.field[i].size);
		strcat(strcat(joined, i ? "|" : ""), record.field[i].text);
	}
	assert_string_equal(joined, want);
	/* A record that is cut off asks for more, and nothing is read beyond the end. */
	for (size_t cut = 0; cut < bytes - (lines != 0); cut++)
		assert_true(parse(text, cut, false, &fault) <= 0);
}

static void refuses(const char *text, size_t size, const char *says)
{
	struct fault fault;
	assert_int_equal(parse(text, size, true, &fault), -EINVAL);
	if (!strstr(fault.text, says))
		fail_msg("\"%s\" does not say \"%s\"", fault.text, says);
}

static void test_records(void **state)
{
	takes("a,b\nc", "a|b", 4, 1);
	takes("a,b\r\nc", "a|b", 5, 1);
	takes("a,b", "a|b", 3, 0);
	takes("a,b\r\n", "a|b", 5, 1);
	takes(",\n", "|", 2, 1);
	takes("a,\n", "a|", 3, 1);
	takes("\"a,b\",\"c\"\"d\"\n", "a,b|c\"d", 13, 1);
	takes("\"a\nb\r\nc\",d\n", "a\nb\r\nc|d", 11, 3);
	takes("\"\",\"\"\"\"\n", "|\"", 8, 1);
	takes("\"a\"", "a", 3, 0);
	takes("\xc3\xa4,\xe6\x97\xa5\n", "\xc3\xa4|\xe6\x97\xa5", 7, 1);
	takes(" a , b \n", " a | b ", 8, 1);
}

static void test_empty_lines(void **state)
{
	struct fault fault;
	assert_int_equal(parse("\na", 2, true, &fault), 1);
	assert_int_equal(record.fields, 0);
	assert_int_equal(record.lines, 1);
	assert_int_equal(parse("\r\na", 3, true, &fault), 2);
	assert_int_equal(record.fields, 0);
	assert_int_equal(parse("\r", 1, false, &fault), 0);
}

static void test_refused(void **state)
{
	refuses("a\"b,c\n", 6, "a quote within a field");
	refuses("\"a\"b,c\n", 7, "after the closing quote");
	refuses("\"a", 2, "never closed");
	refuses("a\rb\n", 4, "carriage return");
	refuses("a\r", 2, "carriage return");
	refuses("a\0b\n", 4, "zero byte");
	refuses("\"a\0\"\n", 5, "zero byte");
	refuses("a\xff\n", 3, "not UTF-8");
	refuses("a\xc3\n", 3, "not UTF-8");
	refuses("a\xc0\x80\n", 4, "not UTF-8");
	refuses("\xed\xa0\x80\n", 4, "not UTF-8");
}

static void test_sizes(void **state)
{
	static char text[CSV_RECORD_MAX + 16];
	memset(text, 'a', sizeof text);
	text[CSV_RECORD_MAX - 1] = '\n';
	struct fault fault;
	assert_int_equal(parse(text, sizeof text, true, &fault), CSV_RECORD_MAX);
	assert_int_equal(record.field[0].size, CSV_RECORD_MAX - 1);
	text[CSV_RECORD_MAX - 1] = 'a';
	refuses(text, sizeof text, "more than 65536 bytes");
	memset(text, ',', sizeof text);
	text[CSV_FIELDS_MAX - 1] = '\n';
	assert_int_equal(parse(text, sizeof text, true, &fault), CSV_FIELDS_MAX);
	assert_int_equal(record.fields, CSV_FIELDS_MAX);
	text[CSV_FIELDS_MAX - 1] = ',';
	refuses(text, sizeof text, "more than 1100 columns");
}

static struct csv *open_csv(void **state, const void *data, size_t size, struct fault *fault)
{
	static struct csv csv;
	const char *path = fixture_path(*state, "x.csv");
	fixture_write(path, data, size);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(csv_init(&csv, fd, "x.csv", ',', fault), 0);
	return &csv;
}

static void test_reader(void **state)
{
	struct fault fault = {{0}};
	const char text[] = "\xef\xbb\xbfpath,label\r\n\r\n\"a\nb\",1\n\nc,2";
	struct csv *csv = open_csv(state, text, sizeof text - 1, &fault);
	assert_int_equal(csv_next(csv, &fault), 1);
	assert_string_equal(csv->record.field[0].text, "path");
	assert_int_equal(csv->at_line, 1);
	assert_int_equal(csv_next(csv, &fault), 1);
	assert_string_equal(csv->record.field[0].text, "a\nb");
	assert_int_equal(csv->at_line, 3);
	uint64_t place = csv->at;
	assert_int_equal(csv_next(csv, &fault), 1);
	assert_string_equal(csv->record.field[1].text, "2");
	assert_int_equal(csv->at_line, 6);
	assert_int_equal(csv_next(csv, &fault), 0);
	csv_seek(csv, place);
	assert_int_equal(csv_next(csv, &fault), 1);
	assert_string_equal(csv->record.field[0].text, "a\nb");
	(void)close(csv->fd);
}

/* Records across the ends of windows, in order and after csv_seek. */
static void test_windows(void **state)
{
	struct fault fault = {{0}};
	enum { LINES = 20000 };
	static uint64_t place[LINES];
	static char text[LINES * 24];
	size_t size = 0;
	for (int i = 0; i < LINES; i++)
		size += (size_t)sprintf(text + size, "%0*d,%d\n", 1 + i % 13, i, i % 7);
	struct csv *csv = open_csv(state, text, size, &fault);
	for (int i = 0; i < LINES; i++) {
		assert_int_equal(csv_next(csv, &fault), 1);
		assert_int_equal(atoi(csv->record.field[0].text), i);
		assert_int_equal(csv->at_line, i + 1);
		place[i] = csv->at;
	}
	assert_int_equal(csv_next(csv, &fault), 0);
	for (int i = 0; i < LINES; i++) {
		int at = (i * 7919) % LINES;
		csv_seek(csv, place[at]);
		assert_int_equal(csv_next(csv, &fault), 1);
		assert_int_equal(atoi(csv->record.field[0].text), at);
	}
	(void)close(csv->fd);
}

static void test_reader_says_where(void **state)
{
	struct fault fault = {{0}};
	const char text[] = "a,1\n\"b\nc\",2\nd,\xff\n";
	struct csv *csv = open_csv(state, text, sizeof text - 1, &fault);
	assert_int_equal(csv_next(csv, &fault), 1);
	assert_int_equal(csv_next(csv, &fault), 1);
	assert_int_equal(csv_next(csv, &fault), -EINVAL);
	if (strncmp(fault.text, "x.csv:4: ", 9) != 0)
		fail_msg("%s", fault.text);
	(void)close(csv->fd);
	csv = open_csv(state, "", 0, &fault);
	assert_int_equal(csv_next(csv, &fault), 0);
	(void)close(csv->fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_records),
		cmocka_unit_test(test_empty_lines),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test_setup_teardown(test_reader, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_windows, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			test_reader_says_where, fixture_setup, fixture_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

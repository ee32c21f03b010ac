/* The client's pure parts: headers, errors, and what a server may be asked. */
#include "remote/client/client_impl.h"

#include "base/util.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static int header(struct answer_head *head, const char *line)
{
	/* Of exactly this size, so that a sanitizer sees what is read beyond it. */
	size_t size = strlen(line);
	char *copy = malloc(size ? size : 1);
	assert_non_null(copy);
	memcpy(copy, line, size);
	int result = client_answer_header(head, copy, size);
	free(copy);
	return result;
}

static void test_headers(void **state)
{
	struct answer_head head = {0};
	client_answer_reset(&head);
	assert_int_equal(header(&head, "HTTP/1.1 103 Early Hints\r\n"), 0);
	assert_int_equal(header(&head, "ETag: \"early\"\r\n"), 0);
	assert_int_equal(header(&head, "HTTP/1.1 206 Partial Content\r\n"), 0);
	assert_string_equal(head.answer.etag, "");
	assert_int_equal(header(&head, "eTaG:\t \"a\x1b b\"  \r\n"), 0);
	assert_int_equal(header(&head, "Content-Length: 100\r\n"), 0);
	assert_int_equal(header(&head, "Content-Range: bytes 5-104/2000\r\n"), 0);
	assert_int_equal(header(&head, "Last-Modified: Sun, 09 Sep 2001 01:46:40 GMT\r\n"), 0);
	assert_int_equal(header(&head, "x-amz-bucket-region: eu-west-1\r\n"), 0);
	assert_int_equal(header(&head, "Retry-After: 7\r\n"), 0);
	assert_int_equal(header(&head, "no colon\r\n"), 0);
	assert_int_equal(header(&head, "\r\n"), 0);
	assert_int_equal(head.status, 206);
	assert_string_equal(head.answer.etag, "\"a? b\"");
	assert_int_equal(head.length, 100);
	assert_true(head.has_range);
	assert_int_equal(head.range_first, 5);
	assert_int_equal(head.range_last, 104);
	assert_int_equal(head.range_total, 2000);
	assert_int_equal(head.answer.modified_s, 1000000000);
	assert_string_equal(head.region, "eu-west-1");
	assert_int_equal(head.retry_after_s, 7);
}

/* Dates are read here where they have the usual form, and as libcurl reads them. */
static void test_dates(void **state)
{
	static const struct {
		const char *text;
		int64_t date;
	} dates[] = {{"Thu, 01 Jan 1970 00:00:00 GMT", 0},
		{"Sun, 06 Nov 1994 08:49:37 GMT", 784111777},
		{"Sunday, 06-Nov-94 08:49:37 GMT", 784111777},
		{"Sun Nov  6 08:49:37 1994", 784111777},
		{"Tue, 29 Feb 2000 23:59:59 GMT", 951868799},
		{"Wed, 01 Mar 2000 00:00:00 GMT", 951868800},
		{"Fri, 31 Dec 2100 12:00:00 GMT", 4133937600},
		{"Sun, 06 Nov 1994 08:49:37", 784111777}, {"Sun, 06 Nov 1994 08:49", 784111740},
		{"Sun, 06 Now 1994 08:49:37 GMT", -1}, {"never", -1}, {"", -1}};
	char line[80], text[40];
	for (size_t i = 0; i < UTIL_COUNT(dates); i++) {
		struct answer_head head = {0};
		client_answer_reset(&head);
		(void)snprintf(line, sizeof line, "Last-Modified: %s\r\n", dates[i].text);
		assert_int_equal(header(&head, line), 0);
		if (head.answer.modified_s != dates[i].date)
			fail_msg("%s: %lld", dates[i].text, (long long)head.answer.modified_s);
	}
	for (time_t date = 0; date < INT64_C(5000000000); date += 86400 * 5 + 12345) {
		struct answer_head head = {0};
		struct tm tm;
		client_answer_reset(&head);
		assert_non_null(gmtime_r(&date, &tm));
		assert_true(strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &tm));
		(void)snprintf(line, sizeof line, "DATE:%s", text);
		assert_int_equal(header(&head, line), 0);
		if (head.answer.date_s != date)
			fail_msg("%s: %lld", text, (long long)head.answer.date_s);
	}
}

static void test_headers_that_lie(void **state)
{
	static const char *const ranges[] = {"bytes 5-4/10", "bytes 5-10/10", "bytes -5/10",
		"bytes", "bytes 0-1", "items 0-1/2", "bytes 0-1/", "bytes 0-1/x",
		"bytes 0-99999999999999999999/*", "bytes 0-9/9999999999999999999", "bytes */10",
		"bytes 1-*/10", ""};
	struct answer_head head = {0};
	char line[128];
	for (size_t i = 0; i < UTIL_COUNT(ranges); i++) {
		client_answer_reset(&head);
		(void)snprintf(line, sizeof line, "Content-Range: %s\r\n", ranges[i]);
		assert_int_equal(header(&head, line), 0);
		assert_false(head.has_range);
	}
	client_answer_reset(&head);
	assert_int_equal(header(&head, "Content-Range: bytes 0-1/*"), 0);
	assert_true(head.has_range);
	assert_true(head.range_total == CLIENT_UNKNOWN);
	static const char *const lengths[] = {
		"-1", "", "1e3", "99999999999999999999", "9999999999999999999", "5, 5"};
	for (size_t i = 0; i < UTIL_COUNT(lengths); i++) {
		(void)snprintf(line, sizeof line, "Content-Length: %s\r\n", lengths[i]);
		assert_int_equal(header(&head, line), 0);
		assert_true(head.length == CLIENT_UNKNOWN);
	}
	char big[4000];
	memset(big, 'a', sizeof big - 1);
	big[sizeof big - 1] = 0;
	memcpy(big, "ETag: ", 6);
	assert_int_equal(header(&head, big), 0);
	assert_string_equal(head.answer.etag, "");
	int result = 0;
	for (int i = 0; i < 20 && result == 0; i++)
		result = header(&head, big);
	assert_int_equal(result, -EBADMSG);
	/* A new status line does not begin the count anew. */
	assert_int_equal(header(&head, "HTTP/1.1 100 Continue"), -EBADMSG);
}

/* Any bytes: nothing is read or written outside. */
static void test_headers_of_noise(void **state)
{
	static const char *const names[] = {"HTTP/1.1 ", "Content-Range: bytes ",
		"ETag:", "Date: ", "Content-Length:", "Retry-After: ", "x-amz-bucket-region:",
		"Content-Type:multipart/"};
	uint64_t x = 1;
	for (int i = 0; i < 20000; i++) {
		struct answer_head head = {0};
		struct error_body body;
		char line[1400];
		size_t size = (size_t)snprintf(line, sizeof line, "%s", names[i % 8]);
		x = x * 6364136223846793005u + 1442695040888963407u;
		size_t end = size + (x >> 40) % (i % 50 ? 40 : 1300);
		for (; size < end; size++) {
			x = x * 6364136223846793005u + 1442695040888963407u;
			line[size] =
				i % 3 ? (char)(x >> 56) : "0123456789-/*<>\"{}: "[(x >> 56) % 20];
		}
		char *copy = malloc(size);
		assert_non_null(copy);
		memcpy(copy, line, size);
		(void)client_answer_header(&head, copy, size);
		client_error_read(copy, size, &body);
		free(copy);
	}
}

static void test_etags(void **state)
{
	assert_true(client_answer_same_etag("\"a\"", "a"));
	assert_true(client_answer_same_etag("W/\"a\"", "\"a\""));
	assert_false(client_answer_same_etag("\"a\"", "\"b\""));
	assert_false(client_answer_same_etag("\"a", "\"a\""));
	assert_false(client_answer_same_etag("\"ab\"", "\"a\""));
	assert_true(client_answer_same_etag("\"", "\""));
}

static void test_errors(void **state)
{
	struct error_body body;
	const char xml[] = "\n<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Message>The\n"
			   "key</Message><Region>eu</Region></Error>";
	client_error_read(xml, sizeof xml - 1, &body);
	assert_string_equal(body.code, "NoSuchKey");
	assert_string_equal(body.message, "The?key");
	assert_string_equal(body.region, "eu");
	const char cut[] = "<Error><Code>NoSuch";
	client_error_read(cut, sizeof cut - 1, &body);
	assert_string_equal(body.code, "NoSuch");
	const char json[] = "{\"error\": \"Repository not found\"}";
	client_error_read(json, sizeof json - 1, &body);
	assert_string_equal(body.message, "Repository not found");
	const char text[] = "Too many\x1b[2J requests\nmore";
	client_error_read(text, sizeof text - 1, &body);
	assert_string_equal(body.message, "Too many?[2J requests");
	const char page[] = "<html><body>no</body></html>";
	client_error_read(page, sizeof page - 1, &body);
	assert_string_equal(body.message, "");
}

static void test_urls(void **state)
{
	char text[64];
	client_error_url("https://me:secret@host:1/a/b?sig=secret#c", text, sizeof text);
	assert_string_equal(text, "https://host:1/a/b?...");
	client_error_url("HTTPS://me:secret@host/a", text, sizeof text);
	assert_string_equal(text, "HTTPS://host/a");
	client_error_url("s3://bucket/key@1/x", text, sizeof text);
	assert_string_equal(text, "s3://bucket/key@1/x");
	client_error_url("https://host?token=secret@x", text, sizeof text);
	assert_string_equal(text, "https://host?...");
	client_error_url("https://a\x1b\n/b", text, sizeof text);
	assert_string_equal(text, "https://a?"
				  "?/b");
	client_error_url("https://host/a-path-that-is-much-longer-than-the-room-there-is/"
			 "train-000123.tar",
		text, sizeof text);
	assert_int_equal(strlen(text), 63);
	assert_non_null(strstr(text, "..."));
	assert_non_null(strstr(text, "train-000123.tar"));
	client_error_origin("https://me:secret@host:1/a", text, sizeof text);
	assert_string_equal(text, "https://host:1");
	client_error_origin("", text, sizeof text);
	assert_string_equal(text, "");
}

static void test_limits_of_a_server(void **state)
{
	struct client_place place;
	uint64_t now = 1000 * (uint64_t)CLIENT_S, random = 7;
	client_place_begin(&place, "s3://bucket", 64, now);
	assert_true(client_place_slow_down(&place, true, now));
	assert_false(client_place_slow_down(&place, true, now + CLIENT_S / 4));
	assert_int_equal((int)place.limit, 32);
	for (int i = 0; i < 20; i++)
		(void)client_place_slow_down(&place, true, now += CLIENT_S);
	assert_int_equal((int)place.limit, 1);
	/* It grows only while answers come, by a sixteenth each tenth of a second. */
	client_place_grow(&place, 64, now += CLIENT_S);
	assert_int_equal((int)place.limit, 1);
	for (int i = 0; i < 20; i++) {
		client_place_answered(&place, now);
		client_place_grow(&place, 64, now += CLIENT_S / 10);
		assert_int_equal((int)place.limit, UTIL_MIN(1 + 4 * (i + 1), 64));
	}
	/* Waits are random below a bound that doubles up to the cap. */
	uint64_t longest = 0;
	for (unsigned i = 0; i < 200; i++) {
		place.tokens = 50;
		uint64_t wait = client_place_backoff(
			&place, 1 + i % 30, 100 * CLIENT_MS, 5ull * CLIENT_S, &random, now);
		unsigned doublings = UTIL_MIN(i % 30, 6u);
		assert_true(wait < UTIL_MIN(100ull * CLIENT_MS << doublings, 5ull * CLIENT_S));
		longest = UTIL_MAX(longest, wait);
	}
	assert_true(longest > 4ull * CLIENT_S);
	/* More retries than answers pay for wait for their turn. */
	place.tokens = 0;
	uint64_t last = 0;
	for (int i = 0; i < 40; i++)
		last = client_place_backoff(&place, 1, 1, 5ull * CLIENT_S, &random, now);
	assert_true(last > CLIENT_S);
	for (unsigned i = 0; i < 256; i++)
		client_place_first_byte(&place, (i + 1) * (uint64_t)CLIENT_MS);
	assert_in_range(place.p95_ns, 240 * CLIENT_MS, 248 * CLIENT_MS);
	assert_in_range(place.p99_ns, 250 * CLIENT_MS, 256 * CLIENT_MS);
}

static void test_what_is_retried(void **state)
{
	static const struct {
		unsigned status;
		const char *code;
		enum error_class class;
	} cases[] = {{404, "NoSuchKey", ERROR_FINAL}, {403, "AccessDenied", ERROR_FINAL},
		{403, "", ERROR_REFUSED}, {401, "", ERROR_REFUSED},
		{400, "ExpiredToken", ERROR_REFUSED}, {403, "RequestTimeTooSkewed", ERROR_CLOCK},
		{412, "", ERROR_FINAL}, {416, "", ERROR_FINAL}, {501, "", ERROR_FINAL},
		{500, "", ERROR_RETRY}, {503, "", ERROR_RETRY}, {599, "", ERROR_RETRY},
		{408, "", ERROR_RETRY}, {400, "RequestTimeout", ERROR_RETRY},
		{400, "SlowDown", ERROR_RETRY}, {302, "", ERROR_FINAL}};
	enum client_retry reason;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++)
		if (client_error_classify_answer(cases[i].status, cases[i].code, &reason) !=
			cases[i].class)
			fail_msg("%u %s", cases[i].status, cases[i].code);
	/* Every status has a sentence that says what to do. */
	for (unsigned status = 300; status < 600; status++) {
		struct client_request request = {.url = "https://host/x?secret"};
		struct error_body body = {.code = ""};
		struct fault fault;
		char expected[64];
		(void)snprintf(
			expected, sizeof expected, "GET https://host/x?...: status %u: ", status);
		assert_true(client_error_answer(&request, status, &body, &fault) < 0);
		assert_memory_equal(fault.text, expected, strlen(expected));
		assert_true(strlen(fault.text) > strlen(expected) + 20);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_headers),
		cmocka_unit_test(test_dates),
		cmocka_unit_test(test_headers_that_lie),
		cmocka_unit_test(test_headers_of_noise),
		cmocka_unit_test(test_etags),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_urls),
		cmocka_unit_test(test_limits_of_a_server),
		cmocka_unit_test(test_what_is_retried),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

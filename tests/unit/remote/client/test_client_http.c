/* The frame of answers: what is a line, what is the body, where the end is, and what is refused. */
#include "remote/client/client_http.h"

#include "base/util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct read {
	struct client_http http;
	enum client_http_event last;
	bool whole; /* also where it ends with the connection */
	size_t lines, heads, used;
	char body[256];
	size_t size;
};

/* Reads the answer in pieces of `step` bytes, each of exactly its size for sanitizers; `around`:
 * bytes of the body do not pass through the reader. */
static struct read take(const char *text, size_t size, bool head, size_t step, bool around)
{
	struct read read = {.http = {.head = head}};
	for (size_t end = UTIL_MIN(step, size);; end = UTIL_MIN(end + step, size)) {
		size_t used = 0;
		do {
			char *piece = malloc(end - read.used + 1);
			assert_non_null(piece);
			memcpy(piece, text + read.used, end - read.used);
			uint64_t room = client_http_room(&read.http);
			if (around && room && end > read.used) {
				used = (size_t)UTIL_MIN(room, (uint64_t)(end - read.used));
				client_http_took(&read.http, used);
				read.last = HTTP_BYTES;
			} else {
				read.last =
					client_http_next(&read.http, piece, end - read.used, &used);
			}
			free(piece);
			assert_true(used <= end - read.used);
			read.lines += read.last == HTTP_LINE;
			read.heads += read.last == HTTP_HEAD;
			if (read.last == HTTP_BYTES) {
				assert_true(read.size + used <= sizeof read.body);
				memcpy(read.body + read.size, text + read.used, used);
				read.size += used;
			}
			read.used += used;
		} while (read.last > HTTP_MORE && read.last != HTTP_END);
		if (read.last != HTTP_MORE || end == size)
			break;
	}
	read.whole =
		read.last == HTTP_END || (read.last == HTTP_MORE && client_http_closed(&read.http));
	return read;
}

#define OK "HTTP/1.1 200 OK\r\n"

static const struct {
	const char *text;
	bool head, ends;
	const char *body; /* NULL: the answer is refused, or not whole */
	const char *rest; /* what is not part of it */
} cases[] = {
	{OK "Content-Length: 5\r\n\r\nhello", false, false, "hello", ""},
	{OK "content-length:\t5 \r\n\r\nhelloHTTP/1.1", false, false, "hello", "HTTP/1.1"},
	{"HTTP/1.1 206\r\nContent-Length: 5\n\nhello", false, false, "hello", ""},
	{OK "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", false, false, "hello", ""},
	{OK "Content-Length: 0\r\n\r\nmore", false, false, "", "more"},
	{OK "Content-Length: 5\r\n\r\n", true, false, "", ""},
	{"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\nx", false, false, "", "x"},
	{"HTTP/1.1 304 No\r\n\r\n", false, false, "", ""},
	/* Until the connection is closed. */
	{OK "\r\nhello", false, true, "hello", ""},
	{OK "Connection: keep-alive\r\n\r\nhello", false, true, "hello", ""},
	/* Connections that are not used again. */
	{OK "Connection: x, CLOSE ,y\r\nContent-Length: 1\r\n\r\na", false, true, "a", ""},
	{OK "Connection: closed\r\nContent-Length: 1\r\n\r\na", false, false, "a", ""},
	{"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", false, true, "a", ""},
	{"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\na", false, false,
		"a", ""},
	/* Interim answers. */
	{"HTTP/1.1 103 Early\r\nContent-Length: 9\r\nConnection: close\r\n\r\n"
	 "HTTP/1.1 100 Continue\r\n\r\n" OK "Content-Length: 2\r\n\r\nab",
		false, false, "ab", ""},
	{"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\n\r\n", false, false, NULL, NULL},
	/* Chunks. */
	{OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", false, false, "hello", ""},
	{OK "Transfer-Encoding: Chunked\r\n\r\n0002;a=\"b\"\r\nhe\r\nA \r\n0123456789\r\n0\r\n"
	    "Trailer: x\r\nContent-Length: 7\r\n\r\nrest",
		false, false, "he0123456789", "rest"},
	{OK "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", false,
		true, "a", ""},
	{OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhello!\r\n0\r\n\r\n", false, false, NULL, NULL},
	{OK "Transfer-Encoding: chunked\r\n\r\nx\r\n", false, false, NULL, NULL},
	{OK "Transfer-Encoding: chunked\r\n\r\n\r\n", false, false, NULL, NULL},
	{OK "Transfer-Encoding: chunked\r\n\r\n-1\r\n", false, false, NULL, NULL},
	{OK "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n", false, false, NULL, NULL},
	{OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", false, false, NULL, NULL},
	{OK "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", false, false, NULL, NULL},
	{OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false,
		false, NULL, NULL},
	{"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false, false, NULL,
		NULL},
	/* Lengths that could be read in two ways. */
	{OK "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", false, false, NULL, NULL},
	{OK "Content-Length: 5, 5\r\n\r\nhello", false, false, NULL, NULL},
	{OK "Content-Length: +5\r\n\r\nhello", false, false, NULL, NULL},
	{OK "Content-Length: 0x5\r\n\r\nhello", false, false, NULL, NULL},
	{OK "Content-Length:\r\n\r\nhello", false, false, NULL, NULL},
	{OK "Content-Length: 5\r\n 0\r\n\r\nhello", false, false, NULL, NULL},
	{OK "Content-Length : 5\r\n\r\nhello", false, false, NULL, NULL},
	{OK "Content-Length: 9999999999999999999\r\n\r\nhello", false, false, NULL, NULL},
	{OK ": 5\r\n\r\nhello", false, false, NULL, NULL},
	/* Headers that mean nothing here. */
	{OK "no colon\r\nX: a\r\n b: c\r\nContent-Length: 1\r\n\r\na", false, false, "a", ""},
	/* Not whole. */
	{OK "Content-Length: 5\r\n\r\nhell", false, false, NULL, NULL},
	{OK "Content-Length: 5\r\n", false, false, NULL, NULL},
	{"HTTP/1", false, false, NULL, NULL},
	{"", false, false, NULL, NULL},
	/* Not HTTP/1.1. */
	{"\x15\x03\x01\x00\x02\x02", false, false, NULL, NULL},
	{"<html>", false, false, NULL, NULL},
	{"\r\n" OK "\r\n", false, false, NULL, NULL},
	{"HTTP/2 200\r\n\r\n", false, false, NULL, NULL},
	{"HTTP/1.1  200 OK\r\n\r\n", false, false, NULL, NULL},
	{"HTTP/1.1 2000 OK\r\n\r\n", false, false, NULL, NULL},
	{"HTTP/1.1 20 OK\r\n\r\n", false, false, NULL, NULL},
	{"HTTP/1.1 020 OK\r\n\r\n", false, false, NULL, NULL},
};

static void test_answers(void **state)
{
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++)
		for (size_t step = 1; step < 400; step += step < 9 ? 1 : 390)
			for (int around = 0; around < 2; around++) {
				size_t size = strlen(cases[i].text);
				struct read read =
					take(cases[i].text, size, cases[i].head, step, around);
				bool whole = read.whole && !read.http.wrong;
				if (whole != (cases[i].body != NULL))
					fail_msg("%zu, %zu: %s: %s", i, step, cases[i].text,
						read.http.wrong ? read.http.wrong : "");
				/* In pieces it may end before its last bytes are there. */
				if (!whole)
					continue;
				assert_int_equal(read.http.ends, cases[i].ends);
				assert_int_equal(read.size, strlen(cases[i].body));
				assert_memory_equal(read.body, cases[i].body, read.size);
				assert_int_equal(read.heads, 1);
				assert_string_equal(cases[i].text + read.used, cases[i].rest);
			}
}

static void test_what_is_told(void **state)
{
	(void)state;
	static const char text[] = "HTTP/1.1 100 Continue\r\nA: b\r\n\r\n"
				   "HTTP/1.1 404 Not Found\r\nB: c\r\nContent-Length: 3\r\n\r\nnot";
	struct read read = take(text, sizeof text - 1, false, 7, false);
	assert_int_equal(read.lines, 5);
	assert_int_equal(read.http.status, 404);
	assert_int_equal(read.http.bytes, sizeof text - 1 - 3);
	/* A zero byte in a header; in a body it is a byte. */
	static const char zero[] = OK "X: a\0b\r\n\r\n";
	read = take(zero, sizeof zero - 1, false, 100, false);
	assert_int_equal(read.last, HTTP_WRONG);
	static const char body[] = OK "Content-Length: 3\r\n\r\na\0b";
	read = take(body, sizeof body - 1, false, 100, false);
	assert_memory_equal(read.body, "a\0b", 3);
	/* What is wrong stays wrong. */
	size_t used = 1;
	struct client_http http = {.head = false};
	assert_int_equal(client_http_next(&http, "x", 1, &used), HTTP_WRONG);
	assert_int_equal(client_http_next(&http, OK, sizeof OK - 1, &used), HTTP_WRONG);
	assert_int_equal(used, 0);
}

/* Headers, one line of them, interim answers, chunk sizes and trailers without an end. */
static void test_endless(void **state)
{
	(void)state;
	static const char *const begins[] = {OK, OK, "", OK "Transfer-Encoding: chunked\r\n\r\n",
		OK "Transfer-Encoding: chunked\r\n\r\n0\r\n"};
	static const char *const more[] = {"X-More: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n", "a",
		"HTTP/1.1 103 Early Hints\r\n\r\n", "0", "X: y\r\n"};
	for (size_t i = 0; i < UTIL_COUNT(begins); i++) {
		size_t size = (size_t)HTTP_HEADERS_MAX + 8192, at = strlen(begins[i]), from = 0;
		char *text = malloc(size);
		assert_non_null(text);
		memcpy(text, begins[i], at);
		while (at + strlen(more[i]) < size) {
			memcpy(text + at, more[i], strlen(more[i]));
			at += strlen(more[i]);
		}
		struct client_http http = {.head = false};
		enum client_http_event event;
		size_t used;
		do {
			event = client_http_next(&http, text + from, at - from, &used);
			from += used;
		} while (event > HTTP_MORE);
		assert_int_equal(event, HTTP_WRONG);
		assert_int_equal(http.endless, i != 3);
		assert_true(http.bytes <= HTTP_HEADERS_MAX);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_what_is_told),
		cmocka_unit_test(test_endless),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

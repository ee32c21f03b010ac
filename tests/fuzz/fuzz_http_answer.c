/* fuzz_http_answer: any bytes as the answer of a web server: with libFuzzer, and as a test with
 * answers put together at random from meaningful parts (drive.h).
 *
 * Expected: an answer that is read in pieces, and with bodies that do not pass through the reader,
 * is the same as one that is read at once: lines, body, end, refusal; a body has the length that
 * its header tells; nothing is used after the end; headers end within their limit. */
#include "remote/client/client_http.h"

#include "fuzz/drive.h"
#include "fuzz/want.h"

#include "base/hash.h"
#include "base/util.h"

#include <string.h>

enum { TEXT_MOST = 100000 };

struct seen {
	struct client_http http;
	enum client_http_event last;
	uint64_t lines, body; /* hashes */
	uint64_t size; /* of the body */
	size_t used;
};

/* One event, of bytes that end where the allocation does. */
static void see(struct seen *seen, const uint8_t *data, size_t end, bool around)
{
	size_t size = end - seen->used, used = 0;
	char *piece = malloc(size ? size : 1);
	want(piece != NULL, "no memory");
	memcpy(piece, data + seen->used, size);
	uint64_t room = client_http_room(&seen->http);
	if (around && room && size) {
		used = (size_t)UTIL_MIN(room, (uint64_t)size);
		client_http_took(&seen->http, used);
		seen->last = HTTP_BYTES;
	} else {
		seen->last = client_http_next(&seen->http, piece, size, &used);
	}
	want(used <= size, "more is used than there is");
	want(!room || seen->last == HTTP_BYTES || !size,
		"there is room for a body that is not one");
	want(used > 0 || seen->last == HTTP_MORE || seen->last == HTTP_END ||
			seen->last == HTTP_WRONG,
		"an event of no bytes");
	want(used == 0 || (seen->last != HTTP_MORE && seen->last != HTTP_END), "bytes of no event");
	if (seen->last == HTTP_LINE || seen->last == HTTP_HEAD) {
		want(piece[used - 1] == '\n', "a line without its end");
		want(!memchr(piece, '\n', used - 1), "two lines in one");
		seen->lines = hash_bytes(seen->lines, piece, used);
	}
	for (size_t i = 0; seen->last == HTTP_BYTES && i < used; i++)
		seen->body = hash_u64(seen->body, (uint8_t)piece[i]);
	seen->size += seen->last == HTTP_BYTES ? used : 0;
	seen->used += used;
	free(piece);
}

/* The answer in pieces of random sizes; seed 0: at once. */
static struct seen read_all(const uint8_t *data, size_t size, bool head, uint64_t seed)
{
	struct seen seen = {.http = {.head = head}};
	struct random random = {seed};
	for (size_t end = 0; end < size || end == 0;) {
		uint32_t most = one_in(&random, 3) ? 4000 : 40;
		const size_t step = (size_t)1 + draw(&random, most);
		end += seed ? UTIL_MIN(step, size - end) : size;
		bool around = seed && one_in(&random, 2);
		do
			see(&seen, data, end, around);
		while (seen.last > HTTP_MORE && seen.last != HTTP_END);
		if (seen.last != HTTP_MORE || !size)
			break;
	}
	return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool head = size && data[0] == '?';
	data += head;
	size -= head;
	struct seen once = read_all(data, size, head, 0);
	const struct client_http *http = &once.http;
	want(http->bytes <= HTTP_HEADERS_MAX, "headers beyond the limit");
	want((once.last == HTTP_WRONG) == (http->wrong != NULL), "refused without a word");
	want(!http->head || !once.size, "a body of an answer to HEAD");
	if (http->has_length && !http->chunked && once.last != HTTP_WRONG)
		want(once.size <= http->length, "a body longer than its length");
	if (once.last == HTTP_END && http->has_length && !http->chunked && !head &&
		http->status != 204 && http->status != 304)
		want(once.size == http->length, "a body shorter than its length");
	for (uint64_t seed = 1; seed < 4; seed++) {
		struct seen pieces = read_all(data, size, head, seed + size);
		want(pieces.last == once.last, "ends in another way in pieces");
		want(pieces.body == once.body && pieces.size == once.size,
			"another body in pieces");
		want(pieces.lines == once.lines, "other lines in pieces");
		want(pieces.used == once.used || once.last == HTTP_WRONG, "another end in pieces");
		want(pieces.http.ends == http->ends, "another end of the connection in pieces");
	}
	struct client_http closed = *http;
	want(client_http_closed(&closed) ==
			(once.last == HTTP_END || http->state == HTTP_UNTIL_CLOSED ||
				http->state == HTTP_ENDED),
		"whole, or not");
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	static const char *const begins[] = {"HTTP/1.1 200 OK\r\n", "HTTP/1.1 206 P\r\n",
		"HTTP/1.0 200 OK\r\n", "HTTP/1.1 100 C\r\n\r\nHTTP/1.1 404 N\r\n",
		"?HTTP/1.1 200\n", "HTTP/1.1 204 N\r\n", "HTTP/1.1 503 SlowDown\r\n",
		"HTTP/1.1 304 N\n"};
	static const char *const fields[] = {"Content-Length: 5\r\n", "Content-Length: 12\r\n",
		"Transfer-Encoding: chunked\r\n", "Connection: close\r\n", "ETag: \"x\"\n",
		"Connection: keep-alive\r\n", " folded\r\n", "no colon\r\n", "X: \x80\xff\r\n",
		"Content-Range: bytes 0-4/5\r\n", "Content-Length: 5, 5\r\n", "A:\r\n",
		"A : b\r\n"};
	static const char *const bodies[] = {"hello", "5\r\nhello\r\n", "0\r\n\r\n", "\r\n", "\n",
		"0\r\nX: y\r\n\r\n", "c;x=y\r\nhello, world\r\n", "HTTP/1.1 200 OK\r\n\r\n", "a",
		"FFFFFFFFFFFFFFF\r\n", "0000000000000000\r\n"};
	size_t used = 0, parts = 1 + draw(random, 5), rest = draw(random, 8);
	for (size_t i = 0; i < 2 + parts + rest; i++) {
		const char *put = i == 0       ? begins[draw(random, UTIL_COUNT(begins))]
				  : i < parts  ? fields[draw(random, UTIL_COUNT(fields))]
				  : i == parts ? "\r\n"
					       : bodies[draw(random, UTIL_COUNT(bodies))];
		/* Sometimes beyond the limit of headers. */
		uint32_t times = one_in(random, 400) ? 8000 : 1;
		for (size_t size = strlen(put); times && size <= room - used; times--) {
			memcpy(bytes + used, put, size);
			used += size;
		}
	}
	return used;
}

const struct drive fuzz_drive = {"fuzz_http_answer", TEXT_MOST, compose, NULL};
#endif

/* client_http: see client_http.h. */
#include "remote/client/client_http.h"

#include "base/util.h"

#include <string.h>
#include <strings.h>

static enum client_http_event http_refuse(struct client_http *http, const char *why)
{
	http->wrong = why;
	return HTTP_WRONG;
}

static bool http_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool http_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* "HTTP/1.1 206 Partial Content", without its end. */
static bool http_status(struct client_http *http, const char *line, size_t size)
{
	if (size < 12 || memcmp(line, "HTTP/1.", 7) != 0 || !http_digit(line[7]) ||
		line[8] != ' ' || (size > 12 && line[12] != ' '))
		return false;
	for (int i = 9; i < 12; i++)
		if (!http_digit(line[i]))
			return false;
	http->minor = (unsigned)(line[7] - '0');
	http->status = (unsigned)((line[9] - '0') * 100 + (line[10] - '0') * 10 + line[11] - '0');
	http->ends = http->minor == 0;
	http->has_length = http->chunked = http->framing = false;
	return http->status >= 100;
}

static bool http_is(const char *text, size_t size, const char *word)
{
	return size == strlen(word) && strncasecmp(text, word, size) == 0;
}

/* Whether a list of words, separated by commas, has this one. */
static bool http_lists(const char *value, size_t size, const char *word)
{
	for (const char *end = value + size; value < end; value++) {
		const char *comma = memchr(value, ',', (size_t)(end - value));
		const char *last = comma ? comma : end, *from = value;
		value = last;
		while (from < last && http_blank(*from))
			from++;
		while (last > from && http_blank(last[-1]))
			last--;
		if (http_is(from, (size_t)(last - from), word))
			return true;
	}
	return false;
}

/* At most 18 digits, and nothing else: sizes fit into off_t. */
static bool http_length(struct client_http *http, const char *value, size_t size)
{
	uint64_t length = 0;
	if (size == 0 || size > 18)
		return false;
	for (size_t i = 0; i < size; i++) {
		if (!http_digit(value[i]))
			return false;
		length = length * 10 + (uint64_t)(value[i] - '0');
	}
	if (http->has_length && http->length != length)
		return false;
	http->has_length = true;
	http->length = length;
	return true;
}

/* A line of the header that is not empty, without its end. Returns whether it can be read. */
static bool http_field(struct client_http *http, const char *line, size_t size)
{
	/* A line that continues the one before. */
	if (http_blank(*line))
		return !http->framing;
	const char *colon = memchr(line, ':', size);
	http->framing = false;
	/* Some servers send lines that are not fields. */
	if (!colon)
		return true;
	size_t name = (size_t)(colon - line);
	if (name == 0 || http_blank(colon[-1]))
		return false;
	/* Most fields mean nothing here. */
	if ((*line | 0x20) != 'c' && (*line | 0x20) != 't')
		return true;
	const char *value = colon + 1;
	size -= name + 1;
	for (; size && http_blank(*value); size--)
		value++;
	while (size && http_blank(value[size - 1]))
		size--;
	if (http_is(line, name, "content-length")) {
		http->framing = true;
		return http_length(http, value, size);
	}
	if (http_is(line, name, "transfer-encoding")) {
		/* No other coding was asked for. */
		bool first = !http->chunked;
		http->framing = http->chunked = true;
		return first && http->minor > 0 && http_is(value, size, "chunked");
	}
	if (http_is(line, name, "connection")) {
		http->framing = true;
		if (http_lists(value, size, "close"))
			http->ends = true;
		else if (http->minor == 0 && http_lists(value, size, "keep-alive"))
			http->ends = false;
	}
	return true;
}

/* The empty line after the header. */
static enum client_http_event http_head_ends(struct client_http *http)
{
	if (http->status == 101)
		return http_refuse(http, "switches to another protocol, which was not asked for");
	if (http->status < 200) {
		http->state = HTTP_STATUS;
		return HTTP_PASS;
	}
	/* RFC 9112, 6.3. */
	if (http->head || http->status == 204 || http->status == 304) {
		http->state = HTTP_ENDED;
	} else if (http->chunked) {
		/* A proxy may have believed the length. */
		http->ends |= http->has_length;
		http->state = HTTP_CHUNK_SIZE;
	} else if (http->has_length) {
		http->left = http->length;
		http->state = http->left ? HTTP_BODY : HTTP_ENDED;
	} else {
		http->ends = true;
		http->state = HTTP_UNTIL_CLOSED;
	}
	return HTTP_HEAD;
}

/* "1a2b" or "1a2b;name=value", without its end. */
static bool http_chunk(struct client_http *http, const char *line, size_t size)
{
	uint64_t value = 0;
	size_t digits = 0;
	for (; digits < size && digits < 16; digits++) {
		char c = line[digits];
		int digit = http_digit(c)          ? c - '0'
			    : c >= 'a' && c <= 'f' ? c - 'a' + 10
			    : c >= 'A' && c <= 'F' ? c - 'A' + 10
						   : -1;
		if (digit < 0)
			break;
		value = value << 4 | (unsigned)digit;
	}
	if (digits == 0 || digits == 16 ||
		(digits < size && line[digits] != ';' && !http_blank(line[digits])))
		return false;
	http->left = value;
	http->state = value ? HTTP_CHUNK : HTTP_TRAILER;
	return true;
}

/* One line, without its end. */
static enum client_http_event http_line(struct client_http *http, const char *line, size_t size)
{
	switch (http->state) {
	case HTTP_STATUS:
		if (!http_status(http, line, size))
			return http_refuse(http, "does not begin as one of HTTP/1.1 does");
		http->state = HTTP_FIELDS;
		return HTTP_LINE;
	case HTTP_FIELDS:
		if (size == 0)
			return http_head_ends(http);
		if (memchr(line, 0, size) || !http_field(http, line, size))
			return http_refuse(http, "has a header that cannot be read");
		return HTTP_LINE;
	case HTTP_CHUNK_SIZE:
		if (!http_chunk(http, line, size))
			return http_refuse(http, "has a chunk whose size cannot be read");
		return HTTP_PASS;
	case HTTP_CHUNK_END:
		if (size)
			return http_refuse(http, "has a chunk that is longer than its size");
		http->state = HTTP_CHUNK_SIZE;
		return HTTP_PASS;
	case HTTP_TRAILER:
	default:
		if (size == 0)
			http->state = HTTP_ENDED;
		return HTTP_PASS;
	}
}

/* Bytes of lines that may come without an end of their line. */
static bool http_too_long(struct client_http *http, size_t size)
{
	if (http->state == HTTP_CHUNK_SIZE || http->state == HTTP_CHUNK_END)
		return size > HTTP_CHUNK_LINE_MAX;
	http->endless = http->bytes + size > HTTP_HEADERS_MAX;
	return http->endless;
}

uint64_t client_http_room(const struct client_http *http)
{
	switch (http->state) {
	case HTTP_BODY:
	case HTTP_CHUNK:
		return http->left;
	case HTTP_UNTIL_CLOSED:
		return UINT64_MAX;
	default:
		return 0;
	}
}

void client_http_took(struct client_http *http, uint64_t bytes)
{
	if (http->state == HTTP_UNTIL_CLOSED)
		return;
	http->left -= bytes;
	if (!http->left)
		http->state = http->state == HTTP_CHUNK ? HTTP_CHUNK_END : HTTP_ENDED;
}

bool client_http_closed(struct client_http *http)
{
	http->ends = true;
	if (http->state == HTTP_UNTIL_CLOSED)
		http->state = HTTP_ENDED;
	return http->state == HTTP_ENDED;
}

/* The bytes begin with a line, or a part of one. */
static enum client_http_event http_next_line(
	struct client_http *http, const char *bytes, size_t size, size_t *ret_used)
{
	const char *end = memchr(bytes, '\n', size);
	size_t line = end ? (size_t)(end - bytes) + 1 : size;
	/* What is not HTTP may have no lines. */
	if (http->state == HTTP_STATUS && memcmp(bytes, "HTTP/", UTIL_MIN(line, (size_t)5)) != 0)
		return http_refuse(http, "does not begin as one of HTTP/1.1 does");
	if (http_too_long(http, line))
		return http_refuse(http, "has headers, or a line, without an end");
	if (!end)
		return HTTP_MORE;
	if (http->state != HTTP_CHUNK_SIZE && http->state != HTTP_CHUNK_END)
		http->bytes += line;
	enum client_http_event event =
		http_line(http, bytes, line - (line > 1 && end[-1] == '\r' ? 2 : 1));
	if (event != HTTP_WRONG)
		*ret_used = line;
	return event;
}

enum client_http_event client_http_next(
	struct client_http *http, const char *bytes, size_t size, size_t *ret_used)
{
	*ret_used = 0;
	if (http->wrong)
		return HTTP_WRONG;
	if (http->state == HTTP_ENDED)
		return HTTP_END;
	if (size == 0)
		return HTTP_MORE;
	uint64_t room = client_http_room(http);
	if (room == 0)
		return http_next_line(http, bytes, size, ret_used);
	*ret_used = (size_t)UTIL_MIN((uint64_t)size, room);
	client_http_took(http, *ret_used);
	return HTTP_BYTES;
}

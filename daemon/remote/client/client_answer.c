/* client_answer: the headers of an answer. They are not trusted. Pure. */
#include "remote/client/client_impl.h"

#include "base/util.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

void client_answer_reset(struct answer_head *head)
{
	size_t bytes = head->bytes;
	*head = (struct answer_head){.bytes = bytes,
		.length = CLIENT_UNKNOWN,
		.range_total = CLIENT_UNKNOWN,
		.answer = {.size = CLIENT_UNKNOWN, .modified_s = -1, .date_s = -1}};
}

/* Digits at *at, at most 18 of them: sizes fit into off_t. */
static bool answer_number(const char **at, uint64_t *ret)
{
	uint64_t value = 0;
	unsigned digits = 0;
	for (; **at >= '0' && **at <= '9'; (*at)++, digits++) {
		if (digits == 18)
			return false;
		value = value * 10 + (uint64_t)(**at - '0');
	}
	if (digits == 0)
		return false;
	*ret = value;
	return true;
}

/* "bytes 0-99/1234", "bytes 0-99/ *", "bytes * /1234" (without the spaces). */
static void answer_range(struct answer_head *head, const char *value)
{
	uint64_t first = 0, last = 0, total = CLIENT_UNKNOWN;
	head->has_range = false;
	if (strncasecmp(value, "bytes", 5) != 0)
		return;
	for (value += 5; *value == ' ' || *value == '='; value++)
		continue;
	if (*value == '*') {
		value++;
		if (*value++ == '/' && answer_number(&value, &total))
			head->range_total = total;
		return;
	}
	if (!answer_number(&value, &first) || *value++ != '-' || !answer_number(&value, &last) ||
		*value++ != '/')
		return;
	if (*value != '*' && !answer_number(&value, &total))
		return;
	if (last < first || (total != CLIENT_UNKNOWN && last >= total))
		return;
	head->has_range = true;
	head->range_first = first;
	head->range_last = last;
	head->range_total = total;
}

static void answer_text(const char *value, char *buffer, size_t room)
{
	if (strlen(value) < room)
		client_error_clean(value, strlen(value), buffer, room);
}

static int64_t answer_date(const char *value)
{
	time_t date = curl_getdate(value, NULL);
	return date < 0 ? -1 : (int64_t)date;
}

static void answer_field(struct answer_head *head, const char *name, const char *value)
{
	uint64_t number;
	const char *at = value;
	if (strcasecmp(name, "content-length") == 0) {
		if (answer_number(&at, &number) && !*at)
			head->length = number;
	} else if (strcasecmp(name, "content-range") == 0) {
		answer_range(head, value);
	} else if (strcasecmp(name, "etag") == 0) {
		answer_text(value, head->answer.etag, sizeof head->answer.etag);
	} else if (strcasecmp(name, "last-modified") == 0) {
		head->answer.modified_s = answer_date(value);
	} else if (strcasecmp(name, "date") == 0) {
		head->answer.date_s = answer_date(value);
	} else if (strcasecmp(name, "content-type") == 0) {
		client_error_clean(
			value, strlen(value), head->answer.type, sizeof head->answer.type);
		head->multipart = strncasecmp(value, "multipart/", 10) == 0;
	} else if (strcasecmp(name, "accept-ranges") == 0) {
		head->answer.ranges = strcasecmp(value, "bytes") == 0;
	} else if (strcasecmp(name, "retry-after") == 0) {
		if (answer_number(&at, &number) && !*at)
			head->retry_after_s = (unsigned)UTIL_MIN(number, 3600u);
	} else if (strcasecmp(name, "x-amz-bucket-region") == 0) {
		answer_text(value, head->region, sizeof head->region);
	}
}

int client_answer_header(struct answer_head *head, const char *line, size_t size)
{
	char text[1024];
	head->bytes += size;
	if (head->bytes > ANSWER_HEADERS_MAX)
		return -EBADMSG;
	while (size > 0 && (line[size - 1] == '\r' || line[size - 1] == '\n' ||
				   line[size - 1] == ' ' || line[size - 1] == '\t'))
		size--;
	/* No field that is read here is longer. */
	if (size >= sizeof text || memchr(line, 0, size))
		return 0;
	memcpy(text, line, size);
	text[size] = 0;
	if (strncmp(text, "HTTP/", 5) == 0) {
		const char *at = strchr(text, ' ');
		uint64_t status = 0;
		client_answer_reset(head);
		if (!at)
			return 0;
		at++;
		if (answer_number(&at, &status) && status < 1000)
			head->status = (unsigned)status;
		return 0;
	}
	char *value = strchr(text, ':');
	if (!value)
		return 0;
	*value++ = 0;
	while (*value == ' ' || *value == '\t')
		value++;
	answer_field(head, text, value);
	return 0;
}

bool client_answer_same_etag(const char *a, const char *b)
{
	a += strncmp(a, "W/", 2) == 0 ? 2 : 0;
	b += strncmp(b, "W/", 2) == 0 ? 2 : 0;
	size_t size_a = strlen(a), size_b = strlen(b);
	/* Listings and some callers leave the quotes out. */
	if (size_a >= 2 && *a == '"' && a[size_a - 1] == '"') {
		a++;
		size_a -= 2;
	}
	if (size_b >= 2 && *b == '"' && b[size_b - 1] == '"') {
		b++;
		size_b -= 2;
	}
	return size_a == size_b && memcmp(a, b, size_a) == 0;
}

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

static int answer_two(const char *digits)
{
	return (digits[0] - '0') * 10 + digits[1] - '0';
}

/* Days from 1970 to a date of the Gregorian calendar: years begin in March, so that the leap day is
 * their last. */
static int64_t answer_days(int year, int month, int day)
{
	year -= month < 2;
	month = (month + 10) % 12;
	return 365 * (int64_t)year + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 +
	       day - 1 - 719468;
}

static bool answer_is_date(const char *value)
{
	static const char form[] = "aaa, 00 aaa 0000 00:00:00 GMT";
	size_t i = 0;
	for (; form[i]; i++) {
		bool fits = form[i] == '0'   ? value[i] >= '0' && value[i] <= '9'
			    : form[i] == 'a' ? value[i] >= 'A' && value[i] <= 'z'
					     : value[i] == form[i];
		if (!fits)
			return false;
	}
	return !value[i];
}

/* "Sun, 09 Sep 2001 01:46:40 GMT", as servers send it (RFC 9110, 5.6.7); other forms by libcurl. */
static int64_t answer_date(const char *value)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	if (answer_is_date(value)) {
		int month = 0, day = answer_two(value + 5), hour = answer_two(value + 17);
		while (month < 12 && memcmp(months + (size_t)month * 3, value + 8, 3) != 0)
			month++;
		int year = answer_two(value + 12) * 100 + answer_two(value + 14);
		int minute = answer_two(value + 20), second = answer_two(value + 23);
		if (month < 12 && day >= 1 && day <= 31 && hour < 24 && minute < 60 &&
			second <= 60 && year >= 1970)
			return answer_days(year, month, day) * 86400 + hour * 3600 + minute * 60 +
			       second;
	}
	time_t date = curl_getdate(value, NULL);
	return date < 0 ? -1 : (int64_t)date;
}

static void answer_field(struct answer_head *head, const char *name, const char *value)
{
	uint64_t number;
	const char *at = value;
	/* Most fields mean nothing here. */
	switch (*name | 0x20) {
	case 'c':
		if (strcasecmp(name, "content-length") == 0) {
			if (answer_number(&at, &number) && !*at)
				head->length = number;
		} else if (strcasecmp(name, "content-range") == 0) {
			answer_range(head, value);
		} else if (strcasecmp(name, "content-type") == 0) {
			client_error_clean(
				value, strlen(value), head->answer.type, sizeof head->answer.type);
			head->multipart = strncasecmp(value, "multipart/", 10) == 0;
		}
		break;
	case 'e':
		if (strcasecmp(name, "etag") == 0)
			answer_text(value, head->answer.etag, sizeof head->answer.etag);
		break;
	case 'l':
		if (strcasecmp(name, "last-modified") == 0)
			head->answer.modified_s = answer_date(value);
		break;
	case 'd':
		if (strcasecmp(name, "date") == 0)
			head->answer.date_s = answer_date(value);
		break;
	case 'a':
		if (strcasecmp(name, "accept-ranges") == 0)
			head->answer.ranges = strcasecmp(value, "bytes") == 0;
		break;
	case 'r':
		if (strcasecmp(name, "retry-after") == 0 && answer_number(&at, &number) && !*at)
			head->retry_after_s = (unsigned)UTIL_MIN(number, 3600u);
		break;
	case 'x':
		if (strcasecmp(name, "x-amz-bucket-region") == 0)
			answer_text(value, head->region, sizeof head->region);
		break;
	default:
		break;
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
	/* No field that is read here is longer, or begins with another letter. */
	if (size == 0 || size >= sizeof text || !strchr("acdehlrx", *line | 0x20) ||
		memchr(line, 0, size))
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

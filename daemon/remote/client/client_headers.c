/* client_headers: the lines of a request, in memory that is kept for the next one. */
#include "remote/client/client_impl.h"

#include "base/util.h"

#include <errno.h>
#include <string.h>

enum { HEADERS_LEAST = 1024 };

int client_headers_append(struct client_headers *headers, const char *text, size_t size)
{
	if (headers->room - headers->used < size) {
		size_t room = UTIL_MAX(headers->room, (size_t)HEADERS_LEAST);
		while (room - headers->used < size)
			room *= 2;
		char *grown = realloc(headers->text, room);
		if (!grown)
			return -ENOMEM;
		headers->text = grown;
		headers->room = room;
	}
	if (size)
		memcpy(headers->text + headers->used, text, size);
	headers->used += size;
	return 0;
}

int client_header_add(struct client_headers *headers, const char *name, const char *value)
{
	size_t size = strlen(value), before = headers->used;
	for (const char *p = name; *p; p++)
		if (*p <= ' ' || *p == ':' || *p == 0x7f)
			return -EINVAL;
	for (const char *p = value; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return -EINVAL;
	if (strlen(name) + size + 4 >= CLIENT_HEADER)
		return -EINVAL;
	int result = client_headers_append(headers, name, strlen(name));
	if (result == 0)
		result = client_headers_append(headers, ": ", size ? 2 : 1);
	if (result == 0)
		result = client_headers_append(headers, value, size);
	if (result == 0)
		result = client_headers_append(headers, "\r\n", 2);
	if (result < 0)
		headers->used = before;
	return result;
}

int client_headers_number(struct client_headers *headers, uint64_t value)
{
	char digits[20];
	size_t at = sizeof digits;
	do
		digits[--at] = (char)('0' + value % 10);
	while (value /= 10);
	return client_headers_append(headers, digits + at, sizeof digits - at);
}

int client_headers_text(struct client_headers *headers, const char *text)
{
	return client_headers_append(headers, text, strlen(text));
}

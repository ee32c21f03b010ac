/* procfile: see procfile.h. */
#include "base/host/procfile.h"

#include "base/util.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

ssize_t procfile_read(const char *root, const char *path, char *buffer, size_t room)
{
	char full[PATH_MAX];
	buffer[0] = 0;
	int length = snprintf(full, sizeof full, "%s%s", root, path);
	if (length < 0 || (size_t)length >= sizeof full)
		return -ENAMETOOLONG;
	cleanup(close_fd) int fd = open(full, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	size_t size = 0;
	while (size < room - 1) {
		ssize_t n = read(fd, buffer + size, room - 1 - size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int code = -errno;
			buffer[0] = 0;
			return code;
		}
		if (n == 0)
			break;
		size += (size_t)n;
	}
	buffer[size] = 0;
	return (ssize_t)size;
}

bool procfile_value(const char *text, const char *key, uint64_t *ret)
{
	size_t size = strlen(key);
	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, size) != 0 || !strchr(": \t", line[size]))
			continue;
		const char *value = line + size;
		value += strspn(value, ": \t");
		if (!isdigit((unsigned char)*value))
			return false;
		*ret = strtoull(value, NULL, 10);
		return true;
	}
	return false;
}

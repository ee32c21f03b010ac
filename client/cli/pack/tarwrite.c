/* tarwrite: see tarwrite.h. */
#include "client/cli/pack/tarwrite.h"

#include "base/util.h"
#include "dataset/container/tar.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum { TARWRITE_BUFFER = 1 << 20, NAME_MOST = 100, PREFIX_MOST = 155 };

struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type,
		linkname[100], magic[6], version[2], uname[32], gname[32], devmajor[8], devminor[8],
		prefix[155], padding[12];
};
_Static_assert(sizeof(struct header) == TAR_BLOCK, "a ustar header is one block");

int tarwrite_init(struct tarwrite *tar, int fd, const char *path, struct fault *fault)
{
	*tar = (struct tarwrite){.fd = fd, .path = path, .buffer = malloc(TARWRITE_BUFFER)};
	return tar->buffer ? 0 : fault_set(fault, -ENOMEM, "not enough memory to write %s", path);
}

void tarwrite_deinit(struct tarwrite *tar)
{
	free(tar->buffer);
	*tar = (struct tarwrite){0};
}

static int tarwrite_fault(const struct tarwrite *tar, int error, struct fault *fault)
{
	return fault_set(fault, -error, "%s cannot be written: %s", tar->path, strerror(error));
}

static int tarwrite_out(struct tarwrite *tar, const uint8_t *data, size_t size, struct fault *fault)
{
	while (size) {
		ssize_t n = write(tar->fd, data, size);
		if (n < 0 && errno != EINTR)
			return tarwrite_fault(tar, errno, fault);
		if (n > 0) {
			data += n;
			size -= (size_t)n;
		}
	}
	return 0;
}

static int tarwrite_flush(struct tarwrite *tar, struct fault *fault)
{
	int r = tarwrite_out(tar, tar->buffer, tar->used, fault);
	tar->used = 0;
	return r;
}

/* NULL data: zeros. */
static int tarwrite_bytes(
	struct tarwrite *tar, const uint8_t *data, uint64_t size, struct fault *fault)
{
	int r = 0;
	tar->size += size;
	while (size && r == 0) {
		size_t n = (size_t)UTIL_MIN(size, (uint64_t)(TARWRITE_BUFFER - tar->used));
		if (data) {
			memcpy(tar->buffer + tar->used, data, n);
			data += n;
		} else {
			memset(tar->buffer + tar->used, 0, n);
		}
		tar->used += n;
		size -= n;
		if (tar->used == TARWRITE_BUFFER)
			r = tarwrite_flush(tar, fault);
	}
	return r;
}

/* The slash that splits a path into prefix and name; NULL: the path does not fit. */
static const char *tarwrite_cut(const char *path, size_t size)
{
	if (size > PREFIX_MOST + 1 + NAME_MOST)
		return NULL;
	const char *from = path + (size > NAME_MOST + 1 ? size - NAME_MOST - 1 : 1);
	const char *slash = strchr(from, '/');
	return slash && slash - path <= PREFIX_MOST && slash[1] ? slash : NULL;
}

static bool tarwrite_is_long(const char *name)
{
	size_t size = strlen(name);
	return size > NAME_MOST && !tarwrite_cut(name, size);
}

static void tarwrite_number(char *field, size_t room, uint64_t value)
{
	(void)snprintf(field, room, "%0*llo", (int)room - 1, (unsigned long long)value);
}

static void tarwrite_header_name(struct header *header, const char *name)
{
	size_t size = strlen(name);
	const char *slash = size > NAME_MOST ? tarwrite_cut(name, size) : NULL;
	if (slash) {
		memcpy(header->prefix, name, (size_t)(slash - name));
		name = slash + 1;
		size = strlen(name);
	}
	/* Readers take a longer name from the GNU long name before this header. */
	memcpy(header->name, name, UTIL_MIN(size, (size_t)NAME_MOST));
}

static void tarwrite_checksum(struct header *header)
{
	unsigned sum = 0;
	memset(header->checksum, ' ', sizeof header->checksum);
	for (size_t i = 0; i < sizeof *header; i++)
		sum += ((const uint8_t *)header)[i];
	tarwrite_number(header->checksum, sizeof header->checksum - 1, sum);
}

static int tarwrite_header(
	struct tarwrite *tar, const char *name, uint64_t size, char type, struct fault *fault)
{
	struct header header = {.type = type, .magic = "ustar", .version = {'0', '0'}};
	tarwrite_header_name(&header, name);
	tarwrite_number(header.mode, sizeof header.mode, 0644);
	tarwrite_number(header.uid, sizeof header.uid, 0);
	tarwrite_number(header.gid, sizeof header.gid, 0);
	tarwrite_number(header.size, sizeof header.size, size);
	tarwrite_number(header.mtime, sizeof header.mtime, 0);
	tarwrite_number(header.devmajor, sizeof header.devmajor, 0);
	tarwrite_number(header.devminor, sizeof header.devminor, 0);
	tarwrite_checksum(&header);
	return tarwrite_bytes(tar, (const uint8_t *)&header, sizeof header, fault);
}

static int tarwrite_padded(
	struct tarwrite *tar, const void *data, uint64_t size, struct fault *fault)
{
	int r = tarwrite_bytes(tar, data, size, fault);
	return r < 0 ? r : tarwrite_bytes(tar, NULL, util_align(size, TAR_BLOCK) - size, fault);
}

uint64_t tarwrite_member_bytes(const char *name, uint64_t size)
{
	uint64_t bytes = TAR_BLOCK + util_align(size, TAR_BLOCK);
	if (tarwrite_is_long(name))
		bytes += TAR_BLOCK + util_align(strlen(name) + 1, TAR_BLOCK);
	return bytes;
}

int tarwrite_member(struct tarwrite *tar, const char *name, const void *data, uint64_t size,
	struct fault *fault)
{
	int r = 0;
	if (tarwrite_is_long(name)) {
		size_t bytes = strlen(name) + 1;
		r = tarwrite_header(tar, "././@LongLink", bytes, 'L', fault);
		if (r == 0)
			r = tarwrite_padded(tar, name, bytes, fault);
	}
	if (r == 0)
		r = tarwrite_header(tar, name, size, '0', fault);
	return r < 0 ? r : tarwrite_padded(tar, data, size, fault);
}

int tarwrite_end(struct tarwrite *tar, struct fault *fault)
{
	int r = tarwrite_bytes(tar, NULL, TARWRITE_END, fault);
	return r < 0 ? r : tarwrite_flush(tar, fault);
}

/* disk_map: see disk_map.h. */
#include "remote/cache/disk_map.h"

#include "base/hash.h"
#include "base/sum/crc32c.h"
#include "base/util.h"
#include "base/whole.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char magic[8] = {'P', 'S', 'T', 'K', 'B', 'L', 'K', '1'};

/* What tells an entry from zeros, and from an entry of another block. */
static uint32_t mark(uint64_t block)
{
	return UINT32_C(0x6b706c62) ^ (uint32_t)hash_mix(block + 1);
}

static uint32_t header_crc(const struct disk_map_header *header)
{
	struct disk_map_header copy = *header;
	copy.crc = 0;
	return crc32c((const uint8_t *)&copy, sizeof copy);
}

static uint64_t url_hash(const char *url)
{
	return hash_mix(hash_bytes(HASH_SEED, url, strlen(url)));
}

int disk_map_fill(struct disk_map_header *ret, const char *url, const char *etag, uint64_t size)
{
	/* A query may have a signature in it, which must not get to disk. In a key it is a part of
	 * the name. */
	const bool query = strncmp(url, "http", 4) == 0;
	const size_t url_bytes = (query ? strcspn(url, "?") : strlen(url)) + 1;
	const size_t etag_bytes = strlen(etag) + 1;
	if (url_bytes + etag_bytes > DISK_MAP_TEXT)
		return -ENAMETOOLONG;
	*ret = (struct disk_map_header){
		.version = DISK_MAP_VERSION,
		.block = DISK_BLOCK,
		.size = size,
		.url_hash = url_hash(url),
		.url_bytes = (uint32_t)url_bytes,
		.etag_bytes = (uint32_t)etag_bytes,
	};
	memcpy(ret->magic, magic, sizeof magic);
	memcpy(ret->text, url, url_bytes - 1);
	memcpy(ret->text + url_bytes, etag, etag_bytes);
	ret->crc = header_crc(ret);
	return 0;
}

static bool is_zero(const void *bytes, size_t size)
{
	const uint8_t *at = bytes;
	return size == 0 || (at[0] == 0 && memcmp(at, at + 1, size - 1) == 0);
}

int disk_map_read(int fd, struct disk_map_header *ret)
{
	struct disk_map_header header;
	const ssize_t n = whole_read(fd, &header, sizeof header, 0);
	if (n < 0)
		return (int)n;
	if (is_zero(&header, (size_t)n))
		return -ENODATA;
	if (n != sizeof header || memcmp(header.magic, magic, sizeof magic) != 0 ||
		header.version != DISK_MAP_VERSION || header.block != DISK_BLOCK ||
		header.crc != header_crc(&header) || !header.url_bytes || !header.etag_bytes ||
		(uint64_t)header.url_bytes + header.etag_bytes > DISK_MAP_TEXT ||
		header.text[header.url_bytes - 1] ||
		header.text[header.url_bytes + header.etag_bytes - 1])
		return -EBADMSG;
	*ret = header;
	return 0;
}

bool disk_map_stored(uint64_t entry, uint64_t block)
{
	return entry >> 32 == mark(block);
}

uint64_t disk_map_entry(uint32_t crc, uint64_t block)
{
	return (uint64_t)mark(block) << 32 | crc;
}

uint64_t disk_map_reach(int fd, uint64_t size)
{
	struct stat status;
	if (fstat(fd, &status) != 0 || status.st_size <= DISK_MAP_HEADER)
		return 0;
	const uint64_t entries =
		((uint64_t)status.st_size - DISK_MAP_HEADER + sizeof(uint64_t) - 1) /
		sizeof(uint64_t);
	return UTIL_MIN(entries, disk_map_blocks(size));
}

int disk_map_entries(int fd, uint64_t block, uint64_t *ret, size_t count)
{
	const ssize_t n =
		whole_read(fd, ret, count * sizeof *ret, DISK_MAP_HEADER + block * sizeof *ret);
	if (n < 0)
		return (int)n;
	memset((char *)ret + n, 0, count * sizeof *ret - (size_t)n);
	return 0;
}

int disk_map_store(int fd, uint64_t block, uint64_t entry)
{
	return whole_write(fd, &entry, sizeof entry, DISK_MAP_HEADER + block * sizeof entry);
}

void disk_map_name(const char *url, char *ret)
{
	(void)snprintf(ret, DISK_NAME + 1, "%016llx%016llx", (unsigned long long)url_hash(url),
		(unsigned long long)hash_mix(hash_bytes(~HASH_SEED, url, strlen(url))));
}

/* disk_map: the map file of an object: a header, then an entry of 8 bytes for each block.
 *
 * An entry is the block's CRC-32C and a mark that says that it is stored, so that both are written
 * at once. The header has a checksum of its own. Fields are in the machine's byte order: a cache is
 * of one machine. Blocks on the file system; any thread. */
#pragma once

#include "remote/cache/disk.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	DISK_MAP_HEADER = 4096,
	DISK_MAP_VERSION = 1,
	DISK_MAP_TEXT = 4000, /* room for URL and ETag with their zeros */
	DISK_NAME = 32, /* characters of a name before its suffix */
};

struct disk_map_header {
	char magic[8];
	uint32_t version, block;
	uint64_t size; /* of the object */
	uint64_t url_hash; /* of the whole URL; the text has it without its query */
	uint32_t url_bytes, etag_bytes; /* with their zeros */
	uint32_t reserved[12];
	uint32_t crc; /* of the header with 0 here */
	uint32_t more;
	char text[DISK_MAP_TEXT]; /* the URL, then the ETag */
};
_Static_assert(sizeof(struct disk_map_header) == DISK_MAP_HEADER, "the header is one page");

/* Fills a header. 0; -ENAMETOOLONG: URL and ETag have no room in it. Pure. */
int disk_map_fill(struct disk_map_header *ret, const char *url, const char *etag, uint64_t size);

/* Reads and checks a header. 0; -ENODATA: empty or zero, so that its process died before it wrote;
 * -EBADMSG: not one of ours, or damaged; -errno. */
int disk_map_read(int fd, struct disk_map_header *ret);

static inline const char *disk_map_url(const struct disk_map_header *header)
{
	return header->text;
}

static inline const char *disk_map_etag(const struct disk_map_header *header)
{
	return header->text + header->url_bytes;
}

static inline uint64_t disk_map_blocks(uint64_t size)
{
	return size / DISK_BLOCK + (size % DISK_BLOCK != 0);
}

/* How many blocks of the object may have an entry: those that the file of the map reaches, whatever
 * size its header says. 0 where that cannot be found out. */
uint64_t disk_map_reach(int fd, uint64_t size);

/* The bytes of a block; DISK_BLOCK, or fewer for an object's last. */
static inline uint32_t disk_map_bytes(uint64_t size, uint64_t block)
{
	const uint64_t rest = size - block * DISK_BLOCK;
	return rest < DISK_BLOCK ? (uint32_t)rest : DISK_BLOCK;
}

/* Whether an entry says that block number `block` is stored. Pure. */
bool disk_map_stored(uint64_t entry, uint64_t block);
uint64_t disk_map_entry(uint32_t crc, uint64_t block);

/* Reads entries; those beyond the end of the file are 0. Returns 0 or -errno. */
int disk_map_entries(int fd, uint64_t block, uint64_t *ret, size_t count);
int disk_map_store(int fd, uint64_t block, uint64_t entry);

/* The name of an object's files without suffix; `ret` has DISK_NAME + 1 bytes. Pure. */
void disk_map_name(const char *url, char *ret);

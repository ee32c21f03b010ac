/* disk_file: the blocks of one object on disk.
 *
 * While it is open, no process removes the object. What is stored is known from the map, which is
 * read when the file is opened; blocks that other processes stored since then are found by
 * disk_file_refresh. A block is verified when this process first uses it and trusted from then on.
 *
 * disk_file_local and disk_file_state only count; the others block on the file system. Any thread;
 * one thread at a time writes a block. */
#pragma once

#include "remote/cache/disk.h"

#include <stddef.h>

struct disk_file;

enum disk_state { DISK_MISSING, DISK_STORED, DISK_VERIFIED };

enum {
	DISK_E_ABSENT = 2, /* an outcome: nothing of this object is stored, or it cannot be */
	DISK_E_BROKEN = 3, /* an outcome: wrong checksum; the block is missing from now on */
};

/* Opens the files of an object. Makes them with `make`: takes disk_file_cost of credit first.
 * Another version of the object, which no process reads, is removed. 0; DISK_E_ABSENT, also where
 * other processes read another version or a file that is not ours has the name; DISK_E_FULL;
 * -errno. */
int disk_file_open(struct disk *disk, const char *url, const char *etag, uint64_t size, bool make,
	struct disk_file **ret);
/* Accepts NULL. */
void disk_file_close(struct disk_file *file);

/* What the files of an object without blocks take of the account at most. Pure. */
uint64_t disk_file_cost(uint64_t size);

/* For reading blocks that are verified. */
int disk_file_fd(const struct disk_file *file);

enum disk_state disk_file_state(const struct disk_file *file, uint64_t block);

/* Whether all of this range is verified. Also notes that the object is read. */
bool disk_file_local(struct disk_file *file, uint64_t offset, uint64_t size);

/* Looks whether another process has stored a missing block. */
enum disk_state disk_file_refresh(struct disk_file *file, uint64_t block);

/* Reads a stored block (the last one of an object may be shorter) into `buffer` of DISK_BLOCK bytes
 * and verifies it. 0; DISK_E_BROKEN; -errno. */
int disk_file_verify(struct disk_file *file, uint64_t block, void *buffer);

/* Stores a block, whose disk_cost was taken and is spent now, also on failure. 0 or -errno. */
int disk_file_write(struct disk_file *file, uint64_t block, const void *data);

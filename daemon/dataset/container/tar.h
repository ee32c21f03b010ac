/* tar: lists the members of a tar by reading its headers only.
 *
 * Reads what POSIX calls ustar and pax ("pax Interchange Format" and "ustar Interchange Format" of
 * the pax utility in POSIX.1-2017), the older v7 form, and GNU tar's additions: long names (types L
 * and K), base-256 numbers, sparse members (reported, never read). Names, sizes and offsets are
 * those of Python's tarfile, because WebDataset reads with it and keys must be the same. One thing
 * differs: tarfile silently ends at a header that it cannot read, or that is cut off, after the
 * first member. Here both are errors: a shard that was cut off must not become a smaller dataset.
 *
 * The name and the size of a member are taken from the first of its own extended headers (x, L)
 * that has them, or else from the last global one (g), or else from the member's header. The
 * archive ends at a block of zeros, or at the end of the file where a header could begin (tarfile
 * accepts both). Hard links, symbolic links, folders, devices and unknown types are TAR_OTHER.
 *
 * One reader per thread. It reads through one window of 4 KiB, so that a header, a small member
 * after it and the next header cost one pread. Blocks. */
#pragma once

#include "base/fault.h"
#include "dataset/blob.h"

#include <stddef.h>
#include <stdint.h>

enum {
	TAR_BLOCK = 512,
	TAR_WINDOW = 4096,
	TAR_NAME_MAX = 4000, /* longer names are an error */
	TAR_EXTENSION_MAX = 1 << 20, /* bytes of one extended header; longer is an error */
	TAR_PADDING_MAX = 16 << 20, /* zeros after the end that are read in search of other bytes */
};

/* How an archive ends. Indexes store the number. */
enum tar_end {
	TAR_END_UNKNOWN, /* it was not looked at */
	TAR_END_WHOLE, /* two blocks of zeros, and zeros up to the end of the file */
	TAR_END_CUT, /* the file ends without two blocks of zeros: perhaps it was cut off there */
	TAR_END_BYTES, /* other bytes follow, which are not read */
	TAR_END_TAR, /* another archive follows, as after cat(1): it is not read */
};

enum tar_kind { TAR_FILE, TAR_SPARSE, TAR_OTHER };

struct tar_member {
	enum tar_kind kind;
	const char *name; /* zero-terminated; owned by the reader, valid until the next call */
	size_t name_size;
	uint64_t size; /* bytes stored; for TAR_SPARSE fewer than the file's size */
	uint64_t offset; /* of its bytes; offset + size is within the file */
	uint64_t header; /* of its own header */
};

/* What extended headers say about the next member, or (global) about all. */
struct tar_extra {
	char *name; /* NULL: not given */
	size_t name_size;
	uint64_t size;
	char has_size, sparse;
};

struct tar_reader {
	const struct blob *blob; /* borrowed */
	const char *path; /* borrowed; for faults */
	uint64_t file_size;
	uint64_t next; /* offset of the next header */
	uint64_t window_at;
	size_t window_size;
	struct tar_extra local, global;
	char *extension; /* holds one extended header; allocated for the first one */
	char name[TAR_NAME_MAX + 1];
	uint8_t window[TAR_WINDOW];
};

/* Begins at the start of a file of `file_size` bytes. `blob` and `path` must outlive the reader. */
void tar_init(
	struct tar_reader *reader, const struct blob *blob, uint64_t file_size, const char *path);
void tar_deinit(struct tar_reader *reader);

/* 1 and a member; 0 at the end; -EINVAL not a tar, damaged or cut off (the fault names the file,
 * the byte, what was expected and what to do); -ENOMEM; -errno of a read. After a fault the reader
 * may only be passed to tar_deinit. */
int tar_next(struct tar_reader *reader, struct tar_member *ret, struct fault *fault);

/* How the archive ends, after tar_next has returned 0. *ret_at: the first byte that follows its
 * end; the size of the file if it is CUT. 0 or negative errno. */
int tar_end_read(
	struct tar_reader *reader, enum tar_end *ret, uint64_t *ret_at, struct fault *fault);

/* Reads bytes of the member just returned, at `offset` from the start of the file. 0 or negative
 * errno. */
int tar_read(
	struct tar_reader *reader, uint64_t offset, void *buffer, size_t size, struct fault *fault);

/* A number field of a header: octal text with spaces and zeros around it, or base-256. 0, -EINVAL
 * (not a number), -ERANGE (negative, or 2^63 and more). Pure. */
int tar_number(const uint8_t *field, size_t size, uint64_t *ret);

/* True if the block's checksum is right, summed as unsigned or as signed bytes. Pure. */
int tar_block_valid(const uint8_t block[TAR_BLOCK]);

/* zip: reads the directory of a ZIP file, and where each member's bytes are.
 *
 * As in PKWARE's APPNOTE.TXT 6.3.10 (clause numbers below are its), with ZIP64: the end record
 * (4.3.16) is found from the end of the file, the central directory (4.3.12) through a window. It
 * can be walked several times. The local header (4.3.7) of a member has to be read as well, because
 * the length of its extra field, which decides where the data begin, may differ from the
 * directory's. So a walk with zip_data costs a read of 1 KiB at each member, in the order of the
 * directory, which usually is that of the file; where members are small, one read covers many.
 *
 * libzip is not used. It keeps the whole directory in memory (some 200 bytes per member), opens
 * more than a data loader should (encryption, several other methods of compression), and does not
 * tell the offset of a member's data.
 *
 * Refused where a member's data are asked for: encrypted members, methods other than stored and
 * deflated, members of split archives, and members whose local header disagrees with the directory.
 * Data in front of the archive (self-extracting programs) are allowed. Comments, times and
 * permissions are not read. Nothing here trusts the file. Memory: two buffers, together at most 400
 * KiB. Blocks; one thread. */
#pragma once

#include "base/fault.h"
#include "dataset/container/window.h"
#include "dataset/index.h"

#include <stdbool.h>
#include <stdint.h>

enum { ZIP_STORED = 0, ZIP_DEFLATED = 8 };
enum { ZIP_NEAR = 64 << 10 };

struct zip_reader {
	struct window window; /* of the directory */
	uint64_t base; /* bytes in front of the archive */
	uint64_t directory, end; /* of the directory */
	uint64_t members; /* as the end record says */
	bool exact; /* `members` is all of the number, not its low 16 bits */
	uint64_t at, seen; /* of the walk */
	/* The local headers: bytes [near_at, near_at + near_used) of the file. */
	uint8_t *near;
	uint64_t near_at, near_last;
	size_t near_used;
};

struct zip_member {
	uint64_t at; /* of its entry in the directory */
	uint64_t header; /* of its local header in the file */
	uint64_t stored, size; /* bytes in the file, and unpacked */
	uint32_t crc; /* of the unpacked bytes */
	uint16_t flags, method, raw_size;
	bool folder; /* its name ends with a slash, which `name` does not have */
	bool cut; /* its name is longer than INDEX_NAME_MAX, and cut */
	size_t name_size;
	char name[INDEX_NAME_MAX + 1]; /* UTF-8 */
	const uint8_t *raw; /* the name as the file has it, until the next zip_next */
};

/* Reads the end records. 0; -EINVAL with "PATH: byte N: ..."; -ENOMEM; -errno. Call zip_deinit in
 * all cases. */
int zip_init(struct zip_reader *zip, const struct blob *blob, const char *path, uint64_t size,
	struct fault *fault);
void zip_deinit(struct zip_reader *zip);

/* Goes back to the first member. */
void zip_rewind(struct zip_reader *zip);

/* Takes the next member from the directory. 1; 0 at the end; -EINVAL; -errno. */
int zip_next(struct zip_reader *zip, struct zip_member *ret, struct fault *fault);

/* Finds the first byte of a member's data, all of which are in front of the directory, and checks
 * that they can be read. `member` is that of the last zip_next. 0; -EINVAL; -errno. */
int zip_data(struct zip_reader *zip, const struct zip_member *member, uint64_t *ret_offset,
	struct fault *fault);

/* Writes a fault about a member: "PATH: byte N: member NAME `what`". Returns -EINVAL. */
int zip_fault(const struct zip_reader *zip, const struct zip_member *member, uint64_t at,
	struct fault *fault, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* unpack_parts: a RecordIO record that is stored in several parts, from the first part's header to
 * the last part's last byte (dataset/container/records/recordio.h). The parts are joined with the
 * magic number between them, which their writer has left out. */
#include "unpack/unpack_method.h"

#include "base/util.h"

#include <stdlib.h>
#include <string.h>

enum { PART_HEAD = 8, MAGIC_BYTES = 4, PART_FIRST = 1, PART_MIDDLE = 2, PART_LAST = 3 };
static const uint8_t magic[MAGIC_BYTES] = {0x0a, 0x23, 0xd7, 0xce};

struct parts {
	uint64_t at; /* of the source */
	uint32_t left; /* bytes of this part */
	uint32_t joint; /* bytes of the magic number that come before them */
	uint32_t number; /* of the next part */
	bool last;
};

static int parts_begin(struct unpack *unpack, struct fault *fault)
{
	struct parts *parts = unpack_state(unpack, sizeof *parts);
	if (!parts)
		return unpack_no_memory(unpack, fault);
	*parts = (struct parts){0};
	return 0;
}

/* Reads the next part's header. */
static int part_next(struct unpack *unpack, struct parts *parts, struct fault *fault)
{
	uint8_t head[PART_HEAD];
	uint32_t coded;
	if (unpack->stored - parts->at < sizeof head)
		return unpack_cut(unpack, fault);
	int rc = unpack_source_read(unpack, parts->at, head, sizeof head, fault);
	if (rc < 0)
		return rc;
	memcpy(&coded, head + MAGIC_BYTES, sizeof coded);
	const uint32_t which = coded >> 29;
	parts->left = coded & 0x1fffffff;
	parts->at += sizeof head;
	if (memcmp(head, magic, sizeof magic) != 0 ||
		(parts->number ? which != PART_MIDDLE && which != PART_LAST : which != PART_FIRST))
		return unpack_damaged(unpack, "the next part of a record does not follow", fault);
	if (parts->left > unpack->stored - parts->at)
		return unpack_cut(unpack, fault);
	parts->joint = parts->number++ ? MAGIC_BYTES : 0;
	parts->last = which == PART_LAST;
	return 0;
}

static int parts_make(
	struct unpack *unpack, uint8_t *out, size_t room, size_t *ret_made, struct fault *fault)
{
	struct parts *parts = unpack->state[unpack->packed.method];
	while (!parts->left && !parts->joint && !parts->last) {
		int rc = part_next(unpack, parts, fault);
		if (rc < 0)
			return rc;
	}
	const size_t size = UTIL_MIN(room, parts->joint ? parts->joint : (size_t)parts->left);
	*ret_made = size;
	if (parts->joint) {
		memcpy(out, magic + MAGIC_BYTES - parts->joint, size);
		parts->joint -= (uint32_t)size;
		return 0;
	}
	int rc = size ? unpack_source_read(unpack, parts->at, out, size, fault) : 0;
	parts->at += size;
	parts->left -= (uint32_t)size;
	return rc;
}

static const char *parts_library(void)
{
	return "";
}

const struct unpack_method unpack_record_parts = {
	.name = "parts of a RecordIO record",
	.library = parts_library,
	.begin = parts_begin,
	.make = parts_make,
	.unmake = free,
};

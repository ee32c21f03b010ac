/* aside: see aside.h. */
#include "dataset/container/records/aside.h"

#include "base/store.h"
#include "base/util.h"
#include "base/whole.h"

#include <errno.h>
#include <string.h>

enum { PIECE = 64 << 10 };

void aside_init(struct aside *aside, const struct blob *shard, const char *path)
{
	*aside = (struct aside){.shard = shard, .path = path, .own = BLOB_OF(-1)};
}

void aside_deinit(struct aside *aside)
{
	unpack_free(aside->unpack);
	window_deinit(&aside->window);
	blob_close(&aside->own);
}

void aside_clear(struct aside *aside)
{
	aside->end = 0;
	/* The buffer has bytes of before. */
	aside->window.used = 0;
}

static int aside_open(struct aside *aside, struct fault *fault)
{
	if (!aside->unpack && !(aside->unpack = unpack_new()))
		return fault_set(fault, -ENOMEM, "no memory to index %s", aside->path);
	if (aside->own.fd >= 0)
		return 0;
	const int fd = store_unlinked(NULL);
	if (fd < 0)
		return fault_set(fault, fd,
			"%s is compressed, but no file to unpack it into can be made in TMPDIR: %s",
			aside->path, strerror(-fd));
	aside->own = BLOB_OF(fd);
	window_init(&aside->window, &aside->own, aside->path, 0);
	return 0;
}

/* Puts the place before a sentence of unpack.h; whatever is wrong with the data is -EINVAL. */
static int aside_fault(
	const struct aside *aside, uint64_t offset, const char *what, int rc, struct fault *fault)
{
	const bool data = rc == -EBADMSG || rc == -ENODATA || rc == -EOPNOTSUPP;
	return fault_prefix(fault, data ? -EINVAL : rc, "%s: byte %llu: %s", aside->path,
		(unsigned long long)offset, what);
}

/* Writes what the stream has. */
static int aside_copy(struct aside *aside, uint64_t *ret_size, struct fault *fault)
{
	uint8_t piece[PIECE];
	uint64_t size = 0;
	for (size_t got = sizeof piece; got == sizeof piece; size += got) {
		int rc = unpack_read(aside->unpack, piece, sizeof piece, &got, fault);
		if (rc == 0 && size + got > UINT32_MAX)
			rc = fault_set(fault, -EBADMSG, "it unpacks to more than 4 GiB");
		if (rc < 0)
			return rc;
		rc = whole_write(aside->own.fd, piece, got, aside->end + size);
		if (rc < 0)
			return fault_set(
				fault, rc, "it cannot be unpacked into TMPDIR: %s", strerror(-rc));
	}
	*ret_size = size;
	return 0;
}

int aside_put(struct aside *aside, uint64_t offset, uint64_t stored, uint64_t whole,
	const char *what, uint64_t *ret_at, uint64_t *ret_size, struct fault *fault)
{
	struct blob_part part = {.blob = aside->shard, .offset = offset};
	const struct unpack_source source = {
		.read = blob_part_read, .why = blob_error, .context = &part};
	int rc = aside_open(aside, fault);
	if (rc < 0)
		return rc;
	uint64_t size = 0;
	rc = unpack_begin(aside->unpack, PACKED_ZSTD, stored, whole, &source, fault);
	if (rc == 0)
		rc = aside_copy(aside, &size, fault);
	unpack_end(aside->unpack);
	if (rc == 0 && whole != UNPACK_UNKNOWN && size != whole)
		rc = fault_set(fault, -EBADMSG, "it unpacks to %llu bytes, expected %llu",
			(unsigned long long)size, (unsigned long long)whole);
	if (rc < 0)
		return aside_fault(aside, offset, what, rc, fault);
	*ret_at = aside->end;
	*ret_size = size;
	aside->end += size;
	aside->window.size = aside->end;
	return 0;
}

int aside_get(struct aside *aside, uint64_t at, size_t size, const char *what, const uint8_t **ret,
	struct fault *fault)
{
	return window_get(&aside->window, at, size, what, ret, fault);
}

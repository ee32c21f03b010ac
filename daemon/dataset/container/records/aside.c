/* aside: see aside.h. */
#include "dataset/container/records/aside.h"

#include "base/store.h"
#include "base/util.h"
#include "base/whole.h"

#include <errno.h>
#include <string.h>

enum { PIECE = 64 << 10 };

void aside_init(struct aside *aside, const struct index_job *job)
{
	*aside = (struct aside){.job = job, .own = BLOB_OF(-1)};
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
		return fault_set(fault, -ENOMEM, "no memory to index %s", aside->job->path);
	if (aside->own.fd >= 0)
		return 0;
	const int fd = store_unlinked(NULL);
	if (fd < 0)
		return fault_set(fault, fd,
			"%s is compressed, but no file to unpack it into can be made in TMPDIR: %s",
			aside->job->path, strerror(-fd));
	aside->own = BLOB_OF(fd);
	window_init(&aside->window, &aside->own, aside->job->path, 0);
	return 0;
}

/* Puts the place before a sentence of unpack.h; whatever is wrong with the data is -EINVAL. */
static int aside_fault(
	const struct aside *aside, uint64_t offset, const char *what, int rc, struct fault *fault)
{
	const bool data = rc == -EBADMSG || rc == -ENODATA || rc == -EOPNOTSUPP;
	return fault_prefix(fault, data ? -EINVAL : rc, "%s: byte %llu: %s", aside->job->path,
		(unsigned long long)offset, what);
}

/* A part that unpacks to more than parts do would take minutes and a disk. */
static int aside_large(uint64_t most, struct fault *fault)
{
	return fault_set(fault, -EBADMSG,
		"it unpacks to more than %llu bytes, which is %d times its own size and %d MiB, "
		"or 4 GiB: the file is damaged or made to waste time; copy it again from where it "
		"came from, or write it without compression",
		(unsigned long long)most, PACKED_RATIO, PACKED_ALWAYS >> 20);
}

/* Lets the build be stopped between two samples, too. */
static int aside_report(struct aside *aside, uint64_t offset, size_t size, struct fault *fault)
{
	const struct index_job *job = aside->job;
	aside->told += size;
	if (aside->told < INDEX_PROGRESS_BYTES)
		return 0;
	aside->told = 0;
	return index_progress_report(job->progress, job->writer->head.samples, offset, fault);
}

/* Writes what the stream has. */
static int aside_copy(struct aside *aside, uint64_t offset, uint64_t most, uint64_t *ret_size,
	struct fault *fault)
{
	uint8_t piece[PIECE];
	uint64_t size = 0;
	for (size_t got = sizeof piece; got == sizeof piece; size += got) {
		int rc = unpack_read(aside->unpack, piece, sizeof piece, &got, fault);
		if (rc == 0 && size + got > most)
			rc = aside_large(most, fault);
		if (rc == 0)
			rc = aside_report(aside, offset, got, fault);
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
	struct blob_part part = {.blob = aside->job->blob, .offset = offset};
	const struct unpack_source source = {
		.read = blob_part_read, .why = blob_error, .context = &part};
	int rc = aside_open(aside, fault);
	if (rc < 0)
		return rc;
	const uint64_t most = UTIL_MIN(packed_most((uint32_t)stored), (uint64_t)UINT32_MAX);
	uint64_t size = 0;
	if (whole != UNPACK_UNKNOWN && whole > most)
		return aside_fault(aside, offset, what, aside_large(most, fault), fault);
	rc = unpack_begin(aside->unpack, PACKED_ZSTD, stored, whole, &source, fault);
	if (rc == 0)
		rc = aside_copy(aside, offset, most, &size, fault);
	unpack_end(aside->unpack);
	if (rc == 0 && whole != UNPACK_UNKNOWN && size != whole)
		rc = fault_set(fault, -EBADMSG, "it unpacks to %llu bytes, expected %llu",
			(unsigned long long)size, (unsigned long long)whole);
	if (rc == -ECANCELED)
		return rc;
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

/* dataset_fields: reads the fields of a sample (fields.h) with pread. For tools, and for fields
 * that no buffer of the pipeline holds; the pipeline reads them through fetch/. Blocks. */
#include "base/host/roots.h"
#include "base/util.h"
#include "base/whole.h"
#include "dataset/dataset_impl.h"
#include "dataset/mtime.h"
#include "unpack/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file that is written while it is read is read again. */
enum { FIELD_TRIES = 3 };

/* What is read, and what was found. */
struct reading {
	const struct dataset *dataset;
	const struct field *field;
	const char *shown; /* for faults */
	uint8_t *buffer;
	uint32_t size;
	bool longer;
};

static int reading_fault(const struct reading *reading, int code, struct fault *fault)
{
	return fault_set(fault, code, "%s cannot be read: %s", reading->shown, blob_error(code));
}

/* Reads the beginning of an open file. 0; -ESTALE if it was written meanwhile; -errno. */
static int file_take(struct reading *reading, int fd, struct fault *fault)
{
	struct stat before, after;
	if (fstat(fd, &before) < 0)
		return reading_fault(reading, -errno, fault);
	if (!S_ISREG(before.st_mode))
		return fault_set(fault, -ESTALE, "%s is not a file", reading->shown);
	uint8_t more;
	ssize_t n = whole_read(fd, reading->buffer, reading->field->max, 0);
	ssize_t past =
		n == (ssize_t)reading->field->max ? whole_read(fd, &more, 1, (uint64_t)n) : 0;
	if (n < 0 || past < 0)
		return reading_fault(reading, (int)(n < 0 ? n : past), fault);
	if (fstat(fd, &after) < 0 || mtime_of(&after) != mtime_of(&before))
		return fault_set(
			fault, -ESTALE, "%s was changed while it was read", reading->shown);
	reading->size = (uint32_t)n;
	reading->longer = past > 0;
	return 0;
}

static int file_read(struct reading *reading, const char *path, struct fault *fault)
{
	/* Where roots apply, the links of images were checked when the folder was indexed; those of
	 * fields are not followed. */
	int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | (roots_apply() ? O_NOFOLLOW : 0);
	int rc = -ESTALE;
	for (int i = 0; rc == -ESTALE && i < FIELD_TRIES; i++) {
		cleanup(close_fd) int fd = openat(reading->dataset->root_fd, path, flags);
		if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
			return DATASET_E_NONE;
		rc = fd < 0 ? reading_fault(reading, -errno, fault) : file_take(reading, fd, fault);
	}
	return rc;
}

/* Reads the field's first `size` bytes from its shard. *ret_size: how many there are. */
static int range_take(const struct reading *reading, const struct index_field *at,
	const struct blob *blob, uint32_t size, size_t *ret_size, struct fault *fault)
{
	if (at->packed.method == PACKED_NONE) {
		ssize_t n = blob_read(blob, reading->buffer, size, at->offset);
		*ret_size = n < 0 ? 0 : (size_t)n;
		return n < 0 ? reading_fault(reading, (int)n, fault) : 0;
	}
	struct blob_part part = {.blob = blob, .offset = at->offset};
	const struct unpack_source source = {
		.read = blob_part_read, .why = blob_error, .context = &part};
	struct packed packed = at->packed;
	struct unpack *unpack = unpack_new();
	if (!unpack)
		return reading_fault(reading, -ENOMEM, fault);
	/* The checksum is that of all bytes. */
	packed.checked &= size == at->size;
	int rc = unpack_begin_sample(unpack, &packed, size, &source, fault);
	if (rc == 0)
		rc = unpack_read(unpack, reading->buffer, size, ret_size, fault);
	unpack_free(unpack);
	if (rc < 0)
		(void)fault_prefix(fault, rc, "%s", reading->shown);
	return rc == -EBADMSG || rc == -EOPNOTSUPP ? -EPROTO : rc;
}

static int range_read(
	struct reading *reading, uint32_t shard, const struct index_field *at, struct fault *fault)
{
	const struct dataset *dataset = reading->dataset;
	const char *path = dataset->shard[shard].path;
	cleanup(close_blob) struct blob blob = {0};
	int opened = 0;
	if (dataset->shard[shard].remote)
		blob = blob_of_remote(dataset->shard[shard].remote);
	else
		opened = blob_open(path, &blob, fault);
	if (opened < 0)
		return opened == -ENOENT ? -ESTALE : opened;
	uint32_t size = UTIL_MIN(at->size, reading->field->max);
	size_t n = 0;
	int rc = range_take(reading, at, &blob, size, &n, fault);
	if (rc < 0 && rc != -EPROTO)
		return rc;
	if (dataset_verify_blob(dataset, shard, &blob) < 0)
		return dataset_verify_shard(dataset, shard, fault) < 0
			       ? -ESTALE
			       : fault_set(
					 fault, -ESTALE, "%s was changed while it was read", path);
	if (rc < 0)
		return rc;
	if (n < size)
		return fault_set(fault, -ENODATA, "%s ends after %zu of %u bytes", reading->shown,
			n, at->size);
	reading->size = size;
	reading->longer = at->size > size;
	return 0;
}

static int reading_run(struct reading *reading, uint64_t sample, uint32_t number, const char *image,
	struct fault *fault)
{
	const struct dataset *dataset = reading->dataset;
	struct dataset_page at;
	struct index_record record = {0};
	struct index_field field = {0};
	uint64_t position;
	uint8_t page[INDEX_PAGE];
	char path[INDEX_NAME_MAX + FIELD_NAME_MAX + 2];
	if (dataset->container->files)
		return field_path(image, reading->field->name, path, sizeof path)
			       ? file_read(reading, path, fault)
			       : DATASET_E_NONE;
	if (number >= dataset->field_count)
		return DATASET_E_NONE;
	int rc = dataset_name_page(dataset, sample, &at, &record, &position, page, fault);
	if (rc == 0)
		rc = dataset_field(dataset, at.shard, &record, page, false, number, &field, fault);
	if (rc < 0)
		return rc;
	return field.present ? range_read(reading, at.shard, &field, fault) : DATASET_E_NONE;
}

int dataset_field_read(const struct dataset *dataset, uint64_t sample,
	const struct field_list *fields, uint32_t number, void *buffer, uint32_t *ret_size,
	bool *ret_longer, struct fault *fault)
{
	struct sample image;
	char shown[2 * INDEX_NAME_MAX + FIELD_NAME_MAX + 32];
	int rc = dataset_sample(dataset, sample, &image, fault);
	if (rc < 0)
		return rc;
	(void)snprintf(shown, sizeof shown, "%s%s%s (its field %s)",
		dataset->shard[image.shard].path, dataset->container->joint, image.name,
		fields->at[number].name);
	struct reading reading = {
		.dataset = dataset, .field = &fields->at[number], .shown = shown, .buffer = buffer};
	rc = reading_run(&reading, sample, number, image.name, fault);
	if (rc == 0) {
		*ret_size = reading.size;
		*ret_longer = reading.longer;
	}
	return rc;
}

/* archive_run: indexes bytes in memory as dataset_open indexes a shard, and reads the samples back
 * out of the index. Unlike in container_run.h, samples may be damaged: a ZIP's checksums are of
 * what its members unpack to. For fuzz_zip.c and fuzz_lmdb.c. */
#pragma once

#include "dataset/container/container.h"

#include "fuzz/want.h"
#include "unpack/unpack.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct archive_run {
	const uint8_t *bytes; /* of the shard */
	size_t size;
	int files[4]; /* the shard, records, names, tables */
	struct unpack *unpack;
	struct fault fault;
	struct index_head head; /* if it was indexed */
};

struct archive_sample {
	struct index_record record;
	char name[INDEX_PAGE];
};

/* Makes the files, once, and empties them. */
static inline void archive_run_begin(struct archive_run *run)
{
	for (int i = 0; i < 4; i++) {
		if (!run->files[i])
			run->files[i] = memfd_create("archive", MFD_CLOEXEC);
		want(run->files[i] > 0 && ftruncate(run->files[i], 0) == 0, "no memory");
	}
	if (!run->unpack)
		run->unpack = unpack_new();
	want(run->unpack, "no memory");
}

/* Indexes the bytes, as a shard with the path `name`. Returns what the container returns. */
static inline int archive_run_index(struct archive_run *run, const struct container *container,
	const char *name, enum dataset_labels asked, const void *bytes, size_t size)
{
	static struct index_writer writer;
	static struct label_found found;
	static const struct column_choice columns = {.label_offset = 0};
	struct index_first first = {.empty = false};
	struct index_progress progress = {0};
	uint64_t index_bytes;
	uint32_t crc;
	archive_run_begin(run);
	run->bytes = bytes;
	run->size = size;
	run->fault.text[0] = 0;
	run->head = (struct index_head){0};
	want(pwrite(run->files[0], bytes, size, 0) == (ssize_t)size &&
			index_writer_init(
				&writer, run->files[1], 0, run->files[2], run->files[3]) == 0,
		"no memory");
	index_writer_packed(&writer);
	writer.head.asked = (uint32_t)asked;
	writer.head.label_type = LABEL_TYPE_AUTO;
	const struct index_job job = {.path = name,
		.joint = container->joint,
		.first = &first,
		.fd = run->files[0],
		.size = size,
		.asked = asked,
		.found = &found,
		.columns = &columns,
		.writer = &writer,
		.progress = &progress};
	int rc = container->index(&job, &run->fault);
	if (rc == 0)
		want(index_writer_finish(&writer, &index_bytes) == 0 &&
				index_head_read(run->files[1], 0, 0, &run->head, &crc) == 0,
			"an index is not returned");
	index_writer_deinit(&writer);
	return rc;
}

/* Reads sample `number` out of the index; its place must be within the file. */
static inline void archive_run_sample(
	struct archive_run *run, uint64_t number, struct archive_sample *ret)
{
	static uint8_t page[INDEX_PAGE];
	const struct index_record *record = &ret->record;
	const uint32_t slot = number % INDEX_RECORDS_PACKED;
	uint64_t at = 1 + number / INDEX_RECORDS_PACKED;
	want(index_read(run->files[1], at * INDEX_PAGE, page, sizeof page, NULL) == 0 &&
			index_page_record(page, at, slot, &ret->record, NULL) == 0,
		"a record is not returned");
	want(packed_sound(&record->packed, record->size), "a sample is packed in no sound way");
	const uint64_t stored = packed_stored(&record->packed, record->size);
	want(record->offset <= run->size && stored <= run->size - record->offset,
		"a sample beyond the file");
	at = 1 + run->head.record_pages + record->name_page;
	want(index_read(run->files[1], at * INDEX_PAGE, page, sizeof page, NULL) == 0 &&
			index_page_name(page, record, ret->name, sizeof ret->name, NULL) == 0,
		"a name is not returned");
	want(ret->name[0] && ret->name[0] != '/', "a sample without a name");
}

/* Unpacks a sample. 0; or the outcome of one that is damaged, or larger than `room`. */
static inline int archive_run_bytes(
	struct archive_run *run, const struct index_record *record, void *out, size_t room)
{
	struct fault fault;
	if (record->size > room)
		return -EMSGSIZE;
	int rc = unpack_slice(run->unpack, &record->packed, record->size,
		run->bytes + record->offset, out, &fault);
	want(rc == 0 || rc == -EBADMSG || rc == -ENODATA, "a sample is read with another outcome");
	return rc;
}

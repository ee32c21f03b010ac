/* parquet_run: indexes a Parquet file in memory as dataset_open indexes a shard, and reads samples
 * with their fields back out of the index. For tests. (container_run.h does this for containers
 * without fields, and expects no damaged samples.) */
#pragma once

#include "dataset/container/container.h"

#include "fuzz/want.h"
#include "unpack/unpack.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct parquet_run {
	const uint8_t *bytes; /* of the shard */
	size_t size;
	int files[4]; /* the shard, records, names, tables */
	struct unpack *unpack;
	struct fault fault;
	struct index_head head; /* if it was indexed */
};

struct parquet_run_read {
	struct index_record record;
	char name[INDEX_PAGE];
	struct index_field field[FIELDS_MAX];
};

/* Makes the files, once. */
static inline void parquet_run_begin(struct parquet_run *run)
{
	for (int i = 0; i < 4 && !run->files[i]; i++) {
		run->files[i] = memfd_create("container", MFD_CLOEXEC);
		want(run->files[i] >= 0, "no memory");
	}
	if (!run->unpack)
		run->unpack = unpack_new();
	want(run->unpack, "no memory");
}

/* Indexes the bytes, as a shard with the path NAME. Returns what the container returns. */
static inline int parquet_run_index(struct parquet_run *run, const struct container *container,
	const char *name, enum dataset_labels asked, const struct column_choice *columns,
	const struct field_list *fields, const void *bytes, size_t size)
{
	static struct index_writer writer;
	static struct label_found found;
	static const struct column_choice any = {.label_offset = 0};
	struct index_first first = {.empty = false};
	struct index_progress progress = {0};
	uint64_t index_bytes;
	uint32_t crc;
	parquet_run_begin(run);
	run->bytes = bytes;
	run->size = size;
	run->fault.text[0] = 0;
	run->head = (struct index_head){0};
	want(pwrite(run->files[0], bytes, size, 0) == (ssize_t)size &&
			ftruncate(run->files[0], (off_t)size) == 0,
		"no memory");
	for (int i = 1; i < 4; i++)
		want(ftruncate(run->files[i], 0) == 0, "no memory");
	want(index_writer_init(&writer, run->files[1], 0, run->files[2], run->files[3]) == 0,
		"no memory");
	index_writer_packed(&writer);
	writer.head.asked = (uint32_t)asked;
	writer.head.label_type = LABEL_TYPE_AUTO;
	writer.head.field_count = fields ? fields->count : 0;
	const struct index_job job = {.path = name,
		.joint = container->joint,
		.first = &first,
		.fd = run->files[0],
		.size = size,
		.asked = asked,
		.found = &found,
		.fields = fields,
		.columns = columns ? columns : &any,
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
static inline void parquet_run_sample(
	struct parquet_run *run, uint64_t number, struct parquet_run_read *ret)
{
	static uint8_t page[INDEX_PAGE];
	uint64_t at = 1 + number / INDEX_RECORDS_PACKED;
	want(index_read(run->files[1], at * INDEX_PAGE, page, sizeof page, NULL) == 0 &&
			index_page_record(
				page, at, number % INDEX_RECORDS_PACKED, &ret->record, NULL) == 0,
		"a record is not returned");
	const struct index_record *record = &ret->record;
	want(packed_sound(&record->packed, record->size), "a sample is packed in no sound way");
	const uint64_t stored = packed_stored(&record->packed, record->size);
	want(record->offset <= run->size && stored <= run->size - record->offset,
		"a sample beyond the file");
	at = 1 + run->head.record_pages + record->name_page;
	want(index_read(run->files[1], at * INDEX_PAGE, page, sizeof page, NULL) == 0 &&
			index_page_name(page, record, ret->name, sizeof ret->name, NULL) == 0,
		"a name is not returned");
	want(ret->name[0] && ret->name[0] != '/', "a sample without a name");
	for (uint32_t i = 0; i < run->head.field_count; i++) {
		struct index_field *field = &ret->field[i];
		want(index_page_field(page, record, i, field, NULL) == 0,
			"a field is not returned");
		const uint64_t bytes = packed_stored(&field->packed, field->size);
		want(packed_sound(&field->packed, field->size) && field->offset <= run->size &&
				bytes <= run->size - field->offset,
			"a field beyond the file");
	}
}

/* Unpacks the bytes of a sample or field, of which there are at most `room`. 0; or the outcome of
 * data that is damaged. */
static inline int parquet_run_bytes(struct parquet_run *run, uint64_t offset, uint32_t size,
	const struct packed *packed, void *out, size_t room)
{
	struct fault fault;
	if (size > room)
		return -EMSGSIZE;
	int rc = unpack_slice(run->unpack, packed, size, run->bytes + offset, out, &fault);
	want(rc == 0 || rc == -EBADMSG || rc == -ENODATA, "a sample is read with another outcome");
	return rc;
}

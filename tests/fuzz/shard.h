/* shard: indexes a shard that a fuzz target has made in memory, as dataset_open does, and reads
 * every sample back. Expected of any bytes: either a refusal, with a sentence that names the shard,
 * or samples and fields whose bytes are within the shard, and labels for all of them or for none.
 * Expected of a shard that is sound: the samples that were put into it. One thread. */
#pragma once

#include "dataset/container/container.h"

#include "fuzz/want.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A sample that a sound shard must have. */
struct shard_sample {
	uint64_t offset;
	uint32_t size;
	int64_t label; /* -1: none */
};

struct shard {
	const struct container *container;
	const char *path;
	const uint8_t *bytes;
	size_t size;
	enum dataset_labels asked; /* AUTO or NONE */
	const struct column_choice *columns;
	const struct field_list *fields;
	bool sound;
	const struct shard_sample *samples;
	uint32_t count;
};

static inline void shard_within(const struct shard *shard, uint64_t offset, uint64_t size)
{
	want(offset <= shard->size && size <= shard->size - offset, "bytes beyond the shard");
}

static inline void shard_field_check(
	const struct shard *shard, const uint8_t *page, const struct index_record *record)
{
	struct index_field field;
	for (uint32_t i = 0; i < shard->fields->count; i++) {
		want(index_page_field(page, record, i, &field, NULL) == 0,
			"a field is not returned");
		if (field.present)
			shard_within(shard, field.offset, field.size);
	}
}

static inline void shard_sample_check(
	const struct shard *shard, int fd, const struct index_head *head, uint64_t number)
{
	static uint8_t page[INDEX_PAGE];
	char name[INDEX_PAGE];
	struct index_record record;
	uint64_t at = 1 + number / INDEX_RECORDS_PACKED;
	want(index_read(fd, at * INDEX_PAGE, page, sizeof page, NULL) == 0 &&
			index_page_record(page, at, number % INDEX_RECORDS_PACKED, &record, NULL) ==
				0,
		"a record is not returned");
	want(packed_sound(&record.packed, record.size), "a sample that cannot be unpacked");
	shard_within(shard, record.offset, packed_stored(&record.packed, record.size));
	want(record.format >= SAMPLE_JPEG && record.format <= SAMPLE_OTHER, "another format");
	if (head->label_type == LABEL_TYPE_CLASS)
		want(head->source == DATASET_LABELS_COLUMN ? record.label >= 0 : record.label == -1,
			"labels for only some samples");
	if (shard->sound) {
		const struct shard_sample *sample = &shard->samples[number];
		want(record.offset == sample->offset && record.size == sample->size,
			"a sample elsewhere");
		want(record.label == (shard->asked == DATASET_LABELS_NONE ? -1 : sample->label),
			"a sample with another label");
	}
	at = 1 + head->record_pages + record.name_page;
	want(index_read(fd, at * INDEX_PAGE, page, sizeof page, NULL) == 0 &&
			index_page_name(page, &record, name, sizeof name, NULL) == 0,
		"a name is not returned");
	want(name[0] && name[0] != '/', "a name that no sample may have");
	shard_field_check(shard, page, &record);
}

static inline void shard_check(const struct shard *shard)
{
	static int files[4]; /* the shard, records, names, tables */
	static struct index_writer writer;
	static struct label_found found;
	struct index_first first = {.empty = false};
	struct index_progress progress = {0};
	struct fault fault = {{0}};
	struct index_head head;
	uint64_t bytes;
	uint32_t crc;
	for (int i = 0; i < 4 && !files[i]; i++)
		files[i] = memfd_create("shard", MFD_CLOEXEC);
	want(pwrite(files[0], shard->bytes, shard->size, 0) == (ssize_t)shard->size &&
			ftruncate(files[0], (off_t)shard->size) == 0 &&
			index_writer_init(&writer, files[1], 0, files[2], files[3]) == 0,
		"no memory");
	index_writer_packed(&writer);
	writer.head.field_count = shard->fields->count;
	const struct index_job job = {.path = shard->path,
		.joint = shard->container->joint,
		.first = &first,
		.fd = files[0],
		.size = shard->size,
		.asked = shard->asked,
		.found = &found,
		.fields = shard->fields,
		.columns = shard->columns,
		.writer = &writer,
		.progress = &progress};
	int rc = shard->container->index(&job, &fault);
	if (rc < 0 && shard->sound)
		(void)fprintf(stderr, "%s\n", fault.text);
	want(rc == 0 || !shard->sound, "refuses a sound shard");
	want(rc == 0 || (rc == -EINVAL && strstr(fault.text, shard->path)),
		"refused with another code, or without a sentence");
	if (rc == 0) {
		want(index_writer_finish(&writer, &bytes) == 0 &&
				index_head_read(files[1], 0, 0, &head, &crc) == 0,
			"an index is not returned");
		want(!shard->sound || head.samples == shard->count, "another number of samples");
		for (uint64_t i = 0; i < head.samples; i++)
			shard_sample_check(shard, files[1], &head, i);
	}
	index_writer_deinit(&writer);
}

/* container_run: a container's index of one file in memory, built as dataset_open does and read
 * back. Every sample that is listed is read: its stored bytes are within the file, and unpack.
 *
 * The shard is a memfd. A file beside it is another one, which a link in a folder of this process
 * leads to, so that the container opens it by its name. */
#pragma once

#include "dataset/container/container.h"
#include "unpack/unpack.h"

#include "fuzz/want.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONTAINER_RUN_ROOM = 1 << 20 };

struct container_run {
	const struct container *container;
	const char *name; /* of the shard, in the folder */
	const char *beside; /* of the file beside it; NULL: none */
	const uint8_t *bytes, *beside_bytes;
	size_t size, beside_size;
	enum dataset_labels asked;
	struct column_choice columns;
	/* Called for each sample, with its bytes. */
	void (*sample)(uint64_t number, const char *name, const struct index_record *record,
		const uint8_t *bytes);
	/* Afterwards */
	struct index_head head;
	struct fault fault;
};

static struct {
	char folder[64];
	int shard, beside, index, names, tables;
	struct unpack *unpack;
	uint8_t bytes[CONTAINER_RUN_ROOM];
	char linked[256];
} container_files;

static inline int container_memfd(const uint8_t *bytes, size_t size, int *fd)
{
	if (!*fd)
		*fd = memfd_create("fuzz", MFD_CLOEXEC);
	want(*fd > 0 && ftruncate(*fd, 0) == 0 && pwrite(*fd, bytes, size, 0) == (ssize_t)size,
		"no memory");
	return *fd;
}

static inline void container_run_end(void)
{
	if (container_files.linked[0])
		(void)unlink(container_files.linked);
	if (container_files.folder[0])
		(void)rmdir(container_files.folder);
	unpack_free(container_files.unpack);
}

static inline void container_link(const struct container_run *run)
{
	char target[64], path[256];
	if (!container_files.folder[0]) {
		(void)strcpy(container_files.folder, "/tmp/penstock-fuzz-XXXXXX");
		want(mkdtemp(container_files.folder), "no folder in /tmp");
	}
	if (container_files.linked[0])
		(void)unlink(container_files.linked);
	container_files.linked[0] = 0;
	if (!run->beside)
		return;
	(void)container_memfd(run->beside_bytes, run->beside_size, &container_files.beside);
	(void)snprintf(target, sizeof target, "/proc/self/fd/%d", container_files.beside);
	(void)snprintf(path, sizeof path, "%s/%s", container_files.folder, run->beside);
	want(symlink(target, path) == 0, "no link in /tmp");
	(void)strcpy(container_files.linked, path);
}

static inline void container_sample_check(const struct container_run *run, uint64_t number)
{
	static uint8_t page[INDEX_PAGE];
	char name[INDEX_PAGE];
	struct index_record record;
	const struct index_head *head = &run->head;
	uint64_t at = 1 + number / INDEX_RECORDS_PACKED;
	want(index_read(container_files.index, at * INDEX_PAGE, page, sizeof page, NULL) == 0 &&
			index_page_record(page, at, number % INDEX_RECORDS_PACKED, &record, NULL) ==
				0,
		"a record is not returned");
	at = 1 + head->record_pages + record.name_page;
	want(index_read(container_files.index, at * INDEX_PAGE, page, sizeof page, NULL) == 0 &&
			index_page_name(page, &record, name, sizeof name, NULL) == 0,
		"a name is not returned");
	want(packed_sound(&record.packed, record.size), "an impossible way of packing");
	const uint64_t stored = packed_stored(&record.packed, record.size);
	want(record.offset <= run->size && stored <= run->size - record.offset,
		"a sample beyond the file");
	want(record.size <= CONTAINER_RUN_ROOM, "a sample is larger than all files here");
	struct fault fault;
	want(unpack_slice(container_files.unpack, &record.packed, record.size,
		     run->bytes + record.offset, container_files.bytes, &fault) == 0,
		"a sample that is listed cannot be unpacked");
	want(head->source == DATASET_LABELS_NONE ? record.label == -1
						 : record.label >= 0 || record.label_size,
		"labels for only some samples");
	if (run->sample)
		run->sample(number, name, &record, container_files.bytes);
}

/* Builds the index and reads all samples. Returns what the container returned. */
static inline int container_run(struct container_run *run)
{
	static struct index_writer writer;
	static struct label_found found;
	struct index_progress progress = {0};
	struct index_first first = {.empty = false};
	char path[256];
	uint64_t bytes;
	uint32_t crc;
	if (!container_files.unpack)
		container_files.unpack = unpack_new();
	container_link(run);
	(void)snprintf(path, sizeof path, "%s/%s", container_files.folder, run->name);
	(void)container_memfd(run->bytes, run->size, &container_files.shard);
	(void)container_memfd(NULL, 0, &container_files.index);
	(void)container_memfd(NULL, 0, &container_files.names);
	(void)container_memfd(NULL, 0, &container_files.tables);
	want(index_writer_init(&writer, container_files.index, 0, container_files.names,
		     container_files.tables) == 0,
		"no memory");
	index_writer_packed(&writer);
	writer.head.label_type = LABEL_TYPE_AUTO;
	const struct index_job job = {.path = path,
		.joint = run->container->joint,
		.first = &first,
		.fd = container_files.shard,
		.size = run->size,
		.asked = run->asked,
		.found = &found,
		.columns = &run->columns,
		.writer = &writer,
		.progress = &progress};
	run->fault.text[0] = 0;
	int rc = run->container->index(&job, &run->fault);
	want(rc == 0 || (rc == -EINVAL && strstr(run->fault.text, container_files.folder)),
		"refused with another code, or without a sentence");
	if (rc == 0) {
		want(index_writer_finish(&writer, &bytes) == 0 &&
				index_head_read(container_files.index, 0, 0, &run->head, &crc) == 0,
			"an index is not returned");
		for (uint64_t i = 0; i < run->head.samples; i++)
			container_sample_check(run, i);
	}
	index_writer_deinit(&writer);
	return rc;
}

/* shard: indexes a shard that a fuzz target has made in memory, as dataset_open does, and reads
 * every sample, with its fields, back out of the index.
 *
 * Expected of any bytes: either a refusal, with a sentence that names the file; or samples and
 * fields whose stored bytes are within the shard, that have a name and unpack, and labels for all
 * of them or for none. Expected of a sound shard: that it is indexed, and that all of it unpacks.
 * The target compares each sample with what it has made. One thread.
 *
 * Nothing is written to a disk: the shard and its index are memfds. A container that opens files
 * beside its shard finds the shard's path in a folder of this process, in which there is at most
 * one file: a link to another memfd. */
#pragma once

#include "dataset/container/container.h"
#include "unpack/unpack.h"

#include "fuzz/want.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define SHARD_SANITIZED
#endif
#endif

/* The most bytes of one sample or field that are unpacked. */
enum { SHARD_ROOM = 1 << 20 };

/* A sample that was read out of the index. */
struct shard_sample {
	uint64_t number;
	struct index_record record;
	char name[INDEX_PAGE];
	/* The bytes, record.size of them; NULL: they are damaged. */
	const uint8_t *bytes;
	struct index_field field[FIELDS_MAX];
};

struct shard {
	const struct container *container;
	const char *name; /* of the file */
	const uint8_t *bytes;
	size_t size;
	enum dataset_labels asked;
	const struct column_choice *columns; /* NULL: none is chosen */
	const struct field_list *fields; /* NULL: none */
	/* The file beside the shard; NULL: none */
	const char *beside;
	const uint8_t *beside_bytes;
	size_t beside_size;
	/* True: it must be indexed, with `count` samples, and every byte of them unpacks. */
	bool sound;
	uint64_t count;
	/* True: what an unsound shard lists may be damaged, as its index is built without unpacking
	 * it. */
	bool damaged;
	/* NULL, or called for each sample. */
	void (*sample)(const struct shard *shard, const struct shard_sample *sample);

	/* Afterwards */
	struct index_head head; /* all zero if the shard was refused */
	struct fault fault;
};

static struct {
	int shard, beside, index, names, tables;
	char folder[PATH_MAX], link[PATH_MAX + 256];
	struct unpack *unpack;
	uint8_t bytes[SHARD_ROOM];
} shard_files;

static inline void shard_tidy(void)
{
	if (shard_files.link[0])
		(void)unlink(shard_files.link);
	if (shard_files.folder[0])
		(void)rmdir(shard_files.folder);
}

/* For drive.end. */
static inline void shard_end(void)
{
	shard_tidy();
	unpack_free(shard_files.unpack);
}

static struct sigaction shard_before[NSIG];

/* A finding ends the process: the folder goes first, then the signal does what it did before. */
static inline void shard_finding(int number)
{
	shard_tidy();
	(void)sigaction(number, &shard_before[number], NULL);
	(void)raise(number);
}

/* The folder in which the container finds the shard and the file beside it. */
static inline void shard_folder(void)
{
	static const int signals[] = {
		SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM, SIGTERM, SIGINT};
	const struct sigaction action = {.sa_handler = shard_finding};
	const char *above = getenv("TMPDIR");
	(void)snprintf(shard_files.folder, sizeof shard_files.folder, "%s/penstock-fuzz-XXXXXX",
		above && above[0] ? above : "/tmp");
	want(mkdtemp(shard_files.folder), "a folder cannot be made in TMPDIR");
	for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
		(void)sigaction(signals[i], &action, &shard_before[signals[i]]);
#ifdef SHARD_SANITIZED
	__sanitizer_set_death_callback(shard_tidy);
#endif
}

static inline void shard_memory(int *fd)
{
	if (!*fd)
		*fd = memfd_create("fuzz", MFD_CLOEXEC);
	want(*fd > 0, "no memory");
}

/* Makes *fd a file of these bytes. */
static inline void shard_file(int *fd, const uint8_t *bytes, size_t size)
{
	shard_memory(fd);
	want(pwrite(*fd, bytes, size, 0) == (ssize_t)size && ftruncate(*fd, (off_t)size) == 0,
		"no memory");
}

static inline void shard_file_beside(const struct shard *shard)
{
	char target[64], path[sizeof shard_files.link] = "";
	if (shard->beside) {
		shard_file(&shard_files.beside, shard->beside_bytes, shard->beside_size);
		(void)snprintf(target, sizeof target, "/proc/self/fd/%d", shard_files.beside);
		(void)snprintf(path, sizeof path, "%s/%s", shard_files.folder, shard->beside);
	}
	if (strcmp(path, shard_files.link) == 0)
		return;
	if (shard_files.link[0])
		(void)unlink(shard_files.link);
	want(!path[0] || symlink(target, path) == 0, "a link cannot be made in TMPDIR");
	(void)strcpy(shard_files.link, path);
}

/* Makes the files. Returns the shard's path. */
static inline const char *shard_begin(const struct shard *shard)
{
	static char path[sizeof shard_files.link];
	if (!shard_files.unpack)
		shard_files.unpack = unpack_new();
	want(shard_files.unpack, "no memory");
	shard_file(&shard_files.shard, shard->bytes, shard->size);
	shard_memory(&shard_files.index);
	shard_memory(&shard_files.names);
	shard_memory(&shard_files.tables);
	if (!shard->container->beside)
		return shard->name;
	if (!shard_files.folder[0])
		shard_folder();
	shard_file_beside(shard);
	(void)snprintf(path, sizeof path, "%s/%s", shard_files.folder, shard->name);
	return path;
}

/* Whether the fault names the shard or the file beside it. */
static inline bool shard_named(const struct shard *shard, const char *path)
{
	const char *text = shard->fault.text;
	return strstr(text, path) || (shard->beside && strstr(text, shard_files.link));
}

/* Indexes the shard. Returns what the container returns. */
static inline int shard_index(struct shard *shard)
{
	static struct index_writer writer;
	static struct label_found found;
	static const struct column_choice none = {.label_offset = 0};
	struct index_first first = {.empty = false};
	struct index_progress progress = {0};
	const struct container *container = shard->container;
	uint64_t bytes;
	uint32_t crc;
	const char *path = shard_begin(shard);
	const struct blob blob = {.fd = shard_files.shard, .size = shard->size};
	const struct index_job job = {.path = path,
		.joint = container->joint,
		.first = &first,
		.blob = &blob,
		.size = shard->size,
		.asked = shard->asked,
		.found = &found,
		.fields = shard->fields,
		.columns = shard->columns ? shard->columns : &none,
		.writer = &writer,
		.progress = &progress};
	want(index_writer_init(
		     &writer, shard_files.index, 0, shard_files.names, shard_files.tables) == 0,
		"no memory");
	if (container != &container_tar)
		index_writer_packed(&writer);
	writer.head.asked = (uint32_t)shard->asked;
	writer.head.label_type = container == &container_tar ? LABEL_TYPE_CLASS : LABEL_TYPE_AUTO;
	writer.head.field_count = shard->fields ? shard->fields->count : 0;
	shard->head = (struct index_head){0};
	shard->fault.text[0] = 0;
	int rc = container->index(&job, &shard->fault);
	if (rc < 0 && shard->sound)
		(void)fprintf(stderr, "%s\n", shard->fault.text);
	want(rc == 0 || !shard->sound, "a sound shard is refused");
	want(rc == 0 || (rc == -EINVAL && shard_named(shard, job.path)),
		"refused with another code, or without a sentence that names the file");
	/* The index of an earlier shard may have been longer. */
	want(rc || (index_writer_finish(&writer, &bytes) == 0 &&
			   ftruncate(shard_files.index, (off_t)bytes) == 0 &&
			   index_head_read(shard_files.index, 0, 0, &shard->head, &crc) == 0),
		"an index is not returned");
	index_writer_deinit(&writer);
	return rc;
}

static inline void shard_within(
	const struct shard *shard, uint64_t offset, uint32_t size, const struct packed *packed)
{
	want(packed_sound(packed, size), "an impossible way of packing");
	const uint64_t stored = packed_stored(packed, size);
	want(offset <= shard->size && stored <= shard->size - offset, "bytes beyond the shard");
}

/* Unpacks a sample or field. NULL: it is damaged, or larger than the room. */
static inline const uint8_t *shard_unpack(
	const struct shard *shard, uint64_t offset, uint32_t size, const struct packed *packed)
{
	struct fault fault;
	shard_within(shard, offset, size, packed);
	int rc = size > SHARD_ROOM ? -EMSGSIZE
				   : unpack_slice(shard_files.unpack, packed, size,
					     shard->bytes + offset, shard_files.bytes, &fault);
	want(rc == 0 || rc == -EMSGSIZE || rc == -EBADMSG || rc == -ENODATA,
		"unpacked with another outcome");
	want(rc == 0 || (shard->damaged && !shard->sound), "what is listed does not unpack");
	return rc == 0 ? shard_files.bytes : NULL;
}

/* Unpacks field `i`, if the sample has it. */
static inline const uint8_t *shard_field(
	const struct shard *shard, const struct shard_sample *sample, unsigned i)
{
	const struct index_field *field = &sample->field[i];
	return field->present ? shard_unpack(shard, field->offset, field->size, &field->packed)
			      : NULL;
}

static inline void shard_label_check(
	const struct index_head *head, const struct index_record *record)
{
	if (head->source == DATASET_LABELS_NONE)
		want(record->label == -1 && !record->label_size, "a label for one sample only");
	else if (head->label_type == LABEL_TYPE_CLASS)
		want(record->label >= 0, "no label for one sample only");
	else if (label_type_is_even(head->label_type))
		want(record->label_size, "no row for one sample only");
}

static inline void shard_read(const struct shard *shard, uint64_t number, struct shard_sample *ret)
{
	static uint8_t page[INDEX_PAGE];
	const struct index_head *head = &shard->head;
	const struct index_record *record = &ret->record;
	const uint32_t records = index_records(head->version);
	uint64_t at = 1 + number / records;
	ret->number = number;
	want(index_read(shard_files.index, at * INDEX_PAGE, page, sizeof page, NULL) == 0 &&
			index_page_record(page, false, at, (uint32_t)(number % records),
				&ret->record, NULL) == 0,
		"a record is not returned");
	want(record->format >= SAMPLE_JPEG && record->format <= SAMPLE_OTHER, "no such format");
	shard_label_check(head, record);
	at = 1 + head->record_pages + record->name_page;
	want(index_read(shard_files.index, at * INDEX_PAGE, page, sizeof page, NULL) == 0 &&
			index_page_name(page, false, record, ret->name, sizeof ret->name, NULL) ==
				0,
		"a name is not returned");
	/* A tar's names are as they are written in the tar. */
	want(ret->name[0] && (ret->name[0] != '/' || shard->container == &container_tar),
		"a name that no sample may have");
	for (uint32_t i = 0; i < head->field_count; i++) {
		want(index_page_field(page, false, record, i, &ret->field[i], NULL) == 0,
			"a field is not returned");
		shard_within(
			shard, ret->field[i].offset, ret->field[i].size, &ret->field[i].packed);
		(void)shard_field(shard, ret, i);
	}
	ret->bytes = shard_unpack(shard, record->offset, record->size, &record->packed);
}

/* Indexes the shard and reads all samples. Returns what the container returned. */
static inline int shard_check(struct shard *shard)
{
	static struct shard_sample sample;
	int rc = shard_index(shard);
	want(!shard->sound || shard->head.samples == shard->count, "another number of samples");
	for (uint64_t i = 0; i < shard->head.samples; i++) {
		shard_read(shard, i, &sample);
		if (shard->sample)
			shard->sample(shard, &sample);
	}
	return rc;
}

/* What a sound shard of plain ranges holds. */
struct shard_place {
	uint64_t offset;
	uint32_t size;
	int64_t label; /* -1: none */
};

/* For shard.sample: the sample must be the one at `place`. */
static inline void shard_place_check(const struct shard *shard, const struct shard_sample *sample,
	const struct shard_place *place)
{
	const struct index_record *record = &sample->record;
	want(record->offset == place->offset && record->size == place->size, "a sample elsewhere");
	want(record->label == (shard->asked == DATASET_LABELS_NONE ? -1 : place->label),
		"a sample with another label");
}

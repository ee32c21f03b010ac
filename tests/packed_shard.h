/* packed_shard: makes a shard whose samples are stored packed, and its index, without a container:
 * the file is named .tfrecord, and its index, which the test writes itself, is up to date. For
 * tests of everything behind the index. Every helper returns false where it fails. */
#pragma once

#include "base/util.h"
#include "dataset/container/container.h"
#include "dataset/dataset.h"
#include "dataset/index.h"
#include "dataset/mtime.h"
#include "fuzz/snappy_make.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define PACKED_SHARD_LITERAL 50000u /* bytes of a literal of Snappy, which has 3 bytes before it */

struct packed_shard {
	char path[4096];
	FILE *file;
	struct index_writer writer;
	int fd[3]; /* the index, names, tables */
	uint64_t at; /* the end of the shard */
	unsigned samples;
	bool unchecked; /* records have no checksums */
};

/* Up to FIELDS_MAX fields, whose names are field_list_hash'ed by the caller; NULL: none. */
static inline bool packed_shard_begin(
	struct packed_shard *shard, const char *path, const struct field_list *fields)
{
	char name[4200];
	*shard = (struct packed_shard){.file = fopen(path, "wbe")};
	(void)snprintf(shard->path, sizeof shard->path, "%s", path);
	(void)snprintf(name, sizeof name, "%s.idx", path);
	shard->fd[0] = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	for (int i = 1; i < 3; i++)
		shard->fd[i] = open("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	if (!shard->file || shard->fd[0] < 0 || shard->fd[1] < 0 || shard->fd[2] < 0 ||
		index_writer_init(&shard->writer, shard->fd[0], 0, shard->fd[1], shard->fd[2]))
		return false;
	index_writer_packed(&shard->writer);
	if (fields) {
		shard->writer.head.fields = field_list_hash(fields);
		shard->writer.head.field_count = fields->count;
	}
	/* So that no sample begins at byte 0. */
	shard->at = fwrite("shard of a test\n", 1, 16, shard->file);
	return shard->at == 16;
}

/* Compresses; returns the size, 0 where it fails. */
static inline uint32_t packed_shard_pack(
	enum packed_method method, const uint8_t *plain, uint32_t size, uint8_t *out, uint32_t room)
{
	if (method == PACKED_SNAPPY || method == PACKED_SNAPPY_PART) {
		static struct snappy_made made;
		made.packed_size = made.plain_size = 0;
		for (uint32_t at = 0; at < size; at += 50000)
			snappy_put_literal(
				&made, plain + at, UTIL_MIN(size - at, PACKED_SHARD_LITERAL), 2);
		if (method == PACKED_SNAPPY)
			snappy_put_size(&made, size);
		memcpy(out, made.packed, made.packed_size);
		return made.packed_size;
	}
	if (method == PACKED_NONE) {
		memcpy(out, plain, size);
		return size;
	}
	z_stream stream = {0};
	const int bits = method == PACKED_DEFLATE ? -15 : 15 + 16;
	if (deflateInit2(&stream, 1, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return 0;
	stream.next_in = (z_const Bytef *)plain;
	stream.avail_in = size;
	stream.next_out = out;
	stream.avail_out = room;
	const bool done = deflate(&stream, Z_FINISH) == Z_STREAM_END;
	(void)deflateEnd(&stream);
	return done ? (uint32_t)stream.total_out : 0;
}

/* Appends bytes to the shard; *ret_offset is where they are. */
static inline bool packed_shard_put(
	struct packed_shard *shard, const void *bytes, uint32_t size, uint64_t *ret_offset)
{
	*ret_offset = shard->at;
	shard->at += size;
	return fwrite(bytes, 1, size, shard->file) == size;
}

/* Adds the next sample: `record` with offset, size and packed; its name is its number. Its label is
 * the number modulo `classes`; 0: none. */
static inline bool packed_shard_add(
	struct packed_shard *shard, struct index_record record, unsigned classes)
{
	char name[24];
	const unsigned number = shard->samples++;
	const int n = snprintf(name, sizeof name, "%06u", number);
	record.format = SAMPLE_OTHER;
	record.label = classes ? (int32_t)(number % classes) : -1;
	shard->writer.head.source = classes ? DATASET_LABELS_COLUMN : DATASET_LABELS_NONE;
	return index_writer_name(&shard->writer, name, (size_t)n, &record) == 0 &&
	       index_writer_add(&shard->writer, &record, name, (size_t)n) == 0;
}

/* Adds `count` samples that are packed together; `sizes` of their bytes in `plain`, one after the
 * other. */
static inline bool packed_shard_group(struct packed_shard *shard, enum packed_method method,
	const uint8_t *plain, const uint32_t *sizes, unsigned count, unsigned classes)
{
	uint64_t offset, size = 0;
	for (unsigned i = 0; i < count; i++)
		size += sizes[i];
	const uint32_t room = (uint32_t)size + (uint32_t)size / 10 + 1000;
	uint8_t *packed = malloc(room);
	const uint32_t stored =
		packed ? packed_shard_pack(method, plain, (uint32_t)size, packed, room) : 0;
	bool good = stored && packed_shard_put(shard, packed, stored, &offset);
	free(packed);
	for (uint32_t i = 0, inner = 0; good && i < count; inner += sizes[i++]) {
		struct index_record record = {.offset = offset, .size = sizes[i]};
		if (method == PACKED_NONE)
			record.offset += inner;
		else
			record.packed = (struct packed){.method = (uint8_t)method,
				.stored = stored,
				.inner = inner,
				.whole = (uint32_t)size,
				.checked = !shard->unchecked,
				.crc = shard->unchecked
					       ? 0
					       : (uint32_t)crc32(0, plain + inner, sizes[i])};
		/* All parts begin with the group, and end with their samples. */
		if (method == PACKED_SNAPPY_PART) {
			const uint32_t end = inner + sizes[i];
			record.packed.whole = end;
			record.packed.stored =
				end + 3 * ((end + PACKED_SHARD_LITERAL - 1) / PACKED_SHARD_LITERAL);
		}
		good = packed_shard_add(shard, record, classes);
	}
	return good;
}

/* Writes the index. */
static inline bool packed_shard_end(struct packed_shard *shard)
{
	static const struct column_choice any = {.label_offset = 0};
	struct index_head *head = &shard->writer.head;
	struct stat st;
	uint64_t bytes;
	if (fclose(shard->file) || stat(shard->path, &st))
		return false;
	head->kind = DATASET_TFRECORD;
	if (container_tfrecord.beside(shard->path, &any, &head->beside, NULL) < 0)
		return false;
	head->asked = DATASET_LABELS_AUTO;
	head->label_type = LABEL_TYPE_CLASS;
	head->shard_size = (uint64_t)st.st_size;
	head->shard_mtime_ns = mtime_of(&st);
	bool good = index_writer_finish(&shard->writer, &bytes) == 0;
	index_writer_deinit(&shard->writer);
	for (int i = 0; i < 3; i++)
		(void)close(shard->fd[i]);
	return good;
}

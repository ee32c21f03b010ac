/* parquet: see parquet.h. */
#include "dataset/container/parquet/parquet.h"

#include "base/util.h"

#include <errno.h>
#include <string.h>

/* Fields of FileMetaData, RowGroup, ColumnChunk, ColumnMetaData and KeyValue in parquet.thrift. */
enum {
	FILE_SCHEMA = 2,
	FILE_ROWS = 3,
	FILE_GROUPS = 4,
	FILE_KEYS = 5,
	GROUP_COLUMNS = 1,
	GROUP_ROWS = 3,
	CHUNK_FILE = 1,
	CHUNK_DATA = 3,
	CHUNK_CRYPTO = 8,
	CHUNK_ENCRYPTED = 9,
	DATA_TYPE = 1,
	DATA_CODEC = 4,
	DATA_VALUES = 5,
	DATA_SIZE = 7,
	DATA_PAGES = 9,
	DATA_DICTIONARY = 11,
	KEY_NAME = 1,
	KEY_VALUE = 2,
};

static const char FEATURES_KEY[] = "huggingface";

static int not_parquet(const struct parquet *parquet, const uint8_t *head, struct fault *fault)
{
	static const char pointer[] = "version https://git-lfs";
	if (head && memcmp(head, pointer, UTIL_MIN(sizeof pointer - 1, (size_t)PARQUET_LEAST)) == 0)
		return fault_set(fault, -EINVAL,
			"%s is not the Parquet file itself, but a pointer of Git LFS to it: get "
			"the "
			"file with `git lfs pull`, or download it with `hf download`",
			parquet->path);
	return fault_set(fault, -EINVAL,
		"%s: byte 0: expected \"PAR1\", with which a Parquet file begins, found other "
		"bytes: it is not a Parquet file, or it is damaged; copy it again from where it "
		"came from",
		parquet->path);
}

/* Finds the footer between the file's first and last bytes. */
static int footer_find(struct parquet *parquet, struct fault *fault)
{
	const uint8_t *bytes;
	const uint64_t size = parquet->size;
	if (size < PARQUET_LEAST)
		return fault_set(fault, -EINVAL,
			"%s has %llu bytes, but the smallest Parquet file has %d: it was cut off; "
			"copy it again from where it came from",
			parquet->path, (unsigned long long)size, PARQUET_LEAST);
	int rc = window_get(&parquet->window, 0, PARQUET_LEAST, "its head", &bytes, fault);
	if (rc < 0)
		return rc;
	const bool encrypted = memcmp(bytes, "PARE", 4) == 0;
	if (memcmp(bytes, "PAR1", 4) != 0 && !encrypted)
		return not_parquet(parquet, bytes, fault);
	rc = window_get(
		&parquet->window, size - PARQUET_TAIL, PARQUET_TAIL, "its end", &bytes, fault);
	if (rc < 0)
		return rc;
	if (encrypted || memcmp(bytes + 4, "PARE", 4) == 0)
		return fault_set(fault, -EINVAL,
			"%s is encrypted, and penstock has no keys: write it without encryption",
			parquet->path);
	if (memcmp(bytes + 4, "PAR1", 4) != 0)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: expected \"PAR1\", with which a Parquet file ends, found "
			"other bytes: it was cut off or is damaged; copy it again from where it "
			"came from",
			parquet->path, (unsigned long long)size - 4);
	const uint32_t length = bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
				(uint32_t)bytes[3] << 24;
	if (!length || length > size - PARQUET_LEAST)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: the footer should have %u bytes, but the file has room for "
			"1 to %llu: it is damaged; copy it again from where it came from",
			parquet->path, (unsigned long long)size - PARQUET_TAIL, length,
			(unsigned long long)size - PARQUET_LEAST);
	parquet->footer = size - PARQUET_TAIL - length;
	return 0;
}

/* Takes the value of the pair whose key is FEATURES_KEY. */
static void pair_read(struct parquet *parquet, struct thrift *thrift)
{
	struct thrift_field field = {0};
	char name[sizeof FEATURES_KEY] = "";
	bool wanted = false;
	while (thrift_next(thrift, &field)) {
		if (field.id == KEY_NAME) {
			const uint64_t size = thrift_binary(thrift, &field);
			wanted = size == sizeof FEATURES_KEY - 1;
			if (wanted)
				thrift_copy(thrift, name, (size_t)size);
			else
				thrift_pass(thrift, size);
			wanted = wanted && strcmp(name, FEATURES_KEY) == 0;
		} else if (field.id == KEY_VALUE && wanted && !parquet->features) {
			const uint64_t size = thrift_binary(thrift, &field);
			if (size > PARQUET_FEATURES_MAX)
				(void)thrift_damaged(
					thrift, "the notes of `datasets` are too long");
			if (thrift->error)
				return;
			parquet->features = malloc((size_t)size + 1);
			if (!parquet->features) {
				thrift->error = fault_set(thrift->fault, -ENOMEM,
					"no memory to index %s", parquet->path);
				return;
			}
			thrift_copy(thrift, parquet->features, (size_t)size);
			parquet->features_size = (size_t)size;
		} else {
			thrift_skip(thrift, &field);
		}
	}
}

static uint64_t count_read(struct thrift *thrift, const struct thrift_field *field)
{
	const int64_t value = thrift_integer(thrift, field);
	if (value < 0)
		(void)thrift_damaged(thrift, "a count, size or offset is negative");
	return thrift->error ? 0 : (uint64_t)value;
}

/* Takes all of the footer but the row groups, which are passed over. */
static int footer_read(struct parquet *parquet)
{
	struct thrift *thrift = &parquet->thrift;
	struct thrift_field field = {0};
	struct thrift groups = {.end = 0};
	bool rows = false;
	while (thrift_next(thrift, &field)) {
		if (field.id == FILE_SCHEMA) {
			(void)schema_read(&parquet->schema, thrift, &field);
		} else if (field.id == FILE_ROWS) {
			parquet->rows = count_read(thrift, &field);
			rows = true;
		} else if (field.id == FILE_GROUPS && !groups.end) {
			parquet->groups = thrift_list(thrift, &field, THRIFT_STRUCT);
			groups = *thrift;
			for (uint64_t i = 0; i < parquet->groups && !thrift->error; i++)
				thrift_skip_struct(thrift);
		} else if (field.id == FILE_KEYS) {
			for (uint64_t i = thrift_list(thrift, &field, THRIFT_STRUCT);
				i && !thrift->error; i--)
				pair_read(parquet, thrift);
		} else {
			thrift_skip(thrift, &field);
		}
	}
	if (!thrift->error && (!parquet->schema.count || !rows || !groups.end))
		(void)thrift_damaged(
			thrift, "it says nothing about the columns, rows or row groups");
	if (thrift->error)
		return thrift->error;
	/* The window has moved on. */
	thrift_init(thrift, &parquet->window, groups.at, groups.end, groups.what, NULL);
	return 0;
}

int parquet_open(struct parquet *parquet, const struct blob *blob, const char *path, uint64_t size,
	struct fault *fault)
{
	*parquet = (struct parquet){.path = path, .blob = blob, .size = size};
	window_init(&parquet->window, blob, path, size);
	int rc = footer_find(parquet, fault);
	if (rc < 0)
		return rc;
	thrift_init(&parquet->thrift, &parquet->window, parquet->footer, size - PARQUET_TAIL,
		"the footer of this Parquet file", fault);
	return footer_read(parquet);
}

void parquet_close(struct parquet *parquet)
{
	schema_deinit(&parquet->schema);
	free(parquet->features);
	parquet->features = NULL;
	window_deinit(&parquet->window);
}

/* ---- row groups ---- */

/* What the footer says about a column chunk. */
struct chunk_found {
	uint64_t values, size, pages, dictionary;
	int64_t type, codec;
	bool described, elsewhere, encrypted;
};

static void data_read(struct thrift *thrift, struct chunk_found *found)
{
	struct thrift_field field = {0};
	while (thrift_next(thrift, &field)) {
		if (field.id == DATA_TYPE)
			found->type = thrift_integer(thrift, &field);
		else if (field.id == DATA_CODEC)
			found->codec = thrift_integer(thrift, &field);
		else if (field.id == DATA_VALUES)
			found->values = count_read(thrift, &field);
		else if (field.id == DATA_SIZE)
			found->size = count_read(thrift, &field);
		else if (field.id == DATA_PAGES)
			found->pages = count_read(thrift, &field);
		else if (field.id == DATA_DICTIONARY)
			found->dictionary = count_read(thrift, &field);
		else
			thrift_skip(thrift, &field);
	}
}

static void chunk_read(struct thrift *thrift, struct chunk_found *found)
{
	struct thrift_field field = {0};
	*found = (struct chunk_found){.type = -1, .codec = -1};
	while (thrift_next(thrift, &field)) {
		if (field.id == CHUNK_DATA && thrift_struct(thrift, &field)) {
			data_read(thrift, found);
			found->described = true;
			continue;
		}
		found->elsewhere |= field.id == CHUNK_FILE;
		found->encrypted |= field.id == CHUNK_CRYPTO || field.id == CHUNK_ENCRYPTED;
		thrift_skip(thrift, &field);
	}
}

static const char *codec_name(int64_t codec)
{
	static const char *const names[] = {"no compression", "Snappy", "gzip", "LZO", "Brotli",
		"LZ4", "Zstandard", "LZ4 (raw)"};
	return codec >= 0 && codec < (int64_t)UTIL_COUNT(names) ? names[codec] : "unknown";
}

static bool codec_known(int64_t codec)
{
	return codec == PARQUET_UNCOMPRESSED || codec == PARQUET_SNAPPY || codec == PARQUET_GZIP ||
	       codec == PARQUET_ZSTD;
}

/* Checks what was found about a wanted column. */
static int chunk_take(struct parquet *parquet, uint32_t node, const struct chunk_found *found,
	struct parquet_chunk *ret, struct fault *fault)
{
	char name[SCHEMA_TEXT];
	const unsigned long long group = parquet->group;
	schema_path(&parquet->schema, node, name, sizeof name);
	if (found->encrypted)
		return fault_set(fault, -EINVAL,
			"%s: column %s is encrypted, and penstock has no keys: write the file "
			"without encryption",
			parquet->path, name);
	if (found->elsewhere)
		return fault_set(fault, -EINVAL,
			"%s: column %s of row group %llu is in another file, which penstock does "
			"not open: write the rows into one file",
			parquet->path, name, group);
	if (!found->described || found->type != parquet->schema.node[node].type)
		return fault_set(fault, -EINVAL,
			"%s: the footer describes column %s of row group %llu with another type "
			"than the schema, or not at all: it is damaged; copy the file again from "
			"where it came from",
			parquet->path, name, group);
	if (!codec_known(found->codec))
		return fault_set(fault, -EINVAL,
			"%s: column %s is compressed with %s (codec %lld), which penstock does not "
			"read: write the file with compression none, snappy, gzip or zstd",
			parquet->path, name, codec_name(found->codec), (long long)found->codec);
	ret->at = found->dictionary >= 4 ? UTIL_MIN(found->dictionary, found->pages) : found->pages;
	ret->values = found->values;
	ret->codec = (uint8_t)found->codec;
	/* Writers do not give the place of an empty row group. */
	if (!found->values) {
		ret->at = ret->end = parquet->footer;
		return 0;
	}
	if (ret->at < 4 || ret->at > parquet->footer || found->size > parquet->footer - ret->at)
		return fault_set(fault, -EINVAL,
			"%s: column %s of row group %llu should have %llu bytes from byte %llu on, "
			"but the footer begins at byte %llu: the file is damaged; copy it again "
			"from where it came from",
			parquet->path, name, group, (unsigned long long)found->size,
			(unsigned long long)ret->at, (unsigned long long)parquet->footer);
	ret->end = ret->at + found->size;
	return 0;
}

/* Takes the list of a row group's chunks, which are in the order of the leaves. */
static int columns_read(struct parquet *parquet, const struct thrift_field *field,
	const uint32_t *wanted, size_t wanted_count, struct parquet_chunk *ret)
{
	struct thrift *thrift = &parquet->thrift;
	const uint64_t count = thrift_list(thrift, field, THRIFT_STRUCT);
	if (!thrift->error && count != parquet->schema.leaves)
		(void)thrift_damaged(thrift, "a row group has another number of columns");
	for (uint64_t i = 0; i < count && !thrift->error; i++) {
		struct chunk_found found;
		chunk_read(thrift, &found);
		for (size_t k = 0; k < wanted_count && !thrift->error; k++)
			if (parquet->schema.node[wanted[k]].leaf == i)
				thrift->error = chunk_take(
					parquet, wanted[k], &found, &ret[k], thrift->fault);
	}
	return thrift->error;
}

int parquet_group(struct parquet *parquet, const uint32_t *wanted, size_t count,
	struct parquet_chunk *ret_chunks, uint64_t *ret_rows, struct fault *fault)
{
	struct thrift *thrift = &parquet->thrift;
	struct thrift_field field = {0};
	uint64_t rows = 0;
	bool columns = false;
	thrift->fault = fault;
	if (parquet->group == parquet->groups) {
		if (parquet->row == parquet->rows)
			return 0;
		return fault_set(fault, -EINVAL,
			"%s: its row groups have %llu rows together, but its footer says %llu: it "
			"is damaged; copy it again from where it came from",
			parquet->path, (unsigned long long)parquet->row,
			(unsigned long long)parquet->rows);
	}
	while (thrift_next(thrift, &field)) {
		if (field.id == GROUP_COLUMNS) {
			(void)columns_read(parquet, &field, wanted, count, ret_chunks);
			columns = true;
		} else if (field.id == GROUP_ROWS) {
			rows = count_read(thrift, &field);
		} else {
			thrift_skip(thrift, &field);
		}
	}
	if (!thrift->error && (!columns || rows > parquet->rows - parquet->row))
		(void)thrift_damaged(thrift, "a row group has no columns, or too many rows");
	if (thrift->error)
		return thrift->error;
	parquet->group++;
	parquet->row += rows;
	*ret_rows = rows;
	return 1;
}

/* container_litdata: chunks of LitData, as its PyTreeLoader reads them.
 *
 *   u32 count, (count + 1) x u32 offsets, the items (columns.h); u32 size of every leaf, the leaves
 *   (litdata/streaming/writer.py and item_loader.py)
 *
 * index.json names the chunks in their order, and says what the leaves of an item are: their
 * types (data_format), and the tree that they are the leaves of (data_spec). A leaf's name is its
 * path in that tree, with slashes: "image", "meta/id", and "0", "1" in a tuple. A chunk may also
 * be named alone, beside its index.json. Rows of bytes, texts and numbers are not items but Arrow
 * (arrow.h): then all items are empty, and after them come the Arrow file, its u32 size and
 * "LDARW01\0". Items may be compressed one by one, or in groups (frames.h). Refused: chunks that
 * are compressed as a whole or encrypted, Parquet and tokens. A sample's name is its row in its
 * chunk. */
#include "dataset/container/container.h"

#include "base/text/json.h"
#include "base/util.h"
#include "dataset/container/beside.h"
#include "dataset/container/records/arrow.h"
#include "dataset/container/records/columns.h"
#include "dataset/container/records/frames.h"
#include "dataset/container/records/index_json.h"

#include <errno.h>
#include <string.h>

enum { SPEC_DEPTH = 32, SPEC_PARTS = 1 << 16, FORMAT_BOTH = 8, ARROW_END = 12 };

static const char arrow_magic[] = "LDARW01";
static const char framed_magic[] = "LDFZ01";

/* ---- the leaves ---- */

static void column_kind(struct column *column)
{
	static const struct {
		const char *format;
		enum column_kind kind;
		enum number number;
		uint8_t form; /* enum array_form, of ARRAY */
	} kinds[] = {
		{"jpeg", COLUMN_IMAGE, NUMBER_NONE, 0},
		{"image", COLUMN_IMAGE, NUMBER_NONE, 0},
		{"tiff", COLUMN_IMAGE, NUMBER_NONE, 0},
		{"tifffile", COLUMN_IMAGE, NUMBER_NONE, 0},
		{"bytes", COLUMN_BYTES, NUMBER_NONE, 0},
		{"file", COLUMN_BYTES, NUMBER_NONE, 0},
		{"pil", COLUMN_PIL, NUMBER_NONE, 0},
		{"int", COLUMN_NUMBER, NUMBER_I64, 0},
		{"float", COLUMN_NUMBER, NUMBER_F64, 0},
		{"bool", COLUMN_NUMBER, NUMBER_BOOL, 0},
		{"tensor", COLUMN_ARRAY, NUMBER_NONE, ARRAY_TENSOR},
		{"numpy", COLUMN_ARRAY, NUMBER_NONE, ARRAY_NUMPY},
	};
	const char *format = column->encoding;
	const size_t size = strcspn(format, ":");
	for (size_t i = 0; i < UTIL_COUNT(kinds); i++) {
		if (strlen(kinds[i].format) != size || strncmp(kinds[i].format, format, size) != 0)
			continue;
		column->kind = kinds[i].kind;
		column->number = kinds[i].number;
		column->array.form = (enum array_form)kinds[i].form;
	}
	const bool torch = !strncmp(format, "no_header_tensor:", 17);
	if (!torch && strncmp(format, "no_header_numpy:", 16) != 0)
		return;
	const uint64_t number = strtoul(format + (torch ? 17 : 16), NULL, 10);
	column->array.form = ARRAY_FLAT;
	column->array.number = torch ? array_torch(number) : array_numpy(number);
	column->kind = column->array.number == NUMBER_NONE ? COLUMN_OTHER : COLUMN_ARRAY;
}

/* The names of a tree's leaves. */
struct names {
	struct columns *columns;
	uint32_t count; /* of the leaves that have been named */
	bool unnamed; /* no leaf is below a key */
};

/* Gives the leaves below `spec` names that begin with `path`. False: they are not what data_format
 * lists, or too deep. */
static bool spec_walk(struct names *names, const json_t *spec, const char *path, unsigned depth)
{
	const json_t *children = json_object_get(spec, "children_spec");
	const char *context = index_json_text(spec, "context");
	const size_t count = json_array_size(children);
	if (!json_is_array(children) || depth > SPEC_DEPTH)
		return false;
	if (json_is_null(json_object_get(spec, "type"))) {
		if (names->count == names->columns->count)
			return false;
		struct column *column = &names->columns->at[names->count++];
		(void)snprintf(column->name, sizeof column->name, "%s",
			strlen(path) <= COLUMN_NAME_MAX ? path : "");
		return true;
	}
	json_t *keys = context ? json_read(context, strlen(context), SPEC_PARTS, 0, NULL) : NULL;
	const bool keyed = json_is_array(keys) && json_array_size(keys) == count;
	bool good = true;
	for (size_t i = 0; good && i < count; i++) {
		char below[COLUMN_NAME_MAX + 2], number[RECORDS_ROW];
		const char *key = keyed ? json_string_value(json_array_get(keys, i)) : NULL;
		names->unnamed &= key == NULL;
		(void)records_row(i, number);
		(void)snprintf(
			below, sizeof below, "%s%s%s", path, *path ? "/" : "", key ? key : number);
		good = spec_walk(names, json_array_get(children, i), below, depth + 1);
	}
	json_decref(keys);
	return good;
}

/* data_spec is a text: [1, TREE] (utilities/_pytree.py, treespec_dumps). */
static bool leaves_name(const json_t *config, struct columns *columns)
{
	const char *text = index_json_text(config, "data_spec");
	struct names names = {columns, 0, true};
	json_t *spec = text ? json_read(text, strlen(text), SPEC_PARTS, 0, NULL) : NULL;
	const bool good =
		spec_walk(&names, json_array_get(spec, 1), "", 0) && names.count == columns->count;
	columns->unnamed = names.unnamed;
	json_decref(spec);
	return good;
}

static bool columns_read(const json_t *config, struct columns *ret)
{
	const json_t *formats = json_object_get(config, "data_format");
	const size_t count = json_array_size(formats);
	if (count == 0 || count > COLUMNS_MAX)
		return false;
	ret->at = calloc(count, sizeof *ret->at);
	ret->count = (uint32_t)count;
	for (size_t i = 0; ret->at && i < count; i++) {
		const char *format = json_string_value(json_array_get(formats, i));
		if (!format)
			return false;
		column_name(&ret->at[i], "", format);
		if (strlen(format) < COLUMN_ENCODING)
			column_kind(&ret->at[i]);
	}
	return ret->at && leaves_name(config, ret);
}

/* ---- index.json ---- */

/* Refuses what cannot be read in place. `where` is the folder or a chunk. */
static int config_check(const char *where, const json_t *config, struct fault *fault)
{
	static const char again[] = "optimize the dataset again with litdata.optimize";
	const char *loader = index_json_text(config, "item_loader");
	const json_t *encryption = json_object_get(config, "encryption");
	if (encryption && !json_is_null(encryption))
		return fault_set(fault, -EINVAL,
			"%s: its chunks are encrypted, and penstock has no key: %s, without "
			"encryption=",
			where, again);
	if (loader && !strcmp(loader, "ParquetLoader"))
		return fault_set(fault, -EINVAL,
			"%s: its chunks are Parquet files: name them, as in \"%s/*.parquet\"",
			where, where);
	if (loader && strcmp(loader, "PyTreeLoader") != 0)
		return fault_set(fault, -EINVAL,
			"%s: its items are those of %.60s, not of PyTreeLoader: they hold no "
			"images",
			where, loader);
	return json_is_object(config)
		       ? 0
		       : fault_set(fault, -EINVAL,
				 "%s: index.json has no \"config\", which says what the items "
				 "hold: "
				 "it is damaged; copy it again from where it came from",
				 where);
}

/* The name that a chunk has after LitData has unpacked it: without ".zstd". */
static bool unpacked_name(const char *name, const char *compression, char *ret, size_t room)
{
	char part[64];
	(void)snprintf(part, sizeof part, ".%.40s.bin", compression);
	const char *at = strstr(name, part);
	if (!at || at[strlen(part)] || strlen(name) >= room)
		return false;
	(void)snprintf(ret, room, "%.*s.bin", (int)(at - name), name);
	return true;
}

static int chunk_add(const char *folder, int fd, const json_t *config, const json_t *chunk,
	struct source_paths *paths, struct fault *fault)
{
	char plain[256];
	const char *name = index_json_text(chunk, "filename");
	const char *compression = index_json_text(config, "compression");
	struct index_file file = {.name = name,
		.bytes = index_json_number(chunk, "chunk_bytes", UINT64_MAX),
		/* Earlier releases counted only the items. */
		.more = true,
		.count = index_json_number(chunk, "chunk_size", UINT64_MAX)};
	const char *level = index_json_text(config, "compression_level");
	/* Such a chunk begins with another number. */
	if (level && !strcmp(level, "batch"))
		file.count = records_u32((const uint8_t *)framed_magic);
	const bool packed =
		name && compression && unpacked_name(name, compression, plain, sizeof plain);
	if (packed)
		file.name = plain;
	int rc = index_json_add(folder, fd, &file, paths, fault);
	if (rc != 0)
		return UTIL_MIN(rc, 0);
	rc = packed ? index_json_exists(folder, fd, name, fault) : 0;
	if (rc < 0)
		return rc;
	if (rc > 0)
		return fault_set(fault, -EINVAL,
			"%s/%s is compressed as a whole (%.40s), so that samples cannot be read "
			"one by one: unpack it beside itself, and do so with the others (zstd -d "
			"%s/%s -o %s/%s)",
			folder, name, compression, folder, name, folder, plain);
	return fault_set(fault, -EINVAL,
		"%s/index.json names %s, which does not exist: copy the dataset again from where "
		"it came from",
		folder, name);
}

static int litdata_expand(
	const char *folder, int fd, struct source_paths *paths, struct fault *fault)
{
	json_t *root = NULL;
	const json_t *chunk;
	size_t i;
	int rc = index_json_read(folder, fd, "chunks", &root, fault);
	if (rc <= 0)
		return rc;
	const json_t *chunks = json_object_get(root, "chunks");
	const json_t *config = json_object_get(root, "config");
	rc = config_check(folder, config, fault);
	json_array_foreach(chunks, i, chunk)
	{
		if (rc == 0)
			rc = chunk_add(folder, fd, config, chunk, paths, fault);
	}
	if (rc == 0 && json_array_size(chunks) == 0)
		rc = fault_set(fault, -EINVAL, "%s/index.json names no chunks", folder);
	json_decref(root);
	return rc < 0 ? rc : 1;
}

/* Finds the value of the key "config" of the outermost object, without reading the list of chunks
 * into memory: it is read once for each chunk. NULL: there is none. */
static const char *config_find(const char *text, size_t size)
{
	static const char key[] = "\"config\"";
	unsigned depth = 0;
	for (const char *at = text, *end = text + size; at < end; at++) {
		if (*at == '{' || *at == '[')
			depth++;
		else if (*at == '}' || *at == ']')
			depth--;
		if (*at != '"')
			continue;
		const char *begin = at++;
		while (at < end && *at != '"')
			at += *at == '\\' ? 2 : 1;
		if (at >= end)
			return NULL;
		const char *after = at + 1;
		after += strspn(after, " \t\r\n");
		if (depth == 1 && *after == ':' && !strncmp(begin, key, strlen(key)))
			return after + 1;
	}
	return NULL;
}

/* Reads what index.json beside a chunk says about its items; *ret_sample: each is compressed. */
static int config_read(
	const struct index_job *job, struct columns *ret, bool *ret_sample, struct fault *fault)
{
	cleanup(free_ptr) char *text = NULL;
	size_t size;
	int rc = records_beside(job->path, "index.json", INDEX_JSON_MAX, &text, &size, fault);
	if (rc < 0)
		return rc;
	if (rc == 0)
		return fault_set(fault, -EINVAL,
			"%s is a chunk of LitData, but index.json, which says what its items hold, "
			"is not beside it",
			job->path);
	const char *at = config_find(text, size);
	json_t *config = at ? json_read(at, size - (size_t)(at - text), INDEX_JSON_PARTS,
				      JSON_DISABLE_EOF_CHECK, NULL)
			    : NULL;
	rc = config_check(job->path, config, fault);
	if (rc == 0 && !columns_read(config, ret))
		rc = fault_set(fault, -EINVAL,
			"%s: index.json beside it does not say what its items hold: expected "
			"data_format and data_spec of the same number of leaves, as LitData writes "
			"them",
			job->path);
	const char *level = index_json_text(config, "compression_level");
	*ret_sample = level && !strcmp(level, "sample");
	json_decref(config);
	return rc;
}

/* ---- a chunk ---- */

static int chunk_check(const struct index_job *job, const uint8_t head[FORMAT_BOTH],
	const struct columns_table *table, struct fault *fault)
{
	const uint64_t begin = records_u32(head + 4), end = table->begin;
	if (begin != end || begin > job->size)
		return fault_set(fault, -EINVAL,
			"%s: byte 4: its first item begins at byte %llu, expected %llu (of a file "
			"of %llu): it is damaged or not a chunk of LitData; copy it again from "
			"where it came from",
			job->path, (unsigned long long)begin, (unsigned long long)end,
			(unsigned long long)job->size);
	return 0;
}

/* Whether all items are empty, and rows follow them as Arrow: 1, 0 or a fault. *ret_size is that of
 * the Arrow file, which is in front of the 12 last bytes: u32 size, the magic. */
static int has_arrow(const struct index_job *job, const struct columns_table *table,
	uint32_t *ret_size, struct fault *fault)
{
	uint8_t last[4] = {0}, end[4 + sizeof arrow_magic];
	const uint64_t at = table->offsets + 4 * (uint64_t)table->count;
	ssize_t n = 0;
	if (table->count && job->size >= table->begin + sizeof end &&
		(n = blob_read(job->blob, last, sizeof last, at)) == (ssize_t)sizeof last &&
		records_u32(last) == table->begin)
		n = blob_read(job->blob, end, sizeof end, job->size - sizeof end);
	if (n < 0)
		return fault_set(
			fault, (int)n, "%s cannot be read: %s", job->path, blob_error((int)n));
	if (n != (ssize_t)sizeof end || memcmp(end + 4, arrow_magic, sizeof arrow_magic) != 0)
		return 0;
	*ret_size = records_u32(end);
	if (*ret_size <= job->size - table->begin - sizeof end)
		return 1;
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: its Arrow rows have %u bytes, but only %llu are in front of it: it "
		"is damaged; copy it again from where it came from",
		job->path, (unsigned long long)(job->size - sizeof end), *ret_size,
		(unsigned long long)(job->size - table->begin - sizeof end));
}

static int arrow_index(const struct index_job *job, const struct columns_table *table,
	uint32_t size, struct fault *fault)
{
	struct columns columns;
	struct arrow *arrow = NULL;
	const uint64_t begin = job->size - size - ARROW_END;
	int rc = arrow_open(job, begin, size, table->count, &arrow, &columns, fault);
	const struct columns_source source = {
		.context = arrow, .find = arrow_find, .read = arrow_read};
	if (rc == 0)
		rc = columns_rows(job, &columns, &source, table->count, fault);
	if (rc == 0)
		rc = arrow_end(arrow, fault);
	arrow_free(arrow);
	return rc;
}

static int litdata_index(const struct index_job *job, struct fault *fault)
{
	struct columns columns = {.count = 0};
	uint8_t head[FORMAT_BOTH] = {0};
	uint32_t arrow_size = 0;
	records_begin(job);
	bool sample = false;
	int rc = config_read(job, &columns, &sample, fault);
	const ssize_t n = rc == 0 ? blob_read(job->blob, head, sizeof head, 0) : 0;
	if (n < 0)
		rc = fault_set(
			fault, (int)n, "%s cannot be read: %s", job->path, blob_error((int)n));
	const struct columns_table table = {.offsets = 4,
		.count = records_u32(head),
		.begin = 4 + 4 * ((uint64_t)records_u32(head) + 1)};
	const bool batch = !memcmp(head, framed_magic, sizeof framed_magic);
	if (rc == 0 && !batch)
		rc = chunk_check(job, head, &table, fault);
	if (rc == 0 && !batch)
		rc = has_arrow(job, &table, &arrow_size, fault);
	if (rc == 0)
		rc = batch || sample ? frames_index(job, &columns, batch, fault)
				     : columns_index(job, &columns, &table, fault);
	else if (rc > 0)
		rc = arrow_index(job, &table, arrow_size, fault);
	free(columns.at);
	return rc;
}

/* "chunk-0-12.bin", or the content: the first item begins after the table of offsets. */
static bool litdata_sniff(const struct container_probe *probe)
{
	const char *slash = strrchr(probe->path, '/'), *name = slash ? slash + 1 : probe->path;
	const char *dot = strrchr(name, '.');
	if (!dot || strcmp(dot, ".bin") != 0 || probe->head_size < 12)
		return false;
	if (!strncmp(name, "chunk-", 6) || !memcmp(probe->head, framed_magic, sizeof framed_magic))
		return true;
	const uint64_t count = records_u32(probe->head), begin = records_u32(probe->head + 4);
	return count > 0 && begin == 4 + 4 * (count + 1) && begin <= probe->size &&
	       records_u32(probe->head + 8) >= begin;
}

static int litdata_empty(const struct container_empty *empty, struct fault *fault)
{
	return fault_set(fault, -EINVAL, "%s%s: no samples among %llu items", empty->path,
		empty->shards > 1 ? " and the chunks after it" : "",
		(unsigned long long)empty->members);
}

static int litdata_beside(
	const char *path, const struct column_choice *columns, uint32_t *ret, struct fault *fault)
{
	(void)columns;
	return beside_state(ret, path, "index.json", fault);
}

const struct container container_litdata = {
	.name = "LitData",
	.sniff = litdata_sniff,
	.expand = litdata_expand,
	.columns = true,
	.fields = true,
	.labels = 1 << DATASET_LABELS_NONE | 1 << DATASET_LABELS_MANIFEST |
		  1 << DATASET_LABELS_COLUMN,
	.joint = "!",
	.naming = "SHARD!ROW, with the row in decimal",
	.index = litdata_index,
	.empty = litdata_empty,
	.beside = litdata_beside,
};

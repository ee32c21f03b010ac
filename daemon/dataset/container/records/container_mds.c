/* container_mds: shards of MosaicML's streaming, format MDS, version 2.
 *
 *   u32 count, (count + 1) x u32 offsets, JSON with the columns, the items (columns.h)
 *   (streaming/base/format/mds/writer.py)
 *
 * A folder with an index.json is the shards that it names, in their order; a user may also name a
 * single shard. The columns are those of the shard's own head, which the writer repeats in
 * index.json. The hashes in index.json are not checked. Shards that are compressed as a whole
 * cannot be read in place: they are refused, unless the unpacked shard is beside them. A sample's
 * name is its row in its shard. */
#include "dataset/container/container.h"

#include "base/text/json.h"
#include "base/util.h"
#include "dataset/container/records/columns.h"
#include "dataset/container/records/index_json.h"
#include "dataset/container/window.h"

#include <errno.h>
#include <string.h>

enum { MDS_HEAD_MAX = 1 << 20, MDS_HEAD_PARTS = 1 << 16, MDS_VERSION = 2 };

/* ---- the columns ---- */

static void column_kind(struct column *column)
{
	static const struct {
		const char *encoding;
		enum column_kind kind;
	} kinds[] = {
		{"jpeg", COLUMN_IMAGE},
		{"png", COLUMN_IMAGE},
		{"bytes", COLUMN_BYTES},
		{"pil", COLUMN_PIL},
		{"str_int", COLUMN_TEXT_INT},
	};
	const char *encoding = column->encoding;
	for (size_t i = 0; i < UTIL_COUNT(kinds); i++)
		if (!strcmp(encoding, kinds[i].encoding))
			column->kind = kinds[i].kind;
	column->number =
		!strcmp(encoding, "int") ? NUMBER_I64 : number_named(encoding, strlen(encoding));
	if (column->number != NUMBER_NONE)
		column->kind = COLUMN_NUMBER;
	if (!strncmp(encoding, "ndarray", 7) && array_mds(encoding + 7, &column->array))
		column->kind = COLUMN_ARRAY;
}

/* Fills one column. False: it is not described as the writer does it. */
static bool column_read(
	const json_t *name, const json_t *encoding, const json_t *size, struct column *ret)
{
	const json_int_t fixed = json_integer_value(size);
	if (!json_is_string(name) || !json_is_string(encoding) ||
		(!json_is_null(size) && !json_is_integer(size)) || fixed < 0 || fixed > UINT32_MAX)
		return false;
	column_name(ret, json_string_value(name), json_string_value(encoding));
	ret->fixed = (uint32_t)fixed;
	if (strlen(json_string_value(encoding)) < COLUMN_ENCODING)
		column_kind(ret);
	return ret->kind != COLUMN_NUMBER || fixed == number_size(ret->number);
}

static bool columns_read(const json_t *config, struct columns *ret)
{
	const json_t *names = json_object_get(config, "column_names");
	const json_t *encodings = json_object_get(config, "column_encodings");
	const json_t *sizes = json_object_get(config, "column_sizes");
	const size_t count = json_array_size(names);
	if (count == 0 || count > COLUMNS_MAX || json_array_size(encodings) != count ||
		json_array_size(sizes) != count)
		return false;
	ret->at = calloc(count, sizeof *ret->at);
	ret->count = (uint32_t)count;
	for (size_t i = 0; ret->at && i < count; i++)
		if (!column_read(json_array_get(names, i), json_array_get(encodings, i),
			    json_array_get(sizes, i), &ret->at[i]))
			return false;
	return ret->at != NULL;
}

static int head_fault(
	const struct index_job *job, uint64_t at, const char *what, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: %s: it is damaged or not a shard of MDS; copy it again from where "
		"it came from",
		job->path, (unsigned long long)at, what);
}

/* Reads the JSON between the table of offsets and the first item. */
static int config_read(const struct index_job *job, struct window *window,
	const struct columns_table *table, uint64_t end, struct columns *ret, struct fault *fault)
{
	const uint8_t *text;
	json_error_t error;
	char what[256];
	if (end - table->begin > MDS_HEAD_MAX)
		return head_fault(job, table->begin,
			"expected a description of its columns of at most 1 MiB", fault);
	int rc = window_get(window, table->begin, (size_t)(end - table->begin),
		"the description of its columns", &text, fault);
	if (rc < 0)
		return rc;
	json_t *config = json_read((const char *)text, (size_t)(end - table->begin), MDS_HEAD_PARTS,
		JSON_REJECT_DUPLICATES, &error);
	if (!config) {
		(void)snprintf(what, sizeof what,
			"expected a description of its columns in JSON: %.160s", error.text);
		return head_fault(job, table->begin, what, fault);
	}
	const char *format = index_json_text(config, "format");
	if (!format || strcmp(format, "mds") != 0 ||
		index_json_number(config, "version", 0) != MDS_VERSION)
		rc = head_fault(job, table->begin, "expected the format mds of version 2", fault);
	else if (!columns_read(config, ret))
		rc = head_fault(job, table->begin,
			"its description of columns has other names, encodings and sizes than "
			"streaming writes",
			fault);
	json_decref(config);
	return rc;
}

/* Reads the head of the shard up to the first item. */
static int head_read(const struct index_job *job, struct columns *columns,
	struct columns_table *table, struct fault *fault)
{
	struct window window;
	const uint8_t *bytes;
	window_init(&window, job->blob, job->path, job->size);
	int rc = window_get(&window, 0, 8, "the head of a shard", &bytes, fault);
	if (rc == 0) {
		table->count = records_u32(bytes);
		table->offsets = 4;
		table->begin = 4 + 4 * ((uint64_t)table->count + 1);
		const uint64_t end = records_u32(bytes + 4);
		if (end < table->begin || end > job->size)
			rc = head_fault(job, 4,
				"its first item begins within its table of offsets, or beyond its "
				"end",
				fault);
		else
			rc = config_read(job, &window, table, end, columns, fault);
		table->begin = end;
	}
	window_deinit(&window);
	return rc;
}

/* The writer puts nothing after the last item. */
static int end_check(
	const struct index_job *job, const struct columns_table *table, struct fault *fault)
{
	uint8_t bytes[4] = {0};
	const uint64_t at = table->offsets + 4 * (uint64_t)table->count;
	const ssize_t n = blob_read(job->blob, bytes, sizeof bytes, at);
	if (n < 0)
		return fault_set(
			fault, (int)n, "%s cannot be read: %s", job->path, blob_error((int)n));
	if (records_u32(bytes) == job->size)
		return 0;
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: its last item ends at byte %lu, but the file at byte %llu: it was "
		"cut off, or is damaged; copy it again from where it came from",
		job->path, (unsigned long long)at, (unsigned long)records_u32(bytes),
		(unsigned long long)job->size);
}

static int mds_index(const struct index_job *job, struct fault *fault)
{
	struct columns columns = {.count = 0};
	struct columns_table table;
	records_begin(job);
	int rc = head_read(job, &columns, &table, fault);
	if (rc == 0)
		rc = end_check(job, &table, fault);
	if (rc == 0)
		rc = columns_index(job, &columns, &table, fault);
	free(columns.at);
	return rc;
}

/* ---- a folder ---- */

static int compressed_fault(const char *folder, const json_t *shard, const char *raw,
	const char *zip, struct fault *fault)
{
	static const struct {
		const char *name, *command;
	} methods[] = {
		{"zstd", "zstd -d"},
		{"gz", "gzip -dc"},
		{"bz2", "bzip2 -dc"},
		{"br", "brotli -d"},
	};
	const char *compression = index_json_text(shard, "compression");
	for (size_t i = 0; compression && i < UTIL_COUNT(methods); i++)
		if (!strncmp(compression, methods[i].name, strlen(methods[i].name)))
			return fault_set(fault, -EINVAL,
				"%s/%s is compressed as a whole (%s), so that samples cannot be "
				"read one by one: unpack it beside itself, and do so with the "
				"others (%s < %s/%s > %s/%s)",
				folder, zip, compression, methods[i].command, folder, zip, folder,
				raw);
	return fault_set(fault, -EINVAL,
		"%s/%s is compressed as a whole (%s), so that samples cannot be read one by one: "
		"read the dataset once with streaming's StreamingDataset(keep_zip=True), which "
		"leaves %s beside it",
		folder, zip, compression ? compression : "by an unknown method", raw);
}

static int shard_add(const char *folder, int fd, const json_t *shard, struct source_paths *paths,
	struct fault *fault)
{
	const json_t *raw = json_object_get(shard, "raw_data");
	const char *format = index_json_text(shard, "format");
	const char *zip = index_json_text(json_object_get(shard, "zip_data"), "basename");
	const struct index_file file = {.name = index_json_text(raw, "basename"),
		.bytes = index_json_number(raw, "bytes", UINT64_MAX),
		.count = index_json_number(shard, "samples", UINT64_MAX)};
	if (!format || strcmp(format, "mds") != 0 ||
		index_json_number(shard, "version", 0) != MDS_VERSION)
		return fault_set(fault, -EINVAL,
			"%s/index.json: its shards have the format %.40s and the version %llu: "
			"only mds of version 2 is read; write them again with streaming's "
			"MDSWriter",
			folder, format ? format : "(none)",
			(unsigned long long)index_json_number(shard, "version", 0));
	int rc = index_json_add(folder, fd, &file, paths, fault);
	if (rc != 0)
		return UTIL_MIN(rc, 0);
	rc = zip ? index_json_exists(folder, fd, zip, fault) : 0;
	if (rc < 0)
		return rc;
	if (rc > 0)
		return compressed_fault(folder, shard, file.name, zip, fault);
	return fault_set(fault, -EINVAL,
		"%s/index.json names %s, which does not exist: copy the dataset again from where "
		"it came from",
		folder, file.name);
}

static int mds_expand(const char *folder, int fd, struct source_paths *paths, struct fault *fault)
{
	json_t *root = NULL;
	const json_t *shard;
	size_t i;
	int rc = index_json_read(folder, fd, "shards", &root, fault);
	if (rc <= 0)
		return rc;
	const json_t *shards = json_object_get(root, "shards");
	rc = 0;
	json_array_foreach(shards, i, shard)
	{
		rc = shard_add(folder, fd, shard, paths, fault);
		if (rc < 0)
			break;
	}
	if (rc == 0 && json_array_size(shards) == 0)
		rc = fault_set(fault, -EINVAL, "%s/index.json names no shards", folder);
	json_decref(root);
	return rc < 0 ? rc : 1;
}

/* ---- a file ---- */

static bool mds_sniff(const struct container_probe *probe)
{
	const char *dot = strrchr(probe->path, '.');
	char text[2] = "";
	if (dot && !strcmp(dot, ".mds"))
		return true;
	if (probe->head_size < 12)
		return false;
	const uint64_t count = records_u32(probe->head), begin = records_u32(probe->head + 4);
	const uint64_t json = 4 + 4 * (count + 1);
	return begin > json + 2 && begin <= probe->size && begin - json <= MDS_HEAD_MAX &&
	       records_u32(probe->head + 8) >= begin &&
	       blob_read(probe->blob, text, sizeof text, json) == (ssize_t)sizeof text &&
	       text[0] == '{' && text[1] == '"';
}

static int mds_empty(const struct container_empty *empty, struct fault *fault)
{
	return fault_set(fault, -EINVAL, "%s%s: no samples among %llu items", empty->path,
		empty->shards > 1 ? " and the shards after it" : "",
		(unsigned long long)empty->members);
}

const struct container container_mds = {
	.name = "MDS",
	.sniff = mds_sniff,
	.expand = mds_expand,
	.columns = true,
	.fields = true,
	.labels = 1 << DATASET_LABELS_NONE | 1 << DATASET_LABELS_MANIFEST |
		  1 << DATASET_LABELS_COLUMN,
	.joint = "!",
	.naming = "SHARD!ROW, with the row in decimal",
	.index = mds_index,
	.empty = mds_empty,
};

/* arrow: see arrow.h. */
#include "dataset/container/records/arrow.h"

#include "base/util.h"
#include "dataset/container/records/aside.h"
#include "dataset/container/records/flat.h"

#include <errno.h>
#include <string.h>

enum {
	NODES_MAX = COLUMNS_MAX, /* fields of the schema, with those inside of others */
	DEPTH_MAX = 32,
	BUFFERS = 3, /* of a field, at most */
	MESSAGE_HEAD = 8,
	METADATA_MAX = 1 << 20,
	/* LitData's batches have 256 rows: one more offset, of 4 bytes each. */
	PIECE = 8 + 256 * 4,
	FIELD_NODE = 16, /* bytes: i64 length, nulls */
	BUFFER = 16, /* i64 offset, length */
	NONE = -1,
};

/* The header of a message. */
enum { HEADER_SCHEMA = 1, HEADER_BATCH = 3 };

/* The fields of tables, in the order of Schema.fbs and Message.fbs. */
enum { MESSAGE_KIND = 1, MESSAGE_HEADER = 2, MESSAGE_BODY = 3 };
enum { SCHEMA_ENDIANNESS = 0, SCHEMA_FIELDS = 1 };
enum { FIELD_NAME = 0, FIELD_KIND = 2, FIELD_TYPE = 3, FIELD_DICTIONARY = 4, FIELD_CHILDREN = 5 };
enum { BATCH_LENGTH = 0, BATCH_NODES = 1, BATCH_BUFFERS = 2, BATCH_COMPRESSION = 3 };

enum type {
	TYPE_INT = 2,
	TYPE_FLOAT = 3,
	TYPE_BINARY = 4,
	TYPE_UTF8 = 5,
	TYPE_BOOL = 6,
	TYPE_LIST = 12,
	TYPE_STRUCT = 13,
	TYPE_LARGE_BINARY = 19,
	TYPE_LARGE_UTF8 = 20,
	TYPE_LARGE_LIST = 21,
};

/* How many buffers a field of each type has, and how many fields are inside of it. The types are
 * numbered as in Schema.fbs. */
static const struct layout {
	const char *name; /* NULL: not read */
	uint8_t buffers;
	int8_t children; /* NONE: any number */
} layouts[] = {
	[1] = {"null", 0, 0},
	[TYPE_INT] = {"int", 2, 0},
	[TYPE_FLOAT] = {"float", 2, 0},
	[TYPE_BINARY] = {"binary", 3, 0},
	[TYPE_UTF8] = {"string", 3, 0},
	[TYPE_BOOL] = {"bool", 2, 0},
	[7] = {"decimal", 2, 0},
	[8] = {"date", 2, 0},
	[9] = {"time", 2, 0},
	[10] = {"timestamp", 2, 0},
	[11] = {"interval", 2, 0},
	[TYPE_LIST] = {"list", 2, 1},
	[TYPE_STRUCT] = {"struct", 1, NONE},
	[15] = {"fixed_size_binary", 2, 0},
	[16] = {"fixed_size_list", 1, 1},
	[17] = {"map", 2, 1},
	[18] = {"duration", 2, 0},
	[TYPE_LARGE_BINARY] = {"large_binary", 3, 0},
	[TYPE_LARGE_UTF8] = {"large_string", 3, 0},
	[TYPE_LARGE_LIST] = {"large_list", 2, 1},
};

/* One buffer of the batch. */
struct buffer {
	uint64_t offset; /* in the shard; 0 bytes: it has none */
	uint64_t stored;
	uint64_t size; /* unpacked */
	bool packed; /* the batch says that its buffers are compressed; then, that this one is */
	bool is_open;
	bool is_aside;
	uint64_t aside;
};

/* A part of a buffer. */
struct piece {
	uint64_t at;
	uint32_t used;
	uint8_t bytes[PIECE];
};

struct node {
	enum type type;
	enum number number;
	int32_t parent, column; /* NONE */
	bool wide; /* its offsets have 8 bytes */
	bool below; /* it is inside of a field that is not a struct, and has other rows */
	uint8_t buffers;
	uint64_t length, nulls; /* of the batch */
	struct buffer buffer[BUFFERS];
	struct piece validity, offsets;
};

struct arrow {
	const struct index_job *job;
	struct node *node;
	uint32_t nodes;
	uint32_t column_node[COLUMNS_MAX];
	struct column *column;
	uint32_t columns;
	uint64_t at, end; /* the next message; of them all */
	uint64_t rows, first, length; /* all rows; of the batch: its first one, how many */
	uint64_t message; /* where that one begins; for faults */
	uint8_t *metadata;
	struct window window; /* of values that are stored as they are */
	struct aside aside;
};

static int damaged(const struct arrow *arrow, uint64_t at, const char *what, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: %s: its Arrow rows are damaged; copy it again from where it came "
		"from",
		arrow->job->path, (unsigned long long)at, what);
}

static int again(const struct arrow *arrow, const char *what, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s: its Arrow rows %s, which penstock does not read: optimize the dataset again "
		"with litdata.optimize",
		arrow->job->path, what);
}

static int shard_read(const struct arrow *arrow, uint64_t at, void *to, size_t size,
	const char *what, struct fault *fault)
{
	const ssize_t n = blob_read(arrow->job->blob, to, size, at);
	if (n < 0)
		return fault_set(fault, (int)n, "%s cannot be read at byte %llu: %s",
			arrow->job->path, (unsigned long long)at, blob_error((int)n));
	return (size_t)n == size ? 0 : damaged(arrow, at, what, fault);
}

/* ---- messages ---- */

/* One message. */
struct message {
	struct flat flat;
	struct flat_table header;
	uint64_t kind;
	uint64_t body, body_size;
};

/* Reads the next message, and moves behind its body. 1; 0: there are no more; or a fault. */
static int message_next(struct arrow *arrow, struct message *ret, struct fault *fault)
{
	uint8_t head[MESSAGE_HEAD];
	const uint64_t left = arrow->end - arrow->at;
	arrow->message = arrow->at;
	if (left < sizeof head)
		return damaged(arrow, arrow->at, "no message of Arrow begins here", fault);
	int rc = shard_read(
		arrow, arrow->at, head, sizeof head, "the file ends in a message", fault);
	if (rc < 0)
		return rc;
	const uint32_t size = records_u32(head + 4);
	if (records_u32(head) != UINT32_MAX || size % 8)
		return damaged(arrow, arrow->at, "no message of Arrow begins here", fault);
	if (!size)
		return 0;
	if (size > left - sizeof head || size > METADATA_MAX)
		return damaged(
			arrow, arrow->at, "a message is longer than the bytes that it has", fault);
	rc = shard_read(arrow, arrow->at + sizeof head, arrow->metadata, size,
		"the file ends in a message", fault);
	if (rc < 0)
		return rc;
	ret->flat = (struct flat){.bytes = arrow->metadata, .size = size};
	const struct flat_table root = flat_root(&ret->flat);
	ret->kind = flat_number(&ret->flat, &root, MESSAGE_KIND, 1, 0);
	ret->body = arrow->at + sizeof head + size;
	ret->body_size = flat_number(&ret->flat, &root, MESSAGE_BODY, 8, 0);
	const bool has = flat_child(&ret->flat, &root, MESSAGE_HEADER, &ret->header);
	if (ret->flat.bad || !has)
		return damaged(arrow, arrow->at, "a message is not one of Arrow", fault);
	if (ret->body_size > arrow->end - ret->body || ret->body_size % 8)
		return damaged(
			arrow, arrow->at, "the body of a message is longer than the file", fault);
	arrow->at = ret->body + ret->body_size;
	return 1;
}

/* ---- the schema ---- */

static enum number number_of(struct flat *flat, const struct flat_table *type, enum type kind)
{
	static const uint8_t ints[2][4] = {{NUMBER_U8, NUMBER_U16, NUMBER_U32, NUMBER_U64},
		{NUMBER_I8, NUMBER_I16, NUMBER_I32, NUMBER_I64}};
	static const uint8_t floats[] = {NUMBER_F16, NUMBER_F32, NUMBER_F64};
	if (kind == TYPE_FLOAT) {
		const uint64_t precision = flat_number(flat, type, 0, 2, 0);
		flat->bad |= precision >= UTIL_COUNT(floats);
		return flat->bad ? NUMBER_NONE : (enum number)floats[precision];
	}
	const uint64_t bits = flat_number(flat, type, 0, 4, 0);
	const bool with_sign = flat_number(flat, type, 1, 1, 0) != 0;
	for (unsigned i = 0; i < 4; i++)
		if (bits == 8U << i)
			return (enum number)ints[with_sign][i];
	flat->bad = true;
	return NUMBER_NONE;
}

/* A field's name, behind its parent's. One that is too long, or has a zero byte, is the name of no
 * column. */
static void field_name(struct flat *flat, const struct flat_table *field, const char *path,
	char ret[COLUMN_NAME_MAX + 2])
{
	const struct flat_vector name = flat_vector(flat, field, FIELD_NAME, 1);
	const size_t before = strlen(path), slash = before != 0;
	const bool fits = before + slash + name.count <= COLUMN_NAME_MAX;
	ret[0] = 0;
	if (flat->bad || !name.count || !fits || memchr(flat->bytes + name.at, 0, name.count))
		return;
	(void)snprintf(ret, COLUMN_NAME_MAX + 2, "%s%s%.*s", path, slash ? "/" : "",
		(int)name.count, (const char *)flat->bytes + name.at);
}

/* The kind of a column, by the type of its field and of the only field inside of it. */
static void column_kind(struct column *column, const struct node *node, const struct node *inside)
{
	const bool list = node->type == TYPE_LIST || node->type == TYPE_LARGE_LIST;
	column->kind = COLUMN_APART;
	if (node->type == TYPE_BINARY || node->type == TYPE_LARGE_BINARY)
		column->kind = COLUMN_BYTES;
	else if (node->type == TYPE_UTF8 || node->type == TYPE_LARGE_UTF8)
		column->kind = COLUMN_OTHER;
	else if (node->type == TYPE_BOOL)
		column->kind = COLUMN_BIT;
	else if (node->number != NUMBER_NONE)
		column->kind = COLUMN_NUMBER;
	else if (list && inside && inside->number != NUMBER_NONE)
		column->kind = COLUMN_ARRAY;
	column->number = node->number;
	if (column->kind == COLUMN_ARRAY)
		column->array = (struct array_type){.form = ARRAY_FLAT, .number = inside->number};
}

static int schema_fields(struct arrow *arrow, struct flat *flat, const struct flat_vector *fields,
	int32_t parent, const char *path, unsigned depth, struct fault *fault);

static struct column *column_add(
	struct arrow *arrow, uint32_t number, const char *name, const char *type)
{
	struct column *column = &arrow->column[arrow->columns];
	column_name(column, name, type);
	arrow->column_node[arrow->columns] = number;
	arrow->node[number].column = (int32_t)arrow->columns++;
	return column;
}

static int schema_field(struct arrow *arrow, struct flat *flat, const struct flat_table *field,
	int32_t parent, const char *path, unsigned depth, struct fault *fault)
{
	char name[COLUMN_NAME_MAX + 2];
	struct flat_table type, dictionary;
	const uint64_t kind = flat_number(flat, field, FIELD_KIND, 1, 0);
	const struct flat_vector inside = flat_vector(flat, field, FIELD_CHILDREN, 4);
	const bool coded = flat_child(flat, field, FIELD_DICTIONARY, &dictionary);
	const bool typed = flat_child(flat, field, FIELD_TYPE, &type);
	if (flat->bad || !typed || arrow->nodes == NODES_MAX || depth > DEPTH_MAX)
		return damaged(arrow, arrow->message, "a field of the schema is damaged", fault);
	if (coded || kind >= UTIL_COUNT(layouts) || !layouts[kind].name)
		return again(arrow, "have a column of a dictionary or of another type", fault);
	const struct layout *layout = &layouts[kind];
	const uint32_t number = arrow->nodes++;
	struct node *node = &arrow->node[number];
	node->type = (enum type)kind;
	node->parent = parent;
	node->column = NONE;
	node->buffers = layout->buffers;
	node->wide =
		kind == TYPE_LARGE_BINARY || kind == TYPE_LARGE_UTF8 || kind == TYPE_LARGE_LIST;
	if (kind == TYPE_INT || kind == TYPE_FLOAT)
		node->number = number_of(flat, &type, node->type);
	if (layout->children != NONE && inside.count != (uint32_t)layout->children)
		flat->bad = true;
	field_name(flat, field, path, name);
	node->below = parent != NONE &&
		      (arrow->node[parent].below || arrow->node[parent].type != TYPE_STRUCT);
	struct column *column = NULL;
	if (kind != TYPE_STRUCT && !node->below)
		column = column_add(arrow, number, name,
			node->number == NUMBER_NONE ? layout->name : number_text(node->number));
	int rc = flat->bad
			 ? damaged(arrow, arrow->message, "a field of the schema is damaged", fault)
			 : schema_fields(
				   arrow, flat, &inside, (int32_t)number, name, depth + 1, fault);
	if (rc == 0 && column)
		column_kind(column, node, inside.count ? node + 1 : NULL);
	return rc;
}

static int schema_fields(struct arrow *arrow, struct flat *flat, const struct flat_vector *fields,
	int32_t parent, const char *path, unsigned depth, struct fault *fault)
{
	int rc = 0;
	for (uint32_t i = 0; rc == 0 && i < fields->count; i++) {
		const struct flat_table field = flat_element(flat, fields, i);
		rc = schema_field(arrow, flat, &field, parent, path, depth, fault);
	}
	return rc;
}

static int schema_read(struct arrow *arrow, struct fault *fault)
{
	struct message message;
	int rc = message_next(arrow, &message, fault);
	if (rc < 0)
		return rc;
	if (rc == 0 || message.kind != HEADER_SCHEMA)
		return damaged(arrow, arrow->message, "the first message is not a schema", fault);
	if (flat_number(&message.flat, &message.header, SCHEMA_ENDIANNESS, 2, 0))
		return again(arrow, "are big-endian", fault);
	const struct flat_vector fields =
		flat_vector(&message.flat, &message.header, SCHEMA_FIELDS, 4);
	rc = schema_fields(arrow, &message.flat, &fields, NONE, "", 0, fault);
	if (rc == 0 && (message.flat.bad || !arrow->columns))
		rc = damaged(arrow, arrow->message, "its schema has no columns", fault);
	return rc;
}

int arrow_open(const struct index_job *job, uint64_t begin, uint64_t size, uint64_t rows,
	struct arrow **ret, struct columns *ret_columns, struct fault *fault)
{
	static const uint8_t magic[8] = "ARROW1";
	uint8_t head[8];
	struct arrow *arrow = calloc(1, sizeof *arrow);
	*ret = arrow;
	if (arrow) {
		arrow->node = calloc(NODES_MAX, sizeof *arrow->node);
		arrow->column = calloc(COLUMNS_MAX, sizeof *arrow->column);
		arrow->metadata = malloc(METADATA_MAX);
		window_init(&arrow->window, job->blob, job->path, job->size);
		aside_init(&arrow->aside, job);
	}
	if (!arrow || !arrow->node || !arrow->column || !arrow->metadata)
		return fault_set(fault, -ENOMEM, "no memory to index %s", job->path);
	arrow->job = job;
	arrow->at = begin;
	arrow->end = begin + size;
	arrow->rows = rows;
	if (size < sizeof head)
		return damaged(arrow, begin, "no message of Arrow begins here", fault);
	int rc = shard_read(arrow, begin, head, sizeof head, "the file ends here", fault);
	if (rc < 0)
		return rc;
	if (!memcmp(head, magic, sizeof head))
		arrow->at += sizeof head;
	rc = schema_read(arrow, fault);
	*ret_columns = (struct columns){.at = arrow->column, .count = arrow->columns};
	return rc;
}

void arrow_free(struct arrow *arrow)
{
	if (!arrow)
		return;
	window_deinit(&arrow->window);
	aside_deinit(&arrow->aside);
	free(arrow->node);
	free(arrow->column);
	free(arrow->metadata);
	free(arrow);
}

/* ---- batches ---- */

static int buffers_take(struct arrow *arrow, const struct message *message, struct node *node,
	const uint8_t *bytes, bool packed, struct fault *fault)
{
	for (uint8_t i = 0; i < node->buffers; i++, bytes += BUFFER) {
		const uint64_t at = records_u64(bytes), size = records_u64(bytes + 8);
		if (at % 8 || at > message->body_size || size > message->body_size - at)
			return damaged(arrow, arrow->message,
				"a buffer is not in the body of its message", fault);
		node->buffer[i] = (struct buffer){.offset = message->body + at,
			.stored = size,
			.size = size,
			.packed = packed};
	}
	node->validity.used = node->offsets.used = 0;
	return 0;
}

static int nodes_take(struct arrow *arrow, const struct message *message,
	const struct flat_vector *nodes, const struct flat_vector *buffers, bool packed,
	struct fault *fault)
{
	const uint8_t *at = message->flat.bytes + nodes->at;
	const uint8_t *buffer = message->flat.bytes + buffers->at;
	int rc = 0;
	for (uint32_t i = 0; rc == 0 && i < arrow->nodes; i++, at += FIELD_NODE) {
		struct node *node = &arrow->node[i];
		node->length = records_u64(at);
		node->nulls = records_u64(at + 8);
		if (node->nulls > node->length || (!node->below && node->length != arrow->length))
			return damaged(arrow, arrow->message,
				"a column has another number of rows than its batch", fault);
		rc = buffers_take(arrow, message, node, buffer, packed, fault);
		buffer += (size_t)node->buffers * BUFFER;
	}
	return rc;
}

/* Whether the buffers are compressed, in a way that can be read. 1, 0 or a fault. */
static int batch_packed(struct arrow *arrow, struct message *message, struct fault *fault)
{
	struct flat_table compression;
	if (!flat_child(&message->flat, &message->header, BATCH_COMPRESSION, &compression))
		return 0;
	const uint64_t codec = flat_number(&message->flat, &compression, 0, 1, 0);
	const uint64_t method = flat_number(&message->flat, &compression, 1, 1, 0);
	return codec == 1 && method == 0
		       ? 1
		       : again(arrow, "are compressed with LZ4 or another codec", fault);
}

static int batch_next(struct arrow *arrow, struct fault *fault)
{
	struct message message;
	uint32_t expected = 0;
	int rc = message_next(arrow, &message, fault);
	if (rc < 0)
		return rc;
	if (rc == 0)
		return damaged(
			arrow, arrow->message, "it has fewer rows than the chunk says", fault);
	if (message.kind != HEADER_BATCH)
		return damaged(arrow, arrow->message, "a message has no rows", fault);
	struct flat *flat = &message.flat;
	const uint64_t length = flat_number(flat, &message.header, BATCH_LENGTH, 8, 0);
	const struct flat_vector nodes =
		flat_vector(flat, &message.header, BATCH_NODES, FIELD_NODE);
	const struct flat_vector buffers =
		flat_vector(flat, &message.header, BATCH_BUFFERS, BUFFER);
	const int packed = batch_packed(arrow, &message, fault);
	if (packed < 0)
		return packed;
	for (uint32_t i = 0; i < arrow->nodes; i++)
		expected += arrow->node[i].buffers;
	if (flat->bad || nodes.count != arrow->nodes || buffers.count != expected)
		return damaged(arrow, arrow->message,
			"a batch does not have the columns and buffers that the schema says",
			fault);
	arrow->first += arrow->length;
	arrow->length = length;
	if (length > arrow->rows - arrow->first)
		return damaged(
			arrow, arrow->message, "it has more rows than the chunk says", fault);
	aside_clear(&arrow->aside);
	return nodes_take(arrow, &message, &nodes, &buffers, packed, fault);
}

int arrow_end(struct arrow *arrow, struct fault *fault)
{
	int rc = 0;
	if (arrow->first + arrow->length < arrow->rows)
		return damaged(arrow, arrow->at, "it has fewer rows than the chunk says", fault);
	struct message message;
	rc = message_next(arrow, &message, fault);
	return rc > 0 ? damaged(arrow, arrow->message, "messages follow the last row", fault) : rc;
}

/* ---- buffers ---- */

/* Finds out how large it is unpacked. */
static int buffer_open(struct arrow *arrow, struct buffer *buffer, struct fault *fault)
{
	uint8_t head[8];
	if (buffer->is_open)
		return 0;
	buffer->is_open = true;
	if (!buffer->packed || !buffer->stored) {
		buffer->packed = false;
		return 0;
	}
	if (buffer->stored < sizeof head)
		return damaged(arrow, buffer->offset, "a compressed buffer has no size", fault);
	int rc = shard_read(
		arrow, buffer->offset, head, sizeof head, "the file ends in a buffer", fault);
	buffer->offset += sizeof head;
	buffer->stored -= sizeof head;
	buffer->size = records_u64(head);
	if (buffer->size == UINT64_MAX) { /* it did not become smaller, and is stored as it is */
		buffer->size = buffer->stored;
		buffer->packed = false;
	}
	if (rc == 0 && buffer->packed && (buffer->size > UINT32_MAX || buffer->stored > UINT32_MAX))
		rc = damaged(
			arrow, buffer->offset, "a compressed buffer has more than 4 GiB", fault);
	return rc;
}

static int buffer_unpack(struct arrow *arrow, struct buffer *buffer, struct fault *fault)
{
	uint64_t size;
	if (buffer->is_aside)
		return 0;
	buffer->is_aside = true;
	return aside_put(&arrow->aside, buffer->offset, buffer->stored, buffer->size,
		"a compressed buffer of its Arrow rows", &buffer->aside, &size, fault);
}

/* Points *ret to `size` bytes at byte `at` of an open buffer, at most 16. */
static int piece_get(struct arrow *arrow, struct buffer *buffer, struct piece *piece, uint64_t at,
	uint32_t size, const uint8_t **ret, struct fault *fault)
{
	int rc = buffer_open(arrow, buffer, fault);
	if (rc == 0 && (at > buffer->size || size > buffer->size - at))
		rc = damaged(
			arrow, buffer->offset, "a buffer is shorter than its rows need", fault);
	if (rc == 0 && buffer->packed) {
		rc = buffer_unpack(arrow, buffer, fault);
		return rc < 0 ? rc
			      : aside_get(&arrow->aside, buffer->aside + at, size, "a buffer", ret,
					fault);
	}
	if (rc == 0 && (!piece->used || at < piece->at || at - piece->at + size > piece->used)) {
		piece->at = at;
		piece->used = (uint32_t)UTIL_MIN(buffer->size - at, (uint64_t)PIECE);
		rc = shard_read(arrow, buffer->offset + at, piece->bytes, piece->used,
			"the file ends in a buffer", fault);
	}
	*ret = piece->bytes + (at - piece->at);
	return rc;
}

/* ---- values ---- */

/* 1: the row has a value, 0: null. */
static int is_valid(struct arrow *arrow, struct node *node, uint64_t row, struct fault *fault)
{
	const uint8_t *byte = NULL;
	if (!node->nulls)
		return 1;
	if (!node->buffers) /* the type null */
		return 0;
	int rc = piece_get(arrow, &node->buffer[0], &node->validity, row / 8, 1, &byte, fault);
	return rc < 0 ? rc : *byte >> row % 8 & 1;
}

/* Says where bytes of a buffer are. */
static int extent(struct arrow *arrow, uint32_t node, uint32_t number, uint64_t at, uint64_t size,
	struct columns_value *ret, struct fault *fault)
{
	struct buffer *buffer = &arrow->node[node].buffer[number];
	int rc = buffer_open(arrow, buffer, fault);
	if (rc < 0)
		return rc;
	if (at > buffer->size || size > buffer->size - at)
		return damaged(
			arrow, buffer->offset, "a buffer is shorter than its rows need", fault);
	if (size > UINT32_MAX)
		return damaged(arrow, buffer->offset, "a value has more than 4 GiB", fault);
	*ret = (struct columns_value){.offset = buffer->offset + at, .size = (uint32_t)size};
	if (!buffer->packed)
		return 0;
	ret->offset = buffer->offset;
	ret->packed = (struct packed){.stored = (uint32_t)buffer->stored,
		.inner = (uint32_t)at,
		.whole = (uint32_t)buffer->size,
		.method = PACKED_ZSTD};
	ret->aside = (uint64_t)node * BUFFERS + number;
	return 0;
}

/* The values of a list begin and end between offsets, as the bytes of a text do. */
static int range_find(struct arrow *arrow, uint32_t number, uint64_t row, uint64_t *ret_begin,
	uint64_t *ret_end, struct fault *fault)
{
	struct node *node = &arrow->node[number];
	const uint32_t each = node->wide ? 8 : 4;
	const uint8_t *bytes = NULL;
	int rc = piece_get(
		arrow, &node->buffer[1], &node->offsets, row * each, 2 * each, &bytes, fault);
	if (rc < 0)
		return rc;
	*ret_begin = node->wide ? records_u64(bytes) : records_u32(bytes);
	*ret_end = node->wide ? records_u64(bytes + 8) : records_u32(bytes + 4);
	return *ret_begin <= *ret_end ? 0
				      : damaged(arrow, node->buffer[1].offset,
						"a value ends before it begins", fault);
}

static int list_find(struct arrow *arrow, uint32_t number, uint64_t row, struct columns_value *ret,
	struct fault *fault)
{
	struct node *inside = &arrow->node[number + 1];
	const uint32_t each = number_size(inside->number);
	const unsigned long long of_file = arrow->first + row;
	uint64_t begin, end;
	int rc = range_find(arrow, number, row, &begin, &end, fault);
	if (rc == 0 && end > inside->length)
		rc = damaged(arrow, arrow->node[number].buffer[1].offset,
			"a list ends after the values of all lists", fault);
	for (uint64_t i = begin; rc == 0 && inside->nulls && i < end; i++) {
		rc = is_valid(arrow, inside, i, fault);
		rc = rc > 0   ? 0
		     : rc < 0 ? rc
			      : fault_set(fault, -EINVAL,
					"%s: row %llu: the list in column %s has a null: expected "
					"numbers",
					arrow->job->path, of_file,
					arrow->column[arrow->node[number].column].name);
	}
	if (rc == 0 && end > UINT64_MAX / 16)
		rc = damaged(arrow, arrow->node[number].buffer[1].offset,
			"a list ends after the values of all lists", fault);
	return rc < 0 ? rc
		      : extent(arrow, number + 1, 1, begin * each, (end - begin) * each, ret,
				fault);
}

int arrow_find(void *context, uint64_t row, uint32_t column, struct columns_value *ret,
	struct fault *fault)
{
	struct arrow *arrow = context;
	const uint32_t number = arrow->column_node[column];
	uint64_t begin, end;
	int rc = 0;
	while (rc == 0 && row >= arrow->first + arrow->length)
		rc = batch_next(arrow, fault);
	if (rc < 0)
		return rc;
	row -= arrow->first;
	for (int32_t i = (int32_t)number; i != NONE; i = arrow->node[i].parent) {
		rc = is_valid(arrow, &arrow->node[i], row, fault);
		if (rc < 0)
			return rc;
		*ret = (struct columns_value){.absent = true};
		if (rc == 0)
			return 0;
	}
	const struct column *of = &arrow->column[column];
	const uint32_t each = number_size(of->number);
	if (of->kind == COLUMN_ARRAY)
		return list_find(arrow, number, row, ret, fault);
	if (of->kind == COLUMN_NUMBER)
		return extent(arrow, number, 1, row * each, each, ret, fault);
	if (of->kind == COLUMN_BIT) {
		rc = extent(arrow, number, 1, row / 8, 1, ret, fault);
		ret->bit = row % 8;
		return rc;
	}
	rc = range_find(arrow, number, row, &begin, &end, fault);
	return rc < 0 ? rc : extent(arrow, number, 2, begin, end - begin, ret, fault);
}

int arrow_read(void *context, const struct columns_value *value, uint64_t from, size_t size,
	const uint8_t **ret, struct fault *fault)
{
	struct arrow *arrow = context;
	if (value->packed.method == PACKED_NONE)
		return window_get(
			&arrow->window, value->offset + from, size, "a value", ret, fault);
	struct buffer *buffer = &arrow->node[value->aside / BUFFERS].buffer[value->aside % BUFFERS];
	int rc = buffer_unpack(arrow, buffer, fault);
	return rc < 0 ? rc
		      : aside_get(&arrow->aside, buffer->aside + value->packed.inner + from, size,
				"a value", ret, fault);
}

/* schema: see schema.h. */
#include "dataset/container/parquet/schema.h"

#include "base/array.h"
#include "base/util.h"

#include <errno.h>

/* Fields of SchemaElement in parquet.thrift. */
enum {
	ELEMENT_TYPE = 1,
	ELEMENT_LENGTH = 2,
	ELEMENT_REPETITION = 3,
	ELEMENT_NAME = 4,
	ELEMENT_CHILDREN = 5,
	ELEMENT_CONVERTED = 6,
	ELEMENT_LOGICAL = 10,
};

/* ConvertedType. */
enum {
	CONVERTED_UTF8 = 0,
	CONVERTED_ENUM = 4,
	CONVERTED_UINT_8 = 11,
	CONVERTED_UINT_64 = 14,
	CONVERTED_INT_64 = 18,
	CONVERTED_JSON = 19,
};

/* Fields of the union LogicalType. */
enum {
	LOGICAL_STRING = 1,
	LOGICAL_ENUM = 4,
	LOGICAL_INTEGER = 10,
	LOGICAL_UNKNOWN = 11, /* a column of nulls */
	LOGICAL_JSON = 12,
	INTEGER_SIGNED = 2,
};

static void name_read(struct schema *schema, struct thrift *thrift,
	const struct thrift_field *field, struct schema_node *node)
{
	const uint64_t size = thrift_binary(thrift, field);
	if (thrift->error)
		return;
	schema->bytes += (size_t)size;
	if (size > SCHEMA_NAME_MAX || schema->bytes > SCHEMA_BYTES) {
		(void)thrift_damaged(thrift, "the names of the columns are too long");
		return;
	}
	free(node->name);
	node->name = malloc((size_t)size + 1);
	if (!node->name) {
		thrift->error = fault_set(
			thrift->fault, -ENOMEM, "no memory to index %s", thrift->window->path);
		return;
	}
	thrift_copy(thrift, node->name, (size_t)size);
	node->name[size] = 0;
}

static uint8_t converted_meaning(int64_t converted)
{
	if (converted == CONVERTED_UTF8 || converted == CONVERTED_ENUM ||
		converted == CONVERTED_JSON)
		return PARQUET_TEXT;
	if (converted >= CONVERTED_UINT_8 && converted <= CONVERTED_UINT_64)
		return PARQUET_UNSIGNED;
	return converted > CONVERTED_UINT_64 && converted <= CONVERTED_INT_64 ? PARQUET_PLAIN
									      : PARQUET_OTHER;
}

static uint8_t logical_meaning(struct thrift *thrift)
{
	struct thrift_field kind = {0};
	uint8_t meaning = PARQUET_OTHER;
	while (thrift_next(thrift, &kind)) {
		if (kind.id == LOGICAL_STRING || kind.id == LOGICAL_ENUM || kind.id == LOGICAL_JSON)
			meaning = PARQUET_TEXT;
		if (kind.id == LOGICAL_UNKNOWN)
			meaning = PARQUET_PLAIN;
		if (kind.id != LOGICAL_INTEGER || !thrift_struct(thrift, &kind)) {
			thrift_skip(thrift, &kind);
			continue;
		}
		struct thrift_field field = {0};
		meaning = PARQUET_PLAIN;
		while (thrift_next(thrift, &field)) {
			if (field.id != INTEGER_SIGNED)
				thrift_skip(thrift, &field);
			else if (!thrift_bool(thrift, &field))
				meaning = PARQUET_UNSIGNED;
		}
	}
	return meaning;
}

static void element_read(struct schema *schema, struct thrift *thrift, struct schema_node *node)
{
	struct thrift_field field = {0};
	int64_t type = -1, length = 0, repetition = 0, children = 0;
	bool logical = false;
	while (thrift_next(thrift, &field)) {
		if (field.id == ELEMENT_TYPE)
			type = thrift_integer(thrift, &field);
		else if (field.id == ELEMENT_LENGTH)
			length = thrift_integer(thrift, &field);
		else if (field.id == ELEMENT_REPETITION)
			repetition = thrift_integer(thrift, &field);
		else if (field.id == ELEMENT_CHILDREN)
			children = thrift_integer(thrift, &field);
		else if (field.id == ELEMENT_NAME)
			name_read(schema, thrift, &field, node);
		else if (field.id == ELEMENT_CONVERTED && !logical)
			node->meaning = converted_meaning(thrift_integer(thrift, &field));
		else if (field.id == ELEMENT_LOGICAL && (logical = thrift_struct(thrift, &field)))
			node->meaning = logical_meaning(thrift);
		else
			thrift_skip(thrift, &field);
	}
	if (children < 0 || children > SCHEMA_NODES || repetition < PARQUET_REQUIRED ||
		repetition > PARQUET_REPEATED || length < 0 || length > INT32_MAX || !node->name ||
		(!children && (type < 0 || type >= PARQUET_TYPES)))
		(void)thrift_damaged(thrift, "a column has an impossible description");
	node->type = (uint8_t)(type < 0 ? PARQUET_TYPES : type);
	node->length = (uint32_t)length;
	node->repetition = (uint8_t)repetition;
	node->children = (uint32_t)children;
}

/* Puts the node below its parent, of which `left` says how many children are missing at each
 * depth. */
static void node_place(struct schema *schema, struct thrift *thrift, uint32_t number,
	uint32_t *parents, uint32_t *left, uint32_t *depth)
{
	struct schema_node *node = &schema->node[number];
	node->parent = SCHEMA_NONE;
	node->leaf = SCHEMA_NONE;
	while (*depth && !left[*depth - 1])
		--*depth;
	if (number && !*depth) {
		(void)thrift_damaged(thrift, "a column belongs to no structure");
		return;
	}
	node->depth = (uint8_t)*depth;
	if (number) {
		node->parent = parents[*depth - 1];
		left[*depth - 1]--;
		const struct schema_node *parent = &schema->node[node->parent];
		node->definition =
			(uint8_t)(parent->definition + (node->repetition != PARQUET_REQUIRED));
		node->repeated =
			(uint8_t)(parent->repeated + (node->repetition == PARQUET_REPEATED));
	}
	if (!node->children && number) {
		node->leaf = schema->leaves++;
		return;
	}
	if (*depth == SCHEMA_DEPTH) {
		(void)thrift_damaged(thrift, "the columns are nested too deeply");
		return;
	}
	parents[*depth] = number;
	left[(*depth)++] = node->children;
}

int schema_read(struct schema *schema, struct thrift *thrift, const struct thrift_field *field)
{
	uint32_t parents[SCHEMA_DEPTH], left[SCHEMA_DEPTH], depth = 0;
	const uint64_t count = thrift_list(thrift, field, THRIFT_STRUCT);
	if (!thrift->error && (schema->count || !count || count > SCHEMA_NODES))
		(void)thrift_damaged(thrift, "it has no columns, or more than 10000");
	for (uint64_t i = 0; i < count && !thrift->error; i++) {
		struct schema_node *grown = array_grown(
			schema->node, schema->count, &schema->room, sizeof *schema->node);
		if (!grown)
			return thrift->error = fault_set(thrift->fault, -ENOMEM,
				       "no memory to index %s", thrift->window->path);
		schema->node = grown;
		grown[schema->count] = (struct schema_node){0};
		element_read(schema, thrift, &grown[schema->count++]);
		if (!thrift->error)
			node_place(schema, thrift, (uint32_t)i, parents, left, &depth);
	}
	for (; depth && !thrift->error; depth--)
		if (left[depth - 1])
			(void)thrift_damaged(thrift, "a structure has fewer columns than it says");
	return thrift->error;
}

void schema_deinit(struct schema *schema)
{
	for (size_t i = 0; i < schema->count; i++)
		free(schema->node[i].name);
	free(schema->node);
	*schema = (struct schema){0};
}

uint32_t schema_child(const struct schema *schema, uint32_t parent, const char *name)
{
	for (uint32_t i = parent + 1; i < schema->count; i++)
		if (schema->node[i].parent == parent && strcmp(schema->node[i].name, name) == 0)
			return i;
	return SCHEMA_NONE;
}

void schema_path(const struct schema *schema, uint32_t node, char *buffer, size_t room)
{
	uint32_t chain[SCHEMA_DEPTH + 1], count = 0;
	size_t used = 0;
	for (; node != SCHEMA_NONE && schema->node[node].parent != SCHEMA_NONE;
		node = schema->node[node].parent)
		chain[count++] = node;
	buffer[0] = 0;
	while (count-- && used < room) {
		int n = snprintf(buffer + used, room - used, "%s%s",
			schema->node[chain[count]].name, count ? "." : "");
		used += (size_t)UTIL_MAX(n, 0);
	}
}

const char *schema_kind(const struct schema *schema, uint32_t node)
{
	static const char *const types[] = {[PARQUET_BOOLEAN] = "bool",
		[PARQUET_INT32] = "int32",
		[PARQUET_INT64] = "int64",
		[PARQUET_INT96] = "int96",
		[PARQUET_FLOAT] = "float",
		[PARQUET_DOUBLE] = "double",
		[PARQUET_BYTES] = "binary",
		[PARQUET_FIXED] = "fixed-size binary"};
	const struct schema_node *at = &schema->node[node];
	if (at->repetition == PARQUET_REPEATED)
		return "list";
	if (at->leaf == SCHEMA_NONE)
		return at->children == 1 && node + 1 < schema->count &&
				       schema->node[node + 1].repetition == PARQUET_REPEATED
			       ? "list"
			       : "structure";
	if (at->meaning == PARQUET_TEXT)
		return "text";
	return at->meaning == PARQUET_OTHER ? "date, time or decimal" : types[at->type];
}

void schema_list(const struct schema *schema, char buffer[SCHEMA_TEXT])
{
	size_t used = 0;
	buffer[0] = 0;
	for (uint32_t i = 1; i < schema->count && used < SCHEMA_TEXT; i++) {
		if (schema->node[i].parent != 0)
			continue;
		int n = snprintf(buffer + used, SCHEMA_TEXT - used, "%s%s (%s)", used ? ", " : "",
			schema->node[i].name, schema_kind(schema, i));
		used += (size_t)UTIL_MAX(n, 0);
	}
	if (used >= SCHEMA_TEXT)
		memcpy(buffer + SCHEMA_TEXT - 4, "...", 4);
}

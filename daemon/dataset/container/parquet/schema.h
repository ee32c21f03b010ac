/* schema: the tree of columns that a Parquet file's footer describes.
 *
 * The footer lists the nodes in depth-first order, each with the number of its children. A node
 * without children is a leaf: a column of values, with a chunk in each row group. A value that is
 * missing or repeated is told by two small numbers beside it, its definition and repetition level
 * (Dremel; Parquet's "Nested Encoding"). Memory is bounded by SCHEMA_NODES and SCHEMA_BYTES. */
#pragma once

#include "dataset/container/parquet/thrift.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SCHEMA_NODES = 10000,
	SCHEMA_NAME_MAX = 4096,
	SCHEMA_BYTES = 4 << 20, /* of all names */
	SCHEMA_DEPTH = 64,
	SCHEMA_TEXT = 400, /* of a list of columns in a sentence */
};

#define SCHEMA_NONE UINT32_MAX /* no node, no leaf */

/* Physical types, by their numbers in parquet.thrift. */
enum parquet_type {
	PARQUET_BOOLEAN,
	PARQUET_INT32,
	PARQUET_INT64,
	PARQUET_INT96,
	PARQUET_FLOAT,
	PARQUET_DOUBLE,
	PARQUET_BYTES,
	PARQUET_FIXED,
	PARQUET_TYPES,
};

/* What the values of a leaf mean, as far as it matters here. */
enum parquet_meaning {
	PARQUET_PLAIN, /* what the physical type says; integers with a sign */
	PARQUET_UNSIGNED,
	PARQUET_TEXT, /* strings, enumerations, JSON */
	PARQUET_OTHER, /* decimals, dates, times, and the like */
};

enum parquet_repetition { PARQUET_REQUIRED, PARQUET_OPTIONAL, PARQUET_REPEATED };

struct schema_node {
	char *name;
	uint32_t parent; /* SCHEMA_NONE: the root */
	uint32_t children;
	uint32_t leaf; /* its number among the leaves; SCHEMA_NONE: it has children */
	uint32_t length; /* of PARQUET_FIXED */
	uint8_t type; /* enum parquet_type */
	uint8_t meaning; /* enum parquet_meaning */
	uint8_t repetition; /* enum parquet_repetition */
	uint8_t depth; /* of the root 0 */
	uint8_t definition, repeated; /* the highest levels at this node */
};

struct schema {
	struct schema_node *node; /* the root first */
	size_t count, room;
	uint32_t leaves;
	size_t bytes;
};

/* Reads the list of nodes, whose field was just taken. 0 or thrift->error. */
int schema_read(struct schema *schema, struct thrift *thrift, const struct thrift_field *field);
void schema_deinit(struct schema *schema);

/* The child of `parent` with this name; SCHEMA_NONE: there is none. */
uint32_t schema_child(const struct schema *schema, uint32_t parent, const char *name);

/* Writes the names from the root's child down, with dots: "image.bytes". */
void schema_path(const struct schema *schema, uint32_t node, char *buffer, size_t room);

/* Writes the columns with what they are: "image (structure), label (int64)". */
void schema_list(const struct schema *schema, char buffer[SCHEMA_TEXT]);

/* What a node is, for sentences: "int64", "text", "structure", "list". */
const char *schema_kind(const struct schema *schema, uint32_t node);

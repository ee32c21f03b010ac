/* yaml: reads a YAML mapping into a struct by a table of keys. Every refusal names file, line and
 * column.
 *
 * A map of this folder:
 *   json.[ch]  reads JSON with jansson, also where memory runs out
 *   yaml.[ch]  this file
 *
 * The caller describes its struct once, key by key (struct yaml_key). Types, ranges, unknown keys
 * and duplicate keys are then checked in the same way everywhere. JSON is YAML, so the same table
 * reads what clients send. Only plain data is allowed: anchors, aliases and tags are refused, and
 * nesting and size are bounded. The table gives each value its type (`source: 123` is the text
 * "123").
 *
 *   cleanup(yaml_text) struct yaml_text text = {0};
 *   if ((result = yaml_load(&text, bytes, size, "open request", fault)) < 0) return result;
 *   result = yaml_read(&text, text.root, keys, UTIL_COUNT(keys), &target, &given, fault);
 *
 * Any thread. libyaml allocates, so this is for set-up only. */
#pragma once

#include "base/fault.h"

#include <stddef.h>
#include <stdint.h>
#include <yaml.h>

enum {
	YAML_SIZE_MAX = 1 << 20, /* bytes of a text; a configuration is a few kilobytes */
	YAML_DEPTH_MAX = 24, /* nested lists and mappings */
	YAML_NODES_MAX = 16384, /* scalars, lists and mappings of a text */
	YAML_KEYS_MAX = 64, /* of one table: one bit each in `ret_given` */
};

/* A loaded document. A zeroed one is a valid empty one. */
struct yaml_text {
	yaml_document_t document;
	const yaml_node_t *root; /* NULL where the text is empty or has only comments */
	/* Its name in messages; the caller's, and outlives this. NULL: messages name no place. */
	const char *origin;
	/* NULL, or a word that messages add after the place: "RandomResizedCrop". A NODE reader
	 * sets it in a copy of this struct, so that a refusal says which of several mappings it
	 * means. */
	const char *within;
	/* "", or what messages add before `within`: "views[1]: ", an item of a list. */
	char place[64];
	/* NULL, or gets a sentence about the first key that was written by an old name (renamed.h);
	 * "" stays where there is none. */
	struct fault *renamed;
};

enum yaml_kind {
	YAML_KEY_BOOL = 1, /* bool; true, false, yes, no, on, off */
	YAML_KEY_U32, /* uint32_t or unsigned, min .. max */
	YAML_KEY_I32, /* int32_t, low .. high */
	YAML_KEY_U64, /* uint64_t, min .. max */
	YAML_KEY_HEX64, /* uint64_t, written as exactly 16 hexadecimal digits */
	YAML_KEY_SIZE, /* uint64_t, bytes, min .. max; 128M, 4G (size.h) */
	YAML_KEY_DOUBLE, /* double, low .. high */
	YAML_KEY_STRING, /* char[room]; at least min bytes, no zero byte inside */
	YAML_KEY_NAME, /* char[room]; as STRING, not empty, no control characters */
	YAML_KEY_PATH, /* char[room]; as STRING, absolute where not empty */
	YAML_KEY_ENUM, /* an enum; the value is the index of its word in `names` */
	YAML_KEY_NODE, /* anything: `read` or `read_as` reads it */
};

struct yaml_key {
	const char *name;
	enum yaml_kind kind;
	size_t offset; /* of the field in the struct */
	size_t room; /* bytes of a char array */
	uint64_t min, max;
	double low, high;
	const char *zero; /* a word for 0, which may be outside the range: "auto". NULL: none */
	const char *const *names; /* ends with NULL */
	int (*read)(const struct yaml_text *text, const yaml_node_t *node, void *field,
		struct fault *fault);
	/* Instead of `read`: for a reader of several keys that needs their ranges. */
	int (*read_as)(const struct yaml_text *text, const yaml_node_t *node,
		const struct yaml_key *key, void *field, struct fault *fault);
};

/* Parses and checks a text. 0; -EINVAL: not YAML, not plain data, more than one document, too
 * large; -ENOMEM. */
int yaml_load(struct yaml_text *ret, const char *bytes, size_t size, const char *origin,
	struct fault *fault);

/* The same from a regular file, whose path is the origin. Also -ENOENT, -EACCES and the like.
 * Blocks. */
int yaml_load_file(struct yaml_text *ret, const char *path, struct fault *fault);

void yaml_unload(struct yaml_text *text);

/* Reads the mapping `node` (NULL: an empty one) into `target`. The fields of keys that the mapping
 * does not have stay as they are; bit i of `ret_given` says that it has keys[i]. 0; -EINVAL, or
 * another error of `read`: then some fields may have changed. */
int yaml_read(const struct yaml_text *text, const yaml_node_t *node, const struct yaml_key *keys,
	size_t count, void *target, uint64_t *ret_given, struct fault *fault);

/* Reads one value into `field` as `key` describes it. For NODE readers. */
int yaml_read_value(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault);

/* Reads the text of an option as a value, in which nothing is YAML; `name` is what messages call
 * it: "--io". */
int yaml_read_option(const struct yaml_key *key, const char *text, const char *name, void *field,
	struct fault *fault);

/* The node that a pair of a mapping or an item of a list names; never NULL for nodes of `text`. */
const yaml_node_t *yaml_node(const struct yaml_text *text, int index);

/* The first pair of a mapping with this key, or with an old name of it; NULL where there is
 * none, or `mapping` is not a mapping. */
const yaml_node_pair_t *yaml_find(
	const struct yaml_text *text, const yaml_node_t *mapping, const char *key);

/* A scalar's text and length; NULL for mappings and lists. Zero-terminated, but may hold zero
 * bytes. */
const char *yaml_scalar(const yaml_node_t *node, size_t *ret_size);

/* Returns -EINVAL with "origin:line:column: ..."; with `node` NULL only "origin: ...". */
int yaml_fault(const struct yaml_text *text, const yaml_node_t *node, struct fault *fault,
	const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Whether the field that `key` describes is the same in both structs. Not for NODE. */
int yaml_equal(const struct yaml_key *key, const void *a, const void *b);

static inline void util_yaml_text(struct yaml_text *text)
{
	yaml_unload(text);
}

/* choice: see choice.h. */
#include "dataset/container/parquet/choice.h"

#include "base/util.h"

#include <errno.h>
#include <string.h>

/* What a choice is made from. */
struct choosing {
	const struct parquet *parquet;
	const struct schema *schema;
	const struct features *features;
	struct fault *fault;
};

static int fault_missing(const struct choosing *c, const char *name, const char *key)
{
	char list[SCHEMA_TEXT];
	schema_list(c->schema, list);
	return fault_set(c->fault, -EINVAL, "%s: %s: there is no column \"%.100s\"; it has %s",
		c->parquet->path, key, name, list);
}

static int fault_kind(
	const struct choosing *c, const char *key, uint32_t node, const char *expected)
{
	return fault_set(c->fault, -EINVAL, "%s: %s: column \"%.100s\" is %s%s: expected %s",
		c->parquet->path, key, c->schema->node[node].name,
		c->schema->node[node].leaf == SCHEMA_NONE ? "a " : "of type ",
		schema_kind(c->schema, node), expected);
}

static bool is_binary(const struct schema *schema, uint32_t node)
{
	const struct schema_node *at = &schema->node[node];
	return at->leaf != SCHEMA_NONE && at->type == PARQUET_BYTES && !at->repeated &&
	       at->meaning == PARQUET_PLAIN;
}

/* The child `bytes` of a structure, if it is binary; `name` may be another one. */
static uint32_t child_bytes(const struct schema *schema, uint32_t node, const char *name)
{
	const uint32_t child = schema_child(schema, node, name);
	const struct schema_node *at = child == SCHEMA_NONE ? NULL : &schema->node[child];
	return at && at->leaf != SCHEMA_NONE && at->type == PARQUET_BYTES && !at->repeated
		       ? child
		       : SCHEMA_NONE;
}

/* The leaf of an image's bytes in a column; SCHEMA_NONE: it has none. */
static uint32_t image_leaf(const struct schema *schema, uint32_t node)
{
	return is_binary(schema, node) ? node : child_bytes(schema, node, "bytes");
}

static int image_take(const struct choosing *c, uint32_t node, struct choice *ret)
{
	const char *type = features_type(c->features, c->schema->node[node].name);
	ret->image = image_leaf(c->schema, node);
	if (ret->image == SCHEMA_NONE && type && strcmp(type, "Image") == 0)
		return fault_kind(c, "image_column", node,
			"a structure {bytes, path} or binary; it has only the places of images: "
			"write the file with the images in it (datasets: push_to_hub, or "
			"cast_column with Image(decode=False) and files that are read)");
	if (ret->image == SCHEMA_NONE)
		return fault_kind(c, "image_column", node,
			"binary, or a structure with binary \"bytes\" (lists of images are not "
			"read)");
	ret->path = ret->image == node ? SCHEMA_NONE : child_bytes(c->schema, node, "path");
	return 0;
}

/* How sure a column is an image's: 3 `datasets` says so, 2 a structure with bytes, 1 binary, 0
 * not. */
static int image_likeness(const struct choosing *c, uint32_t node)
{
	const char *type = features_type(c->features, c->schema->node[node].name);
	if (type && strcmp(type, "Image") == 0)
		return 3;
	const uint32_t leaf = image_leaf(c->schema, node);
	if (leaf == SCHEMA_NONE)
		return 0;
	/* `datasets` stores sounds in the same way, and says so. */
	return leaf == node ? 1 : type ? 0 : 2;
}

static int image_guess(const struct choosing *c, struct choice *ret)
{
	char list[SCHEMA_TEXT];
	uint32_t best = SCHEMA_NONE, count = 0;
	int likeness = 1;
	for (uint32_t i = 1; i < c->schema->count; i++) {
		const int found = c->schema->node[i].parent == 0 ? image_likeness(c, i) : 0;
		if (found < likeness)
			continue;
		count = found > likeness ? 1 : count + 1;
		likeness = found;
		best = i;
	}
	if (count == 1)
		return image_take(c, best, ret);
	schema_list(c->schema, list);
	return fault_set(c->fault, -EINVAL,
		count ? "%s: more than one column may hold the images: say which with "
			"image_column; it has %s"
		      : "%s: no column holds images: expected binary, or a structure with binary "
			"\"bytes\"; it has %s",
		c->parquet->path, list);
}

/* ---- the label ---- */

static bool is_number(const struct schema_node *node)
{
	if (node->type == PARQUET_INT32 || node->type == PARQUET_INT64)
		return node->meaning == PARQUET_PLAIN || node->meaning == PARQUET_UNSIGNED;
	return node->type == PARQUET_BOOLEAN || node->type == PARQUET_FLOAT ||
	       node->type == PARQUET_DOUBLE;
}

/* The only leaf below a node; SCHEMA_NONE: it has several. */
static uint32_t only_leaf(const struct schema *schema, uint32_t node)
{
	while (schema->node[node].leaf == SCHEMA_NONE && schema->node[node].children == 1)
		node++;
	return schema->node[node].leaf == SCHEMA_NONE ? SCHEMA_NONE : node;
}

static int label_take(const struct choosing *c, uint32_t node, struct choice *ret)
{
	const struct schema *schema = c->schema;
	const uint32_t leaf = only_leaf(schema, node);
	const struct schema_node *at = leaf == SCHEMA_NONE ? NULL : &schema->node[leaf];
	if (at && at->type == PARQUET_BYTES)
		return fault_kind(c, "label_column", node,
			"integers or numbers: make classes of the texts (datasets: "
			"class_encode_column), name the label of each sample in a manifest, or ask "
			"for labels: none");
	if (!at || !is_number(at) || at->repeated > 1)
		return fault_kind(c, "label_column", node,
			"integers, numbers, booleans or a list of them; to ignore labels, ask for "
			"labels: none");
	ret->label = leaf;
	ret->classes = features_classes(c->features, schema->node[node].name);
	for (uint32_t i = leaf; i != SCHEMA_NONE && at->repeated; i = schema->node[i].parent)
		if (schema->node[i].repetition == PARQUET_REPEATED)
			ret->list = schema->node[i].definition;
	return 0;
}

static int label_guess(const struct choosing *c, struct choice *ret)
{
	static const char *const usual[] = {"label", "labels", "cls", "target"};
	char list[SCHEMA_TEXT];
	uint32_t found = SCHEMA_NONE, count = 0;
	for (uint32_t i = 1; i < c->schema->count; i++) {
		const struct schema_node *node = &c->schema->node[i];
		if (node->parent != 0 || !features_classes(c->features, node->name))
			continue;
		if (strcmp(node->name, usual[0]) == 0)
			return label_take(c, i, ret);
		found = i;
		count++;
	}
	if (count == 1)
		return label_take(c, found, ret);
	if (count) {
		schema_list(c->schema, list);
		return fault_set(c->fault, -EINVAL,
			"%s: %u columns hold classes: say which with label_column, or ask for "
			"labels: none; it has %s",
			c->parquet->path, count, list);
	}
	for (size_t i = 0; i < UTIL_COUNT(usual); i++) {
		found = schema_child(c->schema, 0, usual[i]);
		if (found != SCHEMA_NONE)
			return label_take(c, found, ret);
	}
	return 0;
}

/* ---- fields ---- */

static int field_take(const struct choosing *c, const char *name, uint32_t *ret)
{
	char key[FIELD_NAME_MAX + 16];
	(void)snprintf(key, sizeof key, "field %s", name);
	uint32_t node = schema_child(c->schema, 0, name);
	if (node == SCHEMA_NONE)
		return fault_missing(c, name, key);
	/* An image beside the image, such as a mask. */
	const uint32_t bytes = child_bytes(c->schema, node, "bytes");
	*ret = bytes == SCHEMA_NONE ? node : bytes;
	const struct schema_node *at = &c->schema->node[*ret];
	if (at->leaf == SCHEMA_NONE || at->repeated || at->type == PARQUET_BOOLEAN)
		return fault_kind(c, key, node,
			"binary, text, numbers of a fixed size, or a structure with binary "
			"\"bytes\"");
	return 0;
}

int choice_make(const struct parquet *parquet, const struct features *features,
	const struct column_choice *columns, const struct field_list *fields, bool labelled,
	struct choice *ret, struct fault *fault)
{
	const struct choosing c = {parquet, &parquet->schema, features, fault};
	*ret = (struct choice){.image = SCHEMA_NONE, .path = SCHEMA_NONE, .label = SCHEMA_NONE};
	const uint32_t image = schema_child(c.schema, 0, columns->image);
	const uint32_t label = schema_child(c.schema, 0, columns->label);
	if (columns->image[0] && image == SCHEMA_NONE)
		return fault_missing(&c, columns->image, "image_column");
	if (labelled && columns->label[0] && label == SCHEMA_NONE)
		return fault_missing(&c, columns->label, "label_column");
	int rc = columns->image[0] ? image_take(&c, image, ret) : image_guess(&c, ret);
	if (rc == 0 && labelled)
		rc = columns->label[0] ? label_take(&c, label, ret) : label_guess(&c, ret);
	for (uint32_t i = 0; rc == 0 && fields && i < fields->count; i++)
		rc = field_take(&c, fields->at[i].name, &ret->field[i]);
	return rc;
}

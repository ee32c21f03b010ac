/* document: see document.h. A struct node is a json_t under another name. */
#include "client/cli/document.h"

#include "base/text/json.h"
#include "base/util.h"
#include "client/cli/cli.h"

#include <stdlib.h>
#include <string.h>

static const json_t *document_json(const struct node *node)
{
	return (const json_t *)node;
}

struct node *document_parse(const char *text)
{
	json_t *json = json_read(text, strlen(text), JSON_PARTS_ANY, 0, NULL);
	/* jansson refuses an integer of 2^63 or more, as a seed may be, but reads it as a real. */
	if (!json)
		json = json_read(text, strlen(text), JSON_PARTS_ANY, JSON_DECODE_INT_AS_REAL, NULL);
	return (struct node *)json;
}

void document_free(struct node *root)
{
	json_decref((json_t *)root);
}

const struct node *document_get(const struct node *object, const char *key)
{
	return (const struct node *)json_object_get(document_json(object), key);
}

double document_value(const struct node *node)
{
	return json_number_value(document_json(node));
}

const char *document_string(const struct node *node)
{
	const char *text = json_string_value(document_json(node));
	return text ? text : "";
}

double document_number(const struct node *object, const char *key, double fallback)
{
	const json_t *value = json_object_get(document_json(object), key);
	return json_is_number(value) ? json_number_value(value) : fallback;
}

uint64_t document_whole(double value)
{
	return value > 0 ? value < 0x1p64 ? (uint64_t)value : UINT64_MAX : 0;
}

uint64_t document_u64(const struct node *object, const char *key, uint64_t fallback)
{
	const json_t *value = json_object_get(document_json(object), key);
	if (json_is_integer(value) && json_integer_value(value) >= 0)
		return (uint64_t)json_integer_value(value);
	double real = json_is_real(value) ? json_real_value(value) : -1;
	return real < 0 ? fallback : document_whole(real);
}

const char *document_text(const struct node *object, const char *key, const char *fallback)
{
	const char *text = json_string_value(json_object_get(document_json(object), key));
	return text ? text : fallback;
}

bool document_bool(const struct node *object, const char *key, bool fallback)
{
	const json_t *value = json_object_get(document_json(object), key);
	return json_is_boolean(value) ? json_is_true(value) : fallback;
}

size_t document_count(const struct node *node)
{
	const json_t *json = document_json(node);
	return json_is_array(json) ? json_array_size(json) : json_object_size(json);
}

const struct node *document_at(const struct node *node, size_t i, const char **ret_key)
{
	json_t *json = (json_t *)node;
	if (json_is_array(json))
		return (const struct node *)json_array_get(json, i);
	void *iterator = json_object_iter(json);
	while (iterator && i--)
		iterator = json_object_iter_next(json, iterator);
	if (!iterator)
		return NULL;
	if (ret_key)
		*ret_key = json_object_iter_key(iterator);
	return (const struct node *)json_object_iter_value(iterator);
}

void document_sum(struct node *into, const struct node *from, const char *key)
{
	json_t *sum = json_object_get((json_t *)into, key),
	       *more = json_object_get(document_json(from), key), *value;
	const char *name;
	json_object_foreach(more, name, value)
	{
		const json_t *before = json_object_get(sum, name);
		bool whole = json_is_integer(value) && (!before || json_is_integer(before));
		(void)json_object_set_new(sum, name,
			whole ? json_integer(json_integer_value(before) + json_integer_value(value))
			      : json_real(json_number_value(before) + json_number_value(value)));
	}
}

/* jansson parses no more than 2,048 levels. */
// NOLINTNEXTLINE(misc-no-recursion)
static void document_tame_json(json_t *json)
{
	const char *key;
	json_t *value;
	size_t i;
	if (json_is_string(json)) {
		cleanup(free_ptr) char *text = strdup(json_string_value(json));
		if (text)
			(void)json_string_set_nocheck(json, cli_tame(text));
	}
	json_array_foreach(json, i, value) document_tame_json(value);
	json_object_foreach(json, key, value) document_tame_json(value);
}

void document_tame(struct node *root)
{
	document_tame_json((json_t *)root);
}

char *document_dump(const struct node *node)
{
	if (!node)
		return strdup("{}");
	char *text = json_dumps(document_json(node), JSON_COMPACT | JSON_ENCODE_ANY);
	char *copy = text ? strdup(text) : NULL;
	json_text_free(text);
	return copy;
}

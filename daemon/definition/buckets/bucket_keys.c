/* bucket_keys: see bucket_keys.h. */
#include "definition/buckets/bucket_keys.h"

#include "base/hash.h"
#include "base/util.h"
#include "definition/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

__extension__ typedef unsigned __int128 bucket_wide;

static bool bucket_alike(struct pixel_size a, struct pixel_size b)
{
	return (uint64_t)a.width * b.height == (uint64_t)b.width * a.height;
}

static int bucket_read_one(const struct yaml_text *text, const yaml_node_t *node,
	struct bucket_keys *buckets, struct fault *fault)
{
	struct pixel_size size = {0, 0};
	char is[SHAPE_SIZE_TEXT], was[SHAPE_SIZE_TEXT];
	int result = shape_read_size(text, node, "size of a bucket", &size, fault);
	if (result < 0)
		return result;
	for (uint32_t i = 0; i < buckets->count; i++)
		if (bucket_alike(size, buckets->size[i]))
			return yaml_fault(text, node, fault,
				"%s has the ratio of width to height that %s has, so which of them "
				"a sample belongs to is open: leave one of them out",
				shape_size_text(size, is), shape_size_text(buckets->size[i], was));
	buckets->size[buckets->count++] = size;
	return 0;
}

int bucket_keys_read(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	struct bucket_keys buckets = {0};
	struct yaml_text inner = *text;
	int result = 0;
	if (node->type != YAML_SEQUENCE_NODE)
		return yaml_fault(text, node, fault,
			"buckets: expected a list of sizes [height, width], as in [[256, 192], "
			"[224, 224], [192, 256]]");
	const yaml_node_item_t *items = node->data.sequence.items.start;
	int64_t count = node->data.sequence.items.top - items;
	if (count < 1 || count > BUCKETS_MAX)
		return yaml_fault(text, node, fault,
			"buckets: expected 1 to %d sizes [height, width], got %" PRId64,
			BUCKETS_MAX, count);
	inner.within = "buckets";
	for (int64_t i = 0; !result && i < count; i++)
		result = bucket_read_one(&inner, yaml_node(text, items[i]), &buckets, fault);
	if (!result)
		*(struct bucket_keys *)field = buckets;
	return result;
}

bool bucket_keys_equal(const struct bucket_keys *a, const struct bucket_keys *b)
{
	bool equal = a->count == b->count;
	for (uint32_t i = 0; equal && i < a->count; i++)
		equal = pixel_size_equal(a->size[i], b->size[i]);
	return equal;
}

void bucket_keys_json(struct jsontext *json, const char *key, const struct bucket_keys *buckets)
{
	jsontext_array(json, key);
	for (uint32_t i = 0; i < buckets->count; i++) {
		jsontext_array(json, NULL);
		jsontext_u64(json, NULL, buckets->size[i].height);
		jsontext_u64(json, NULL, buckets->size[i].width);
		jsontext_end(json);
	}
	jsontext_end(json);
}

void bucket_keys_text(const struct bucket_keys *buckets, char *buffer, size_t room)
{
	char text[SHAPE_SIZE_TEXT];
	size_t at = 0;
	buffer[0] = 0;
	for (uint32_t i = 0; i < buckets->count && at < room; i++)
		at += (size_t)snprintf(buffer + at, room - at, "%s%s",
			!i                        ? ""
			: i + 1 == buckets->count ? " and "
						  : ", ",
			shape_size_text(buckets->size[i], text));
}

uint64_t bucket_keys_hash(const struct bucket_keys *buckets, uint64_t h)
{
	for (uint32_t i = 0; i < buckets->count; i++) {
		h = hash_u64(hash_bytes(h, "bucket", 6), buckets->size[i].height);
		h = hash_u64(h, buckets->size[i].width);
	}
	return h;
}

struct pixel_size bucket_keys_largest(const struct bucket_keys *buckets)
{
	struct pixel_size largest = {0, 0};
	for (uint32_t i = 0; i < buckets->count; i++) {
		largest.height = UTIL_MAX(largest.height, buckets->size[i].height);
		largest.width = UTIL_MAX(largest.width, buckets->size[i].width);
	}
	return largest;
}

uint64_t bucket_keys_pixels(const struct bucket_keys *buckets)
{
	uint64_t most = 0;
	for (uint32_t i = 0; i < buckets->count; i++)
		most = UTIL_MAX(most, (uint64_t)buckets->size[i].height * buckets->size[i].width);
	return most;
}

/* How far two ratios are apart, as a fraction of at least 1: the larger ratio divided by the
 * smaller one. */
struct bucket_distance {
	uint64_t over, under;
};

static struct bucket_distance bucket_distance(
	struct pixel_size size, uint32_t width, uint32_t height)
{
	uint64_t a = (uint64_t)width * size.height, b = (uint64_t)size.width * height;
	return a > b ? (struct bucket_distance){a, b} : (struct bucket_distance){b, a};
}

uint32_t bucket_keys_nearest(const struct bucket_keys *buckets, uint32_t width, uint32_t height)
{
	uint32_t nearest = 0;
	if (!width || !height)
		width = height = 1;
	struct bucket_distance least = bucket_distance(buckets->size[0], width, height);
	for (uint32_t i = 1; i < buckets->count; i++) {
		struct bucket_distance here = bucket_distance(buckets->size[i], width, height);
		if ((bucket_wide)here.over * least.under < (bucket_wide)least.over * here.under) {
			least = here;
			nearest = i;
		}
	}
	return nearest;
}

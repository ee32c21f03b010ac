/* bucket_keys: the key `buckets`: shapes, one of which every batch has. Each sample goes to the
 * shape whose ratio of width to height is nearest to that of its image.
 *
 * A map of this folder:
 *   bucket_keys.[ch]  the key: read, written, compared; the bucket of an image
 *   divide.[ch]       which bucket each sample of a stream belongs to
 *
 * Pure functions; any thread. */
#pragma once

#include "base/fault.h"
#include "base/text/yaml.h"
#include "order/buckets.h"
#include "pixel/pixel.h"
#include "proto/jsontext.h"

#include <stdbool.h>
#include <stdint.h>

struct bucket_keys {
	uint32_t count; /* 0: not given */
	struct pixel_size size[BUCKETS_MAX]; /* no two have the same ratio */
};

/* A reader for struct yaml_key; the field is a struct bucket_keys. */
int bucket_keys_read(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);
bool bucket_keys_equal(const struct bucket_keys *a, const struct bucket_keys *b);
void bucket_keys_json(struct jsontext *json, const char *key, const struct bucket_keys *buckets);
/* Writes "256 x 192, 224 and 192 x 256", for messages. Truncates to the room. */
void bucket_keys_text(const struct bucket_keys *buckets, char *buffer, size_t room);
uint64_t bucket_keys_hash(const struct bucket_keys *buckets, uint64_t h);

/* The largest height and the largest width; and the pixels of the shape that has most of them. */
struct pixel_size bucket_keys_largest(const struct bucket_keys *buckets);
uint64_t bucket_keys_pixels(const struct bucket_keys *buckets);

/* The bucket of an image: that with the least |log(ratio) - log(the image's ratio)|; of equally
 * near ones the first. An image without a size counts as a square. Exact. */
uint32_t bucket_keys_nearest(const struct bucket_keys *buckets, uint32_t width, uint32_t height);

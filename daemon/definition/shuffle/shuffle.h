/* shuffle: the keys `shuffle` and `window`: in which order an epoch has its samples.
 *
 * A map of this folder:
 *   shuffle.[ch]  the keys: read, written, named for people
 *   places.[ch]   the samples of a subset in the order of the dataset, for a shuffle by blocks
 *
 * Pure functions; any thread. */
#pragma once

#include "base/fault.h"
#include "base/text/yaml.h"
#include "order/sampler.h"
#include "proto/jsontext.h"

#include <stddef.h>
#include <stdint.h>

/* As truth values: whether samples are shuffled. */
enum shuffle {
	SHUFFLE_NONE, /* `false`: the order of the dataset */
	SHUFFLE_FULL, /* `true` or `full` */
	SHUFFLE_BLOCKS, /* `blocks`: order/blocks.h */
};

/* A reader for struct yaml_key; the field is an enum shuffle. */
int shuffle_read(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);
void shuffle_json(struct jsontext *json, const char *key, const enum shuffle *shuffle);

/* Writes "in order", "shuffled" or "shuffled in a window of 16 blocks". Truncates to the room;
 * SHUFFLE_TEXT bytes are enough. Returns `buffer`. */
enum { SHUFFLE_TEXT = 48 };
const char *shuffle_text(enum shuffle shuffle, uint32_t window, char *buffer, size_t room);

/* A hash of the samples in a block, of each part of a sampler; 0 if it is not shuffled by
 * blocks. States cover it: images that are rewritten in another size may change it. */
uint64_t shuffle_blocks_hash(const struct sampler *sampler);

/* The hash that a sampler of one part with blocks of 2^`power` samples has. */
enum { SHUFFLE_POWERS = 64 };
uint64_t shuffle_power_hash(uint32_t power);

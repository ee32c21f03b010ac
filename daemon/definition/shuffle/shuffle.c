/* shuffle: see shuffle.h. Pure functions. */
#include "definition/shuffle/shuffle.h"

#include "base/hash.h"
#include "base/util.h"

#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

int shuffle_read(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	static const struct {
		const char *word;
		enum shuffle shuffle;
	} words[] = {{"false", SHUFFLE_NONE}, {"no", SHUFFLE_NONE}, {"off", SHUFFLE_NONE},
		{"true", SHUFFLE_FULL}, {"yes", SHUFFLE_FULL}, {"on", SHUFFLE_FULL},
		{"full", SHUFFLE_FULL}, {"blocks", SHUFFLE_BLOCKS}};
	size_t size = 0;
	const char *value = yaml_scalar(node, &size);
	for (size_t i = 0; value && i < UTIL_COUNT(words); i++)
		if (strcasecmp(value, words[i].word) == 0) {
			*(enum shuffle *)field = words[i].shuffle;
			return 0;
		}
	return yaml_fault(text, node, fault,
		"shuffle: expected true, false, full (the same as true) or blocks, got %s%.60s%s",
		value ? "\"" : "", value ? value : "a list or a mapping", value ? "\"" : "");
}

void shuffle_json(struct jsontext *json, const char *key, const enum shuffle *shuffle)
{
	if (*shuffle == SHUFFLE_BLOCKS)
		jsontext_string(json, key, "blocks");
	else
		jsontext_bool(json, key, *shuffle == SHUFFLE_FULL);
}

const char *shuffle_text(enum shuffle shuffle, uint32_t window, char *buffer, size_t room)
{
	if (shuffle == SHUFFLE_BLOCKS)
		(void)snprintf(buffer, room, "shuffled in a window of %" PRIu32 " block%s", window,
			window == 1 ? "" : "s");
	else
		(void)snprintf(
			buffer, room, "%s", shuffle == SHUFFLE_NONE ? "in order" : "shuffled");
	return buffer;
}

static uint64_t shuffle_hash_block(uint64_t h, uint64_t block)
{
	return hash_u64(hash_bytes(h, "block", 5), block);
}

uint64_t shuffle_blocks_hash(const struct sampler *sampler)
{
	uint64_t h = HASH_SEED;
	for (uint32_t i = 0; i < sampler->parts; i++) {
		if (!sampler->order[i].window)
			return 0;
		h = shuffle_hash_block(h, sampler->order[i].block);
	}
	return hash_mix(h);
}

uint64_t shuffle_power_hash(uint32_t power)
{
	return hash_mix(shuffle_hash_block(HASH_SEED, (uint64_t)1 << power));
}

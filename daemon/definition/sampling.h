/* sampling: which samples a stream gives out, and how often: the keys weights, epoch_length,
 * repeats, split and sources of a definition (spec.h), and what they come to (order/sampler.h).
 *
 * Readers and hashes are pure functions. sampling_make may read labels, so it blocks. */
#pragma once

#include "base/fault.h"
#include "base/yaml.h"
#include "dataset/concat.h"
#include "definition/list.h"
#include "definition/split.h"
#include "order/sampler.h"
#include "proto/jsontext.h"

#include <stdbool.h>
#include <stdint.h>

enum { SAMPLING_TEXT = 4096, SAMPLING_SOURCES_TEXT = 16384 };

/* Content of a file, once it has been read: its path is nobody's concern. */
struct sampling_content {
	uint64_t count; /* 0: there is none, or it was not read yet */
	uint64_t hash;
};

/* The list of `sources`. */
struct sampling_sources {
	uint32_t count; /* 0: not given; else 2 .. SAMPLER_PARTS */
	double weight[SAMPLER_PARTS]; /* as written */
	uint32_t quota[SAMPLER_PARTS]; /* what they come to in a block */
	uint16_t at[SAMPLER_PARTS]; /* of its name in `text` */
	char text[SAMPLING_SOURCES_TEXT];
};

struct sampling {
	char weights[SAMPLING_TEXT]; /* "balanced", path of a .npy file; "": none */
	struct sampling_content weighed; /* of that file */
	uint64_t epoch_length; /* 0: what there is */
	uint32_t repeats; /* 1 .. SAMPLER_REPEATS; default 1 */
	char split[SPLIT_TEXT]; /* "": all */
	struct sampling_sources sources;
};

/* A reader of struct yaml_key; the field is a struct sampling_sources. */
int sampling_read_sources(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);

const char *sampling_source(const struct sampling_sources *sources, uint32_t part);
bool sampling_sources_equal(const struct sampling_sources *a, const struct sampling_sources *b);
void sampling_json_sources(
	struct jsontext *json, const char *key, const struct sampling_sources *sources);
/* "/data/a (70 %), /data/b (30 %)": for people. Cut to the room. */
void sampling_say_sources(const struct sampling_sources *sources, char *buffer, size_t room);

/* Adds to the hash of what makes the order whatever was given. */
uint64_t sampling_hash(const struct sampling *sampling, uint64_t h);

/* What a definition's files hold, each NULL where there is none. */
struct sampling_lists {
	struct list *indices, *weights;
};
void sampling_lists_close(struct list_shelf *shelf, struct sampling_lists *lists);

/* Reads the files that a definition names ("": none). As subset_open. */
int sampling_lists_open(struct list_shelf *shelf, const char *indices, const char *weights,
	const atomic_bool *cancel, struct sampling_lists *ret, struct fault *fault);

/* What a definition says of its samples besides struct sampling. */
struct sampling_order {
	uint64_t seed;
	bool shuffle;
	const char *indices; /* for words */
};

/* Lays out the sampler over the datasets. `lists` has what was read; for `balanced` the table is
 * made here and put there. `progress` as in weigh_balance. 0; -EINVAL a list does not fit, a split
 * is empty, ..., in words; as weigh_balance. */
int sampling_make(const struct sampling *sampling, const struct sampling_order *order,
	const struct concat *parts, struct list_shelf *shelf, struct sampling_lists *lists,
	progress_fn *progress, void *progress_context, struct sampler *ret, struct fault *fault);

/* sampling: which samples a stream delivers, and how often: the keys weights, epoch_length,
 * repeats, split, sampling and sources of a definition (spec.h), and the sampler that they make
 * (order/sampler.h).
 *
 * Readers and hashes are pure functions. sampling_make may read labels, so it blocks. */
#pragma once

#include "base/fault.h"
#include "base/text/yaml.h"
#include "dataset/concat.h"
#include "definition/list.h"
#include "definition/split.h"
#include "order/sampler.h"
#include "proto/jsontext.h"

#include <stdbool.h>
#include <stdint.h>

enum { SAMPLING_TEXT = 4096, SAMPLING_SOURCES_TEXT = 16384 };

/* The content of a file, once it has been read. The file's path does not matter. */
struct sampling_content {
	uint64_t count; /* 0: there is no file, or it has not been read yet */
	uint64_t hash;
};

/* The list of `sources`. */
struct sampling_sources {
	uint32_t count; /* 0: not given; else 2 .. SAMPLER_PARTS */
	double weight[SAMPLER_PARTS]; /* as written */
	uint32_t quota[SAMPLER_PARTS]; /* samples of each source in a block */
	uint16_t at[SAMPLER_PARTS]; /* where the source's name begins in `text` */
	char text[SAMPLING_SOURCES_TEXT];
};

/* The key `sampling`: batches of P classes with K samples of each. */
struct sampling_per_class {
	uint32_t classes, each; /* 0: not given */
};

enum { SAMPLING_PER_CLASS_MOST = 65536 };

struct sampling {
	char weights[SAMPLING_TEXT]; /* "balanced" or the path of a .npy file; "": none */
	struct sampling_content weighed; /* of that file */
	uint64_t epoch_length; /* 0: the number of samples */
	uint32_t repeats; /* 1 .. SAMPLER_REPEATS; default 1 */
	char split[SPLIT_TEXT]; /* "": all */
	struct sampling_per_class per_class;
	struct sampling_sources sources;
};

/* A reader for struct yaml_key; the field is a struct sampling_sources. */
int sampling_read_sources(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);

/* The same; the field is a struct sampling_per_class. */
int sampling_read_per_class(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);
void sampling_json_per_class(
	struct jsontext *json, const char *key, const struct sampling_per_class *per_class);

/* Rows in a block of P classes with K samples of each; 1 if the stream is not sampled so. */
uint64_t sampling_block(const struct sampling *sampling);

const char *sampling_source(const struct sampling_sources *sources, uint32_t part);
bool sampling_sources_equal(const struct sampling_sources *a, const struct sampling_sources *b);
void sampling_json_sources(
	struct jsontext *json, const char *key, const struct sampling_sources *sources);
/* Writes "/data/a (70 %), /data/b (30 %)", for messages. Truncates to the room. */
void sampling_say_sources(const struct sampling_sources *sources, char *buffer, size_t room);

/* Adds the keys that were given to the hash of the order. */
uint64_t sampling_hash(const struct sampling *sampling, uint64_t h);

/* The content of the files that a definition names; NULL where it names none. */
struct sampling_lists {
	struct list *indices, *weights;
	struct list *classes; /* made of labels, not read from a file */
	struct list *buckets; /* made of the images' sizes (divide.h) */
	struct list *places[SAMPLER_PARTS]; /* of subsets, sorted (shuffle/places.h) */
};
/* The bytes that they have in memory. */
uint64_t sampling_lists_bytes(const struct sampling_lists *lists);
void sampling_lists_close(struct list_shelf *shelf, struct sampling_lists *lists);

/* Reads the files that a definition names ("": none). Returns what subset_open returns. */
int sampling_lists_open(struct list_shelf *shelf, const char *indices, const char *weights,
	const atomic_bool *cancel, struct sampling_lists *ret, struct fault *fault);

/* The other keys that choose samples: those not in struct sampling. */
struct sampling_order {
	uint64_t seed;
	bool shuffle;
	uint32_t window; /* with shuffle: of `shuffle: blocks`; otherwise 0 */
	const char *indices; /* for messages */
};

/* Makes the sampler over the datasets. `lists` has the files that were read; for `balanced`,
 * `sampling` and a shuffle by blocks, this function makes the tables and stores them there.
 * `progress` is as in weigh_balance. 0; -EINVAL with a fault, for example if a list does not fit or
 * a split is empty; otherwise as weigh_balance or class_table_open. */
int sampling_make(const struct sampling *sampling, const struct sampling_order *order,
	const struct concat *parts, struct list_shelf *shelf, struct sampling_lists *lists,
	progress_fn *progress, void *progress_context, struct sampler *ret, struct fault *fault);

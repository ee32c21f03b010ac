/* spec: the definition of a stream, written in a configuration file, by a client or on a command
 * line.
 *
 * All three use one table of keys (proto/keys.h): `streams:` in penstock.yaml and the text of
 * WIRE_OPEN are the same mapping, which libyaml reads (JSON is YAML). A refusal names the file,
 * line and column. An unknown key is an error.
 *
 * A map of this folder:
 *
 *   spec.[ch]               the definition: its keys read, written, compared
 *   spec_keys.[ch]          the table of keys, as the YAML reader takes it
 *   spec_check.[ch]         checks of the keys together, and the values that they imply
 *   spec_differ.[ch]        what tells the streams of one dataset apart, for people
 *   spec_meaning.c          how the definition makes pixels, and its hashes in states
 *   spec_state.[ch]         the key `state`: where to resume
 *   label_keys.[ch]         the key `labels`
 *   sampling.[ch]           which samples an epoch has: weights, repeats, sources, ...
 *   split.[ch]              the key `split`: "train[:90%]"
 *   subset.[ch]             the file of `indices`
 *   shuffle/                the keys `shuffle` and `window`
 *   buckets/                the key `buckets`, and which bucket each sample belongs to
 *   weigh.[ch]              the file of `weights`, and balanced weights
 *   list.[ch]               the content of those files, kept once for all streams
 *   class_count.[ch]        labels, and how many samples each class has
 *   class_table.[ch]        the samples of each class, for `sampling`
 *   shape.[ch]              the rows of a batch: image_size, dtype, layout, mean, std
 *   views.[ch]              the key `views`: groups of views with recipes of their own
 *   transforms/             the key `transforms`: a list of operations */
#pragma once

#include "base/fault.h"
#include "dataset/column_choice.h"
#include "dataset/dataset.h"
#include "dataset/fields.h"
#include "definition/buckets/bucket_keys.h"
#include "definition/sampling.h"
#include "definition/shape.h"
#include "definition/shuffle/shuffle.h"
#include "definition/transforms/transforms.h"
#include "definition/views.h"
#include "labels/label_rule.h"
#include "pixel/pixel.h"
#include "proto/keys.h"

#include <stdbool.h>
#include <stdint.h>

enum spec_broken {
	SPEC_BROKEN_SUBSTITUTE, /* another sample, chosen by the same order */
	SPEC_BROKEN_MARK, /* a zero row, flagged invalid */
	SPEC_BROKEN_FAIL, /* the stream ends */
};

enum spec_decode {
	SPEC_DECODE_EXACT, /* Pillow's bytes */
	SPEC_DECODE_FAST, /* smaller transforms where the crop is at least twice the row */
};

enum spec_share {
	SPEC_SHARE_ALL, /* every trainer of a group gets every batch */
	SPEC_SHARE_SPLIT, /* each gets its rank's slice of every global batch */
};

enum spec_laggard {
	SPEC_LAGGARD_BLOCK, /* a trainer that keeps its batches blocks its group */
	SPEC_LAGGARD_DETACH, /* such a trainer is detached after laggard_timeout_s */
};

enum { SPEC_TEXT = 4096, SPEC_NAME = 128 };

/* The key `state`: where to resume. All fields are as written in the state; serve/ compares them
 * with the stream that it opens. */
struct spec_state {
	bool given;
	uint32_t version;
	uint64_t fingerprint, order, transform, seed;
	uint64_t epoch, position; /* in samples of the epoch's global order */
	struct buckets_cuts cuts; /* of a stream with buckets; otherwise empty */
};

/* The content of the file of `indices`, once it has been read (subset.h). The path does not matter:
 * two files with the same content are the same. */
struct spec_subset {
	uint64_t count; /* 0: the whole dataset, or not read yet */
	uint64_t hash;
};

/* proto/keys.h has the meaning, the ranges and the defaults of these keys. Its rows define the
 * members for numbers and flags: batch_size, train, seed, rank and so on. */
#define SPEC_TYPE_U32 uint32_t
#define SPEC_TYPE_I32 int32_t
#define SPEC_TYPE_U64 uint64_t
#define SPEC_TYPE_REAL double
#define SPEC_TYPE_FLAG bool
#define SPEC_MEMBER_OWN(kind, name) SPEC_TYPE_##kind name;
#define SPEC_MEMBER_ELSEWHERE(kind, name)
#define SPEC_MEMBER(with, name, kind, field, place, ...) SPEC_MEMBER_##place(kind, name)

struct stream_spec {
	/* The name in a client's `stream: NAME`, or in the configuration; "" for none. */
	char name[SPEC_NAME];
	/* With several sources: a text that lists them. */
	char source[SPEC_TEXT];
	/* The path of a .npy file with the sample numbers of an epoch; "" for the whole dataset. */
	char indices[SPEC_TEXT];
	struct spec_subset subset;
	struct sampling sampling; /* the other keys that choose samples */
	/* The size that `transforms` makes, if given; the largest height and width, if they change
	 * with the epoch (shape.sizes) or the bucket. */
	struct pixel_size image_size;
	struct bucket_keys buckets;
	struct sampling_content divided; /* which sample is in which bucket, once that is known */
	enum shuffle shuffle; /* default: full in training, none in evaluation */
	uint64_t blocks_hash; /* of shuffle_blocks_hash, once the blocks are known */
	struct shape shape; /* the other keys that shape a row */
	struct label_rule labels;
	struct field_list fields; /* count 0: none */
	struct column_choice columns;
	enum class_order class_order;
	enum spec_broken on_broken; /* default: substitute in training, mark in evaluation */
	enum spec_decode decode;
	enum weights_filter interpolation; /* default: bilinear, or the filter in `transforms` */
	/* Count 0, the default: `train` decides, or views does, if it has groups. */
	struct transforms transforms;
	/* If it has groups, each has its own list, size and filter once the definition is settled,
	 * and image_size is the largest height and width of all. */
	struct views views;
	char salt[SPEC_NAME]; /* "": none */
	char group[SPEC_NAME]; /* "": only this client */
	enum spec_share share;
	enum spec_laggard laggard;
	struct spec_state state;
	PENSTOCK_KEYS(SPEC_MEMBER, )
	uint64_t given; /* the keys that were written: one bit for each enum spec_key */
};

/* The keys in the order of the table, and the bits of `given`: SPEC_KEY_seed and so on. */
#define SPEC_ENUM(with, name, ...) SPEC_KEY_##name,
enum spec_key { PENSTOCK_KEYS(SPEC_ENUM, ) SPEC_KEYS };

static inline bool spec_given(const struct stream_spec *spec, enum spec_key key)
{
	return spec->given >> key & 1;
}

/* A constant initializer: the defaults for training, without a source. */
#define SPEC_PLAIN_NUMBER(field, plain) .field = (plain),
#define SPEC_PLAIN_U32 SPEC_PLAIN_NUMBER
#define SPEC_PLAIN_I32 SPEC_PLAIN_NUMBER
#define SPEC_PLAIN_U64 SPEC_PLAIN_NUMBER
#define SPEC_PLAIN_REAL SPEC_PLAIN_NUMBER
#define SPEC_PLAIN_FLAG SPEC_PLAIN_NUMBER
#define SPEC_PLAIN_NAME(field, plain)
#define SPEC_PLAIN_TEXT(field, plain)
#define SPEC_PLAIN_WORD(field, plain)
#define SPEC_PLAIN_NODE(field, plain)
#define SPEC_PLAIN(with, name, kind, field, place, low, high, plain, ...) \
	SPEC_PLAIN_##kind(field, plain)
#define SPEC_DEFAULT                                                                        \
	{                                                                                   \
		PENSTOCK_KEYS(SPEC_PLAIN, ).image_size = {224, 224}, .shape.views = 1,      \
					  .shape.mean = SHAPE_MEAN, .shape.std = SHAPE_STD, \
					  .views.count = 1, .shuffle = SHUFFLE_FULL         \
	}
void spec_init(struct stream_spec *ret);

/* Reads a client's text. Messages call it `origin`: "open request". 0, -EINVAL or -ENOMEM. */
int spec_parse(const char *text, size_t size, const char *origin, struct stream_spec *ret,
	struct fault *fault);

/* Sets one key from the text of an option, written as in a configuration file, and marks it in
 * `given`. Messages call it `origin`: "--image-size". Files of `labels` may have relative paths.
 * The caller must call spec_settle (spec_check.h) afterwards. 0, -EINVAL or -ENOMEM. */
int spec_set(struct stream_spec *spec, enum spec_key at, const char *text, const char *origin,
	struct fault *fault);

/* The word that an enum key has: "exact". */
const char *spec_word(const struct stream_spec *spec, enum spec_key key);

/* `spec` is a client's `stream: NAME`, and `named` is the configuration's definition of that name.
 * Fills `spec` with the definition, and keeps the keys that a client may write beside `stream:`
 * (group, share, rank, epochs, state, ...). */
void spec_overlay(const struct stream_spec *named, struct stream_spec *spec);

/* Checks that rank, world_size, share, group and wait_for agree, in the definition of a stream
 * that a trainer is about to read. 0 or -EINVAL. */
int spec_check_share(const struct stream_spec *spec, struct fault *fault);

/* Whether only one trainer can read the batches: the stream has no group, or the trainer is a rank.
 * The memory may then stay writable to that trainer, which can harm only itself. */
bool spec_is_alone(const struct stream_spec *spec);

/* Whether the definition names files (indices, weights) that must be read before two definitions
 * can be compared (sampling_lists_open). spec_note_lists records the content that was read. */
bool spec_has_lists(const struct stream_spec *spec);
void spec_note_lists(struct stream_spec *spec, const struct sampling_lists *lists);
/* Records what the order of samples depends on besides the definition. */
void spec_note_sampler(struct stream_spec *spec, const struct sampler *sampler);

/* The first written key that only a client can know (state, rank, ...); NULL: none. */
const char *spec_client_key(const struct stream_spec *spec);

/* The definition with every key written out, as JSON; malloc'ed. NULL if there is no memory. */
char *spec_json(const struct stream_spec *spec);

/* Whether both define the same batches, so that their trainers may share a group. Compares all keys
 * that proto/keys.h marks SAME, and the content of the files of indices and weights. If false,
 * `ret_what` gets the first key that differs. */
bool spec_same(const struct stream_spec *a, const struct stream_spec *b, const char **ret_what);

/* Reads a text that is only a state, as penstock_stream_state wrote it. Messages call it `origin`:
 * "the state". 0, -EINVAL or -ENOMEM. */
int spec_state_parse(const char *text, size_t size, const char *origin, struct spec_state *ret,
	struct fault *fault);

/* The same for a state, or for a mapping that has a state under any key among other things, as a
 * trainer's checkpoint has. */
int spec_state_parse_kept(const char *text, size_t size, const char *origin, struct spec_state *ret,
	struct fault *fault);

/* Writes the stream's name for messages: "stream train (/data/imagenet)", "stream of
 * /data/imagenet". Truncates to the room; SPEC_CALL bytes are always enough. Returns `buffer`. */
enum { SPEC_CALL = SPEC_NAME + SPEC_TEXT + 16 };
const char *spec_call(const struct stream_spec *spec, char *buffer, size_t room);

/* The groups of views of a sample, 1 .. SLOTS_GROUPS_MAX, each with its own recipe; the views of a
 * stream without groups are one group. How many views a group has, and their largest size. */
uint32_t spec_groups(const struct stream_spec *spec);
uint32_t spec_group_views(const struct stream_spec *spec, uint32_t group);
struct pixel_size spec_group_size(const struct stream_spec *spec, uint32_t group);
/* The name of a group; "" where it has none. */
const char *spec_group_name(const struct stream_spec *spec, uint32_t group);
/* The list of a group: the stream's, or `room` after a copy to it. Count 0: `train` decides. */
const struct transforms *spec_group_list(
	const struct stream_spec *spec, uint32_t group, struct transforms *room);

/* How a row of a group gets its size (spec_pixels: at the largest size), and the steps that
 * follow. */
struct pixel_recipe spec_pixels(const struct stream_spec *spec, uint32_t group);
struct pixel_recipe spec_pixels_at(const struct stream_spec *spec, uint32_t group, uint64_t epoch);
void spec_steps(const struct stream_spec *spec, uint32_t group, struct step_recipe *ret);

/* How a row of a bucket gets its size. The number of sizes that batches may have, by epoch or by
 * bucket, at least 1; and the recipe of one of them. */
struct pixel_recipe spec_pixels_in(const struct stream_spec *spec, uint32_t group, uint32_t bucket);
uint32_t spec_places(const struct stream_spec *spec);
struct pixel_recipe spec_pixels_place(
	const struct stream_spec *spec, uint32_t group, uint32_t place);

/* The hashes that states contain: one of everything that decides the order of samples, and one of
 * everything that decides their pixels. */
uint64_t spec_order_hash(const struct stream_spec *spec);

/* Whether a stream of this definition would have that order with `shuffle: blocks`, some window
 * and blocks of some size; *ret_window becomes the window. Tries the sizes that blocks of one
 * source may have and windows up to 256, and the definition's own. */
bool spec_find_blocks(const struct stream_spec *spec, uint64_t order, uint32_t *ret_window);

/* A hash of `salt`, or 0 without one. */
uint32_t spec_salt(const struct stream_spec *spec);

/* The seed of the random draws for samples: `seed`, or one that follows from `seed` and `salt`. */
uint64_t spec_draw_seed(const struct stream_spec *spec);
uint64_t spec_transform_hash(const struct stream_spec *spec);

/* Reads the same mapping inside penstock.yaml, for config.c. `document` and `node` have
 * libyaml's types yaml_document_t and yaml_node_t. */
int spec_parse_node(void *document, void *node, const char *origin, struct stream_spec *ret,
	struct fault *fault);

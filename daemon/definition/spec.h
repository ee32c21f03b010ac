/* spec: the definition of a stream, as a configuration file, a client or a command line writes it.
 *
 * One table of keys (proto/keys.h) serves all of them: `streams:` in penstock.yaml and the text of
 * WIRE_OPEN are the same mapping, read by libyaml (JSON is YAML). A refusal names file, line and
 * column. An unknown key is an error.
 *
 * A map of this folder:
 *
 *   spec.[ch]               the definition: its keys read, written, compared
 *   spec_keys.[ch]          the table of keys, as the YAML reader takes it
 *   spec_check.[ch]         what its keys must satisfy together, and what they imply
 *   spec_meaning.c          how it makes pixels, and the hashes that states know it by
 *   spec_state.[ch]         the key `state`: where to go on
 *   label_keys.[ch]         the key `labels`
 *   sampling.[ch]           which samples an epoch has: weights, repeats, sources, ...
 *   split.[ch]              the key `split`: "train[:90%]"
 *   subset.[ch]             the file of `indices`
 *   weigh.[ch]              the file of `weights`, and balanced weights
 *   list.[ch]               what those files hold, kept once for all streams
 *   shape.[ch]              what a batch's rows are: image_size, views, dtype, layout, mean, std
 *   transforms.[ch]         the key `transforms`: a list of operations
 *   transforms_table.[ch]   the operations, their parameters, ranges and defaults
 *   transforms_values.c     the kinds of parameters: read, compared and written
 */
#pragma once

#include "base/fault.h"
#include "dataset/dataset.h"
#include "definition/sampling.h"
#include "definition/shape.h"
#include "definition/transforms.h"
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
	SPEC_LAGGARD_BLOCK, /* whoever keeps its batches holds up its group */
	SPEC_LAGGARD_DETACH, /* it is detached after laggard_timeout_s */
};

enum { SPEC_TEXT = 4096, SPEC_NAME = 128 };

/* Where a `state:` says to go on. All fields as the state was written; serve compares them with the
 * stream opened. */
struct spec_state {
	bool given;
	uint32_t version;
	uint64_t fingerprint, order, transform, seed;
	uint64_t epoch, position; /* in samples of the epoch's global order */
};

/* What the file of `indices:` held: whoever has read it (subset.h) notes it here. Its path is
 * nobody's concern: two that hold the same are the same. */
struct spec_subset {
	uint64_t count; /* 0: all of the dataset, or not read yet */
	uint64_t hash;
};

struct stream_spec {
	char name[SPEC_NAME]; /* `stream: NAME` of a client, or its name in the configuration; ""
				 for none */
	char source[SPEC_TEXT];
	char indices[SPEC_TEXT]; /* path of a .npy file: the samples that an epoch consists of; ""
				    for all of the dataset */
	struct spec_subset subset;
	struct sampling sampling; /* the other keys of which samples there are; with several sources
				     `source` says what they are, for people */
	uint32_t batch_size; /* 1 .. 65,536; default 64 */
	uint32_t image_size; /* 1 .. 2,048; default 224, or what `transforms` makes; the largest,
				where it changes with the epoch (shape.sizes) */
	struct shape shape; /* the other keys of what rows are */
	bool train; /* default true */
	bool shuffle, drop_last; /* default: as train */
	uint64_t seed;
	uint64_t epochs; /* 0: endless */
	uint32_t prefetch; /* slots, 2 .. 64; default 4 */
	struct label_rule labels; /* default: auto */
	enum spec_broken on_broken; /* default: substitute in training, mark in evaluation */
	double max_broken; /* 0 .. 1; default 0.01 */
	enum spec_decode decode; /* default: exact */
	enum weights_filter interpolation; /* default: bilinear, or that of `transforms` */
	struct transforms transforms; /* default, count 0: what `train` implies */
	char group[SPEC_NAME]; /* "": the client alone */
	enum spec_share share; /* default: all */
	uint32_t rank, world_size; /* with split: below world_size, 1 .. 65,536; else 0 of 1 */
	uint32_t wait_for; /* 1 .. 1,024; default 1 */
	enum spec_laggard laggard; /* default: block */
	uint32_t laggard_timeout_s; /* 1 .. 86,400; default 60 */
	struct spec_state state;
	bool pin_memory; /* the client wants to register the memory with a device: see
			    spec_is_alone */
	bool reconnect; /* `state` is where a trainer stands that lost its daemon or connection */
	uint64_t given; /* which keys were written: for spec_overlay */
};

/* Places in the table of keys, and bits of `given`: SPEC_KEY_seed and so on. */
#define SPEC_ENUM(with, name, ...) SPEC_KEY_##name,
enum spec_key { PENSTOCK_KEYS(SPEC_ENUM, ) SPEC_KEYS };

static inline bool spec_given(const struct stream_spec *spec, enum spec_key key)
{
	return spec->given >> key & 1;
}

/* The defaults, for training; no source. A constant initializer. */
#define SPEC_PLAIN_NUMBER(field, plain) .field = plain,
#define SPEC_PLAIN_U32 SPEC_PLAIN_NUMBER
#define SPEC_PLAIN_U64 SPEC_PLAIN_NUMBER
#define SPEC_PLAIN_REAL SPEC_PLAIN_NUMBER
#define SPEC_PLAIN_FLAG SPEC_PLAIN_NUMBER
#define SPEC_PLAIN_NAME(field, plain)
#define SPEC_PLAIN_TEXT(field, plain)
#define SPEC_PLAIN_WORD(field, plain)
#define SPEC_PLAIN_NODE(field, plain)
#define SPEC_PLAIN(with, name, kind, field, low, high, plain, ...) SPEC_PLAIN_##kind(field, plain)
#define SPEC_DEFAULT                                                                    \
	{                                                                               \
		PENSTOCK_KEYS(SPEC_PLAIN, ).image_size = 224, .shape.mean = SHAPE_MEAN, \
					  .shape.std = SHAPE_STD                        \
	}
void spec_init(struct stream_spec *ret);

/* Reads a client's text. `origin` is what messages call it: "open request". 0, -EINVAL or -ENOMEM.
 */
int spec_parse(const char *text, size_t size, const char *origin, struct stream_spec *ret,
	struct fault *fault);

/* Sets one key from an option's text, as a configuration file would have it, and marks it in
 * `given`. `origin` is what messages call it: "--image-size". Files of `labels` may have relative
 * paths. spec_settle (spec_check.h) has to follow. 0, -EINVAL or -ENOMEM. */
int spec_set(struct stream_spec *spec, enum spec_key key, const char *text, const char *origin,
	struct fault *fault);

/* The word of a key that is one of several: "exact". */
const char *spec_word(const struct stream_spec *spec, enum spec_key key);

/* `spec` is a client's `stream: NAME` and `named` what the configuration says of that name: fills
 * `spec` with the definition, keeping what the client wrote of who reads how far (group, share,
 * rank, world_size, wait_for, laggard, epochs, state, ...).
 */
void spec_overlay(const struct stream_spec *named, struct stream_spec *spec);

/* Whether rank, world_size, share, group and wait_for go together, of a definition that a trainer
 * is to read by. 0 or -EINVAL. */
int spec_check_share(const struct stream_spec *spec, struct fault *fault);

/* Whether the definition's batches are read by one trainer and can be read by no other: of a stream
 * without a group, or of a rank. Its memory may be left writable to that trainer, which harms
 * nobody but itself. */
bool spec_is_alone(const struct stream_spec *spec);

/* Whether the definition names files whose content decides who may share a group: they are read
 * before (sampling_lists_open). And what was read, noted. */
bool spec_has_lists(const struct stream_spec *spec);
void spec_note_lists(struct stream_spec *spec, const struct sampling_lists *lists);

/* The key that was written though only a client can know it (state, rank, ...); NULL: none. */
const char *spec_client_key(const struct stream_spec *spec);

/* The definition with every key spelled out, as JSON (malloc'ed; NULL when memory is out). */
char *spec_json(const struct stream_spec *spec);

/* True when both define the same batches (all keys but name, group, rank, wait_for, laggard, state,
 * epochs, prefetch; of indices and weights the content, not the path): may share a group.
 * `ret_what` gets the first key that differs. */
bool spec_same(const struct stream_spec *a, const struct stream_spec *b, const char **ret_what);

/* Reads a state by itself, as penstock_stream_state wrote it; space around it does not matter.
 * `origin` is what messages call it: "the state". 0, -EINVAL or -ENOMEM. */
int spec_state_parse(const char *text, size_t size, const char *origin, struct spec_state *ret,
	struct fault *fault);

/* The same of what people have: a state, or a mapping that keeps one beside other things, under any
 * key, as a checkpoint does. */
int spec_state_parse_kept(const char *text, size_t size, const char *origin, struct spec_state *ret,
	struct fault *fault);

/* What people call it: "stream train (/data/imagenet)", "stream of /data/imagenet". Cut to the
 * room; SPEC_CALL bytes hold all. Returns `buffer`. */
enum { SPEC_CALL = SPEC_NAME + SPEC_TEXT + 16 };
const char *spec_call(const struct stream_spec *spec, char *buffer, size_t room);

/* How a definition makes a row, and what states know its order and its transform by. Pure. */
struct pixel_recipe spec_pixels(const struct stream_spec *spec); /* at the largest size */
struct pixel_recipe spec_pixels_at(const struct stream_spec *spec, uint64_t epoch);
void spec_steps(const struct stream_spec *spec, struct step_recipe *ret); /* behind that */
uint64_t spec_order_hash(const struct stream_spec *spec); /* whatever decides what comes where */
uint64_t spec_transform_hash(const struct stream_spec *spec);

/* For config.c, which meets the same mapping inside penstock.yaml. `document` and `node` are
 * libyaml's (yaml_document_t, yaml_node_t). */
int spec_parse_node(void *document, void *node, const char *origin, struct stream_spec *ret,
	struct fault *fault);

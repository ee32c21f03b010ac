/* manifest: the file beside the shards: where they come from, how they were made, how far the pack
 * is, and what it left out.
 *
 * It is one JSON object in NAME.pack.json, complete at any moment: the journal of a running pack
 * and the record of a finished one. Nothing in it depends on the time, the speed or the number of
 * threads. Its keys are part of the interface; penstock-pack(1) documents them.
 *
 * pack writes it after each shard, with everything up to the first sample of the next shard. So
 * a pack that was killed continues from there and makes what it would have made. Main thread. */
#pragma once

#include "base/fault.h"
#include "client/cli/pack/image.h"
#include "client/cli/pack/pattern.h"
#include "dataset/dataset.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MANIFEST_VERSION = 1,
	MANIFEST_BROKEN_MOST =
		100000, /* broken images that are named; further ones are only counted */
};

/* How images are made and where shards end: everything that determines the bytes. */
struct recipe {
	struct image_options image;
	uint64_t shard_bytes;
	uint64_t memory_bytes; /* determines which images are too large */
	struct field_list fields; /* that are stored beside the images; only their names count */
};

struct manifest_shard {
	char name[PATTERN_NAME];
	uint64_t samples, bytes; /* bytes of the tar */
};

struct manifest_broken {
	uint64_t number; /* in the source */
	char *path, *reason, *message;
};

struct manifest {
	bool complete;
	char pattern[PATTERN_NAME];
	struct recipe recipe;
	uint64_t source_fingerprint, source_samples, source_bytes;
	bool labelled;

	uint64_t next; /* the first sample of the source that is in no shard yet */
	uint64_t samples, bytes_in, bytes_out; /* packed so far; bytes of images only */
	/* The same images in the source and in the tars, including the headers and padding of tars,
	 * without labels. pack.c chooses by these sums. */
	uint64_t stored_in, stored_out;
	uint64_t renamed; /* keys that had to be changed (key.h) */
	uint64_t how[IMAGE_HOWS];
	uint64_t digest; /* running, over what was packed (dataset/digest.h) */
	uint64_t broken_count;
	struct manifest_shard *shard;
	size_t shards, shard_room;
	struct manifest_broken *broken;
	size_t broken_listed, broken_room;
};

void manifest_begin(struct manifest *manifest, const struct dataset *dataset,
	const struct pattern *pattern, const struct recipe *recipe);
void manifest_deinit(struct manifest *manifest);

/* The fingerprint of everything packed so far, as dataset_fingerprint gives it for the shards.
 * Pure. */
uint64_t manifest_fingerprint(const struct manifest *manifest);

/* 0 or -ENOMEM with a fault. */
int manifest_add_shard(
	struct manifest *manifest, const struct manifest_shard *shard, struct fault *fault);
int manifest_add_broken(struct manifest *manifest, uint64_t number, const char *path,
	const char *reason, const char *message, struct fault *fault);

/* Writes parts of it for reports: "images"; "broken_count" and "broken". */
struct jsontext;
void manifest_put_images(const struct manifest *manifest, struct jsontext *json);
void manifest_put_broken(const struct manifest *manifest, struct jsontext *json);

/* The JSON text, malloc'ed; NULL: no memory. The classes are those of the dataset. */
char *manifest_text(const struct manifest *manifest, const struct dataset *dataset);

/* Fills `manifest`, which manifest_begin made from today's source and options, with the progress
 * that the text records. 0; -EEXIST: another source or other options, with a fault that says
 * what differs; -EINVAL: not a manifest, or one of a later version; -ENOMEM. `path` is for
 * faults. */
int manifest_read(struct manifest *manifest, const char *text, size_t size, const char *path,
	struct fault *fault);

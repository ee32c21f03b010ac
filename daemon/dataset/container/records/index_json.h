/* index_json: the index.json that MDS and LitData store beside their shards: lists the shards in
 * their order. Nothing is opened but index.json and the files that it names, which are below its
 * folder. Blocks. */
#pragma once

#include "base/fault.h"
#include "dataset/source/source.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	INDEX_JSON_MAX = 64 << 20,
	/* Parts of base/text/json.h: an entry of MDS, 700 bytes for a shard, has some 40. */
	INDEX_JSON_PARTS = 4 << 20,
};

/* Reads index.json of the folder `fd` (-1: a URL), if it is an object with the list `list`
 * ("shards"). 1, and *ret for json_decref; 0: it does not exist, or is something else; -EINVAL if
 * it begins as one, but is damaged; -errno. */
int index_json_read(
	const char *folder, int fd, const char *list, json_t **ret, struct fault *fault);

/* One file that index.json names. */
struct index_file {
	const char *name; /* below the folder; NULL: index.json does not say it */
	uint64_t bytes;
	bool more; /* it may have more bytes */
	uint64_t count; /* of its items, which its first four bytes are */
};

/* Checks the file, and adds its path. 1; 0: it does not exist; -EINVAL: its name leads out of the
 * folder, or its size or count is another one; -errno. */
int index_json_add(const char *folder, int fd, const struct index_file *file,
	struct source_paths *paths, struct fault *fault);

/* 1: a file of that name exists in the folder; 0: it does not; a negative errno with the fault: a
 * server does not say. */
int index_json_exists(const char *folder, int fd, const char *name, struct fault *fault);

/* A member of an object that is a text, or NULL; and one that is a number from 0 on, or `none`. */
const char *index_json_text(const json_t *object, const char *key);
uint64_t index_json_number(const json_t *object, const char *key, uint64_t none);

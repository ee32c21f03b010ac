/* key: the name under which a sample is stored in a tar.
 *
 * WebDataset's key is the path up to the first dot of its last part, and adjacent members with the
 * same key are one sample. The keys of a folder may hold dots there ("a.b" for "a.b.jpg") and may
 * be equal ("x" for x.jpg and x.png); the keys of tars may be equal, too, at the border of two
 * shards or in different shards. So dots of the last part become `_`, and so do the parts `..` and
 * `.` and a leading slash, which would lead out of the folder. A key that the output shard already
 * has gets the first free suffix of -2, -3, ... Thus all keys of a shard differ, and unpacking it
 * loses nothing. The manifest counts changed keys. Whether a key changes depends only on the
 * samples of its shard, so a resumed pack gives the same keys.
 *
 * The set takes 8 bytes per key, twice that right after it has grown: an output shard of 1 GiB
 * has at most 2^20 members. If two keys have the same hash, one is changed without need; that is
 * rarer than a disk failure. Main thread. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KEY_ROOM = 4096 };

struct key_set {
	uint64_t *slot; /* hashes; 0: free */
	size_t room, count; /* room: a power of two, or 0 */
};

void key_set_clear(struct key_set *set);
void key_set_deinit(struct key_set *set);

/* Makes the key of a sample from its name in the dataset: a path (`folder`) or a tar's member.
 * `ret` is zero-terminated. Pure. */
void key_of(const char *name, bool folder, char ret[KEY_ROOM]);

/* Makes `key` (KEY_ROOM bytes) unique among the keys of `set`, and adds it. 1 if it had to be
 * changed, else 0; -ENOMEM, -ENAMETOOLONG with a fault. */
int key_claim(struct key_set *set, char key[KEY_ROOM], struct fault *fault);

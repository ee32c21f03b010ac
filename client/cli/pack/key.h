/* key: under which name a sample goes into a tar.
 *
 * WebDataset's key is the path up to the first dot of its last part, and members that lie next to
 * each other under one key are one sample. A folder's keys may hold dots there ("a.b" of "a.b.jpg")
 * and may be equal ("x" of x.jpg and x.png); those of tars may be equal too, where one shard ends
 * and the next begins, or from shard to shard. So: dots of the last part become `_`, as do parts
 * `..` and `.` and a slash in front, which would lead elsewhere; and a key that the output shard
 * has already gets one of -2, -3, ... behind it that is free. Keys of one shard are thus all
 * different, and nothing is lost when it is unpacked. What was changed is counted. Whether a key is
 * changed depends on the shard's samples alone, so a resumed pack gives the same ones.
 *
 * The set holds 8 bytes for each key, twice that when it has just grown: an output shard of 1 GiB
 * has at most 2^20 members. Two keys with one hash, of which one is then changed without need, are
 * rarer than a broken disk. Main thread. */
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

/* The key of a sample by its name in the dataset: a path (`folder`), or a tar's member. Zero
 * terminated in `ret`. Pure. */
void key_of(const char *name, bool folder, char ret[KEY_ROOM]);

/* Makes `key` (KEY_ROOM bytes) fit for a shard that holds the keys of `set`, and adds it. 1 when it
 * had to be changed, else 0; -ENOMEM, -ENAMETOOLONG with a fault. */
int key_claim(struct key_set *set, char key[KEY_ROOM], struct fault *fault);

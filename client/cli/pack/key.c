/* key: see key.h. */
#include "client/cli/pack/key.h"

#include "base/hash.h"
#include "dataset/container/folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_SET_FIRST = 1024, KEY_LONGEST = KEY_ROOM - 128 };

void key_set_clear(struct key_set *set)
{
	if (set->room)
		memset(set->slot, 0, set->room * sizeof *set->slot);
	set->count = 0;
}

void key_set_deinit(struct key_set *set)
{
	free(set->slot);
	*set = (struct key_set){0};
}

static void key_set_put(struct key_set *set, uint64_t hash)
{
	size_t at = hash & (set->room - 1);
	while (set->slot[at])
		at = (at + 1) & (set->room - 1);
	set->slot[at] = hash;
	set->count++;
}

static bool key_set_has(const struct key_set *set, uint64_t hash)
{
	if (!set->room)
		return false;
	for (size_t at = hash & (set->room - 1); set->slot[at]; at = (at + 1) & (set->room - 1))
		if (set->slot[at] == hash)
			return true;
	return false;
}

static int key_set_grow(struct key_set *set)
{
	if (set->count * 2 < set->room)
		return 0;
	struct key_set grown = {.room = set->room ? set->room * 2 : KEY_SET_FIRST};
	grown.slot = calloc(grown.room, sizeof *grown.slot);
	if (!grown.slot)
		return -ENOMEM;
	for (size_t i = 0; i < set->room; i++)
		if (set->slot[i])
			key_set_put(&grown, set->slot[i]);
	free(set->slot);
	*set = grown;
	return 0;
}

static uint64_t key_hash(const char *key)
{
	uint64_t hash = hash_mix(hash_bytes(HASH_SEED, key, strlen(key)));
	return hash ? hash : 1;
}

static char *key_last_part(char *key)
{
	char *slash = strrchr(key, '/');
	return slash ? slash + 1 : key;
}

void key_of(const char *name, bool folder, char ret[KEY_ROOM])
{
	if (folder) {
		(void)snprintf(ret, KEY_ROOM, "%.*s", (int)folder_key_size(name), name);
		return;
	}
	while (name[0] == '.' && name[1] == '/')
		name += 2;
	(void)snprintf(ret, KEY_ROOM, "%s", name);
	char *part = key_last_part(ret);
	part[strcspn(part, ".")] = 0;
}

static bool key_replace_dots(char *key)
{
	bool changed = false;
	for (char *c = key_last_part(key); *c; c++)
		if (*c == '.') {
			*c = '_';
			changed = true;
		}
	return changed;
}

/* A tar may come from anywhere, and users unpack the result: no path of a member may lead out of
 * the folder that it is unpacked into. */
static bool key_confine(char *key)
{
	bool changed = key[0] == '/';
	if (changed)
		key[0] = '_';
	for (char *part = key; part; part = strchr(part, '/')) {
		part += *part == '/';
		size_t dots = strspn(part, ".");
		if ((dots == 1 || dots == 2) && part[dots] == '/') {
			memset(part, '_', dots);
			changed = true;
		}
	}
	return changed;
}

int key_claim(struct key_set *set, char key[KEY_ROOM], struct fault *fault)
{
	size_t size = strlen(key);
	if (size > KEY_LONGEST)
		return fault_set(
			fault, -ENAMETOOLONG, "the name %.60s... is too long for a tar", key);
	if (key_set_grow(set) < 0)
		return fault_set(fault, -ENOMEM,
			"not enough memory for the keys of a shard; lower --shard-size");
	bool changed = key_replace_dots(key);
	changed = key_confine(key) || changed;
	/* Takes larger steps after a while, so that a million equal keys do not take quadratic
	 * time. */
	for (uint64_t n = 2; key_set_has(set, key_hash(key)); n += n < 64 ? 1 : set->count) {
		(void)snprintf(key + size, KEY_ROOM - size, "-%llu", (unsigned long long)n);
		changed = true;
	}
	key_set_put(set, key_hash(key));
	return changed;
}

/* hash_name: where a name from outside is in a table in memory.
 *
 * A file could hold names whose hashes collide, so that each look-up walks through all of them: the
 * hash begins with a secret of this process. It must not be stored or sent, nor decide an order. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Any thread. */
uint64_t hash_name(const void *name, size_t size);

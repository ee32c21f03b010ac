/* ring: the flight recorder's file: of a size fixed at its start, and readable whatever happened
 * since.
 *
 * A head, then two rings of entries: marks (starts, ends, who came and went) and moments (samples),
 * so that a day of samples never pushes out the line that says who was killed. Each entry carries a
 * sequence number and a checksum: a reader takes what is whole, in order, and an entry that was cut
 * by a crash, or overwritten while it was read, is none. The room is allocated before the first
 * entry, so that a disk that fills later does not stop the recorder; written by pwrite, never
 * mapped, so that a failing disk gives an error and no signal. One process writes; any may read. */
#pragma once

#include "base/fault.h"
#include "record/record.h"

#include <stddef.h>
#include <stdint.h>

struct ring;

enum { RING_LEAST = 1 << 20 }; /* bytes of a file */

/* Makes the file (mode 0600, never following a link, and never one that is there already) with room
 * for `bytes`, opens it to write, and keeps a lock on it (flock, exclusive) until ring_free:
 * whoever tidies up sees that it is in use. -ENOSPC and others with a fault that names the path and
 * what to do; then nothing is left behind. */
int ring_create(const char *path, uint64_t bytes, struct ring **ret, struct fault *fault);

/* Keeps the entry: as a mark or as a moment, by its kind (RECORD_START for ever). 0 or a negative
 * errno of the write; the ring is as good as before then, and the next one is tried as if nothing
 * had happened. */
int ring_append(struct ring *ring, const struct record *record);

/* Reads all that is whole in a file, in the order of writing; `ret_records` is to be freed. What
 * nobody kept is zero, and texts are terminated. Kinds that this release does not know are left
 * out. -EINVAL with a fault where it is no such file (an empty one is none) or of another version.
 */
int ring_read(
	const char *path, struct record **ret_records, size_t *ret_count, struct fault *fault);

void ring_free(struct ring *ring);

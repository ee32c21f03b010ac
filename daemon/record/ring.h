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

/* Makes the file (mode 0600, never following a link) with room for `bytes` and opens it to write.
 * -ENOSPC and others with a fault that names the path and what to do; then nothing is left behind.
 */
int ring_create(const char *path, uint64_t bytes, struct ring **ret, struct fault *fault);

/* Keeps the entry: as a mark or as a moment, by its kind. 0 or a negative errno of the write. */
int ring_append(struct ring *ring, const struct record *record);

/* Opens a file to read all that is whole in it, sorted by the order of writing. -EINVAL with a
 * fault where it is no such file or of another version. An empty one is none. */
int ring_read(
	const char *path, struct record **ret_records, size_t *ret_count, struct fault *fault);

void ring_free(struct ring *ring);

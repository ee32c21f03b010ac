/* ring: the flight recorder's file. Its size is fixed when it is made, and it stays readable
 * whatever happens afterwards.
 *
 * The file is a head and two rings of entries: marks (starts, ends, trainers that came and left)
 * and moments (samples). So a day of samples never pushes out the entry that says which trainer was
 * killed. Each entry has a sequence number and a checksum. A reader takes the whole entries in
 * order, and skips one that a crash has cut or that is overwritten while it is read. The room is
 * allocated before the first entry, so that a disk that fills up later does not stop the recorder.
 * Entries are written by pwrite, never through a mapping, so that a failing disk causes an error
 * and not a signal. One process writes; any may read. */
#pragma once

#include "base/fault.h"
#include "record/record.h"

#include <stddef.h>
#include <stdint.h>

struct ring;

enum { RING_LEAST = 1 << 20 }; /* bytes of a file */

/* Makes a new file (mode 0600; it follows no link and opens no existing file) with room for
 * `bytes`, and opens it for writing. An exclusive flock on it until ring_free shows
 * ring_folder_tidy that it is in use. 0, or a negative errno with a fault that names the path and
 * says what to do; then nothing is left behind. */
int ring_create(const char *path, uint64_t bytes, struct ring **ret, struct fault *fault);

/* Writes the entry as a mark or as a moment, by its kind; RECORD_START is kept for ever. 0, or the
 * negative errno of the write: then the ring is as before, and the next entry may be tried. */
int ring_append(struct ring *ring, const struct record *record);

/* Reads all whole entries of a file in the order in which they were written; the caller frees
 * `ret_records`. Bytes that were not kept are zero, and texts are terminated. Kinds that this
 * release does not know are left out, and of a file that no recorder wrote what would take too much
 * memory or time: the oldest entries, if they are smaller than 96 bytes on average, and what comes
 * after many damaged ones. -EINVAL with a fault where the file is not a ring, is empty,
 * or has another version. */
int ring_read(
	const char *path, struct record **ret_records, size_t *ret_count, struct fault *fault);

void ring_free(struct ring *ring);

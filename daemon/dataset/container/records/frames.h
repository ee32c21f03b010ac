/* frames: the items of LitData where they are compressed (litdata/streaming/framed_zstd.py).
 *
 *   compression_level sample: the chunk is as it is without (columns.h), each item is a
 *                             Zstandard frame
 *   compression_level batch:  "LDFZ01\0\0", u16 version 1, u16 flags 0, u32 count of items, of
 *                             items in a frame, of frames; (count + 1) x u32 offsets of the items
 *                             in all unpacked frames; each frame's u32 first item, u32 items, u64
 *                             place, u32 bytes, u32 unpacked bytes; the frames
 *
 * A frame is unpacked once while it is indexed, because nothing else says where the leaves of its
 * items are. Blocks. One thread. */
#pragma once

#include "base/fault.h"
#include "dataset/container/records/columns.h"

#include <stdbool.h>
#include <stdint.h>

/* Writes the samples of a chunk with such items into its index. 0, or as struct container says of
 * `index`. */
int frames_index(const struct index_job *job, const struct columns *columns, bool batch,
	struct fault *fault);

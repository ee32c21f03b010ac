/* pack: rewrites a dataset once, into WebDataset tars that every other tool reads.
 *
 * A map of this folder:
 *   pack_command.c       the command: its options, its progress, its report
 *   pack.[ch]            the door: checks before it writes, resumes an interrupted pack, writes the
 *                        shards
 *   pipeline.[ch]        threads that make images, in the order of the samples, within bounds
 *   cost.[ch]            how long it will take, from a few images
 *   image.[ch]           one image: without loss, or encoded again; verified
 *   jpegout.[ch]         the writing side of libjpeg
 *   metadata.[ch]        the segments that a packed file keeps
 *   key.[ch]             the name of a sample in a shard
 *   tarwrite.[ch]        writes members into a tar
 *   pattern.[ch]         the names of shards: OUT-%06d.tar
 *   output.[ch]          where it writes: a folder or a bucket
 *   output_bucket.[ch]   a bucket: what is there, the order of steps
 *   output_folder.[ch]   a folder: lock, temporary names, the order of steps
 *   manifest.[ch]        the file beside the shards: journal and record
 *
 * Samples keep their order. Each becomes its image, with the extension of its content, its label as
 * .cls if there are labels, and its fields (recipe.fields) unchanged. pack drops the other members
 * of source tars. The same source and options give the same bytes, with any number of threads and
 * after any number of interruptions. pack leaves out broken images and lists them.
 *
 * Memory: recipe.memory_bytes: an eighth for samples in the pipeline (pipeline.h), half for
 * images in progress, three eighths for their decoders; besides, pack_thread_bytes for each
 * thread. */
#pragma once

#include "base/fault.h"
#include "client/cli/pack/manifest.h"
#include "client/cli/pack/pattern.h"
#include "dataset/dataset.h"

#include <stdbool.h>
#include <stdint.h>

enum { PACK_MEMORY_LEAST = 16 << 20 };

/* MCUs from one restart marker to the next: one row. Decoding a crop begins at a marker, so a
 * short interval is good; but a marker costs bytes, and so do the headers of tars, and the
 * tables optimized for each image have to save them. On 500 originals of ImageNet, nearly all of
 * which already have such tables, the tables save 0.96 % and headers and padding take 0.70 %.
 * The rest pays for markers in 479 images with one row per interval, where the tars take 99.8 %
 * of the source; with 12 MCUs it pays for 214 images, and nothing remains. CPU time per crop
 * with markers everywhere, relative to the source (medians of three interleaved rounds on a busy
 * machine): 0.72 with 8, 0.65 with 12, 0.68 with 16, 0.70 with a row. */
#define PACK_RESTART "row"

/* 1 GiB, as WebDataset's documentation advises: large enough for sequential reading, small
 * enough to copy. */
#define PACK_SHARD_BYTES (UINT64_C(1) << 30)
/* Holds a photograph of 64 megapixels in 4:2:0 with its coefficients and pixels. */
#define PACK_MEMORY_BYTES (UINT64_C(1) << 30)

/* The progress: samples of the source seen, bytes of images read and written. The caller's
 * thread calls it about ten times a second. */
typedef void pack_progress_fn(
	void *context, uint64_t samples, uint64_t bytes_in, uint64_t bytes_out);
/* What is left to do and how long it will take, before the first shard is written. Not called if
 * nothing could be measured. */
struct cost;
typedef void pack_cost_fn(void *context, const struct cost *cost);
/* A sentence for the user during the run. */
typedef void pack_note_fn(void *context, const char *text);

struct pack_options {
	struct recipe recipe;
	unsigned threads; /* at least 1 */
	pack_progress_fn *progress;
	pack_note_fn *note;
	pack_cost_fn *cost; /* NULL: not measured */
	void *context; /* of all three */
};

struct pack_result {
	struct manifest manifest; /* the caller frees it with manifest_deinit, also after a fault */
	uint64_t resumed_from; /* samples of the source that an earlier run packed */
	bool was_complete; /* an earlier run packed everything */
};

/* The memory of one thread besides recipe.memory_bytes. */
uint64_t pack_thread_bytes(const struct recipe *recipe);

/* Packs, and returns when it is done; the calling thread writes. 0, or with a fault that says
 * what to do: -EINVAL, -ENOENT, -ENAMETOOLONG, -EEXIST, -ESTALE (an argument or an existing file
 * is wrong); -EBUSY; -ENOSPC, -EDQUOT, -EFBIG (no room: finished shards stay, and the same
 * command continues); -errno. */
int pack_run(const struct dataset *dataset, const struct pattern *pattern,
	const struct pack_options *options, struct pack_result *ret, struct fault *fault);

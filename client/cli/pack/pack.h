/* pack: a dataset rewritten once, into WebDataset tars that every other tool reads.
 *
 *   pack.[ch]       this door: looks before anything is written, goes on where a pack was ended,
 *                   writes shard after shard
 *   pipeline.[ch]   threads that make images, in the order of the samples, within bounds
 *   image.[ch]      one image: without loss, or coded anew; verified
 *   jpegout.[ch]    libjpeg's writing side; metadata.[ch] what a file takes along
 *   key.[ch]        under which name a sample lies in a shard
 *   tarwrite.[ch]   members into a tar
 *   pattern.[ch]    OUT-%06d.tar
 *   place.[ch]      the output's folder: lock, temporary names, the order of steps
 *   manifest.[ch]   what lies beside the shards: journal and record
 *
 * Samples keep their order; each is its image, as .jpg or .png by what is in it, and its label as
 * .cls where there are labels. Other members of source tars are not taken along. The same source
 * and options give the same bytes, whatever the number of threads and however often it was ended
 * and begun again. Broken images are left out and listed.
 *
 * Memory: recipe.memory_bytes, an eighth for samples on their way (pipeline.h), half for images in
 * work, three eighths for their decoders; on top pack_thread_bytes for each thread. */
#pragma once

#include "base/fault.h"
#include "client/cli/pack/manifest.h"
#include "client/cli/pack/pattern.h"
#include "dataset/dataset.h"

#include <stdbool.h>
#include <stdint.h>

enum { PACK_MEMORY_LEAST = 16 << 20 };

/* MCUs from one restart marker to the next: one row of them. A crop's decoding begins at a marker,
 * so few are good; but a marker costs bytes, which tables made for each image have to pay for, and
 * the tars' headers as well. On 500 originals of ImageNet, nearly all with such tables already,
 * these save 0.96 % and headers and padding take 0.70 %. What is left pays for markers in 479 of
 * them with a row, where the tars make 99.8 % of the source; with 12 MCUs in 214, then nothing is
 * left. CPU time per crop with markers everywhere, against the source's, roughly (medians of three
 * interleaved rounds on a busy machine): 0.72 with 8, 0.65 with 12, 0.68 with 16, 0.70 with a row.
 */
#define PACK_RESTART "row"

/* 1 GiB: what WebDataset's documentation advises, large enough for sequential reading, small enough
 * to be moved about. */
#define PACK_SHARD_BYTES (UINT64_C(1) << 30)
/* Holds a photograph of 64 megapixels in 4:2:0 with its coefficients and pixels. */
#define PACK_MEMORY_BYTES (UINT64_C(1) << 30)

/* How far it is: samples of the source seen, bytes of images read and written. Called about ten
 * times a second by the caller's thread. */
typedef void pack_progress_fn(
	void *context, uint64_t samples, uint64_t bytes_in, uint64_t bytes_out);
/* A sentence for the user while it runs. */
typedef void pack_note_fn(void *context, const char *text);

struct pack_options {
	struct recipe recipe;
	unsigned threads; /* at least 1 */
	pack_progress_fn *progress;
	pack_note_fn *note;
	void *context; /* of both */
};

struct pack_result {
	struct manifest manifest; /* to be freed with manifest_deinit, also after a fault */
	uint64_t resumed_from; /* samples of the source that an earlier pack had done */
	bool was_complete; /* an earlier one had done everything */
};

/* Bytes that a thread holds besides recipe.memory_bytes. */
uint64_t pack_thread_bytes(const struct recipe *recipe);

/* Packs. Blocks until it is done; the calling thread writes. 0, or with a fault that says what to
 * do: -EINVAL, -ENOENT, -ENAMETOOLONG, -EEXIST, -ESTALE (what was named, or lies there, does not
 * go); -EBUSY; -ENOSPC, -EDQUOT, -EFBIG (no room: finished shards stay, and the same command goes
 * on); -errno. */
int pack_run(const struct dataset *dataset, const struct pattern *pattern,
	const struct pack_options *options, struct pack_result *ret, struct fault *fault);

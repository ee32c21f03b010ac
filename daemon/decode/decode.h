/* decode: takes the bytes of an image and delivers rows R, G, B of the wanted region.
 *
 * Pillow over libjpeg-turbo is the reference: the pixels equal Image.open(f).convert("RGB"), and
 * files that Pillow refuses are refused. The content decides the format (a PNG named .JPEG
 * decodes): JPEG, PNG, WebP, BMP, PNM or GIF; of an
 * animation the first frame.
 *
 * A map of this folder:
 *   decode.[ch]       the entrance: limits, outcomes, which reader gets an image and which memory
 *   sniff.[ch]        recognizes a file by its first bytes
 *   measure.[ch]      the size of an image, from its header only
 *   jpegwalk.[ch]     reads a JPEG's markers by Pillow's rules
 *   exif.[ch]         reads EXIF tags: the resolution (for jpegwalk) and the orientation
 *   jpeg/             penstock's JPEG decoder, for the kinds of JPEG that datasets consist of
 *   stepback.[ch]     why penstock's decoder leaves an image to libjpeg-turbo
 *   decode_jpeg.[ch]  decodes by libjpeg-turbo all JPEGs that Pillow reads
 *   jpegmem.[ch]      libjpeg's memory manager, on top of scratch
 *   pngwalk.[ch]      reads a PNG's chunks by Pillow's rules
 *   decode_png.[ch]   decodes PNGs by png/, and by libpng what that leaves to it
 *   png/              penstock's decoder of PNGs: inflating, unfiltering, the rows of a crop
 *   types/            the other types of images
 *   reader.h          what decode.c asks of the code for one type of images
 *   scratch.[ch]      a decoder's working memory, and borrowed memory under a permit
 *   sentence.[ch]     the sentence that goes with an outcome
 *   stages.h          the clock that says where a decoder's time goes
 *
 * PENSTOCK_DECODER=libjpeg in the environment leaves all JPEGs to libjpeg-turbo, and all PNGs to
 * libpng. A processor without vector kernels does the same for JPEGs, where penstock's decoder is
 * slower there, unless PENSTOCK_DECODER=own.
 *
 * A decoder belongs to one thread. Its working memory is allocated when it is made, and reused.
 * Some rare images need more (coefficients of a progressive JPEG, an interlaced PNG): that memory
 * is taken under a permit and given back. An image that needs more than all permits together keeps
 * the rest in a file (scratch.h): no budget changes what an image becomes. */
#pragma once

#include "base/fault.h"
#include "base/host/spill.h"
#include "base/permit.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Outcomes of one image. Names are counted, shown and written to the quarantine. */
enum decode_outcome {
	DECODE_OK = 0,
	DECODE_E_NOT_IMAGE = 1, /* no type that is read */
	DECODE_E_CORRUPT = 2, /* refused by a library or by Pillow's rules: see decoder_message */
	DECODE_E_TRUNCATED = 3, /* the file ends before the rows wanted */
	DECODE_E_UNSUPPORTED = 4, /* Pillow cannot read this kind either (12-bit, lossless, ...) */
	DECODE_E_PIXELS = 5, /* more pixels than limits.pixels, or than DECODE_SIDE_MAX on a side */
	DECODE_E_SCANS = 6, /* more scans than limits.scans, or than limits.scan_pixels allows */
	/* Needs more memory than the permit pool ever has, where nothing can be spilled. */
	DECODE_E_MEMORY = 7,
	DECODE_E_SMALL = 8, /* too small for the caller: decoder_refuse */
	DECODE_OUTCOMES = 9,
};
const char *decode_outcome_name(enum decode_outcome outcome); /* "not-image", "corrupt", ... */

enum { DECODER_SCRATCH_LEAST = 4 << 20, DECODER_SCRATCH_MOST = 8 << 20 };

enum { DECODE_PIXELS = 64000000 };

struct decode_limits {
	uint64_t pixels; /* default DECODE_PIXELS; a job may have its own */
	unsigned scans; /* default 500 */
	/* Limits pixels times scans, since each scan may touch every block: 208 million by default,
	 * which is 13 scans of 16 MP. Images of any size may have as many scans as libjpeg's
	 * standard script (jpeg_simple_progression: 2 and 4 per component). The data of several
	 * scans may have 3 bytes for 2 samples in all, and 1 MiB: noise at the highest quality has
	 * less. */
	uint64_t scan_pixels;
	/* Bytes of working memory, DECODER_SCRATCH_LEAST to _MOST: the more, the more images are in
	 * flight. Default: the most. */
	uint64_t scratch;
	/* The pool for memory beyond the scratch; outlives the decoder; NULL: unlimited. */
	struct permit *large;
	/* Where an image that needs more than that pool ever has keeps the rest: its pixels are the
	 * same, whatever the pool has. Outlives the decoder; NULL: DECODE_E_MEMORY. */
	const struct spill *spill;
	bool mapped; /* the files are mapped: pages that were read are dropped */
	/* Judge all images to their end. Penstock's JPEG decoder never does that, so it is left
	 * out, and its memory too. */
	bool whole;
	bool libraries; /* as PENSTOCK_DECODER=libjpeg */
};
struct decode_limits decode_limits_default(void);

/* The longest side that is read; the code that takes the rows relies on it. A JPEG cannot have
 * more, a PNG can. */
enum { DECODE_SIDE_MAX = 65535 };

/* Where a decoder's time goes. The names are shown to users. */
enum decode_stage {
	DECODE_STAGE_OTHER, /* getting images, handing over rows, and everything without a name */
	DECODE_STAGE_PARSE, /* headers, code tables, the plan */
	DECODE_STAGE_ENTRY_POINTS, /* reading, checking, making and keeping them */
	DECODE_STAGE_UNSTUFF,
	DECODE_STAGE_ENTROPY,
	DECODE_STAGE_TRANSFORM,
	DECODE_STAGE_CONVERT, /* upsampling and conversion, and the caller's `start` and `row` */
	DECODE_STAGE_LIBRARY, /* libjpeg-turbo and libpng, all that they do */
	DECODE_STAGES,
};
const char *decode_stage_name(enum decode_stage stage); /* "entropy" */

/* The types of images. The numbers are only used within a process. */
enum decode_format {
	DECODE_JPEG = 1,
	DECODE_PNG = 2,
	DECODE_BMP = 3,
	DECODE_PNM = 4,
	DECODE_GIF = 5,
	DECODE_WEBP = 6,
	DECODE_TIFF = 7,
};

/* "WebP", and what decodes it: "libwebp". */
const char *decode_format_name(enum decode_format format);
const char *decode_format_library(enum decode_format format);
/* The names of all types that this build reads: "JPEG, PNG, WebP". Static text. */
const char *decode_formats(void);

struct decode_info {
	uint32_t width, height;
	enum decode_format format;
	bool progressive;
};

/* Rows [y0, y1), columns [x0, x1) of the image, or of the shrunk image; not empty, inside it. */
struct decode_region {
	uint32_t x0, y0, x1, y1;
};

enum { DECODE_SHRINK_MAX = 3 };

/* The pixels that a side of `pixels` has when it is shrunk. */
static inline uint32_t decode_shrunk(uint32_t pixels, uint8_t shrink)
{
	return (pixels + (1u << shrink) - 1) >> shrink;
}

enum { DECODE_PLANES = 3, DECODE_ROW_SLACK = 256 };

/* Receives the region's rows from top to bottom: x1 - x0 bytes each of R, G and B; all three are
 * the same row where the image is gray. They are valid during the call. DECODE_ROW_SLACK bytes
 * after each are readable; their values do not matter. */
typedef void decode_row_fn(void *context, const uint8_t *const rgb[DECODE_PLANES]);

/* Converts such a row into pixels of 3 bytes. */
void decode_weave(uint8_t *to, const uint8_t *const rgb[DECODE_PLANES], size_t pixels);

struct decoder;

/* 0; -ENOMEM; -EINVAL for an unknown PENSTOCK_DECODER or PENSTOCK_KERNELS; -ENOTSUP for kernels
 * that this processor cannot run. */
int decoder_new(const struct decode_limits *limits, struct decoder **ret, struct fault *fault);
void decoder_free(struct decoder *decoder);

/* Bytes that a decoder with `scratch` bytes of scratch holds from decoder_new on, for the ledger;
 * and those of a decoder with limits.whole. */
uint64_t decoder_scratch_bytes(uint64_t scratch);
uint64_t decoder_whole_bytes(void);

/* Changes limits.mapped, between two images. */
void decoder_set_mapped(struct decoder *decoder, bool mapped);

/* Reads the header. `data` must stay until decoder_rows or decoder_abort has returned, and at least
 * 64 bytes after `size` must be readable (their values do not matter). Returns an enum
 * decode_outcome or -ENOMEM. */
int decoder_begin(
	struct decoder *decoder, const uint8_t *data, size_t size, struct decode_info *ret);

/* After decoder_begin, JPEGs only: decodes the image at 1/2, 1/4 or 1/8 (`shrink` 1, 2, 3) of its
 * sides, rounded up, from fewer outputs of each block's transform; regions count in these pixels.
 * The pixels are libjpeg-turbo's with scale_num 1 and scale_denom 2, 4, 8, whichever decoder runs.
 * Pixel (x, y) stands for the square of 2^shrink pixels that begins at (x << shrink, y << shrink).
 */
void decoder_shrink(struct decoder *decoder, uint8_t shrink);

/* Decodes the region and ends the image, whatever the outcome. The file after the region's last row
 * is not looked at, unless `to_end`: then the whole file is judged, as Pillow's load() does.
 * Returns an enum decode_outcome, -ENOMEM, or the negative errno for which nothing could be
 * spilled, with a sentence (decoder_message). Rows may have been delivered before an outcome other
 * than DECODE_OK; the caller must drop them. */
int decoder_rows(struct decoder *decoder, struct decode_region region, bool to_end,
	decode_row_fn *row, void *context);

/* After decoder_begin: the bytes for which decoder_rows will wait at limits.large; 0 for nearly all
 * images. Callers that hold a permit of the same pool must not wait for a second one. */
uint64_t decoder_large_bytes(const struct decoder *decoder);

/* Whether the decoder has borrowed memory of limits.large at this moment. A caller that is handed a
 * row must not wait at that pool then. */
bool decoder_borrows(const struct decoder *decoder);

/* What happened with an image's entry points; several may be true. */
enum {
	DECODE_ENTRY_POINTS_USED = 1, /* the image was entered at kept ones */
	DECODE_ENTRY_POINTS_MADE = 2, /* they were made, and `keep` kept them */
	DECODE_ENTRY_POINTS_DROPPED = 4, /* the kept ones did not fit the image */
};

/* One image of a decode_stream. */
struct decode_job {
	/* Set by the caller; the bytes as for decoder_begin, until the job is done. */
	const uint8_t *data;
	size_t size;
	size_t entry_point_room; /* bytes of entry points that can be kept for it; 0: none */
	uint64_t pixels; /* the limit for this image; 0: the decoder's */
	bool mapped; /* as in decode_limits: then libjpeg-turbo decodes it */
	/* Set by the stream's `header`; `start` may narrow the region. */
	struct decode_region region;
	uint8_t shrink; /* as for decoder_shrink; 0 before `header` */
	/* Set when it is done: what decoder_rows returns; and the enum stepback for which
	 * penstock's decoder left the image to libjpeg-turbo, or 0. */
	int outcome;
	unsigned stepback;
	unsigned entry_points; /* DECODE_ENTRY_POINTS_* */
	/* Used by the decoder. */
	uint32_t delivered; /* rows, by penstock's decoder */
	unsigned scans_most; /* where it has several: how many it may have, and their bytes */
	uint64_t scans_bytes;
	uint64_t memory; /* that all its scans take together; 0: it has one scan */
	uint8_t entry; /* how penstock's decoder enters it */
	bool in_order; /* decoding it in chunks failed */
	bool misled; /* decoding it from kept entry points failed */
	struct decode_job *link;
};

/* Where the images of a stream come from and where their rows go. Several images are read and
 * decoded at a time; the rows of one image come after those of another, not always in the order of
 * `next`. The functions are called on the decoder's thread. None of them may call the decoder,
 * except that `done` may call decoder_message and decoder_refuse. */
struct decode_stream {
	struct decode_job *(*next)(void *context); /* NULL: none at present */
	/* The header has been read: sets the region. May be called again, with the same info. */
	void (*header)(void *context, struct decode_job *job, const struct decode_info *info);
	/* The next rows belong to this image, from its first row on. Called again if penstock's
	 * decoder stepped back from it in the meantime, and perhaps never for an image without
	 * rows. */
	void (*start)(void *context, struct decode_job *job);
	decode_row_fn *row;
	void (*done)(void *context, struct decode_job *job);
	void *context;
	/* Entry points (jpeg/entry_pack.h), for jobs that have room for some. `recall` copies what
	 * is kept for a job, at most `room` bytes, and returns how many; the bytes need not be
	 * right. `keeps` says whether new ones would be kept, before any are made. `keep` keeps
	 * these, at most entry_point_room bytes; false: they were not kept. All three may be called
	 * several times for a job, and between the rows of another image. */
	size_t (*recall)(void *context, struct decode_job *job, uint8_t *to, size_t room);
	bool (*keeps)(void *context, struct decode_job *job);
	bool (*keep)(void *context, struct decode_job *job, const uint8_t *pack, size_t size);
	/* The rows since the last `start` that has no `done` yet are dropped, if there are any:
	 * penstock's decoder stepped back from an image, and the libraries may now wait for memory.
	 * Memory that was taken for the rows has to be given back. NULL: none is taken. */
	void (*drop)(void *context);
};

/* Decodes until `next` returns NULL; then all images are done. A file is not looked at after the
 * region's last row. */
void decoder_run(struct decoder *decoder, const struct decode_stream *stream);

/* Ends an image whose rows are not wanted. */
void decoder_abort(struct decoder *decoder);

/* Ticks (base/ticks.h) spent in each stage since the decoder was made. */
void decoder_stages(struct decoder *decoder, uint64_t ret_ticks[DECODE_STAGES]);

/* The sentence for the last outcome that was not DECODE_OK; "" for -ENOMEM. Valid until the next
 * decoder_begin. */
const char *decoder_message(const struct decoder *decoder);

/* Sets that sentence where the caller refuses an image; returns `outcome`. */
int decoder_refuse(struct decoder *decoder, enum decode_outcome outcome, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

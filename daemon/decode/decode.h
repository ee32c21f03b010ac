/* decode: bytes of an image in, rows R, G, B of the wanted region out.
 *
 * Pillow over libjpeg-turbo is the law: what comes out equals Image.open(f).convert("RGB"), and
 * what Pillow refuses is refused. Content is sniffed (a PNG named .JPEG decodes); only JPEG and PNG
 * are images here.
 *
 *   decode.[ch]       this door: limits, outcomes, who gets which memory
 *   sniff.[ch]        what a file is by its first bytes
 *   jpegwalk.[ch]     a JPEG's markers by Pillow's rules
 *   exif.[ch]         the one Exif entry that these look at
 *   own.[ch]          the own JPEG decoder, for what datasets consist of; stepback.[ch] why it
 *                     leaves an image to libjpeg-turbo
 *     parse.[ch]      headers          plan.[ch]        which blocks a crop needs
 *     unstuff*.[ch]   plain bits       huffman.[ch]     tables
 *     lane*.[ch]      entropy decoding, several streams side by side
 *     feed.[ch]       what they decode next; checkpoint.[ch] where it can be entered, and
 *                     checkpack.[ch] that as bytes to be kept
 *     blocks.h        coefficients     planes*.[ch]     from there to rows
 *   decode_jpeg.[ch]  libjpeg-turbo: all JPEGs that Pillow reads
 *   jpegmem.[ch]      libjpeg's memory manager over scratch
 *   pngwalk.[ch]      a PNG's chunks by Pillow's rules
 *   decode_png.[ch]   libpng: all colour types and depths, interlaced
 *   stages.h          where the time goes
 *   scratch.[ch]      a decoder's working memory, and loans under a permit
 *   words.[ch]        the sentence that goes with an outcome
 *
 * PENSTOCK_DECODER=libjpeg in the environment leaves all JPEGs to libjpeg-turbo; so does a
 * processor without AVX2, for which the own decoder has plain C alone, unless it is =own.
 *
 * A decoder belongs to one thread. Its working memory is allocated when it is made and reused; what
 * a rare image needs beyond it (coefficients of a progressive one, an interlaced PNG) is taken
 * under a permit and given back. */
#pragma once

#include "base/fault.h"
#include "base/permit.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Outcomes of one image. Names are counted, shown and written to the quarantine. */
enum decode_outcome {
	DECODE_OK = 0,
	DECODE_E_NOT_IMAGE = 1, /* neither JPEG nor PNG */
	DECODE_E_CORRUPT = 2, /* the library's or Pillow's refusal: message in decoder_message */
	DECODE_E_TRUNCATED = 3, /* ends before the rows wanted */
	DECODE_E_UNSUPPORTED =
		4, /* a kind that Pillow cannot read either (12-bit, lossless, ...) */
	DECODE_E_PIXELS = 5, /* more pixels than limits.pixels, or than DECODE_SIDE_MAX on a side */
	DECODE_E_SCANS = 6, /* more scans than limits.scans, or than limits.scan_pixels allows */
	DECODE_E_MEMORY = 7, /* needs more memory than the permit pool ever has */
	DECODE_E_SMALL = 8, /* smaller than what the caller wants of it: decoder_refuse */
	DECODE_OUTCOMES = 9,
};
const char *decode_outcome_name(enum decode_outcome outcome); /* "not-image", "corrupt", ... */

enum { DECODER_SCRATCH_LEAST = 4 << 20, DECODER_SCRATCH_MOST = 8 << 20 };

struct decode_limits {
	uint64_t pixels; /* default 64 MP */
	unsigned scans; /* default 500 */
	/* Pixels times scans, since each scan may touch every block: 208 million by default, 13
	 * scans of 16 MP. As many scans as libjpeg's own script has (jpeg_simple_progression: 2 and
	 * 4 per component) are read whatever the size. Several scans may have 3 bytes of data for
	 * 2 samples in all, and a MiB: noise at the highest quality has less. */
	uint64_t scan_pixels;
	uint64_t scratch; /* bytes of working memory, DECODER_SCRATCH_LEAST to _MOST: the more, the
			     more images are in flight; default the most */
	struct permit *large; /* pool for what exceeds the decoder's own scratch; outlives the
				 decoder; NULL: unlimited */
	bool whole; /* all images are judged to their end: the own decoder, which never does, is
		       left out with its memory */
};
struct decode_limits decode_limits_default(void);

/* The longest side that is read: a JPEG cannot say more, and what comes after the decoder counts on
 * it. A PNG can. */
enum { DECODE_SIDE_MAX = 65535 };

/* Where a decoder's time goes. Names are shown. */
enum decode_stage {
	DECODE_STAGE_OTHER, /* getting images, handing over rows, and all that has no name here */
	DECODE_STAGE_PARSE, /* headers, code tables, the plan */
	DECODE_STAGE_ENTRY_POINTS, /* reading, checking, making, keeping them */
	DECODE_STAGE_UNSTUFF,
	DECODE_STAGE_ENTROPY,
	DECODE_STAGE_TRANSFORM,
	DECODE_STAGE_CONVERT, /* upsampling and conversion; and what the caller's `start` and `row`
				 take */
	DECODE_STAGE_LIBRARY, /* libjpeg-turbo and libpng, whatever they do */
	DECODE_STAGES,
};
const char *decode_stage_name(enum decode_stage stage); /* "entropy" */

struct decode_info {
	uint32_t width, height;
	enum { DECODE_JPEG = 1, DECODE_PNG = 2 } format;
	bool progressive;
};

/* Rows [y0, y1), columns [x0, x1) of the image, or of the shrunk one; not empty, inside it. */
struct decode_region {
	uint32_t x0, y0, x1, y1;
};

enum { DECODE_SHRINK_MAX = 3 };

/* Pixels on a side of `pixels`, when it has shrunk. */
static inline uint32_t decode_shrunk(uint32_t pixels, uint8_t shrink)
{
	return (pixels + (1u << shrink) - 1) >> shrink;
}

enum { DECODE_PLANES = 3, DECODE_ROW_SLACK = 256 };

/* Receives the region's rows from top to bottom: x1 - x0 bytes of R, as many of G and of B, all
 * three the same row where the image is gray. They stay for the call; DECODE_ROW_SLACK bytes behind
 * each are readable, their values do not matter. */
typedef void decode_row_fn(void *context, const uint8_t *const rgb[DECODE_PLANES]);

/* Such a row as pixels of 3 bytes, for those who want it so. */
void decode_weave(uint8_t *to, const uint8_t *const rgb[DECODE_PLANES], size_t pixels);

struct decoder;

/* 0, -ENOMEM, -EINVAL for a PENSTOCK_DECODER or PENSTOCK_KERNELS that is unknown, -ENOTSUP for
 * kernels that this processor cannot run. */
int decoder_new(const struct decode_limits *limits, struct decoder **ret, struct fault *fault);
void decoder_free(struct decoder *decoder);

/* Bytes that a decoder with so much scratch holds from decoder_new on, for the ledger; and with
 * limits.whole. */
uint64_t decoder_scratch_bytes(uint64_t scratch);
uint64_t decoder_whole_bytes(void);

/* Reads the header. `data` must stay until decoder_rows or decoder_abort returned. At least 64
 * bytes behind `size` are readable (their values do not matter). An enum decode_outcome or -ENOMEM.
 */
int decoder_begin(
	struct decoder *decoder, const uint8_t *data, size_t size, struct decode_info *ret);

/* After decoder_begin, of a JPEG: it is decoded at 1/2, 1/4 or 1/8 (`shrink` 1, 2, 3) of its sides,
 * rounded up, from fewer outputs of each block's transform, and regions count in these pixels.
 * They are libjpeg-turbo's with scale_num 1 and scale_denom 2, 4, 8, whoever decodes. Pixel (x, y)
 * stands for the square of 2^shrink pixels from (x << shrink, y << shrink) on. */
void decoder_shrink(struct decoder *decoder, uint8_t shrink);

/* Decodes the region and ends the image, whatever the outcome. What lies after the region's last
 * row is not looked at, unless `to_end`: then the file is judged whole, as Pillow's load() does. An
 * enum decode_outcome or -ENOMEM. Rows may have been delivered before an outcome other than
 * DECODE_OK: the caller drops them. */
int decoder_rows(struct decoder *decoder, struct decode_region region, bool to_end,
	decode_row_fn *row, void *context);

/* After decoder_begin: the bytes for which decoder_rows will wait at limits.large; 0 for nearly all
 * images. For callers that hold a permit of the same pool: they must not wait for a second one. */
uint64_t decoder_large_bytes(const struct decoder *decoder);

/* What became of an image's checkpoints; several may be true. */
enum {
	DECODE_ENTRY_POINTS_USED = 1, /* it was entered at those that were kept */
	DECODE_ENTRY_POINTS_MADE = 2, /* they were made, and `keep` keeps them */
	DECODE_ENTRY_POINTS_DROPPED = 4, /* what was kept did not fit the image */
};

/* One image of a stream of them. */
struct decode_job {
	/* The caller's; the bytes as for decoder_begin, until the job is done. */
	const uint8_t *data;
	size_t size;
	size_t entry_point_room; /* bytes that can be kept for it; 0: none, nor are there any */
	/* Set by the stream's `header`; `start` may narrow the region. */
	struct decode_region region;
	uint8_t shrink; /* as of decoder_shrink; 0 before `header` */
	/* When it is done: an enum decode_outcome or -ENOMEM, and the enum stepback for which the
	 * own decoder left the image to libjpeg-turbo, or 0. */
	int outcome;
	unsigned stepback;
	unsigned entry_points; /* DECODE_ENTRY_POINTS_* */
	/* The decoder's. */
	uint32_t delivered; /* rows, by the own decoder */
	uint8_t entry; /* how the own decoder enters it */
	struct decode_job *link;
};

/* Where the images of a stream come from and where their rows go. Several are read and decoded at a
 * time; rows come from one image after the other, not always in the order of `next`. Called on the
 * decoder's thread; none of these may call the decoder, but decoder_message and decoder_refuse
 * from `done`. */
struct decode_stream {
	struct decode_job *(*next)(void *context); /* NULL: there are none now */
	/* The header is read: sets the region. May be called again, with the same info. */
	void (*header)(void *context, struct decode_job *job, const struct decode_info *info);
	/* The next rows are this image's, from the first one. Called again when the own decoder has
	 * stepped back from it meanwhile; an image without rows may miss it. */
	void (*start)(void *context, struct decode_job *job);
	decode_row_fn *row;
	void (*done)(void *context, struct decode_job *job);
	void *context;
	/* Checkpoints (checkpack.h), for jobs that have room for some. `recall` copies what is kept
	 * for a job, at most `room` bytes, and returns how many; it need not be right. `keeps` says
	 * whether others would be kept instead: it is asked before an image is decoded through its
	 * end to make them. `keep` keeps these, at most entry_point_room; false: they are not kept.
	 * All may be called between others' rows. */
	size_t (*recall)(void *context, struct decode_job *job, uint8_t *to, size_t room);
	bool (*keeps)(void *context, struct decode_job *job);
	bool (*keep)(void *context, struct decode_job *job, const uint8_t *pack, size_t size);
};

/* Decodes until `next` has no more; all images are done then. Beyond the region's last row nothing
 * is looked at. */
void decoder_run(struct decoder *decoder, const struct decode_stream *stream);

/* Ends an image whose rows are not wanted. */
void decoder_abort(struct decoder *decoder);

/* Ticks of base/ticks.h that went into each stage since the decoder was made, up to now. */
void decoder_stages(struct decoder *decoder, uint64_t ret_ticks[DECODE_STAGES]);

/* The library's words on the last outcome that was not DECODE_OK; valid until the next
 * decoder_begin. */
const char *decoder_message(const struct decoder *decoder);

/* Puts the caller's words in their place where it is the caller that refuses an image; returns
 * `outcome`. From `done` too. */
int decoder_refuse(struct decoder *decoder, enum decode_outcome outcome, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

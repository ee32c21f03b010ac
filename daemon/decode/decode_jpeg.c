/* decode_jpeg: see decode_jpeg.h.
 *
 * Pillow feeds libjpeg from a source that never invents data: libjpeg suspends where the bytes end,
 * and Pillow refuses a file that ends before its last row. It feeds 64 KiB at a time, which matters
 * in two places: arithmetic decoding cannot suspend, and fails where such a window ends; and the
 * data after the last row is judged only up to the end of the window that was reached. So the
 * source here has windows too where one of these could matter. Elsewhere it shows the whole file,
 * since Huffman decoding goes on after a suspension as if there had been none.
 *
 * libjpeg leaves its functions by longjmp after an error. Every call into it is made by a step
 * function under guarded(), which has no locals that a jump could spoil. Facts about Pillow:
 * 13.0.0, src/libImaging/JpegDecode.c. */
#include "decode/decode_jpeg.h"

#include "decode/jpeg/kernels/planes_kernels.h"
#include "decode/jpegmem.h"
#include "decode/jpegwalk.h"
#include "decode/sniff.h"

#include "base/util.h"

#include <errno.h>
#include <jerror.h>
#include <setjmp.h>
#include <string.h>

enum {
	WINDOW_BYTES = 65536, /* Pillow's ImageFile.MAXBLOCK */
	ROWS_AT_ONCE = MAX_SAMP_FACTOR, /* libjpeg never delivers more than a row group */
	/* libjpeg-turbo's x86 conversion writes past the cache into rows that are aligned to its
	 * vectors (jdcolext-avx2.asm, jdcolext-sse2.asm). These rows are read again at once, so
	 * they are not aligned, which saves 5 % of a whole decode. */
	ROW_OFFSET = 8,
};

struct jpeg_reader {
	struct jpeg_decompress_struct cinfo;
	struct jpeg_error_mgr errors;
	struct jpeg_source_mgr source;
	struct jpeg_progress_mgr progress;
	struct jpegmem mem;
	jmp_buf escape;
	int escaped; /* the outcome after a jump, or a negative errno */
	struct scratch *scratch;
	struct sentence *sentence;
	const struct planes_kernels *kernels;
	unsigned scans, scans_any; /* limits for this image, and for any image */
	uint64_t scans_begin, scans_end; /* where the data of several scans must begin and end */
	const uint8_t *data;
	size_t size, shown; /* bytes of the file, bytes shown to libjpeg so far */
	size_t skip; /* bytes that libjpeg wants to skip after those shown */
	bool mapped; /* the file is mapped: pages that were read are dropped */
	size_t dropped; /* up to this byte */
	struct jpegwalk walk;
	/* The arguments of decode_jpeg_rows; here, not in locals, because a jump may leave a step.
	 */
	struct decode_region region;
	bool to_end;
	decode_row_fn *row;
	void *context;
	JSAMPROW rows[ROWS_AT_ONCE];
	uint8_t *rgb[DECODE_PLANES]; /* of the region */
	_Alignas(SCRATCH_ALIGN) uint8_t tables[JPEGMEM_TABLES_BYTES];
};

static struct jpeg_reader *of_common(j_common_ptr cinfo)
{
	return cinfo->client_data;
}

static int outcome_of(int code)
{
	switch (code) {
	case JERR_OUT_OF_MEMORY:
		return DECODE_E_MEMORY;
	case JERR_SOF_UNSUPPORTED:
	case JERR_ARITH_NOTIMPL:
	case JERR_BAD_PRECISION:
	case JERR_CCIR601_NOTIMPL:
	case JERR_FRACT_SAMPLE_NOTIMPL:
	case JERR_CONVERSION_NOTIMPL:
	case JERR_NOT_COMPILED:
	case JERR_NOTIMPL:
		return DECODE_E_UNSUPPORTED;
	default:
		return DECODE_E_CORRUPT;
	}
}

static void on_error(j_common_ptr cinfo)
{
	struct jpeg_reader *jpeg = of_common(cinfo);
	char text[JMSG_LENGTH_MAX];
	if (jpeg->mem.error) {
		jpeg->escaped = jpeg->mem.error;
		longjmp(jpeg->escape, 1);
	}
	cinfo->err->format_message(cinfo, text);
	if (cinfo->err->msg_code == JERR_CANT_SUSPEND)
		(void)snprintf(text, sizeof(text),
			"arithmetic coding after the first %zu bytes, which Pillow cannot read "
			"either",
			jpeg->shown);
	jpeg->escaped = sentence_set(jpeg->sentence,
		(enum decode_outcome)outcome_of(cinfo->err->msg_code), "JPEG: %s", text);
	longjmp(jpeg->escape, 1);
}

/* Ignores warnings, as Pillow does. */
static void on_message(j_common_ptr cinfo, int level)
{
	(void)cinfo, (void)level;
}

static void no_output(j_common_ptr cinfo)
{
	(void)cinfo;
}

static size_t source_place(const struct jpeg_reader *jpeg)
{
	return (size_t)(jpeg->source.next_input_byte - jpeg->data);
}

static _Noreturn void leave_scans(struct jpeg_reader *jpeg, int outcome)
{
	jpeg->escaped = outcome;
	longjmp(jpeg->escape, 1);
}

/* Bounds the part of a mapped file that is in memory. */
static void drop_read(struct jpeg_reader *jpeg)
{
	enum { PIECE = 1 << 20 };
	size_t place = source_place(jpeg);
	if (!jpeg->mapped || place < jpeg->dropped + PIECE)
		return;
	spill_drop(jpeg->data, jpeg->dropped, place);
	jpeg->dropped = place;
}

/* Called by libjpeg while it reads a file of several scans, before any row comes out. */
static void on_progress(j_common_ptr cinfo)
{
	struct jpeg_reader *jpeg = of_common(cinfo);
	drop_read(jpeg);
	if (source_place(jpeg) > jpeg->scans_end)
		leave_scans(jpeg,
			sentence_set(jpeg->sentence, DECODE_E_SCANS,
				"JPEG: the scans have more than %llu bytes for %u x %u pixels",
				(unsigned long long)(jpeg->scans_end - jpeg->scans_begin),
				jpeg->walk.width, jpeg->walk.height));
	if ((unsigned)jpeg->cinfo.input_scan_number <= jpeg->scans)
		return;
	if (jpeg->scans == jpeg->scans_any)
		leave_scans(jpeg, sentence_set(jpeg->sentence, DECODE_E_SCANS,
					  "JPEG: more than %u scans", jpeg->scans));
	leave_scans(jpeg,
		sentence_set(jpeg->sentence, DECODE_E_SCANS,
			"JPEG: more than %u scans of %u x %u pixels; smaller images may have more",
			jpeg->scans, jpeg->walk.width, jpeg->walk.height));
}

static void source_nothing(j_decompress_ptr cinfo)
{
	(void)cinfo;
}

static boolean source_fill(j_decompress_ptr cinfo)
{
	(void)cinfo;
	return FALSE; /* suspend: show_more shows the next window, if there is one */
}

static void source_skip(j_decompress_ptr cinfo, long bytes)
{
	struct jpeg_reader *jpeg = cinfo->client_data;
	if (bytes <= 0)
		return;
	size_t here = UTIL_MIN((size_t)bytes, cinfo->src->bytes_in_buffer);
	cinfo->src->next_input_byte += here;
	cinfo->src->bytes_in_buffer -= here;
	jpeg->skip = (size_t)bytes - here;
}

/* Shows libjpeg the next window; false at the end of the file. First continues a skip that is not
 * complete. */
static bool show_more(struct jpeg_reader *jpeg)
{
	if (jpeg->shown == jpeg->size)
		return false;
	size_t more = UTIL_MIN(jpeg->size - jpeg->shown, (size_t)WINDOW_BYTES);
	jpeg->shown += more;
	jpeg->source.bytes_in_buffer += more;
	if (jpeg->skip)
		source_skip(&jpeg->cinfo, (long)jpeg->skip);
	return true;
}

static void show_all(struct jpeg_reader *jpeg)
{
	jpeg->source.bytes_in_buffer += jpeg->size - jpeg->shown;
	jpeg->shown = jpeg->size;
}

/* Goes back to what Pillow would have shown by now: whole windows up to the one that contains the
 * place reached. */
static void show_windows(struct jpeg_reader *jpeg)
{
	size_t place = source_place(jpeg);
	jpeg->shown = UTIL_MIN(util_align(place, WINDOW_BYTES), jpeg->size);
	jpeg->source.bytes_in_buffer = jpeg->shown - place;
}

static int guarded(struct jpeg_reader *jpeg, int (*step)(struct jpeg_reader *))
{
	if (setjmp(jpeg->escape))
		return jpeg->escaped;
	return step(jpeg);
}

static int step_create(struct jpeg_reader *jpeg)
{
	jpeg_create_decompress(&jpeg->cinfo);
	return 0;
}

static int jpeg_make(const struct reader_tools *tools, void **ret)
{
	struct jpeg_reader *jpeg =
		aligned_alloc(SCRATCH_ALIGN, util_align(sizeof(*jpeg), SCRATCH_ALIGN));
	if (!jpeg)
		return -ENOMEM;
	memset(jpeg, 0, sizeof(*jpeg));
	jpeg->scratch = tools->scratch;
	jpeg->sentence = tools->sentence;
	jpeg->kernels = tools->kernels;
	jpeg->cinfo.err = jpeg_std_error(&jpeg->errors);
	jpeg->errors.error_exit = on_error;
	jpeg->errors.emit_message = on_message;
	jpeg->errors.output_message = no_output;
	jpeg->cinfo.client_data = jpeg;
	if (guarded(jpeg, step_create)) {
		jpeg_destroy_decompress(&jpeg->cinfo);
		free(jpeg);
		return -ENOMEM;
	}
	jpegmem_install(&jpeg->mem, &jpeg->cinfo, jpeg->scratch, jpeg->tables);
	jpeg->source = (struct jpeg_source_mgr){
		.init_source = source_nothing,
		.fill_input_buffer = source_fill,
		.skip_input_data = source_skip,
		.resync_to_restart = jpeg_resync_to_restart,
		.term_source = source_nothing,
	};
	jpeg->cinfo.src = &jpeg->source;
	jpeg->progress.progress_monitor = on_progress;
	*ret = jpeg;
	return 0;
}

static void jpeg_unmake(void *self)
{
	struct jpeg_reader *jpeg = self;
	if (!jpeg)
		return;
	jpegmem_remove(&jpeg->mem, &jpeg->cinfo);
	jpeg_destroy_decompress(&jpeg->cinfo);
	free(jpeg);
}

static uint64_t jpeg_bytes(void)
{
	enum { LIBJPEG_CREATE = 4096 }; /* marker reader, input controller, their pools */
	return sizeof(struct jpeg_reader) + LIBJPEG_CREATE;
}

static void jpeg_end(void *self)
{
	struct jpeg_reader *jpeg = self;
	jpeg_abort_decompress(&jpeg->cinfo);
	jpeg->data = NULL;
}

/* Reads up to the first scan, through abbreviated streams of tables before it. */
static int step_header(struct jpeg_reader *jpeg)
{
	int state;
	do
		state = jpeg_read_header(&jpeg->cinfo, FALSE);
	while (state == JPEG_HEADER_TABLES_ONLY);
	if (state == JPEG_SUSPENDED)
		return sentence_set(
			jpeg->sentence, DECODE_E_TRUNCATED, "JPEG: the file ends in its header");
	if (jpeg->cinfo.image_width != jpeg->walk.width ||
		jpeg->cinfo.image_height != jpeg->walk.height ||
		(unsigned)jpeg->cinfo.num_components != jpeg->walk.layers)
		return sentence_set(
			jpeg->sentence, DECODE_E_CORRUPT, "JPEG: two frame headers that differ");
	jpeg->cinfo.out_color_space = jpeg->walk.layers == 4 ? JCS_CMYK : JCS_RGB;
	return DECODE_OK;
}

unsigned decode_jpeg_scans(const struct decode_limits *limits, const struct jpegwalk *walk)
{
	uint64_t script = 2 + 4 * (uint64_t)walk->layers;
	uint64_t most = limits->scan_pixels / ((uint64_t)walk->width * walk->height);
	return (unsigned)UTIL_MIN(UTIL_MAX(most, script), (uint64_t)limits->scans);
}

uint64_t decode_jpeg_scans_bytes(const struct jpegwalk *walk)
{
	enum { ANYHOW = 1 << 20 };
	return (uint64_t)walk->width * walk->height * walk->layers * 3 / 2 + ANYHOW;
}

static int jpeg_begin(void *self, const struct decode_limits *limits, const uint8_t *data,
	size_t size, struct decode_info *ret)
{
	struct jpeg_reader *jpeg = self;
	int outcome = jpegwalk_read(data, size, &jpeg->walk, jpeg->sentence);
	if (outcome)
		return outcome;
	uint64_t pixels = (uint64_t)jpeg->walk.width * jpeg->walk.height;
	if (pixels > limits->pixels)
		return sentence_set(jpeg->sentence, DECODE_E_PIXELS,
			"JPEG: %u x %u pixels; the limit max_image_pixels is %llu",
			jpeg->walk.width, jpeg->walk.height, (unsigned long long)limits->pixels);
	jpeg->scans = decode_jpeg_scans(limits, &jpeg->walk);
	jpeg->scans_any = limits->scans;
	jpeg->data = data;
	jpeg->size = size;
	jpeg->shown = jpeg->skip = jpeg->dropped = 0;
	jpeg->mapped = limits->mapped;
	jpeg->source.next_input_byte = data;
	jpeg->source.bytes_in_buffer = 0;
	jpegmem_begin(&jpeg->mem, &jpeg->cinfo);
	show_all(jpeg);
	outcome = guarded(jpeg, step_header);
	if (outcome)
		return outcome;
	jpeg->scans_begin = source_place(jpeg);
	jpeg->scans_end = jpeg->scans_begin + decode_jpeg_scans_bytes(&jpeg->walk);
	*ret = (struct decode_info){
		.width = jpeg->walk.width,
		.height = jpeg->walk.height,
		.format = DECODE_JPEG,
		.progressive = jpeg->cinfo.progressive_mode,
	};
	return DECODE_OK;
}

void decode_jpeg_shrink(void *self, uint8_t shrink)
{
	struct jpeg_reader *jpeg = self;
	jpeg->cinfo.scale_num = 1;
	jpeg->cinfo.scale_denom = 1u << shrink;
}

static size_t row_bytes(const struct jpeg_reader *jpeg)
{
	size_t pixels = (size_t)jpeg->walk.width * (jpeg->walk.layers == 4 ? 4 : 3);
	return util_align(ROW_OFFSET + pixels, SCRATCH_ALIGN);
}

/* Bytes of a row of one color. */
static size_t plane_bytes(const struct jpeg_reader *jpeg)
{
	return util_align(jpeg->walk.width + DECODE_ROW_SLACK, SCRATCH_ALIGN);
}

static uint64_t jpeg_need(void *self, bool spilled)
{
	struct jpeg_reader *jpeg = self;
	return jpegmem_estimate(&jpeg->cinfo, spilled) + ROWS_AT_ONCE * (uint64_t)row_bytes(jpeg) +
	       DECODE_PLANES * (uint64_t)plane_bytes(jpeg);
}

static int truncated(struct jpeg_reader *jpeg)
{
	return sentence_set(jpeg->sentence, DECODE_E_TRUNCATED,
		"JPEG: the file ends after row %u of %u", jpeg->cinfo.output_scanline,
		jpeg->cinfo.output_height);
}

/* Pillow inverts all four samples, since Adobe's files store them inverted, and then takes each
 * color's share of what black leaves: with k the sample as stored, k - (255 - c) * k / 255, rounded
 * as its MULDIV255 (libImaging/ImagingUtils.h). */
static void cmyk_to_rgb(uint8_t *const rgb[DECODE_PLANES], const uint8_t *cmyk, uint32_t pixels)
{
	for (uint32_t x = 0; x < pixels; x++, cmyk += 4) {
		unsigned black = cmyk[3];
		for (int i = 0; i < DECODE_PLANES; i++) {
			unsigned product = (255u - cmyk[i]) * black + 128;
			unsigned share = (product + (product >> 8)) >> 8;
			rgb[i][x] = (uint8_t)(black - share);
		}
	}
}

static void deliver(struct jpeg_reader *jpeg, const uint8_t *row)
{
	const struct decode_region *r = &jpeg->region;
	if (jpeg->walk.layers != 4)
		jpeg->kernels->split(jpeg->rgb, row + (size_t)r->x0 * 3, r->x1 - r->x0);
	else
		cmyk_to_rgb(jpeg->rgb, row + (size_t)r->x0 * 4, r->x1 - r->x0);
	jpeg->row(jpeg->context, (const uint8_t *const *)jpeg->rgb);
}

/* Reads rows up to `until`, and hands over those of the region. */
static int read_rows(struct jpeg_reader *jpeg, uint32_t until)
{
	while (jpeg->cinfo.output_scanline < until) {
		uint32_t y = jpeg->cinfo.output_scanline;
		uint32_t got = jpeg_read_scanlines(
			&jpeg->cinfo, jpeg->rows, UTIL_MIN((uint32_t)ROWS_AT_ONCE, until - y));
		for (uint32_t i = 0; i < got; i++)
			if (y + i >= jpeg->region.y0 && y + i < jpeg->region.y1)
				deliver(jpeg, jpeg->rows[i]);
		if (got == 0 && !show_more(jpeg))
			return truncated(jpeg);
		drop_read(jpeg);
	}
	return DECODE_OK;
}

/* Reads on to the end marker. Suspending is not a failure: a missing end is forgiven once all rows
 * are out. But a second frame header is refused as soon as its marker is read, as libjpeg-turbo
 * does since 3.0; version 2.1 reads its length first, and suspends where that is missing. */
static int finish(struct jpeg_reader *jpeg)
{
	enum { SOF0 = 0xc0, SOF2 = 0xc2, SOF9 = 0xc9, SOF10 = 0xca };
	if (jpeg_finish_decompress(&jpeg->cinfo))
		return DECODE_OK;
	int marker = jpeg->cinfo.unread_marker;
	if ((marker >= SOF0 && marker <= SOF2) || marker == SOF9 || marker == SOF10)
		return sentence_set(jpeg->sentence, DECODE_E_CORRUPT,
			"JPEG: a second frame header after the image");
	return DECODE_OK;
}

static int step_rows(struct jpeg_reader *jpeg)
{
	j_common_ptr common = (j_common_ptr)&jpeg->cinfo;
	for (int i = 0; i < ROWS_AT_ONCE; i++)
		jpeg->rows[i] = (JSAMPROW)jpeg->mem.methods.alloc_large(
					common, JPOOL_IMAGE, row_bytes(jpeg)) +
				ROW_OFFSET;
	for (int c = 0; c < DECODE_PLANES; c++)
		jpeg->rgb[c] =
			jpeg->mem.methods.alloc_large(common, JPOOL_IMAGE, plane_bytes(jpeg));
	jpeg->cinfo.progress = jpeg_has_multiple_scans(&jpeg->cinfo) ? &jpeg->progress : NULL;
	while (!jpeg_start_decompress(&jpeg->cinfo))
		if (!show_more(jpeg))
			return sentence_set(jpeg->sentence, DECODE_E_TRUNCATED,
				"JPEG: the file ends before its last scan");
	int outcome = read_rows(jpeg, jpeg->to_end ? jpeg->cinfo.output_height : jpeg->region.y1);
	if (!outcome && jpeg->to_end)
		outcome = finish(jpeg);
	return outcome;
}

static int jpeg_rows(
	void *self, struct decode_region region, bool to_end, decode_row_fn *row, void *context)
{
	struct jpeg_reader *jpeg = self;
	jpeg->region = region;
	jpeg->to_end = to_end;
	jpeg->row = row;
	jpeg->context = context;
	if (to_end || jpeg->cinfo.arith_code)
		show_windows(jpeg);
	return guarded(jpeg, step_rows);
}

const struct reader decode_jpeg = {
	.format = DECODE_JPEG,
	.name = "JPEG",
	.library = "libjpeg-turbo",
	.sniff = sniff_jpeg,
	.make = jpeg_make,
	.unmake = jpeg_unmake,
	.bytes = jpeg_bytes,
	.begin = jpeg_begin,
	.rows = jpeg_rows,
	.end = jpeg_end,
	.need = jpeg_need,
};

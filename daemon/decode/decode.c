/* decode: see decode.h. This file owns the scratch and its permit: it provides the memory for an
 * image after the limits were checked and before the first pixel.
 *
 * Penstock's decoder and the libraries take turns with the scratch. The first image that penstock's
 * decoder does not take, or steps back from, stops it from asking for more. When the images in
 * flight are done, the libraries decode those that were left to them, from the first row, since
 * rows of other images may have come in between. Files that are too large for the scratch are then
 * tried again by penstock's decoder, one by one in borrowed memory, if the pool has enough at that
 * moment: it is not worth waiting for. A file of several scans waits for it, since libjpeg-turbo
 * would need more. */
#include "decode/decode.h"

#include "decode/decode_jpeg.h"
#include "decode/decode_png.h"
#include "decode/jpeg/jpegdec.h"
#include "decode/jpeg/kernels/planes_kernels.h"
#include "decode/jpegwalk.h"
#include "decode/png/kernels/png_kernels.h"
#include "decode/pngwalk.h"
#include "decode/scratch.h"
#include "decode/sentence.h"
#include "decode/sniff.h"
#include "decode/stages.h"
#include "decode/types/types.h"

#include "base/size.h"
#include "base/util.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

enum {
	/* Enough for libjpeg: a single scan of any width up to 16 K samples, and coefficients of
	 * 0.3 MP in 4:4:4. */
	DECODER_SCRATCH_WHOLE = 2 << 20,
	/* What penstock's decoder takes in addition to the bytes of a file that is larger than its
	 * scratch: a row of MCUs of the widest image has 3 MiB of coefficients. */
	DECODER_LARGE_REST = 4 << 20,
};

/* In the order in which they are asked. */
static const struct reader *const readers[] = {
	&decode_jpeg, &decode_png, &types_webp, &types_tiff, &types_bmp, &types_pnm, &types_gif};
enum { READER_JPEG = 0 };

struct decoder {
	struct decode_limits limits;
	struct scratch scratch;
	struct sentence sentence;
	void *self[UTIL_COUNT(readers)]; /* of each reader */
	unsigned reader; /* that of the image begun */
	struct jpegdec *jpegdec; /* NULL: switched off */
	const uint8_t *data; /* of the image begun */
	size_t size;
	struct decode_info info;
	uint8_t shrink;
	bool open;
	struct stages stages;
};

const char *decode_outcome_name(enum decode_outcome outcome)
{
	static const char *const names[DECODE_OUTCOMES] = {
		[DECODE_OK] = "ok",
		[DECODE_E_NOT_IMAGE] = "not-image",
		[DECODE_E_CORRUPT] = "corrupt",
		[DECODE_E_TRUNCATED] = "truncated",
		[DECODE_E_UNSUPPORTED] = "unsupported",
		[DECODE_E_PIXELS] = "too-many-pixels",
		[DECODE_E_SCANS] = "too-many-scans",
		[DECODE_E_MEMORY] = "too-much-memory",
		[DECODE_E_SMALL] = "too-small",
	};
	return (unsigned)outcome < DECODE_OUTCOMES ? names[outcome] : "unknown";
}

static const struct reader *reader_of(enum decode_format format)
{
	for (size_t i = 0; i < UTIL_COUNT(readers); i++)
		if (readers[i]->format == format)
			return readers[i];
	return NULL;
}

const char *decode_format_name(enum decode_format format)
{
	const struct reader *reader = reader_of(format);
	return reader ? reader->name : "unknown";
}

const char *decode_format_library(enum decode_format format)
{
	const struct reader *reader = reader_of(format);
	return reader && reader->library ? reader->library : "none";
}

const char *decode_formats(void)
{
	if (types_webp.library)
		return types_tiff.library ? "JPEG, PNG, WebP, TIFF, BMP, PNM, GIF"
					  : "JPEG, PNG, WebP, BMP, PNM, GIF";
	return types_tiff.library ? "JPEG, PNG, TIFF, BMP, PNM, GIF" : "JPEG, PNG, BMP, PNM, GIF";
}

const char *decode_stage_name(enum decode_stage stage)
{
	static const char *const names[DECODE_STAGES] = {
		[DECODE_STAGE_OTHER] = "other",
		[DECODE_STAGE_PARSE] = "parse",
		[DECODE_STAGE_ENTRY_POINTS] = "checkpoints",
		[DECODE_STAGE_UNSTUFF] = "unstuff",
		[DECODE_STAGE_ENTROPY] = "entropy",
		[DECODE_STAGE_TRANSFORM] = "transform",
		[DECODE_STAGE_CONVERT] = "convert",
		[DECODE_STAGE_LIBRARY] = "library",
	};
	return names[stage];
}

void decoder_stages(struct decoder *decoder, uint64_t ret_ticks[DECODE_STAGES])
{
	(void)stages_enter(&decoder->stages, decoder->stages.stage);
	memcpy(ret_ticks, decoder->stages.ticks, sizeof(decoder->stages.ticks));
}

void decode_weave(uint8_t *to, const uint8_t *const rgb[DECODE_PLANES], size_t pixels)
{
	for (size_t i = 0; i < pixels; i++)
		for (int c = 0; c < DECODE_PLANES; c++)
			*to++ = rgb[c][i];
}

struct decode_limits decode_limits_default(void)
{
	return (struct decode_limits){.pixels = DECODE_PIXELS,
		.scans = 500,
		.scan_pixels = 208000000,
		.scratch = DECODER_SCRATCH_MOST,
		.large = NULL};
}

/* With plain C kernels only, penstock's decoder is slower than libjpeg-turbo with its vectors.
 * Forcing kernels also means using it. */
static bool jpegdec_pays(void)
{
	const char *forced = getenv("PENSTOCK_KERNELS");
	return (forced && *forced) || planes_kernels_at(1);
}

/* Whether images are left to libjpeg-turbo and libpng, as the caller or the environment wants. */
static bool only_libraries(const struct decoder *decoder)
{
	const char *which = getenv("PENSTOCK_DECODER");
	return decoder->limits.libraries || (which && strcmp(which, "libjpeg") == 0);
}

/* Makes penstock's decoder of JPEGs where it pays. */
static int decoder_new_jpegdec(struct decoder *decoder, struct fault *fault)
{
	const char *which = getenv("PENSTOCK_DECODER");
	if (decoder->limits.whole || only_libraries(decoder))
		return 0;
	if (which && *which && strcmp(which, "own") != 0 && strcmp(which, "auto") != 0)
		return fault_set(fault, -EINVAL,
			"PENSTOCK_DECODER=%s: expected own, libjpeg or auto; unset it to let "
			"penstock choose",
			which);
	if ((!which || strcmp(which, "own") != 0) && !jpegdec_pays())
		return 0;
	return jpegdec_new(&decoder->jpegdec, fault);
}

int decoder_new(const struct decode_limits *limits, struct decoder **ret, struct fault *fault)
{
	struct decoder *decoder = calloc(1, sizeof(*decoder));
	if (!decoder)
		goto no_memory;
	decoder->limits = *limits;
	decoder->stages.since = ticks_now();
	if (scratch_init(&decoder->scratch, limits->whole ? DECODER_SCRATCH_WHOLE : limits->scratch,
		    limits->large, limits->spill))
		goto no_memory;
	struct reader_tools tools = {.scratch = &decoder->scratch,
		.sentence = &decoder->sentence,
		.stages = &decoder->stages};
	int result = planes_kernels_choose(&tools.kernels, fault);
	if (!result && !only_libraries(decoder))
		result = png_kernels_choose(&tools.png_kernels, fault);
	if (result) {
		decoder_free(decoder);
		return result;
	}
	for (size_t i = 0; i < UTIL_COUNT(readers); i++)
		if (readers[i]->make(&tools, &decoder->self[i]))
			goto no_memory;
	result = decoder_new_jpegdec(decoder, fault);
	if (result) {
		decoder_free(decoder);
		return result;
	}
	*ret = decoder;
	return 0;
no_memory:
	decoder_free(decoder);
	return fault_set(fault, -ENOMEM,
		"decoder: %llu bytes of working memory cannot be allocated; use fewer threads or "
		"free memory",
		(unsigned long long)(limits->whole ? decoder_whole_bytes()
						   : decoder_scratch_bytes(limits->scratch)));
}

void decoder_free(struct decoder *decoder)
{
	if (!decoder)
		return;
	decoder_abort(decoder);
	jpegdec_free(decoder->jpegdec);
	for (size_t i = 0; i < UTIL_COUNT(readers); i++)
		readers[i]->unmake(decoder->self[i]);
	scratch_deinit(&decoder->scratch);
	free(decoder);
}

uint64_t decoder_whole_bytes(void)
{
	uint64_t bytes = sizeof(struct decoder) + DECODER_SCRATCH_WHOLE;
	for (size_t i = 0; i < UTIL_COUNT(readers); i++)
		bytes += readers[i]->bytes();
	return bytes;
}

uint64_t decoder_scratch_bytes(uint64_t scratch)
{
	return decoder_whole_bytes() + scratch - DECODER_SCRATCH_WHOLE + jpegdec_bytes();
}

static int begin_format(struct decoder *decoder, const struct decode_limits *limits,
	const uint8_t *data, size_t size, struct decode_info *ret)
{
	for (unsigned i = 0; i < UTIL_COUNT(readers); i++) {
		if (!readers[i]->sniff(data, size))
			continue;
		decoder->reader = i;
		ret->format = readers[i]->format;
		return readers[i]->begin(decoder->self[i], limits, data, size, ret);
	}
	return sentence_set(&decoder->sentence, DECODE_E_NOT_IMAGE,
		"not a JPEG, PNG, WebP, TIFF, BMP, PNM or GIF; it looks like %s: %s",
		sniff_name(data, size), sniff_advice(data, size));
}

static int begin(struct decoder *decoder, const struct decode_limits *limits, const uint8_t *data,
	size_t size, struct decode_info *ret)
{
	decoder_abort(decoder);
	decoder->sentence.text[0] = 0;
	decoder->info = (struct decode_info){0};
	decoder->shrink = 0;
	decoder->data = data;
	decoder->size = size;
	decoder->open = true;
	enum decode_stage before = stages_enter(&decoder->stages, DECODE_STAGE_LIBRARY);
	int outcome = begin_format(decoder, limits, data, size, &decoder->info);
	(void)stages_enter(&decoder->stages, before);
	if (outcome)
		decoder_abort(decoder);
	else
		*ret = decoder->info;
	return outcome;
}

void decoder_set_mapped(struct decoder *decoder, bool mapped)
{
	assert(!decoder->open);
	decoder->limits.mapped = mapped;
}

int decoder_begin(
	struct decoder *decoder, const uint8_t *data, size_t size, struct decode_info *ret)
{
	return begin(decoder, &decoder->limits, data, size, ret);
}

void decoder_abort(struct decoder *decoder)
{
	if (!decoder->open)
		return;
	if (decoder->info.format)
		readers[decoder->reader]->end(decoder->self[decoder->reader]);
	scratch_reset(&decoder->scratch);
	decoder->open = false;
}

void decoder_shrink(struct decoder *decoder, uint8_t shrink)
{
	assert(decoder->open && decoder->info.format == DECODE_JPEG);
	assert(shrink <= DECODE_SHRINK_MAX);
	decoder->shrink = shrink;
	decode_jpeg_shrink(decoder->self[READER_JPEG], shrink);
}

static uint64_t need(const struct decoder *decoder, bool spilled)
{
	return readers[decoder->reader]->need(decoder->self[decoder->reader], spilled);
}

static bool can_spill(const struct decoder *decoder)
{
	return decoder->limits.spill && decoder->limits.large;
}

uint64_t decoder_large_bytes(const struct decoder *decoder)
{
	if (!decoder->open)
		return 0;
	uint64_t bytes = need(decoder, false);
	if (!scratch_would_borrow(&decoder->scratch, bytes))
		return 0;
	bytes = util_align(bytes, SCRATCH_ALIGN);
	return can_spill(decoder) ? UTIL_MIN(bytes, decoder->limits.large->total) : bytes;
}

bool decoder_borrows(const struct decoder *decoder)
{
	return decoder->scratch.borrowed && decoder->scratch.pool;
}

/* The sentence for a fault: the image is not at fault, so the stream cannot go on. */
static int spill_failed(struct decoder *decoder, int error)
{
	char wanted[16], total[16];
	decoder->sentence.text[0] = 0;
	if (error == -ENOMEM)
		return error;
	(void)snprintf(decoder->sentence.text, sizeof(decoder->sentence.text),
		"%u x %u pixels need %s to decode, and the memory budget has %s for large images; "
		"the rest goes to a temporary file in %.120s, which fails: %s; make room there, "
		"set cache_dir to a folder on a disk with room, or raise memory",
		decoder->info.width, decoder->info.height,
		size_format(need(decoder, false), wanted, sizeof(wanted)),
		size_format(decoder->limits.large->total, total, sizeof(total)),
		decoder->limits.spill->folder, strerror(-error));
	return error;
}

static int provide(struct decoder *decoder)
{
	uint64_t bytes = need(decoder, false);
	int result = scratch_provide(&decoder->scratch, bytes);
	if (result != PERMIT_E_TOO_LARGE)
		return result;
	if (can_spill(decoder)) {
		permit_note(decoder->limits.large, bytes);
		return scratch_spill(&decoder->scratch, need(decoder, true));
	}
	char wanted[16], total[16];
	return sentence_set(&decoder->sentence, DECODE_E_MEMORY,
		"%u x %u pixels need %s to decode; large images share %s", decoder->info.width,
		decoder->info.height, size_format(bytes, wanted, sizeof(wanted)),
		size_format(decoder->limits.large->total, total, sizeof(total)));
}

/* Leaves out the rows that penstock's decoder delivered before it stepped back: they were right. */
struct rows_skip {
	uint32_t left_out;
	decode_row_fn *row;
	void *context;
};

static void row_skip(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct rows_skip *skip = context;
	if (skip->left_out)
		skip->left_out--;
	else
		skip->row(skip->context, rgb);
}

/* Decodes by the libraries, without the rows that were delivered already. Ends the image. */
static int library_rows(
	struct decoder *decoder, struct decode_region region, bool to_end, struct rows_skip skip)
{
	decode_row_fn *row = skip.left_out ? row_skip : skip.row;
	void *context = skip.left_out ? &skip : skip.context;
	enum decode_stage before = stages_enter(&decoder->stages, DECODE_STAGE_LIBRARY);
	int outcome = provide(decoder);
	if (!outcome)
		outcome = readers[decoder->reader]->rows(
			decoder->self[decoder->reader], region, to_end, row, context);
	if (outcome < 0)
		outcome = spill_failed(decoder, outcome);
	decoder_abort(decoder);
	(void)stages_enter(&decoder->stages, before);
	/* A library may have complained about something that Pillow ignores. */
	if (!outcome)
		decoder->sentence.text[0] = 0;
	return outcome;
}

static uint64_t job_pixels(const struct decoder *decoder, const struct decode_job *job)
{
	return job->pixels ? job->pixels : decoder->limits.pixels;
}

/* Reads the headers for penstock's decoder. False: the image is left to the libraries, with
 * job->stepback if the reason counts. They also refuse what Pillow refuses. */
static bool jpegdec_parses(struct decoder *decoder, struct decode_job *job, struct parse *ret)
{
	struct jpegwalk walk;
	job->delivered = 0;
	job->stepback = 0;
	job->entry_points = 0;
	job->entry = 0;
	job->memory = 0;
	if (!decoder->jpegdec || job->mapped || !sniff_jpeg(job->data, job->size) ||
		jpegwalk_read(job->data, job->size, &walk, &decoder->sentence) ||
		(uint64_t)walk.width * walk.height > job_pixels(decoder, job))
		return false;
	int reason = parse_read(job->data, job->size, ret);
	if (!reason && (ret->width != walk.width || ret->height != walk.height ||
			       ret->components != walk.layers))
		reason = STEPBACK_HEADER;
	job->scans_most = decode_jpeg_scans(&decoder->limits, &walk);
	job->scans_bytes = decode_jpeg_scans_bytes(&walk);
	job->stepback = (unsigned)reason;
	return !reason;
}

static bool jpegdec_takes(struct decoder *decoder, struct decode_job *job, struct parse *ret)
{
	enum decode_stage before = stages_enter(&decoder->stages, DECODE_STAGE_PARSE);
	bool takes = jpegdec_parses(decoder, job, ret);
	(void)stages_enter(&decoder->stages, before);
	return takes;
}

/* A run of penstock's decoder for a single image that was begun already. */
struct single {
	struct decoder *decoder;
	struct decode_job job;
	bool given;
	struct rows_skip skip; /* an image that is begun again delivers its rows again */
	uint32_t delivered;
};

static struct decode_job *single_next(void *context, struct parse *ret)
{
	struct single *single = context;
	if (single->given)
		return NULL;
	single->given = true;
	return jpegdec_takes(single->decoder, &single->job, ret) ? &single->job : NULL;
}

static void single_start(void *context, struct decode_job *job)
{
	struct single *single = context;
	(void)job;
	single->skip.left_out = single->delivered;
}

static void single_row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct single *single = context;
	single->delivered += single->skip.left_out == 0;
	row_skip(&single->skip, rgb);
}

static void single_done(void *context, struct decode_job *job)
{
	(void)context;
	job->outcome = job->stepback ? -EAGAIN : DECODE_OK;
}

/* Whether penstock's decoder delivered all rows; *ret_delivered: how many it did. */
static bool single_rows(struct decoder *decoder, struct decode_region region, decode_row_fn *row,
	void *context, uint32_t *ret_delivered)
{
	struct single single = {
		.decoder = decoder,
		.job = {.data = decoder->data,
			.size = decoder->size,
			.region = region,
			.shrink = decoder->shrink,
			.outcome = -EAGAIN},
		.skip = {.row = row, .context = context},
	};
	struct decode_stream rows = {.start = single_start, .row = single_row, .context = &single};
	struct jpegdec_source source = {.next = single_next,
		.done = single_done,
		.context = &single,
		.rows = &rows,
		.stages = &decoder->stages};
	size_t bytes;
	uint8_t *memory = scratch_rest(&decoder->scratch, &bytes);
	jpegdec_run(decoder->jpegdec, memory, bytes, &source);
	*ret_delivered = single.delivered;
	return single.job.outcome == DECODE_OK;
}

int decoder_rows(struct decoder *decoder, struct decode_region region, bool to_end,
	decode_row_fn *row, void *context)
{
	assert(decoder->open && region.x0 < region.x1 && region.y0 < region.y1);
	assert(region.x1 <= decode_shrunk(decoder->info.width, decoder->shrink));
	assert(region.y1 <= decode_shrunk(decoder->info.height, decoder->shrink));
	struct rows_skip skip = {.row = row, .context = context};
	bool try_jpegdec = decoder->jpegdec && !to_end && decoder->info.format == DECODE_JPEG;
	if (try_jpegdec && single_rows(decoder, region, row, context, &skip.left_out)) {
		decoder_abort(decoder);
		decoder->sentence.text[0] = 0;
		return DECODE_OK;
	}
	return library_rows(decoder, region, to_end, skip);
}

/* A run of decoder_run. */
struct run {
	struct decoder *decoder;
	const struct decode_stream *stream;
	struct decode_job *left; /* jobs left to the libraries */
	struct decode_job *large; /* one of them that penstock's decoder tries again */
	bool large_made; /* that one is done: it belongs to the caller and may be gone */
	bool ended; /* the stream had no more */
};

static void run_leave(struct run *run, struct decode_job *job)
{
	job->link = run->left;
	run->left = job;
}

/* The rows that an image has delivered before it stepped back are not wanted. They must not keep
 * memory of the pool while the decoder waits for more of it. */
static void run_drop(const struct run *run)
{
	if (run->stream->drop)
		run->stream->drop(run->stream->context);
}

static struct decode_job *run_next(void *context, struct parse *ret)
{
	struct run *run = context;
	if (run->left || run->ended)
		return NULL;
	struct decode_job *job = run->stream->next(run->stream->context);
	if (!job) {
		run->ended = true;
		return NULL;
	}
	if (!jpegdec_takes(run->decoder, job, ret)) {
		run_leave(run, job);
		return NULL;
	}
	struct decode_info info = {.width = ret->width,
		.height = ret->height,
		.format = DECODE_JPEG,
		.progressive = ret->progressive};
	run->stream->header(run->stream->context, job, &info);
	return job;
}

static void run_done(void *context, struct decode_job *job)
{
	struct run *run = context;
	if (job->stepback) {
		run_drop(run);
		run_leave(run, job);
		return;
	}
	job->outcome = DECODE_OK;
	run->stream->done(run->stream->context, job);
}

static struct decode_job *large_next(void *context, struct parse *ret)
{
	struct run *run = context;
	struct decode_job *job = run->large;
	run->large = NULL;
	return job && jpegdec_takes(run->decoder, job, ret) ? job : NULL;
}

static void large_done(void *context, struct decode_job *job)
{
	struct run *run = context;
	run->large_made = !job->stepback;
	if (run->large_made)
		run_done(context, job);
	else
		run_drop(run);
}

/* Borrows what an image needs that stepped back for its size. False: there is not enough. */
static bool run_borrow(struct decoder *decoder, const struct decode_job *job, uint64_t *ret_bytes)
{
	uint64_t bytes = job->memory ? job->memory : (uint64_t)job->size + DECODER_LARGE_REST;
	*ret_bytes = bytes;
	if (job->stepback != STEPBACK_SIZE || bytes <= decoder->limits.scratch)
		return false;
	if (!job->memory)
		return !scratch_try(&decoder->scratch, bytes);
	/* libjpeg-turbo would wait, too, and for more: for all coefficients of the image. */
	return !scratch_provide(&decoder->scratch, bytes);
}

/* Tries penstock's decoder again, in borrowed memory that has room for the whole file. False: the
 * image is left to the libraries. */
static bool run_large(struct run *run, struct decode_job *job)
{
	struct decoder *decoder = run->decoder;
	uint64_t bytes;
	if (!run_borrow(decoder, job, &bytes))
		return false;
	struct jpegdec_source source = {.next = large_next,
		.done = large_done,
		.context = run,
		.rows = run->stream,
		.stages = &decoder->stages};
	run->large = job;
	run->large_made = false;
	jpegdec_run(decoder->jpegdec, scratch_take(&decoder->scratch, bytes), bytes, &source);
	scratch_reset(&decoder->scratch);
	return run->large_made;
}

static void run_library(struct run *run, struct decode_job *job)
{
	const struct decode_stream *stream = run->stream;
	struct decode_info info;
	struct decode_limits limits = run->decoder->limits;
	limits.pixels = job_pixels(run->decoder, job);
	limits.mapped = job->mapped;
	int outcome = begin(run->decoder, &limits, job->data, job->size, &info);
	if (!outcome) {
		stream->header(stream->context, job, &info);
		if (info.format == DECODE_JPEG)
			decoder_shrink(run->decoder, job->shrink);
		stream->start(stream->context, job);
		struct rows_skip all = {.row = stream->row, .context = stream->context};
		outcome = library_rows(run->decoder, job->region, false, all);
	}
	job->outcome = outcome;
	stream->done(stream->context, job);
}

void decoder_run(struct decoder *decoder, const struct decode_stream *stream)
{
	struct run run = {.decoder = decoder, .stream = stream};
	struct jpegdec_source source = {.next = run_next,
		.done = run_done,
		.context = &run,
		.rows = stream,
		.stages = &decoder->stages};
	struct parse unused;
	decoder_abort(decoder);
	while (!run.ended) {
		size_t bytes;
		uint8_t *memory = scratch_rest(&decoder->scratch, &bytes);
		if (decoder->jpegdec)
			jpegdec_run(decoder->jpegdec, memory, bytes, &source);
		else
			(void)run_next(&run, &unused);
		while (run.left) {
			struct decode_job *job = run.left;
			run.left = job->link;
			if (!run_large(&run, job))
				run_library(&run, job);
		}
	}
}

const char *decoder_message(const struct decoder *decoder)
{
	return decoder->sentence.text;
}

int decoder_refuse(struct decoder *decoder, enum decode_outcome outcome, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(decoder->sentence.text, sizeof(decoder->sentence.text), format, arguments);
	va_end(arguments);
	return outcome;
}

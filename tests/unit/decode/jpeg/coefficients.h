/* coefficients: a JPEG's coefficients by libjpeg, and by penstock's decoder, in the same order, for
 * tests that compare them: MCU by MCU, blocks as in decode/jpeg/blocks.h. Everything is on the
 * heap; allocation failures end the test. */
#pragma once

#include "decode/jpeg/feed.h"

#include <assert.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

struct file {
	uint8_t *bytes; /* followed by 64 zero bytes */
	size_t size;
};

static inline void *want(void *p)
{
	assert(p);
	return p;
}

static inline struct file file_read(const char *path)
{
	FILE *stream = want(fopen(path, "rb"));
	fseek(stream, 0, SEEK_END);
	struct file file = {.size = (size_t)ftell(stream)};
	rewind(stream);
	file.bytes = want(calloc(1, file.size + 64));
	size_t got = fread(file.bytes, 1, file.size, stream);
	assert(got == file.size);
	fclose(stream);
	return file;
}

static inline size_t image_coefficients(const struct parse *parse)
{
	return (size_t)parse->mcus_across * parse->mcus_down * parse->in_mcu * BLOCKS_SIZE;
}

struct libjpeg {
	struct jpeg_decompress_struct cinfo;
	struct jpeg_error_mgr errors;
	jmp_buf escape;
	long warnings;
};

static inline void libjpeg_exit(j_common_ptr cinfo)
{
	longjmp(((struct libjpeg *)cinfo->client_data)->escape, 1);
}

/* Counts warnings about the data, except for an unknown version of JFIF or Adobe transform. */
static inline void libjpeg_message(j_common_ptr cinfo, int level)
{
	int code = cinfo->err->msg_code;
	if (level < 0 && code != JWRN_JFIF_MAJOR && code != JWRN_ADOBE_XFORM)
		((struct libjpeg *)cinfo->client_data)->warnings++;
}

/* The zigzag order, computed by its rule. */
static inline const uint8_t *zigzag(void)
{
	static uint8_t order[64];
	for (int d = 0, i = 0; d < 15 && !order[63]; d++)
		for (int t = 0; t <= d; t++) {
			int y = d & 1 ? t : d - t, x = d - y;
			if (x < 8 && y < 8)
				order[i++] = (uint8_t)(y * 8 + x);
		}
	return order;
}

static inline void libjpeg_component(struct libjpeg *l, const struct parse *parse, int component,
	jvirt_barray_ptr array, unsigned first, int16_t *to)
{
	const struct parse_component *c = &parse->component[component];
	for (uint32_t y = 0; y < parse->mcus_down * c->v; y++) {
		JBLOCKARRAY rows = l->cinfo.mem->access_virt_barray(
			(j_common_ptr)&l->cinfo, array, y, 1, FALSE);
		for (uint32_t x = 0; x < parse->mcus_across * c->h; x++) {
			size_t mcu = (size_t)(y / c->v) * parse->mcus_across + x / c->h;
			size_t block = mcu * parse->in_mcu + first + y % c->v * c->h + x % c->h;
			for (int i = 0; i < 64; i++)
				to[block * 64 + (size_t)i] = rows[0][x][zigzag()[i]];
		}
	}
}

/* Fills to[image_coefficients]; returns the number of warnings, or -1 for an error. */
static inline long libjpeg_coefficients(struct file file, const struct parse *parse, int16_t *to)
{
	struct libjpeg *l = want(calloc(1, sizeof(*l)));
	volatile long result = -1;
	l->cinfo.err = jpeg_std_error(&l->errors);
	l->errors.error_exit = libjpeg_exit;
	l->errors.emit_message = libjpeg_message;
	l->cinfo.client_data = l;
	if (!setjmp(l->escape)) {
		jpeg_create_decompress(&l->cinfo);
		jpeg_mem_src(&l->cinfo, file.bytes, file.size);
		jpeg_read_header(&l->cinfo, TRUE);
		jvirt_barray_ptr *arrays = jpeg_read_coefficients(&l->cinfo);
		unsigned first = 0;
		for (unsigned i = 0; i < parse->components; i++) {
			libjpeg_component(l, parse, (int)i, arrays[i], first, to);
			first += parse->component[i].h * parse->component[i].v;
		}
		result = l->warnings;
	}
	jpeg_destroy_decompress(&l->cinfo);
	free(l);
	return result;
}

/* An image made ready for the feed: parsed, tables built, unstuffed, planned. */
struct subject {
	struct file file;
	struct parse parse;
	struct huffman huffman;
	struct feed_image image;
	struct unstuff_found found;
	uint32_t *tables;
	uint8_t *bytes;
	struct unstuff_segment *segments;
	struct mcu_plan_run *runs;
	uint32_t *where;
	int16_t *coefficients;
	struct blocks band;
	struct mcu_plan_request request;
	size_t blocks;
	int reason; /* an enum stepback, if it stepped back before any block was decoded */
};

static inline void *aligned(size_t bytes)
{
	return want(aligned_alloc(64, (bytes + 127) & ~(size_t)63));
}

static inline size_t subject_segments(const struct parse *parse)
{
	size_t mcus = (size_t)parse->mcus_across * parse->mcus_down;
	return parse->restart_mcus ? (mcus - 1) / parse->restart_mcus + 1 : 1;
}

static inline int subject_plan(struct subject *s, struct decode_region crop)
{
	mcu_plan_blocks(&s->parse, crop, &s->band);
	size_t capacity = mcu_plan_runs_most(&s->parse, &s->band, &s->request, s->band.rows);
	s->runs = want(malloc(capacity * sizeof(*s->runs)));
	s->where = want(malloc((size_t)s->band.rows * s->band.columns * sizeof(*s->where)));
	int reason = mcu_plan_runs(&s->parse, &s->band, &s->request, s->runs, capacity, s->where,
		&s->image.run_count, &s->blocks);
	s->coefficients = aligned(s->blocks * BLOCKS_SIZE * sizeof(int16_t));
	s->band.coefficients = s->coefficients;
	s->band.where = s->where;
	s->image.runs = s->runs;
	s->image.coefficients = s->coefficients;
	s->image.interval = s->request.interval;
	return reason;
}

/* Prepares the whole scan; `piece` as in struct mcu_plan_request; `whole`: the end marker has to be
 * there. Entry points are the restart markers, if any. */
static inline int subject_init(struct subject *s, struct file file, const struct lanes *lanes,
	const struct decode_region *crop, uint32_t piece, bool whole)
{
	*s = (struct subject){.file = file};
	s->reason = parse_read_single(file.bytes, file.size, &s->parse);
	if (s->reason)
		return s->reason;
	s->tables = aligned(huffman_tables_bytes(&s->parse, lanes->kind));
	s->reason = huffman_build(&s->parse, lanes->kind, s->tables, &s->huffman);
	if (s->reason)
		return s->reason;
	size_t segments = subject_segments(&s->parse), scan = file.size - s->parse.scan;
	s->segments = want(calloc(segments, sizeof(*s->segments)));
	s->bytes = want(calloc(1, scan + LANE_SLACK + UNSTUFF_SLACK));
	int reason = unstuff_scan(lanes->unstuff, s->bytes, file.bytes + s->parse.scan, scan,
		s->segments, segments, &s->found);
	s->request = (struct mcu_plan_request){
		.interval = s->parse.restart_mcus,
		.entries = (uint32_t)segments,
		.piece = piece,
	};
	struct decode_region all = {0, 0, s->parse.width, s->parse.height};
	if (!reason && whole && !unstuff_is_end(file.bytes + s->parse.scan, scan, s->found.end))
		reason = STEPBACK_END;
	if (!reason)
		reason = subject_plan(s, crop ? *crop : all);
	s->image.parse = &s->parse;
	s->image.huffman = &s->huffman;
	s->image.bytes = s->bytes;
	s->image.segments = s->segments;
	s->image.segment_count = s->found.segments;
	return s->reason = reason;
}

/* Call before setting another plan, other bytes and other segments. */
static inline void subject_drop_plan(struct subject *s)
{
	free(s->bytes);
	free(s->segments);
	free(s->runs);
	free(s->where);
	free(s->coefficients);
}

static inline void subject_deinit(struct subject *s)
{
	free(s->tables);
	subject_drop_plan(s);
}

/* Has the subject record its entry points, every `interval` MCUs, from the scan's start on. */
static inline void subject_records(struct subject *s, struct entry_point *points, uint32_t interval)
{
	points[0] = entry_point_first(&s->parse);
	s->image.record = points;
	s->image.record_interval = interval;
	s->image.record_count = entry_point_count(&s->parse, interval);
}

/* Records entry points of a file with one driver; NULL where it steps back. */
static inline struct entry_point *subject_record(
	struct file file, const struct lanes *lanes, uint32_t interval, uint32_t *ret_count)
{
	struct subject s;
	struct entry_point *points = NULL;
	*ret_count = 0;
	if (!subject_init(&s, file, lanes, NULL, interval, true)) {
		*ret_count = entry_point_count(&s.parse, interval);
		points = want(calloc(*ret_count, sizeof(*points)));
		subject_records(&s, points, interval);
		if (feed_decode_one(&s.image, lanes) ||
			!entry_point_settle(file.bytes, file.size, points, 0, *ret_count)) {
			free(points);
			points = NULL;
		}
	}
	subject_deinit(&s);
	return points;
}

/* Plans a subject anew for a crop that is entered at entry points. 0 or an enum stepback. */
static inline int subject_enter(struct subject *s, const struct lanes *lanes,
	const struct entry_point *points, uint32_t count, uint32_t interval,
	struct decode_region crop)
{
	size_t written;
	subject_drop_plan(s);
	s->request = (struct mcu_plan_request){.interval = interval, .entries = count};
	s->segments = want(calloc(count, sizeof(*s->segments)));
	s->bytes = want(calloc(1, s->file.size + count + UNSTUFF_SLACK + LANE_SLACK));
	s->image.bytes = s->bytes;
	s->image.segments = s->segments;
	s->image.segment_count = count;
	s->image.entry_points = points;
	s->image.entry_point_count = count;
	int reason = subject_plan(s, crop);
	return reason ? reason
		      : feed_unstuff(&s->image, lanes->unstuff, s->file.bytes, s->file.size,
				s->bytes, s->segments, count, &written);
}

/* Compares the wanted blocks with the whole image's by libjpeg: 0, or 1 + the first block that
 * differs. */
static inline size_t subject_differs(const struct subject *s, const int16_t *whole)
{
	for (unsigned i = 0; i < s->band.components; i++) {
		const struct blocks_component *c = &s->band.component[i];
		for (uint32_t y = c->y0; y < c->y1; y++)
			for (uint32_t x = c->x0; x < c->x1; x++) {
				size_t mcu = (size_t)(y / c->v) * s->parse.mcus_across + x / c->h;
				size_t block = mcu * s->parse.in_mcu + c->first + y % c->v * c->h +
					       x % c->h;
				if (memcmp(blocks_at(&s->band, i, x, y), whole + block * 64, 128))
					return block + 1;
			}
	}
	return 0;
}

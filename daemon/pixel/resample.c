/* resample: see resample.h. Worker threads, one object each.
 *
 * Between resample_begin and the last row: rows_in rows have come, rows_out rows of the vertical
 * pass are complete, and every row of the vertical pass's input that an incomplete output needs is
 * in the ring or in the running sums. */
#include "pixel/resample.h"

#include "base/util.h"
#include "pixel/kernels.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum {
	BLOCK_PIXELS = 4096, /* widest row that goes through blocks */
	BLOCK_PITCH = 3 * BLOCK_PIXELS,
	RING_NARROW =
		2 *
		KERNELS_ROWS, /* a block is turned back into one half while the other is history */
	RING_WIDE = KERNELS_TAPS,
};

struct resample {
	void *memory; /* of everything, this struct included */
	const struct kernels *kernels;
	uint32_t max_window;

	/* The job. */
	uint8_t *out;
	struct weights x, y;
	bool vertical_first;
	bool blocks; /* the horizontal pass goes through blocks */
	bool running; /* the vertical pass adds to running sums */
	uint32_t rows, rows_in, rows_out;
	uint32_t source_bytes, result_bytes; /* of a row: region, window */
	uint32_t line_words; /* of a row of the vertical pass, in 4 bytes */

	/* Rows of the vertical pass's input: row r lies in place r % ring_rows. Horizontal first:
	 * in `narrow`; vertical first: in `wide`. `line` is a row of its output. */
	uint8_t *ring;
	uint32_t ring_rows, ring_pitch;
	uint8_t *narrow, *wide, *line;
	bool direct; /* output rows go straight to `out`: they are whole words, and aligned */
	uint32_t *sums[2]; /* of outputs by parity */

	/* A block: rows gathered, turned, resampled. */
	uint8_t *gathered, *turned, *turned_out;
	uint8_t *woven; /* the row that has come, as pixels of 3 bytes */
};

static uint32_t resample_narrow_pitch(uint32_t max_window)
{
	return (uint32_t)util_align(3 * (uint64_t)max_window, KERNELS_ALIGN);
}

/* The longest row that comes to the vertical pass. Vertical first means h - oh > 2 (w - ow), so w <
 * 32,768 + ow where the window is the whole result, and w < 32,768 + 2 where both sides shrink by
 * one factor. */
static uint32_t resample_wide_bytes(uint32_t max_window)
{
	return (uint32_t)util_align(3 * ((uint64_t)max_window + 32768), KERNELS_ALIGN);
}

/* One buffer of `bytes`, or only its size while the base is still unknown. */
static void *resample_carve(uint8_t *base, uint64_t *at, uint64_t bytes)
{
	uint8_t *p = base ? base + *at : NULL;
	*at += util_align(bytes, KERNELS_ALIGN);
	return p;
}

static void resample_carve_weights(
	struct weights *w, uint8_t *base, uint64_t *at, uint32_t max_window)
{
	w->first = resample_carve(base, at, max_window * sizeof(*w->first));
	w->taps = resample_carve(base, at, max_window * sizeof(*w->taps));
	w->value = resample_carve(base, at, weights_room(max_window) * sizeof(*w->value));
}

/* Lays out all memory behind `base`; returns its size. */
static uint64_t resample_layout(struct resample *r, uint8_t *base, uint32_t max_window)
{
	uint64_t at = 0, narrow = resample_narrow_pitch(max_window),
		 wide = resample_wide_bytes(max_window);
	(void)resample_carve(base, &at, sizeof(*r));
	resample_carve_weights(&r->x, base, &at, max_window);
	resample_carve_weights(&r->y, base, &at, max_window);
	r->narrow = resample_carve(base, &at, RING_NARROW * narrow);
	r->wide = resample_carve(base, &at, UTIL_MAX((uint64_t)RING_WIDE * BLOCK_PITCH, wide));
	r->line = resample_carve(base, &at, wide);
	r->sums[0] = resample_carve(base, &at, wide * sizeof(uint32_t));
	r->sums[1] = resample_carve(base, &at, wide * sizeof(uint32_t));
	r->gathered = resample_carve(base, &at, KERNELS_ROWS * BLOCK_PITCH);
	r->turned = resample_carve(base, &at, KERNELS_ROWS * BLOCK_PITCH);
	r->turned_out = resample_carve(base, &at, KERNELS_ROWS * narrow);
	r->woven = resample_carve(base, &at, 3 * (uint64_t)WEIGHTS_SOURCE_MAX);
	return at;
}

uint64_t resample_bytes(uint32_t max_window)
{
	struct resample r;
	return resample_layout(&r, NULL, max_window) + KERNELS_ALIGN;
}

int resample_new(uint32_t max_window, struct resample **ret, struct fault *fault)
{
	const struct kernels *kernels;
	int rc = kernels_choose(&kernels, fault);
	if (rc < 0)
		return rc;
	uint64_t bytes = resample_bytes(max_window);
	/* Zeroed, so that pages which no source needs are never touched; and because the lanes of a
	 * block that has fewer rows are computed and dropped: they must hold something. */
	uint8_t *memory = calloc(1, bytes);
	if (!memory)
		return fault_set(fault, -ENOMEM,
			"resampler for %u pixels: %llu bytes of memory were refused; free memory "
			"or lower "
			"--threads",
			max_window, (unsigned long long)bytes);
	uint8_t *base = memory + (-(uintptr_t)memory & (KERNELS_ALIGN - 1));
	struct resample *r = (struct resample *)(void *)base;
	(void)resample_layout(r, base, max_window);
	r->memory = memory;
	r->kernels = kernels;
	r->max_window = max_window;
	*ret = r;
	return 0;
}

void resample_free(struct resample *r)
{
	if (r)
		free(r->memory);
}

uint32_t resample_missing(const struct resample *r)
{
	return r->rows - r->rows_in;
}

/* Pillow's ImagingResampleInner: vertical first where the height shrinks, and by more than twice
 * what the width loses. */
static bool resample_vertical_first(const struct weights_axis *x, const struct weights_axis *y)
{
	int64_t lower = (int64_t)y->source - y->result, narrower = (int64_t)x->source - x->result;
	return lower > 0 && lower > 2 * narrower;
}

static void resample_set_ring(struct resample *r)
{
	uint32_t line_bytes = r->vertical_first ? r->source_bytes : r->result_bytes;
	assert(line_bytes <= resample_wide_bytes(r->max_window));
	r->line_words = (line_bytes + 3) / 4;
	if (!r->vertical_first) {
		r->ring = r->narrow;
		r->ring_rows = RING_NARROW;
		r->ring_pitch = resample_narrow_pitch(r->max_window);
	} else {
		r->ring = r->wide;
		r->ring_rows = r->running ? 1 : RING_WIDE;
		r->ring_pitch = (uint32_t)util_align(line_bytes, KERNELS_ALIGN);
	}
}

void resample_begin(
	struct resample *r, const struct resample_job *job, struct resample_region *ret_region)
{
	assert(job->x.window <= r->max_window && job->y.window <= r->max_window);
	weights_make(&r->x, &job->x, job->flip);
	weights_make(&r->y, &job->y, false);
	weights_align(&r->x);
	uint32_t columns = r->x.end - r->x.begin;
	r->out = job->out;
	r->vertical_first = resample_vertical_first(&job->x, &job->y);
	r->blocks = columns <= BLOCK_PIXELS;
	r->running = r->y.stride > KERNELS_TAPS || (r->vertical_first && !r->blocks);
	r->rows = r->y.end - r->y.begin;
	r->rows_in = r->rows_out = 0;
	r->source_bytes = 3 * columns;
	r->result_bytes = 3 * job->x.window;
	r->direct = !r->vertical_first && r->result_bytes % 4 == 0 && (uintptr_t)job->out % 4 == 0;
	resample_set_ring(r);
	*ret_region = (struct resample_region){
		.x0 = r->x.begin, .y0 = r->y.begin, .x1 = r->x.end, .y1 = r->y.end};
}

/* Horizontal pass of the KERNELS_ROWS rows in `gathered`, into rows of the narrow pitch. */
static void resample_across_block(struct resample *r, uint8_t *to)
{
	size_t columns = util_align(r->source_bytes, 16), results = util_align(r->result_bytes, 16);
	r->kernels->turn(r->turned, KERNELS_ROWS, r->gathered, BLOCK_PITCH, KERNELS_ROWS, columns);
	r->kernels->across(
		r->turned_out, r->turned, r->x.first, r->x.value, r->x.stride, r->x.count);
	r->kernels->turn(to, resample_narrow_pitch(r->max_window), r->turned_out, KERNELS_ROWS,
		results, KERNELS_ROWS);
}

static uint8_t resample_clip(uint32_t sum)
{
	sum >>= WEIGHTS_BITS;
	return (uint8_t)(sum > 255 ? 255 : sum);
}

/* Horizontal pass of one row that is too wide for a block. */
static void resample_across_row(const struct resample *r, uint8_t *to, const uint8_t *from)
{
	const uint32_t *value = r->x.value;
	for (uint32_t i = 0; i < r->x.count; i++, value += r->x.stride) {
		const uint8_t *p = from + 3 * (size_t)r->x.first[i];
		uint32_t red = WEIGHTS_HALF, green = WEIGHTS_HALF, blue = WEIGHTS_HALF;
		for (uint32_t t = 0; t < r->x.stride; t++, p += 3) {
			red += p[0] * value[t];
			green += p[1] * value[t];
			blue += p[2] * value[t];
		}
		to[3 * (size_t)i] = resample_clip(red);
		to[3 * (size_t)i + 1] = resample_clip(green);
		to[3 * (size_t)i + 2] = resample_clip(blue);
	}
}

static uint8_t *resample_out_row(const struct resample *r, uint32_t y)
{
	return r->out + (size_t)y * r->result_bytes;
}

/* Vertical first: the vertical pass has put out rows up to rows_out; they pass the block or, if too
 * wide, go singly. */
static void resample_emit_wide(struct resample *r, const uint8_t *line)
{
	uint32_t y = r->rows_out, place = y % KERNELS_ROWS;
	if (!r->blocks) {
		resample_across_row(r, resample_out_row(r, y), line);
		return;
	}
	memcpy(r->gathered + (size_t)place * BLOCK_PITCH, line, r->source_bytes);
	if (place + 1 < KERNELS_ROWS && y + 1 < r->y.count)
		return;
	resample_across_block(r, r->narrow);
	for (uint32_t i = 0; i <= place; i++)
		memcpy(resample_out_row(r, y - place + i),
			r->narrow + (size_t)i * resample_narrow_pitch(r->max_window),
			r->result_bytes);
}

/* Where row rows_out of the vertical pass is written, in whole words. */
static uint8_t *resample_line(const struct resample *r)
{
	return r->direct ? resample_out_row(r, r->rows_out) : r->line;
}

/* Row rows_out of the vertical pass is complete and lies in resample_line. */
static void resample_emit(struct resample *r)
{
	if (r->vertical_first)
		resample_emit_wide(r, r->line);
	else if (!r->direct)
		memcpy(resample_out_row(r, r->rows_out), r->line, r->result_bytes);
	r->rows_out++;
}

static uint8_t *resample_ring_row(const struct resample *r, uint32_t row)
{
	return r->ring + (size_t)(row % r->ring_rows) * r->ring_pitch;
}

static bool resample_complete(const struct resample *r, uint32_t y, uint32_t row)
{
	return y < r->y.count && r->y.first[y] + r->y.taps[y] - 1 <= row;
}

/* Vertical pass with `row` just arrived, out of the ring. */
static void resample_down_ring(struct resample *r, uint32_t row)
{
	for (; resample_complete(r, r->rows_out, row); resample_emit(r)) {
		uint32_t y = r->rows_out, taps = r->y.taps[y];
		const uint8_t *rows[KERNELS_TAPS];
		for (uint32_t t = 0; t < taps; t++)
			rows[t] = resample_ring_row(r, r->y.first[y] + t);
		r->kernels->down(resample_line(r), rows, r->y.value + (size_t)y * r->y.stride, taps,
			r->line_words);
	}
}

/* The same with running sums: `row` is added to every open output. */
static void resample_down_running(struct resample *r, uint32_t row)
{
	const struct weights *w = &r->y;
	for (uint32_t y = r->rows_out; y < w->count && w->first[y] <= row; y++) {
		assert(y - r->rows_out < 2);
		uint32_t *sums = r->sums[y % 2];
		if (w->first[y] == row)
			for (size_t j = 0; j < 4 * (size_t)r->line_words; j++)
				sums[j] = WEIGHTS_HALF;
		if (row - w->first[y] < w->taps[y])
			r->kernels->down_add(sums, resample_ring_row(r, row),
				w->value[(size_t)y * w->stride + (row - w->first[y])],
				r->line_words);
	}
	for (; resample_complete(r, r->rows_out, row); resample_emit(r))
		r->kernels->down_end(resample_line(r), r->sums[r->rows_out % 2], r->line_words);
}

static void resample_down(struct resample *r, uint32_t row)
{
	if (r->running)
		resample_down_running(r, row);
	else
		resample_down_ring(r, row);
}

/* Horizontal first: gathers the row; a full block, or the last row, sends what is gathered on. */
static void resample_gather(struct resample *r, uint32_t row, const uint8_t *rgb)
{
	uint32_t place = row % KERNELS_ROWS;
	memcpy(r->gathered + (size_t)place * BLOCK_PITCH, rgb, r->source_bytes);
	if (place + 1 < KERNELS_ROWS && row + 1 < r->rows)
		return;
	resample_across_block(r, resample_ring_row(r, row - place));
	for (uint32_t i = 0; i <= place; i++)
		resample_down(r, row - place + i);
}

static void resample_weave(uint8_t *to, const uint8_t *const from[3], size_t pixels)
{
	for (size_t i = 0; i < pixels; i++)
		for (int c = 0; c < 3; c++)
			*to++ = from[c][i];
}

void resample_row(struct resample *r, const uint8_t *const planes[3])
{
	uint8_t *rgb = r->woven;
	resample_weave(rgb, planes, r->source_bytes / 3);
	assert(r->rows_in < r->rows);
	uint32_t row = r->rows_in++;
	if (r->vertical_first) {
		memcpy(resample_ring_row(r, row), rgb, r->source_bytes);
		resample_down(r, row);
	} else if (r->blocks) {
		resample_gather(r, row, rgb);
	} else {
		resample_across_row(r, resample_ring_row(r, row), rgb);
		resample_down(r, row);
	}
	assert(r->rows_in < r->rows || r->rows_out == r->y.count);
}

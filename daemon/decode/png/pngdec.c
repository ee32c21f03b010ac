/* pngdec: see pngdec.h. */
#include "decode/png/pngdec.h"

#include "base/util.h"

#include <string.h>

enum {
	INPUT_BYTES = 32768,
	INPUT_KEPT = 8, /* bytes before the input, that `more` has to keep */
	/* What is inflated before rows are unfiltered, if they are shorter. With the history, the
	 * tables and the input it fits into the second cache of any processor. */
	PIECE_BYTES = 65536,
	ROW_BUFFERS = PNG_ROWS + 1, /* the last row of the group before, and a group */
	/* Longer rows are unfiltered one by one, so that a group always fits into the window. */
	GROUP_STRIDE = PIECE_BYTES / PNG_ROWS - 1,
};

struct pngdec {
	const struct pngdec_rows *rows;
	struct inflate inflate;
	uint8_t *input;
	uint8_t *window, *window_end; /* output may be made up to its end, and a bit more */
	const uint8_t *at; /* in the window: the next row that was not unfiltered */
	uint8_t *row[ROW_BUFFERS]; /* the first: the row above the next */
	uint32_t given;
	uint32_t sum; /* of all that was inflated */
	bool summed; /* the sum is wanted */
	bool failed; /* the stream has an error at inflate.out */
	bool cut; /* a chunk was not complete */
};

static size_t window_bytes(uint64_t stride)
{
	return INFLATE_HISTORY + UTIL_MAX(PIECE_BYTES, (size_t)stride + 1);
}

static unsigned group_rows(uint64_t stride)
{
	return stride <= GROUP_STRIDE ? PNG_ROWS : 1;
}

uint64_t pngdec_scratch_bytes(uint64_t stride)
{
	return sizeof(struct pngdec) + INPUT_KEPT + INPUT_BYTES + window_bytes(stride) +
	       INFLATE_OVERSHOOT + PNG_ROW_SLACK +
	       (group_rows(stride) + 1) * (stride + 2 * PNG_ROW_SLACK) +
	       (3 + ROW_BUFFERS) * SCRATCH_ALIGN;
}

/* Goes to the next chunk of pixels. False: none comes; the walk stays where it is. */
static bool walk_on(struct pngwalk *walk)
{
	const struct pngwalk before = *walk;
	if (pngwalk_next(walk) == DECODE_OK)
		return true;
	*walk = before;
	return false;
}

static void more(void *context, struct inflate *inflate)
{
	struct pngdec *dec = context;
	struct pngwalk *walk = dec->rows->walk;
	size_t left = (size_t)(inflate->in_end - inflate->in);
	memmove(dec->input, inflate->in - INPUT_KEPT, left + INPUT_KEPT);
	uint8_t *to = dec->input + INPUT_KEPT + left;
	inflate->in = dec->input + INPUT_KEPT;
	while (left < INPUT_BYTES && (left < INFLATE_INPUT_LEAST || walk->pixels_left)) {
		if (!walk->pixels_left && !walk_on(walk)) {
			inflate->in_last = true;
			break;
		}
		size_t part = UTIL_MIN(walk->pixels_left, INPUT_BYTES - left);
		dec->cut |= walk->pixels_cut;
		memcpy(to, walk->pixels, part);
		walk->pixels += part;
		walk->pixels_left -= part;
		to += part;
		left += part;
	}
	inflate->in_end = to;
	dec->rows->read(dec->rows->context);
}

/* Memory and the beginning of the stream. */
static struct pngdec *begin(const struct pngdec_rows *rows, struct scratch *scratch)
{
	struct pngdec *dec = scratch_take(scratch, sizeof(*dec));
	if (!dec)
		return NULL;
	dec->rows = rows;
	dec->given = 0;
	dec->sum = 1;
	dec->summed = rows->rows == rows->walk->height;
	dec->failed = false;
	dec->cut = rows->walk->pixels_cut;
	dec->input = scratch_take(scratch, INPUT_KEPT + INPUT_BYTES);
	dec->window = scratch_take(
		scratch, window_bytes(rows->stride) + INFLATE_OVERSHOOT + PNG_ROW_SLACK);
	bool taken = dec->input && dec->window;
	for (unsigned i = 0; i <= group_rows(rows->stride); i++) {
		uint8_t *row = scratch_take(scratch, rows->stride + 2 * PNG_ROW_SLACK);
		taken &= row != NULL;
		dec->row[i] = row ? row + PNG_ROW_SLACK : NULL;
	}
	if (!taken)
		return NULL;
	memset(dec->row[0] - PNG_ROW_SLACK, 0, rows->stride + 2 * PNG_ROW_SLACK);
	dec->window_end = dec->window + window_bytes(rows->stride);
	dec->at = dec->window;
	memset(dec->input, 0, INPUT_KEPT);
	struct inflate *inflate = &dec->inflate;
	inflate->in = inflate->in_end = dec->input + INPUT_KEPT;
	inflate->in_last = false;
	inflate->more = more;
	inflate->context = dec;
	inflate->start = inflate->out = dec->window;
	return inflate_begin(inflate) ? dec : NULL;
}

/* Moves the history, and rows that were not unfiltered, to the window's beginning. */
static void slide(struct pngdec *dec)
{
	struct inflate *inflate = &dec->inflate;
	size_t made = (size_t)(inflate->out - dec->window), rest = (size_t)(inflate->out - dec->at);
	size_t kept = UTIL_MAX(UTIL_MIN(made, (size_t)INFLATE_HISTORY), rest);
	memmove(dec->window, inflate->out - kept, kept);
	inflate->out = dec->window + kept;
	dec->at = inflate->out - rest;
}

static void inflate_to(struct pngdec *dec, const uint8_t *stop)
{
	struct inflate *inflate = &dec->inflate;
	const uint8_t *before = inflate->out;
	enum decode_stage stage = stages_enter(dec->rows->stages, DECODE_STAGE_ENTROPY);
	dec->failed = !inflate_run(inflate, dec->rows->kernels->coded, stop);
	if (dec->summed)
		dec->sum = dec->rows->kernels->adler(
			dec->sum, before, (size_t)(inflate->out - before));
	(void)stages_enter(dec->rows->stages, stage);
}

/* Inflates more, but not what no row needs. False: nothing comes any more. Rows before an error are
 * good. */
static bool fill(struct pngdec *dec)
{
	uint64_t wanted = (dec->rows->rows - dec->given) * (uint64_t)(dec->rows->stride + 1);
	if (dec->failed)
		return false;
	if (dec->inflate.out >= dec->window_end)
		slide(dec);
	const uint8_t *before = dec->inflate.out, *stop = dec->window_end;
	if (wanted < (uint64_t)(stop - dec->at))
		stop = dec->at + wanted;
	inflate_to(dec, stop);
	return dec->inflate.out > before;
}

/* Unfilters `count` rows and gives them. False: a filter that does not exist. */
static bool unfilter(struct pngdec *dec, unsigned count)
{
	const struct pngdec_rows *rows = dec->rows;
	const uint8_t *from[PNG_ROWS];
	unsigned good = 0;
	for (; good < count && dec->at[0] < PNG_FILTER_TYPES; good++) {
		from[good] = dec->at;
		dec->at += rows->stride + 1;
	}
	if (!good)
		return false;
	enum decode_stage stage = stages_enter(rows->stages, DECODE_STAGE_TRANSFORM);
	rows->kernels->unfilter(dec->row + 1, from, dec->row[0], good, rows->bytes, rows->pixel);
	(void)stages_enter(rows->stages, DECODE_STAGE_CONVERT);
	for (unsigned i = 1; i <= good; i++)
		rows->give(rows->context, dec->row[i]);
	(void)stages_enter(rows->stages, stage);
	uint8_t *above = dec->row[good];
	dec->row[good] = dec->row[0];
	dec->row[0] = above;
	dec->given += good;
	return good == count;
}

static bool make(struct pngdec *dec)
{
	const struct pngdec_rows *rows = dec->rows;
	const unsigned group = group_rows(rows->stride);
	while (dec->given < rows->rows) {
		size_t there = (size_t)(dec->inflate.out - dec->at) / (rows->stride + 1);
		uint32_t left = rows->rows - dec->given;
		unsigned count = (unsigned)UTIL_MIN(UTIL_MIN(there, left), group);
		bool ending = !count || (count < group && count < left);
		/* A smaller group is made only where nothing comes after it. */
		if (ending && fill(dec))
			continue;
		if (!count || !unfilter(dec, count))
			return false;
	}
	return true;
}

/* Whether the stream ends here, and its sum is right. */
static bool ends(struct pngdec *dec)
{
	uint32_t sum;
	if (dec->failed || dec->inflate.out != dec->at)
		return false;
	if (dec->inflate.out >= dec->window_end)
		slide(dec);
	inflate_to(dec, dec->at + 1);
	return !dec->failed && dec->inflate.out == dec->at && !dec->cut &&
	       inflate_sum(&dec->inflate, &sum) && sum == dec->sum;
}

bool pngdec_make(const struct pngdec_rows *rows, struct scratch *scratch, uint32_t *ret_given)
{
	*ret_given = 0;
	struct pngdec *dec = begin(rows, scratch);
	if (!dec)
		return false;
	bool made = make(dec) && (!dec->summed || ends(dec));
	*ret_given = dec->given;
	return made;
}

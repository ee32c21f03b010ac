/* mix_apply: images, in place; see mix.h. Noise is proto/erase.h's. Thread: any. */
#include "client/lib/error.h"
#include "client/lib/map.h"
#include "client/lib/mix/mix.h"
#include "proto/erase.h"
#include "proto/half.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	MIX_CHANNELS = 3,
	MIX_PIECE = 4096, /* values that are mixed at a time */
};

/* What is done to a run of values: `other` is the partner's. */
struct mix_work;
typedef void mix_run(const struct mix_work *work, void *own, const void *other, size_t count);

struct mix_work {
	const struct penstock_mix *mix;
	const struct penstock_mix_row *rows;
	const struct penstock_mix_images *images;
	uint32_t count, views;
	size_t value_bytes, row_values;
	mix_run *run;
};

static char *mix_at(const struct mix_work *work, uint32_t row, size_t value)
{
	return (char *)work->images->memory + (row * work->row_values + value) * work->value_bytes;
}

/* ---- erasing ---- */

static void mix_put(const struct mix_work *work, uint32_t row, size_t at, float value)
{
	char *to = mix_at(work, row, at);
	uint16_t half;
	if (work->images->dtype == PENSTOCK_FLOAT32) {
		memcpy(to, &value, sizeof value);
		return;
	}
	half = work->images->dtype == PENSTOCK_FLOAT16 ? half_to_float16(value)
						       : half_to_bfloat16(value);
	memcpy(to, &half, sizeof half);
}

static void mix_erase_pixel(const struct mix_work *work, uint32_t number, uint32_t pixel)
{
	const struct penstock_mix_images *images = work->images;
	size_t plane = (size_t)images->height * images->width;
	bool planar = images->layout == PENSTOCK_NCHW;
	float noise[MIX_CHANNELS];
	const float *values = work->mix->erase_value;
	if (work->mix->erase_random) {
		const struct penstock_mix_row *row = &work->rows[number];
		const struct erase_noise key = {
			.seed = (uint64_t)row->seed[1] << 32 | row->seed[0],
			.position = row->position,
			.epoch = row->epoch,
			.view = row->view,
		};
		erase_noise(&key, pixel, noise);
		values = noise;
	}
	for (size_t c = 0; c < MIX_CHANNELS; c++)
		mix_put(work, number, planar ? c * plane + pixel : (size_t)pixel * MIX_CHANNELS + c,
			values[c]);
}

static void mix_erase(const struct mix_work *work, uint32_t number)
{
	const struct penstock_mix_row *row = &work->rows[number];
	for (uint32_t y = row->erase_y; y < (uint32_t)row->erase_y + row->erase_h; y++)
		for (uint32_t x = row->erase_x; x < (uint32_t)row->erase_x + row->erase_w; x++)
			mix_erase_pixel(work, number, y * work->images->width + x);
}

/* ---- mixing ---- */

static void mix_run_blend(const struct mix_work *work, void *own, const void *other, size_t count)
{
	const struct penstock_mix_row *row = &work->rows[0];
	work->mix->kernels->blend[work->images->dtype](
		own, other, count, row->blend, row->partner_blend);
}

static void mix_run_copy(const struct mix_work *work, void *own, const void *other, size_t count)
{
	memcpy(own, other, count * work->value_bytes);
}

/* Values `at` to `at` + `count` of all rows of a view, each with those of the row before it. */
static void mix_piece(const struct mix_work *work, uint32_t view, size_t at, size_t count)
{
	char kept[MIX_PIECE * sizeof(float)];
	uint32_t last = work->count - work->views + view;
	memcpy(kept, mix_at(work, last, at), count * work->value_bytes);
	for (uint32_t row = last; row > view; row -= work->views)
		work->run(work, mix_at(work, row, at), mix_at(work, row - work->views, at), count);
	work->run(work, mix_at(work, view, at), kept, count);
}

static void mix_values(const struct mix_work *work, size_t at, size_t count)
{
	while (count) {
		size_t piece = count < MIX_PIECE ? count : MIX_PIECE;
		for (uint32_t view = 0; view < work->views; view++)
			mix_piece(work, view, at, piece);
		at += piece;
		count -= piece;
	}
}

static void mix_cut(const struct mix_work *work)
{
	const struct penstock_mix_row *row = &work->rows[0];
	const struct penstock_mix_images *images = work->images;
	bool planar = images->layout == PENSTOCK_NCHW;
	size_t each = planar ? 1 : MIX_CHANNELS, planes = planar ? MIX_CHANNELS : 1;
	for (size_t plane = 0; plane < planes; plane++) {
		for (size_t y = row->cut_y; y < (size_t)row->cut_y + row->cut_h; y++) {
			size_t line = (plane * images->height + y) * images->width;
			mix_values(work, (line + row->cut_x) * each, row->cut_w * each);
		}
	}
}

/* ---- what is given ---- */

static int mix_check_images(const struct penstock_mix_images *images)
{
	if (images->dtype < PENSTOCK_FLOAT32 || images->dtype > PENSTOCK_BFLOAT16)
		return error_set(-EINVAL,
			"images.dtype is %u: expected PENSTOCK_FLOAT32, _FLOAT16 or _BFLOAT16 (1 "
			"to 3)",
			images->dtype);
	if (images->layout > PENSTOCK_NCHW)
		return error_set(-EINVAL,
			"images.layout is %u: expected PENSTOCK_NHWC or _NCHW (0 or 1)",
			images->layout);
	if (!images->height || images->height > UINT16_MAX || !images->width ||
		images->width > UINT16_MAX)
		return error_set(-EINVAL, "images of %u x %u pixels: expected 1 to 65535 each",
			images->width, images->height);
	return 0;
}

static bool mix_is_inside(
	uint32_t x, uint32_t y, uint32_t w, uint32_t h, const struct penstock_mix_images *images)
{
	return x + w <= images->width && y + h <= images->height;
}

/* Whether row i is mixed as row 0 is, and in its order. */
static bool mix_is_planned(const struct mix_work *work, uint32_t i)
{
	const struct penstock_mix_row *row = &work->rows[i], *first = &work->rows[0];
	uint32_t partner = (i >= work->views ? i : work->count + i) - work->views;
	bool mixed = first->flags & PENSTOCK_ROW_MIXED;
	if (mixed != !!(row->flags & PENSTOCK_ROW_MIXED))
		return false;
	return !mixed ||
	       (row->partner == partner && row->view == i % work->views &&
		       row->blend == first->blend && row->partner_blend == first->partner_blend &&
		       memcmp(&row->cut_x, &first->cut_x, 4 * sizeof row->cut_x) == 0);
}

static int mix_check_rows(struct mix_work *work)
{
	const struct penstock_mix_row *first = &work->rows[0];
	work->views = first->flags & PENSTOCK_ROW_MIXED && first->partner < work->count
			      ? work->count - first->partner
			      : 1;
	for (uint32_t i = 0; i < work->count; i++) {
		const struct penstock_mix_row *row = &work->rows[i];
		if (work->count % work->views || !mix_is_planned(work, i))
			return error_set(-EINVAL,
				"rows[%u] is not mixed as rows[0] of %u: expected all rows of one "
				"penstock_mix_plan",
				i, work->count);
		if (!mix_is_inside(
			    row->erase_x, row->erase_y, row->erase_w, row->erase_h, work->images) ||
			!mix_is_inside(
				row->cut_x, row->cut_y, row->cut_w, row->cut_h, work->images))
			return error_set(-EINVAL,
				"rows[%u] has a rectangle that is not within %u x %u pixels: "
				"expected images of the size that was planned",
				i, work->images->width, work->images->height);
	}
	return 0;
}

static int mix_check_memory(const struct mix_work *work)
{
	const void *memory = work->images->memory;
	if ((uintptr_t)memory % work->value_bytes)
		return error_set(-EINVAL, "images.memory is not aligned to a value (%zu bytes)",
			work->value_bytes);
	if (map_meets(memory, work->count * work->row_values * work->value_bytes))
		return error_set(-EINVAL,
			"images.memory is the daemon's, which others may read: convert the batch "
			"into memory of your own (penstock_convert_rows), and mix that");
	return 0;
}

int penstock_mix_apply(const struct penstock_mix *mix, const struct penstock_mix_row *rows,
	uint32_t count, const struct penstock_mix_images *images)
{
	struct mix_work work = {.mix = mix,
		.rows = rows,
		.images = images,
		.count = count,
		.value_bytes = images->dtype == PENSTOCK_FLOAT32 ? sizeof(float) : sizeof(uint16_t),
		.row_values = (size_t)images->height * images->width * MIX_CHANNELS};
	int result = mix_check_images(images);
	if (result == 0 && count)
		result = mix_check_rows(&work);
	if (result == 0)
		result = mix_check_memory(&work);
	if (result < 0 || !count)
		return result;
	for (uint32_t i = 0; i < count; i++) {
		if (rows[i].flags & PENSTOCK_ROW_ERASED)
			mix_erase(&work, i);
	}
	if (!(rows[0].flags & PENSTOCK_ROW_MIXED))
		return 0;
	work.run = rows[0].partner_blend != 0 ? mix_run_blend : mix_run_copy;
	if (rows[0].partner_blend != 0)
		mix_values(&work, 0, work.row_values);
	else
		mix_cut(&work);
	return 0;
}

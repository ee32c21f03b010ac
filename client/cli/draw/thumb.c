/* thumb: see thumb.h. */
#include "client/cli/draw/thumb.h"

#include "base/util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void thumb_row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct thumb *thumb = context;
	uint32_t *line =
		thumb->sum + (size_t)((uint64_t)thumb->y * (uint32_t)thumb->h / thumb->src_h) *
				     (size_t)thumb->w * 4;
	for (uint32_t x = 0; x < thumb->src_w; x++) {
		uint32_t *p = line + (size_t)((uint64_t)x * (uint32_t)thumb->w / thumb->src_w) * 4;
		for (int c = 0; c < 3; c++)
			p[c] += rgb[c][x];
		p[3]++;
	}
	thumb->y++;
}

static void thumb_finish(struct thumb *thumb)
{
	for (size_t i = 0; i < (size_t)thumb->w * (size_t)thumb->h; i++)
		for (int c = 0; c < 3; c++) {
			uint32_t count = UTIL_MAX(thumb->sum[i * 4 + 3], 1u);
			thumb->rgb[i * 3 + (size_t)c] =
				(uint8_t)((thumb->sum[i * 4 + (size_t)c] + count / 2) / count);
		}
}

static void thumb_size(struct thumb *thumb, uint32_t src_w, uint32_t src_h)
{
	uint32_t tile = thumb->tile;
	uint32_t longest = UTIL_MAX(src_w, src_h);
	uint32_t w = longest <= tile ? src_w : (uint32_t)((uint64_t)src_w * tile / longest);
	uint32_t h = longest <= tile ? src_h : (uint32_t)((uint64_t)src_h * tile / longest);
	thumb->w = (int)UTIL_MAX(w, 1u);
	thumb->h = (int)UTIL_MAX(h, 1u);
	thumb->src_w = src_w;
	thumb->src_h = src_h;
	thumb->y = 0;
}

int thumb_init(struct thumb *thumb, unsigned tile)
{
	size_t pixels = (size_t)tile * tile;
	*thumb = (struct thumb){.tile = tile,
		.sum = malloc(pixels * 4 * sizeof *thumb->sum),
		.rgb = malloc(pixels * 3)};
	if (thumb->sum && thumb->rgb)
		return 0;
	thumb_deinit(thumb);
	return -ENOMEM;
}

void thumb_deinit(struct thumb *thumb)
{
	free(thumb->sum);
	free(thumb->rgb);
	*thumb = (struct thumb){0};
}

int thumb_make(struct thumb *thumb, struct decoder *decoder, const uint8_t *data, size_t size)
{
	struct decode_info info;
	int r = decoder_begin(decoder, data, size, &info);
	if (r == DECODE_OK) {
		thumb_size(thumb, info.width, info.height);
		memset(thumb->sum, 0, (size_t)thumb->w * (size_t)thumb->h * 4 * sizeof *thumb->sum);
		struct decode_region whole = {0, 0, info.width, info.height};
		r = decoder_rows(decoder, whole, false, thumb_row, thumb);
	}
	if (r == DECODE_OK)
		thumb_finish(thumb);
	return r > 0 ? 1 : r;
}

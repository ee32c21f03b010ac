/* row_share: see row_share.h. */
#include "stream/row_share.h"

#include "base/util.h"

static uint64_t row_share_cost(const struct pixel_region *region, uint32_t width)
{
	return (uint64_t)(region->y1 - region->y0) * (width + (region->x1 - region->x0));
}

static struct pixel_region row_share_both(
	const struct pixel_region *a, const struct pixel_region *b)
{
	return (struct pixel_region){.x0 = UTIL_MIN(a->x0, b->x0),
		.y0 = UTIL_MIN(a->y0, b->y0),
		.x1 = UTIL_MAX(a->x1, b->x1),
		.y1 = UTIL_MAX(a->y1, b->y1)};
}

uint32_t row_share_choose(
	const struct row_share *views, uint32_t count, uint32_t image_width, struct row_share *ret)
{
	const uint32_t width = (image_width + (1u << views[0].shrink) - 1) >> views[0].shrink;
	struct row_share all = views[0];
	uint32_t chosen = 1, before;
	/* A region that has grown may be worth sharing for views that it was not before. */
	do {
		before = chosen;
		for (uint32_t i = 1; i < count; i++) {
			if (chosen >> i & 1 || views[i].shrink != all.shrink)
				continue;
			const struct pixel_region both =
				row_share_both(&all.region, &views[i].region);
			if (row_share_cost(&both, width) >
				row_share_cost(&all.region, width) +
					row_share_cost(&views[i].region, width))
				continue;
			all.region = both;
			chosen |= 1u << i;
		}
	} while (chosen != before);
	*ret = all;
	return chosen;
}

/* row_share: which views of a sample are made from one decoding.
 *
 * A decoder's time for a region has two parts: entropy decoding, which takes whole lines of the
 * image, and everything after it, which takes the region's columns only. Both take about as long
 * for a pixel, so a region costs
 *
 *     rows x (image's width + region's width)
 *
 * Views whose regions overlap are made from the smallest region that contains them all if that
 * costs no more than their own regions do together. Otherwise they are decoded apart. A region's
 * rows come from the raster (raster.h), so the bytes of a view do not depend on the choice.
 *
 * Pure functions. */
#pragma once

#include "pixel/pixel.h"

#include <stdbool.h>
#include <stdint.h>

/* One region: that of a view, or of several views together. */
struct row_share {
	struct pixel_region region; /* in shrunk pixels */
	uint8_t shrink;
};

/* Chooses the views that are made together with view 0: bit i of the result says that view i is one
 * of them; bit 0 is set. `ret` is the region of all of them. Views that are shrunk differently are
 * never decoded together. `count` is at most 32. */
uint32_t row_share_choose(
	const struct row_share *views, uint32_t count, uint32_t image_width, struct row_share *ret);

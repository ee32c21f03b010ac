/* sweep_points: see sweep_points.h. */
#include "client/cli/bench/sweep/sweep_points.h"

#include <inttypes.h>
#include <stdio.h>

bool sweep_compares(const struct sweep *sweep)
{
	return sweep->grid.swept || sweep->rounds > 1 || sweep->options->yardstick ||
	       sweep->options->compare;
}

const struct measure *sweep_middle(const struct sweep_point *point)
{
	return point->rate.count ? &point->run[spread_middle(&point->rate)] : NULL;
}

const struct sweep_point *sweep_fastest(const struct sweep *sweep)
{
	const struct sweep_point *best = NULL;
	for (size_t i = 0; i < sweep->points; i++) {
		const struct sweep_point *point = &sweep->point[i];
		if (point->rate.count &&
			(!best || spread_median(&point->rate) > spread_median(&best->rate)))
			best = point;
	}
	return best;
}

const char *sweep_name(const struct sweep_point *point, char *buffer, size_t room)
{
	char threads[32] = "", size[SHAPE_SIZE_TEXT];
	if (point->threads)
		(void)snprintf(threads, sizeof threads, "%" PRIu64 " thread%s, ", point->threads,
			point->threads == 1 ? "" : "s");
	(void)snprintf(buffer, room, "%sbatch %" PRIu64 ", %s px", threads, point->batch_size,
		shape_size_text(point->image_size, size));
	return buffer;
}

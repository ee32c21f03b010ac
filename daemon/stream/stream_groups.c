/* stream_groups: how the views of a stream are made, group by group. See stream_impl.h.
 *
 * Made in the thread that opens the stream; constant after that, except that each worker has a
 * postprocessor of its own for each group. */
#include "stream/stream_impl.h"

#include "base/util.h"

#include <errno.h>
#include <stdlib.h>

static int stream_group_lay_out(const struct stream_spec *spec, uint32_t number,
	struct stream_group *group, struct fault *fault)
{
	const uint32_t places = spec_places(spec);
	group->views = spec_group_views(spec, number);
	group->recipe = calloc(places, sizeof *group->recipe);
	if (!group->recipe)
		return fault_set(fault, -ENOMEM, "no memory for a stream");
	for (uint32_t i = 0; i < places; i++)
		group->recipe[i] = spec_pixels_place(spec, number, i);
	return 0;
}

static int stream_group_postprocess(
	struct stream *stream, uint32_t number, struct stream_group *group, struct fault *fault)
{
	unsigned workers = workers_threads(stream->environment->workers);
	if (!postprocess_needed(&stream->spec, number))
		return 0;
	int result = postprocess_init(&group->postprocess, &stream->spec, number, fault);
	if (result < 0)
		return result;
	group->postprocessor = calloc(workers, sizeof(struct postprocessor *));
	if (!group->postprocessor)
		return fault_set(fault, -ENOMEM, "no memory for a stream");
	for (; group->postprocessors < workers; group->postprocessors++) {
		result = postprocessor_new(
			&group->postprocess, &group->postprocessor[group->postprocessors], fault);
		if (result < 0)
			return result;
	}
	return 0;
}

int stream_groups_init(struct stream *stream, struct fault *fault)
{
	const struct stream_spec *spec = &stream->spec;
	const uint32_t groups = spec_groups(spec);
	uint32_t views = 0;
	stream->group = calloc(groups, sizeof *stream->group);
	if (!stream->group)
		return fault_set(fault, -ENOMEM, "no memory for a stream");
	for (; stream->groups < groups; stream->groups++) {
		struct stream_group *group = &stream->group[stream->groups];
		int result = stream_group_lay_out(spec, stream->groups, group, fault);
		if (result < 0)
			return result;
		group->first = views;
		for (; views < group->first + group->views; views++)
			stream->group_of[views] = (uint8_t)stream->groups;
	}
	return 0;
}

int stream_groups_postprocess(struct stream *stream, struct fault *fault)
{
	int result = 0;
	for (uint32_t i = 0; !result && i < stream->groups; i++)
		result = stream_group_postprocess(stream, i, &stream->group[i], fault);
	return result;
}

/* Most samples of most datasets fit: 1.3 megapixels. The rest comes from the memory for large
 * images (raster.h). STREAM_SHARE_LEAST: the memory for sharing is at most one part in so many of
 * what the budget has left, so that it keeps no other stream from being opened. */
enum { STREAM_RASTER_OWN = 4 << 20, STREAM_SHARE_LEAST = 4 };

static void stream_groups_unshare(struct stream *stream)
{
	struct stream_together *together = &stream->together;
	for (unsigned i = 0; i < together->rasters; i++)
		raster_deinit(&together->raster[i]);
	if (together->rasters)
		ledger_release(stream->environment->ledger, together->ledger_line);
	free(together->raster);
	free(together->more);
	*together = (struct stream_together){0};
}

void stream_groups_share(struct stream *stream)
{
	struct stream_together *together = &stream->together;
	struct ledger *ledger = stream->environment->ledger;
	const unsigned workers = workers_threads(stream->environment->workers);
	const size_t others = stream->spec.shape.views - 1;
	const uint64_t bytes = workers * (raster_bytes(STREAM_RASTER_OWN) + sizeof(struct raster)) +
			       stream->tickets * others * sizeof(struct row_view);
	struct fault fault;
	if (!others || ledger_free(ledger) / STREAM_SHARE_LEAST < bytes)
		return;
	together->raster = calloc(workers, sizeof *together->raster);
	together->more = calloc(stream->tickets * others, sizeof *together->more);
	if (!together->raster || !together->more ||
		ledger_reserve(ledger, bytes, "decoded images of a stream's views",
			&together->ledger_line, &fault)) {
		stream_groups_unshare(stream);
		return;
	}
	for (; together->rasters < workers; together->rasters++)
		if (raster_init(&together->raster[together->rasters], STREAM_RASTER_OWN))
			break;
	if (together->rasters == workers)
		return;
	if (!together->rasters)
		ledger_release(ledger, together->ledger_line);
	stream_groups_unshare(stream);
}

int stream_groups_unpack(struct stream *stream, struct fault *fault)
{
	struct ledger *ledger = stream->environment->ledger;
	const unsigned workers = workers_threads(stream->environment->workers);
	size_t own = UNPACKING_OWN;
	bool packed = false;
	for (uint32_t i = 0; i < stream->parts.count; i++)
		packed |= dataset_packed(stream->parts.dataset[i]);
	if (!packed)
		return 0;
	while (own && ledger_free(ledger) / STREAM_SHARE_LEAST < workers * unpacking_bytes(own))
		own = own > UNPACKING_LEAST ? own / 2 : 0;
	if (own && ledger_reserve(ledger, workers * unpacking_bytes(own),
			   "unpacked samples of a stream", &stream->unpacking_line, NULL)) {
		stream->unpacking_line = -1;
		own = 0;
	}
	return unpacking_new(workers, own, &stream->unpacking)
		       ? fault_set(fault, -ENOMEM, "no memory to unpack samples")
		       : 0;
}

static void stream_groups_end_unpack(struct stream *stream)
{
	unpacking_free(stream->unpacking);
	if (stream->unpacking_line >= 0)
		ledger_release(stream->environment->ledger, stream->unpacking_line);
}

void stream_groups_deinit(struct stream *stream)
{
	stream_groups_end_unpack(stream);
	for (uint32_t i = 0; i < stream->groups; i++) {
		struct stream_group *group = &stream->group[i];
		for (unsigned worker = 0; worker < group->postprocessors; worker++)
			postprocessor_free(group->postprocessor[worker]);
		free((void *)group->postprocessor);
		free(group->recipe);
		postprocess_deinit(&group->postprocess);
	}
	free(stream->group);
	stream_groups_unshare(stream);
}
